//! Fields that Core has removed from its replies but still gives to users who ask for them.

/// Members of answers that older programs read (Core `-deprecatedrpc`, as of 31.99).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deprecated {
    /// `bip125-replaceable` of transactions that wait.
    pub bip125: bool,
    /// `fullrbf` of `getmempoolinfo`.
    pub full_rbf: bool,
    /// `warnings` as one text.
    pub warnings: bool,
}

impl Deprecated {
    /// Brings back the field that Core's option calls `name`. Returns whether there is one.
    pub fn bring_back(&mut self, name: &str) -> bool {
        match name {
            "bip125" => self.bip125 = true,
            "fullrbf" => self.full_rbf = true,
            "warnings" => self.warnings = true,
            _ => return false,
        }
        true
    }
}
