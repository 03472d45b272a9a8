//! Blocks that are written again in their places.

use godwit_store::BlockChecksum;

use super::*;

/// What a peer gets of the block, and whether it was lost.
fn read(chain: &mut Chain, id: NodeId) -> (Option<Vec<u8>>, bool) {
    chain.read_block(id, 1);
    let (mut found, mut lost) = (None, false);
    loop {
        let poll = chain.poll(NOW).expect("no fault");
        for event in chain.take_events() {
            match event {
                Event::Read { bytes, .. } => found = bytes.map(|bytes| bytes.as_slice().to_vec()),
                Event::Lost { .. } => lost = true,
                _ => {}
            }
        }
        match poll {
            Poll::Idle => return (found, lost),
            Poll::Progress => {}
            Poll::Waiting => chain.wait_with(&crossbeam_channel::never::<()>(), LONGEST_WAIT),
        }
    }
}

/// The checksum may be what is wrong.
#[test]
fn c5_a_block_that_is_written_again_has_the_checksum_of_what_is_written() {
    let disk = FaultDisk::new();
    let mut chain = chain(&disk);
    chain.expect_copies();
    let blocks = blocks();
    for (block, ticket) in blocks[..5].iter().zip(1..) {
        give(&mut chain, block, ticket);
    }
    poll_until(&mut chain, |_, poll| poll == Poll::Idle).1.expect("no fault");
    let id = chain.index.tree().ancestor(chain.index.tip(), 3).expect("it is connected");
    chain.index.set_checksum(id, BlockChecksum::of(b"another block"));
    assert_eq!(read(&mut chain, id), (None, true));
    let counts = |chain: &Chain| (chain.status().damaged.lost, chain.status().damaged.rewritten);
    assert_eq!(counts(&chain), (1, 0), "no scrub has found it");
    give(&mut chain, &blocks[2], 9);
    let (verdicts, result) = poll_until(&mut chain, |_, poll| poll == Poll::Idle);
    result.expect("no fault");
    assert_eq!(verdicts, [Verdict::Stored]);
    assert_eq!(counts(&chain), (0, 1));
    for _ in 0..2 {
        assert_eq!(read(&mut chain, id), (Some(blocks[2].clone()), false));
    }
    // After a restart, too.
    chain.close().expect("no fault");
    let mut chain = super::chain(&disk);
    chain.expect_copies();
    let id = chain.index.tree().ancestor(chain.index.tip(), 3).expect("it is connected");
    assert_eq!(read(&mut chain, id), (Some(blocks[2].clone()), false));
}
