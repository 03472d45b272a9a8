//! The table of methods.
//!
//! Its checklist is the `help` of bitcoind 31.99, built with ZeroMQ: every method listed there has a row
//! here, either present, or absent with a reason.

pub(crate) mod help;
mod methods;
pub(crate) mod openrpc;
pub(crate) mod page;
#[cfg(test)]
mod tests;

pub use methods::METHODS;

/// The heading under which `help` lists a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Blockchain,
    Control,
    /// For tests: `help` does not list it.
    Hidden,
    Mining,
    Network,
    Rawtransactions,
    Signer,
    Util,
    Zmq,
}

impl Category {
    /// All categories, in the order of `help`.
    pub const ALL: [Self; 9] = [
        Self::Blockchain,
        Self::Control,
        Self::Hidden,
        Self::Mining,
        Self::Network,
        Self::Rawtransactions,
        Self::Signer,
        Self::Util,
        Self::Zmq,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Blockchain => "Blockchain",
            Self::Control => "Control",
            Self::Hidden => "Hidden",
            Self::Mining => "Mining",
            Self::Network => "Network",
            Self::Rawtransactions => "Rawtransactions",
            Self::Signer => "Signer",
            Self::Util => "Util",
            Self::Zmq => "Zmq",
        }
    }
}

/// A method of the interface.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    pub name: &'static str,
    pub category: Category,
    /// What the method does, on one line.
    pub summary: &'static str,
    pub params: &'static [Param],
    pub presence: Presence,
}

/// Whether godwit has a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    /// Bitcoin Core has it and godwit does not, for this reason.
    Absent(&'static str),
}

/// A parameter, in the order of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name, and older names after `|`.
    pub names: &'static str,
    pub kind: Kind,
    pub need: Need,
    pub help: &'static str,
}

impl Param {
    /// The name that is shown.
    pub fn name(&self) -> &'static str {
        self.names.split('|').next().unwrap_or(self.names)
    }

    pub fn is_optional(&self) -> bool {
        !matches!(self.need, Need::Required)
    }
}

/// What a parameter may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Hex,
    Number,
    Bool,
    List,
    Object,
    /// The method itself looks; the client reads it as JSON.
    Any,
    /// A number, or a text that the client does not quote.
    NumberOrText,
    /// The client gives a text; the server takes anything.
    TextOrAny,
    /// An object. Its members can also be given by name, as if they were arguments.
    Options(&'static [Param]),
}

/// Whether a parameter may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Required,
    /// It may, and nothing takes its place.
    Optional,
    /// It may, and then it is this.
    Default(&'static str),
}

impl Method {
    pub fn is_present(&self) -> bool {
        self.presence == Presence::Present
    }

    /// How many arguments it takes at least.
    pub fn required(&self) -> usize {
        self.params.iter().rposition(|param| !param.is_optional()).map_or(0, |last| last + 1)
    }
}

/// The method of this name that is present.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name && method.is_present())
}
