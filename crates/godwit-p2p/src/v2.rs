//! The encrypted protocol ("v2", BIP324): its handshake and its packets, without what carries them.
//!
//! Secret are the private key, what two sides compute from it, the keys of lengths and packets and
//! each tag's one-time key. They lie in locked memory and are wiped as soon as they are used up.
//! Computing leaves copies on the stack, which are wiped before each function here returns; whoever
//! wants them out of a swap file, too, runs it on a locked stack.

mod cipher;
mod handshake;
mod mac;
#[cfg(any(test, feature = "residue"))]
mod needles;
mod session;
mod short_ids;
mod stack;
#[cfg(test)]
mod vectors;

pub(crate) use cipher::LENGTH_SIZE;
pub(crate) use handshake::{Handshake, PUBLIC_KEY_SIZE, TERMINATOR_SIZE};
pub use handshake::{MAX_GARBAGE, V2Error, V2Secrets};
pub(crate) use mac::TAG_SIZE;
pub(crate) use session::{EXPANSION, HEADER_SIZE, IGNORE, Session};
pub(crate) use short_ids::{MAX_NAME_SIZE, Name, parse_name, write_name};
