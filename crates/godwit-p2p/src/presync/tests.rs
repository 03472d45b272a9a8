use godwit_primitives::network::{HeadersSyncParams, Network};
use proptest::prelude::*;

use super::*;
use crate::HeaderId;

/// As in Core's `headers_sync_chainwork_tests.cpp`: a buffer well below the blocks of the chain.
const TARGET_BLOCKS: usize = 15_000;
const BUFFER: usize = TARGET_BLOCKS - (MAX_HEADERS + 123);
const PERIOD: u32 = 600;

fn params() -> Params {
    let (commitment_period, redownload_buffer_size) = (PERIOD, BUFFER as u32);
    let headers_sync = HeadersSyncParams { commitment_period, redownload_buffer_size };
    Params { headers_sync, ..Params::new(Network::Regtest) }
}

/// Two units of work for each block of regtest.
fn work(blocks: usize) -> Work {
    Work::from(2 * blocks as u64)
}

fn genesis(params: &Params) -> HeaderInfo {
    HeaderInfo {
        id: HeaderId(0),
        hash: params.genesis_hash,
        header: params.genesis,
        height: 0,
        chain_work: block_proof(params.genesis.bits),
        stored: true,
        failed: false,
        connected: true,
    }
}

/// A chain after genesis; proof of work is the caller's to check, so there is none.
fn chain(params: &Params, blocks: usize, seed: u8) -> Vec<BlockHeader> {
    extend(params.genesis_hash, params.genesis.bits, blocks, seed)
}

fn extend(from: BlockHash, bits: u32, blocks: usize, seed: u8) -> Vec<BlockHeader> {
    let mut prev_blockhash = from;
    let merkle_root = MerkleRoot::from_bytes([seed; 32]);
    let mut headers = Vec::new();
    for n in 0..blocks as u32 {
        let (version, time, nonce) = (4, 1_300_000_000 + n, n);
        let header = BlockHeader { version, prev_blockhash, merkle_root, time, bits, nonce };
        prev_blockhash = header.block_hash();
        headers.push(header);
    }
    headers
}

fn presync(params: &Params, minimum_work: Work, salt: u8, offset: u32) -> Presync {
    Presync::new(
        params,
        &genesis(params),
        params.genesis.time,
        minimum_work,
        [salt; 16],
        offset,
        1_790_000_000,
    )
}

/// Serves the first chain, and the second one when the headers are downloaded again, as a node does that has
/// nothing else. All headers that were accepted, and whether it succeeded to the end.
fn serve(presync: &mut Presync, chains: [&[BlockHeader]; 2]) -> (Vec<BlockHeader>, bool) {
    let mut accepted = Vec::new();
    loop {
        let chain = chains[usize::from(presync.state() == PresyncState::Redownloading)];
        let from = presync.last().and_then(|hash| {
            let position = chain.iter().position(|header| header.prev_blockhash == hash);
            position.or((chain.last()?.block_hash() == hash).then_some(chain.len()))
        });
        let from = from.unwrap_or(0);
        let message = &chain[from..chain.len().min(from + MAX_HEADERS)];
        let outcome = presync.process(message, message.len() == MAX_HEADERS);
        accepted.extend(&outcome.accepted);
        if !outcome.request_more {
            assert_eq!(presync.state(), PresyncState::Final);
            assert_eq!(presync.last(), None);
            return (accepted, outcome.success);
        }
        assert!(outcome.success);
    }
}

#[track_caller]
fn check(
    presync: &mut Presync,
    headers: &[BlockHeader],
    full: bool,
    state: PresyncState,
    expected: (bool, usize, Option<BlockHash>),
) -> Vec<BlockHeader> {
    let (success, accepted, last) = expected;
    let outcome = presync.process(headers, full);
    assert_eq!(outcome.success, success);
    assert_eq!(outcome.accepted.len(), accepted);
    assert_eq!(presync.state(), state);
    assert_eq!(presync.last(), last);
    assert_eq!(outcome.request_more, last.is_some());
    outcome.accepted
}

