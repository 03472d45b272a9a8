//! A block as a message, there and back.

use std::hint::black_box;
use std::io;

use godwit_consensus::check_block;
use godwit_p2p::{Command, Receive, ReceiveLimits, Transport, Write};
use godwit_primitives::Block;
use godwit_primitives::network::{Network, Params};
use godwit_store::BLOCK_BUFFERS;
use godwit_stream::BufferPool;

use crate::harness::Subject;

/// What one read of a socket gives at most, as in Bitcoin Core's `SocketRecvData`.
const PIECE: usize = 64 << 10;

/// What the node reads of one peer before it turns to the next one.
const TURN: usize = 256 << 10;

const LIMITS: ReceiveLimits = ReceiveLimits { expects_block: true, expects_compact: false };

/// The block is encoded into a `block` message, framed with its checksum and written out; fed back in
/// pieces, compared with the checksum, decoded and checked, with regtest's limit of the proof of work.
/// Bitcoin Core then looks for the block before it, does not have it, and is done.
pub(super) fn process_block(block: &[u8]) -> Subject {
    let params = Params::new(Network::Regtest);
    let pool = BufferPool::new(BLOCK_BUFFERS);
    let mut sender = Transport::new_v1(params.magic, pool.clone());
    let mut receiver = Transport::new_v1(params.magic, pool.clone());
    let mut wire = Wire::default();
    let block = Block::from_bytes(block).expect("the block decodes");
    let bytes = block.view().total_size();
    Subject::new("byte", bytes as f64, move || {
        wire.clear();
        let mut payload = pool.take();
        payload.write(black_box(block.view()).bytes());
        sender.send(Command::BLOCK, payload);
        let written = sender.write(&mut wire, usize::MAX).expect("memory takes every byte");
        assert_eq!(written, Write::Done);
        let frame = loop {
            match receiver.receive(&mut wire, &LIMITS, TURN).expect("it was framed") {
                Receive::Frame(frame) => break frame,
                Receive::BudgetUsed => {}
                other => panic!("a block was expected, not {other:?}"),
            }
        };
        let received = Block::decode(frame.payload).expect("it decoded before");
        let checked = check_block(received.view(), &params, |_| false);
        black_box(checked).expect("a block of the main chain is valid");
    })
}

/// The kernel's buffer between two sockets.
#[derive(Default)]
struct Wire {
    bytes: Vec<u8>,
    read: usize,
}

impl Wire {
    fn clear(&mut self) {
        self.bytes.clear();
        self.read = 0;
    }
}

impl io::Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Wire {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let unread = &self.bytes[self.read..];
        let n = unread.len().min(target.len()).min(PIECE);
        target[..n].copy_from_slice(&unread[..n]);
        self.read += n;
        Ok(n)
    }
}
