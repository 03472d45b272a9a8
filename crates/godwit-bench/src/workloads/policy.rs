//! The memory policy with which this program was built.

use std::fs;
use std::io;
use std::path::Path;

use godwit_stream::PublicMemory;
use serde::{Deserialize, Serialize};

/// The function that wipes, as a binary's symbol table names it.
const WIPE: &str = "godwit_wipe";

/// What happens to the memory of a stream before it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Nothing: what ships.
    Plain,
    /// The optimiser must believe that it is read.
    BarrierOnly,
    /// It is overwritten with zeros.
    ZeroAfterFree,
}

impl Policy {
    /// All three, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Plain, Self::BarrierOnly, Self::ZeroAfterFree];

    /// The feature that turns it on; `plain` needs none.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::BarrierOnly => "barrier-only",
            Self::ZeroAfterFree => "zero-after-free",
        }
    }

    /// The policy of an allocator type, by [`std::any::type_name`].
    pub fn of_type(name: &str) -> Option<Self> {
        // A baseline names behind itself what it is over.
        match name.split('<').next()?.rsplit("::").next()? {
            "Global" => Some(Self::Plain),
            "BarrierOnly" => Some(Self::BarrierOnly),
            "ZeroAfterFree" => Some(Self::ZeroAfterFree),
            _ => None,
        }
    }
}

/// Name of the allocator type that the product's streams use in this program.
pub fn allocator() -> &'static str {
    std::any::type_name::<PublicMemory>()
}

/// Whether the symbols of the program at `path` have the function that wipes. `None` when they do not
/// even have the one that holds every program's start, because they were stripped.
///
/// # Errors
///
/// When the file cannot be read.
pub fn wipes(path: &Path) -> io::Result<Option<bool>> {
    let bytes = fs::read(path)?;
    let has = |name: &str| {
        // Both of Rust's manglings put a name's length before it, which no other text does.
        let mangled = format!("{}{name}", name.len());
        bytes.windows(mangled.len()).any(|window| window == mangled.as_bytes())
    };
    Ok(has("lang_start").then(|| has(WIPE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_by_the_type_behind_the_streams() {
        assert_eq!(Policy::of_type("a::b::Global"), Some(Policy::Plain));
        assert_eq!(Policy::of_type("x::ZeroAfterFree"), Some(Policy::ZeroAfterFree));
        assert_eq!(Policy::of_type("x::BarrierOnly"), Some(Policy::BarrierOnly));
        assert_eq!(Policy::of_type("x::BarrierOnly<a::Global>"), Some(Policy::BarrierOnly));
        assert_eq!(Policy::of_type("x::Other"), None);
        let expected = match (cfg!(feature = "zero-after-free"), cfg!(feature = "barrier-only")) {
            (true, _) => Policy::ZeroAfterFree,
            (_, true) => Policy::BarrierOnly,
            _ => Policy::Plain,
        };
        assert_eq!(Policy::of_type(allocator()), Some(expected));
    }
}