/// Core's `sneaky_redownload`: one chain in the first pass, another in the second.
#[test]
fn b1_another_chain_in_the_second_pass_is_refused() {
    let params = params();
    let (first, second) =
        (chain(&params, TARGET_BLOCKS - 1, 0), chain(&params, TARGET_BLOCKS - 2, 1));
    let mut presync = presync(&params, work(TARGET_BLOCKS), 7, 3);
    use PresyncState::*;
    let hash = first[0].block_hash();
    check(&mut presync, &first[..1], true, Measuring, (true, 0, Some(hash)));
    check(&mut presync, &first[1..], true, Redownloading, (true, 0, Some(params.genesis_hash)));
    check(&mut presync, &second, true, Final, (false, 0, None));
}

/// Core's `happy_path`.
#[test]
fn headers_are_let_go_once_enough_agreed_above_them() {
    let params = params();
    let first = chain(&params, TARGET_BLOCKS - 1, 0);
    use PresyncState::*;
    for full in [false, true] {
        let mut presync = presync(&params, work(TARGET_BLOCKS), 7, 3);
        let start = params.genesis_hash;
        check(&mut presync, &first, full, Redownloading, (true, 0, Some(start)));
        let last = first[BUFFER - 1].block_hash();
        check(&mut presync, &first[..BUFFER], true, Redownloading, (true, 0, Some(last)));
        let next = first[BUFFER].block_hash();
        let one = check(
            &mut presync,
            &first[BUFFER..=BUFFER],
            true,
            Redownloading,
            (true, 1, Some(next)),
        );
        assert!(one == first[..1]);
        let rest = (true, first.len() - 1, None);
        let rest = check(&mut presync, &first[BUFFER + 1..], full, Final, rest);
        assert!(rest == first[1..]);
    }
}

/// Core's `too_little_work`.
#[test]
fn a_chain_that_ends_with_too_little_work_is_dropped_without_blame() {
    let params = params();
    let second = chain(&params, TARGET_BLOCKS - 2, 1);
    let mut presync = presync(&params, work(TARGET_BLOCKS), 7, 3);
    use PresyncState::*;
    let hash = second[0].block_hash();
    check(&mut presync, &second[..1], true, Measuring, (true, 0, Some(hash)));
    check(&mut presync, &second[1..], false, Final, (true, 0, None));
    check(&mut presync, &second[..1], true, Final, (false, 0, None));
}

#[test]
fn a_long_chain_passes_in_messages_and_may_grow_between_the_passes() {
    let params = params();
    let grown = chain(&params, 40_000, 0);
    for (first, second) in [(40_000, 40_000), (20_001, 40_000), (20_000, 22_000)] {
        let mut presync = presync(&params, work(20_000), 1, 599);
        let (accepted, success) = serve(&mut presync, [&grown[..first], &grown[..second]]);
        assert!(success);
        // What is left of the chain is asked for in the ordinary way.
        assert!(accepted[..] == grown[..20_000]);
    }
}

#[test]
fn b1_a_chain_that_changes_between_the_passes_is_given_up() {
    let params = params();
    let first = chain(&params, 24_000, 0);
    for fork in [1, 599, 5_000, 15_000] {
        let mut second = first[..fork].to_vec();
        second.extend(extend(first[fork - 1].block_hash(), params.genesis.bits, 24_000 - fork, 9));
        let mut presync = presync(&params, work(24_000), 5, 17);
        let (accepted, success) = serve(&mut presync, [&first, &second]);
        assert!(!success, "fork at {fork}");
        // Only what was shown twice, or lies a whole buffer below the first difference that showed.
        assert!(accepted.len() <= fork.max(1), "{} at {fork}", accepted.len());
        assert!(accepted[..] == first[..accepted.len()]);
    }
}

#[test]
fn a_second_pass_that_ends_early_lets_go_what_was_safe() {
    let params = params();
    let first = chain(&params, 16_000, 0);
    let mut presync = presync(&params, work(16_000), 5, 17);
    let (accepted, success) = serve(&mut presync, [&first, &first[..15_000]]);
    assert!(success);
    assert!(accepted[..] == first[..15_000 - BUFFER]);
}

