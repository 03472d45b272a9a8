//! What the decoders allocate, seen from under the global allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use godwit_primitives::{Block, Transaction};
use godwit_stream::{DataStream, DecodeError, SpanReader};

use crate::data::block;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that `run` asks the allocator for on this thread.
fn allocated_by<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = run();
    (result, ALLOCATED.get() - before)
}

#[test]
fn claimed_counts_without_bytes_allocate_nothing() {
    let claim = [0xfe, 0, 0, 0, 2];
    let header = [0; 80];
    let version = [1, 0, 0, 0];
    let tail = [0; 500];
    for bytes in [
        [&header[..], &claim, &tail].concat(),
        // More transactions than their least size allows, fewer than there are bytes.
        [&header[..], &[51], &tail].concat(),
        [&header[..], &[1], &version, &claim, &tail].concat(),
    ] {
        let (result, allocated) = allocated_by(|| Block::from_bytes(&bytes).map(drop));
        assert_eq!(result, Err(DecodeError::UnexpectedEnd));
        assert!(allocated <= 12, "{allocated} bytes: the index of one transaction");
    }
    let (input, output) = ([0; 41], [0; 9]);
    for before_claim in [
        vec![],
        vec![0, 1],
        [&[1], &input[..36]].concat(),
        [&[1], &input[..]].concat(),
        [&[1], &input[..], &[1], &output[..8]].concat(),
        [&[0, 1, 1], &input[..], &[1], &output].concat(),
        [&[0, 1, 1], &input[..], &[1], &output, &[1]].concat(),
    ] {
        let bytes = [&version, &before_claim[..], &claim, &tail].concat();
        let result = allocated_by(|| SpanReader::new(&bytes).get::<Transaction>().map(drop));
        assert_eq!(result, (Err(DecodeError::UnexpectedEnd), 0), "after {before_claim:?}");
    }
}

#[test]
fn a_block_costs_its_index() {
    let Some(bytes) = block("mainnet_413567") else { return };
    let stream = DataStream::from(&bytes[..]);
    let (block, allocated) = allocated_by(|| Block::decode(stream).expect("a real block"));
    let bound = block.view().tx_count() * (12 + 32) + 4096;
    assert!(allocated <= bound, "{allocated} bytes, expected at most {bound}");
    let followed = [&bytes[..], &[0; 100_000]].concat();
    let (copy, allocated) = allocated_by(|| Block::from_bytes(&followed).expect("a real block"));
    assert_eq!(copy.view().bytes(), bytes);
    assert!(allocated <= bytes.len() + bound, "{allocated} bytes, none for what follows");
    let (sum, allocated) = allocated_by(|| {
        let txs = block.view().txs();
        txs.map(|tx| tx.inputs().len() + tx.outputs().len() + tx.witnesses().len()).sum::<usize>()
    });
    assert!(sum > 0 && allocated == 0, "{allocated} bytes to walk a block");
}
