//! The workloads of the pull request that make and fill a stream.

use std::hint::black_box;

use godwit_stream::{Allocator, DataStream, PUBLIC_MEMORY};
use rand::rngs::StdRng;
use rand::{RngCore, SeedableRng};

use crate::harness::Subject;

/// Repetitions in one iteration, so that what it takes to call the body does not show.
const REPEATED: usize = 64;

const ALLOC_BYTES: usize = 8192;

/// The pull request's `RandScript(1000)`: a push of 999 bytes behind its opcode and length.
const PUSHED_BYTES: usize = 999;
const OP_PUSHDATA2: u8 = 0x4d;

/// A stream is made of a span (one allocation, one copy) and dropped, as Bitcoin Core makes one of
/// each decrypted message.
pub(super) fn alloc() -> Subject {
    alloc_in(PUBLIC_MEMORY)
}

/// The same with streams whose memory comes from `memory`.
pub fn alloc_in<A: Allocator + Copy + 'static>(memory: A) -> Subject {
    let bytes = random(ALLOC_BYTES);
    Subject::new("byte", (REPEATED * ALLOC_BYTES) as f64, move || {
        for _ in 0..REPEATED {
            let bytes = black_box(bytes.as_slice());
            let mut stream = DataStream::with_capacity_in(bytes.len(), memory);
            stream.write(bytes);
            black_box(&stream);
        }
    })
}

/// A script goes to an empty stream, no room reserved: its compact size in two writes, then its
/// bytes. A C++ vector allocates three times on the way; this stream twice, because its first
/// allocation has room for the compact size.
pub(super) fn serialize_script() -> Subject {
    let mut script = vec![OP_PUSHDATA2];
    script.extend((PUSHED_BYTES as u16).to_le_bytes());
    script.extend(random(PUSHED_BYTES));
    Subject::new("byte", (REPEATED * script.len()) as f64, move || {
        for _ in 0..REPEATED {
            let script = black_box(script.as_slice());
            let mut stream = DataStream::new();
            stream.write_compact_size(script.len() as u64);
            stream.write(script);
            black_box(&stream);
        }
    })
}

fn random(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    StdRng::seed_from_u64(0).fill_bytes(&mut bytes);
    bytes
}
