//! Run files: what a flush or a merge wrote, immutable from then on.

pub(super) mod file;
pub(super) mod format;
pub(super) mod parity;
pub(super) mod reader;
pub(super) mod segment;
pub(super) mod writer;