#[test]
fn headers_that_do_not_connect_end_it_in_both_passes() {
    let params = params();
    let first = chain(&params, 16_000, 0);
    for skipped in [0, 1, 1_999] {
        let mut presync = presync(&params, work(16_000), 5, 17);
        let mut message = first[..MAX_HEADERS].to_vec();
        message.remove(skipped);
        let refused = PresyncOutcome { success: false, accepted: vec![], request_more: false };
        match skipped {
            // A hole at the end shows in the next message.
            1_999 => {
                assert!(presync.process(&message, true).success);
                assert_eq!(presync.process(&first[MAX_HEADERS..2 * MAX_HEADERS], true), refused);
            }
            _ => assert_eq!(presync.process(&message, true), refused),
        }
        assert_eq!(presync.state(), PresyncState::Final);
        let mut presync = super::tests::presync(&params, work(16_000), 5, 17);
        assert!(presync.process(&first, true).request_more);
        assert!(presync.process(&first[..MAX_HEADERS], true).success);
        assert_eq!(presync.process(&first[MAX_HEADERS + 1..], true), refused);
    }
    let mut presync = presync(&params, work(16_000), 5, 17);
    assert!(!presync.process(&[], false).success);
}

/// The difficulty may not rise faster than the rules permit, so that work cannot be claimed in few
/// headers.
#[test]
fn b1_work_cannot_be_packed_into_few_headers() {
    let params = Params::new(Network::Main);
    let bits = params.genesis.bits;
    let easy = extend(params.genesis_hash, bits, 2_015, 0);
    let last = easy[2_014].block_hash();
    for (hard, success) in [(0x1c3f_ffc0, true), (0x1c3f_ffbf, false), (0x1b00_ffff, false)] {
        let mut presync = presync(&params, Work::MAX, 5, 17);
        assert!(presync.process(&easy, true).success);
        let work = presync.work();
        let next = extend(last, hard, 1, 0);
        assert_eq!(presync.process(&next, true).success, success, "{hard:x}");
        assert_eq!(presync.work() > work, success);
    }
    let mut presync = presync(&params, Work::MAX, 5, 17);
    assert!(!presync.process(&extend(params.genesis_hash, bits - 1, 1, 0), true).success);
    // In the second pass too.
    let mut presync =
        super::tests::presync(&params, block_proof(bits) * Work::from(2_016u32), 5, 17);
    assert!(presync.process(&easy, true).request_more);
    assert!(presync.process(&easy[..2_000], true).success);
    let next = extend(easy[1_999].block_hash(), 0x1b00_ffff, 1, 0);
    assert!(!presync.process(&next, true).success);
}

/// A flood of headers without work, as long as the peer likes: memory stays within the bound, and the
/// peer is given up once no valid chain could be as long.
#[test]
fn b1_a_flood_of_low_work_headers_costs_bounded_memory() {
    let mut params = Params::new(Network::Regtest);
    params.headers_sync.commitment_period = 5;
    let now = i64::from(params.genesis.time) + 3_000;
    let bound = memory_bound(&params, now);
    let longest = 6 * (3_000 + MAX_FUTURE_BLOCK_TIME) as usize;
    let flood = chain(&params, longest + 2 * MAX_HEADERS, 0);
    let mut presync =
        Presync::new(&params, &genesis(&params), params.genesis.time, Work::MAX, [0; 16], 2, now);
    let mut taken = 0;
    for message in flood.chunks(MAX_HEADERS) {
        let outcome = presync.process(message, true);
        assert!(presync.memory() <= bound, "{} of {bound}", presync.memory());
        assert!(outcome.accepted.is_empty());
        if !outcome.success {
            break;
        }
        taken += message.len();
    }
    assert_eq!(presync.state(), PresyncState::Final);
    assert!(taken <= longest && taken + MAX_HEADERS >= longest, "{taken} of {longest}");
    assert!(presync.memory() < 2_000, "nothing is kept: {}", presync.memory());
    assert_eq!(bound_in_2026(Network::Main) / 100_000, 22);
    for network in Network::ALL {
        assert!(bound_in_2026(network) < 5_000_000, "{network}");
    }
}

fn bound_in_2026(network: Network) -> usize {
    memory_bound(&Params::new(network), 1_790_000_000)
}

