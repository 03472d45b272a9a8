//! Byte streams of public chain data.
//!
//! [`DataStream`] is a growable byte buffer with a read cursor, [`SpanReader`] reads from bytes that
//! another value owns, [`Encode`] and [`Decode`] give a type its wire form: Bitcoin Core's `serialize.h`
//! and `streams.h`. Integers are little-endian.
//!
//! A decoder allocates only for bytes that are there: a length that the input claims is checked
//! against what remains before room is made for it.

#![warn(missing_docs)]

#[cfg(feature = "baselines")]
pub mod baseline;
mod bulk;
mod codec;
mod compact_size;
mod error;
mod memory;
pub mod obfuscate;
pub mod pool;
mod reader;
mod stream;
mod var_int;

pub use allocator_api2::alloc::{AllocError, Allocator, Global};

pub use codec::{Decode, Encode};
pub use compact_size::{MAX_SIZE, compact_size_len};
pub use error::DecodeError;
pub use memory::{PUBLIC_MEMORY, PublicMemory};
pub use obfuscate::Obfuscation;
pub use pool::{BufferPool, PoolLimits, PooledStream};
pub use reader::SpanReader;
pub use stream::DataStream;

/// Plain bytes of public data: neither zeroed before use nor wiped after it.
pub type SerializeData<A = PublicMemory> = allocator_api2::vec::Vec<u8, A>;
