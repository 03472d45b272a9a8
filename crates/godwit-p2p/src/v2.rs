//! The encrypted protocol ("v2", BIP324): its handshake and its packets, without the transport of
//! their bytes.
//!
//! The secrets are the private key, the secret that both sides compute, the keys of lengths and
//! packets, and each tag's one-time key. They are kept in locked memory and wiped as soon as they
//! are used up. Computation leaves copies on the stack, which are wiped before each function
//! returns. A caller that also wants to keep them out of a swap file runs it on a locked stack.

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
pub(crate) use handshake::{Handshake, PUBLIC_KEY_SIZE};
pub use handshake::{MAX_GARBAGE, V2Error, V2Secrets};
pub(crate) use mac::TAG_SIZE;
pub(crate) use session::{EXPANSION, HEADER_SIZE, IGNORE, Session, TERMINATOR_SIZE};
pub(crate) use short_ids::{MAX_NAME_SIZE, Name, parse_name, write_name};