/// The second pass of a chain that the peer never lets end: the buffer is full, and no fuller.
#[test]
fn b1_the_second_pass_costs_bounded_memory() {
    let mut params = params();
    params.headers_sync.redownload_buffer_size = 5_000;
    let now = 1_790_000_000;
    let first = chain(&params, 30_000, 0);
    let mut presync = presync(&params, work(30_000), 5, 17);
    for message in first.chunks(MAX_HEADERS).chain(first.chunks(MAX_HEADERS)) {
        presync.process(message, true);
        assert!(presync.memory() <= memory_bound(&params, now));
    }
    assert_eq!(presync.state(), PresyncState::Final);
}

#[test]
fn commitments_are_at_the_secret_offset_and_depend_on_the_salt() {
    let params = params();
    let headers = chain(&params, 6_000, 0);
    let bits = |salt, offset| {
        let mut presync = presync(&params, Work::MAX, salt, offset);
        assert!(presync.process(&headers, true).success);
        std::iter::from_fn(move || presync.commitments.pop()).collect::<Vec<bool>>()
    };
    // Heights 600, 1200 ... 6000; with any other offset one from the first period on.
    assert_eq!(bits(1, 0).len(), 10);
    assert_eq!(bits(1, 599).len(), 10);
    assert_ne!(bits(1, 599), bits(2, 599));
    assert_ne!(bits(1, 599), bits(1, 598));
    assert_eq!(bits(1, 599), bits(1, 599));
}

#[test]
fn a_pre_sync_starts_anywhere() {
    let params = params();
    let headers = chain(&params, 30_000, 0);
    let mut start = genesis(&params);
    (start.height, start.hash, start.header) = (9_000, headers[8_999].block_hash(), headers[8_999]);
    start.chain_work = work(9_001);
    let mut presync = Presync::new(
        &params,
        &start,
        params.genesis.time,
        work(29_001),
        [3; 16],
        77,
        1_790_000_000,
    );
    assert_eq!(presync.last(), Some(start.hash));
    let (accepted, success) = serve(&mut presync, [&headers, &headers]);
    assert!(success);
    assert!(accepted[..] == headers[9_000..29_000]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Bits come out as they went in.
    #[test]
    fn commitments_are_a_queue(bits in proptest::collection::vec(any::<bool>(), 0..300)) {
        let mut queue = Commitments::default();
        for (count, bit) in bits.iter().enumerate() {
            prop_assert_eq!(queue.len(), count as u64);
            queue.push(*bit);
            prop_assert!(queue.memory() <= Commitments::memory_bound(queue.len()));
        }
        for bit in &bits {
            prop_assert_eq!(queue.pop(), Some(*bit));
        }
        prop_assert_eq!(queue.pop(), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the sizes of the messages: what is let go is the chain, once, in order, and nothing
    /// of it before the work was shown.
    #[test]
    fn any_cut_into_messages_gives_the_chain(
        sizes in proptest::collection::vec(1usize..400, 1..20), blocks in 200usize..2_000,
        buffer in 1u32..700, period in 1u32..50, offset in any::<u32>(),
    ) {
        let mut params = params();
        let (commitment_period, redownload_buffer_size) = (period, buffer);
        params.headers_sync = HeadersSyncParams { commitment_period, redownload_buffer_size };
        let headers = chain(&params, blocks, 0);
        let mut presync = presync(&params, work(blocks + 1), 9, offset);
        let mut accepted = Vec::new();
        let mut sizes = sizes.iter().cycle();
        let mut at = 0;
        while presync.state() != PresyncState::Final {
            let message = &headers[at..(at + sizes.next().unwrap()).min(blocks)];
            let measuring = presync.state() == PresyncState::Measuring;
            let outcome = presync.process(message, true);
            prop_assert!(outcome.success);
            prop_assert!(outcome.accepted.is_empty() || !measuring);
            accepted.extend(outcome.accepted);
            prop_assert!(presync.state() == PresyncState::Final || accepted.len() < blocks);
            at += message.len();
            if measuring && presync.state() == PresyncState::Redownloading {
                prop_assert_eq!(at, blocks);
                at = 0;
            }
        }
        prop_assert!(accepted == headers);
    }
}
