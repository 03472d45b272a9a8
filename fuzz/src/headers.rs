//! Headers: their targets, work and retargets as rust-bitcoin computes them, and the pre-sync of a
//! chain of them, which holds no more than it says and hands out only what connects.

use bitcoin::hashes::Hash;
use bitcoin::{CompactTarget, Target};
use godwit_consensus::{
    PrevContext, check_header, contextual_check_header, derive_target,
    permitted_difficulty_transition, proof_equivalent_time, retarget,
};
use godwit_p2p::{
    HeaderId, HeaderIndex, HeaderInfo, MAX_HEADERS, Presync, PresyncState, presync_memory_bound,
};
use godwit_primitives::work::{block_proof, compact_target, expand_target};
use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE, Network, Params, Work};
use godwit_stream::{Decode, SpanReader};

use crate::input::Input;

const NETWORKS: &[Network] =
    &[Network::Main, Network::Testnet3, Network::Testnet4, Network::Signet, Network::Regtest];

/// Some time in 2026.
const NOW: i64 = 1_790_000_000;

/// The network; whether the headers are made to connect; a count of headers in a message; how much work
/// is wanted; then headers.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let params = Params::new(*input.choice(NETWORKS));
    let connects = input.u8() & 1 != 0;
    let message = usize::from(input.u8()).max(1);
    let wanted = Work::from(input.u64());
    let mut headers: Vec<BlockHeader> = Vec::new();
    while let Some(bytes) = Some(input.bytes(HEADER_SIZE)).filter(|b| b.len() == HEADER_SIZE) {
        let mut header = decoded(bytes);
        if connects {
            let last = headers.last().unwrap_or(&params.genesis);
            (header.prev_blockhash, header.bits) = (last.block_hash(), params.genesis.bits);
        }
        headers.push(header);
    }
    for pair in headers.windows(2) {
        check_target(pair[0].bits, pair[1].time, &params);
        check_rules(&pair[0], &pair[1], &params);
    }
    check_presync(&headers, message, wanted, &params);
}

fn decoded(bytes: &[u8]) -> BlockHeader {
    let header = BlockHeader::decode(&mut SpanReader::new(bytes)).expect("80 bytes");
    assert_eq!(header.to_bytes(), bytes);
    let theirs: bitcoin::block::Header = bitcoin::consensus::deserialize(bytes).expect("80 bytes");
    assert_eq!(header.block_hash().to_bytes(), theirs.block_hash().to_byte_array());
    header
}

/// A target, and what a retarget after so many seconds makes of it.
fn check_target(bits: u32, seconds: u32, params: &Params) {
    let ours = expand_target(bits);
    let Some(target) = derive_target(bits, Work::MAX) else {
        let worthless = ours.negative || ours.overflow || ours.target == Work::ZERO;
        assert!(worthless && block_proof(bits) == Work::ZERO);
        return;
    };
    let theirs = Target::from_compact(CompactTarget::from_consensus(bits));
    assert_eq!(target.to_le_bytes(), theirs.to_le_bytes());
    assert_eq!(compact_target(target), theirs.to_compact_lossy().to_consensus());
    // Of a target of one, which takes half of all hashes, they say that it takes all.
    if target > Work::ONE {
        assert_eq!(block_proof(bits).to_le_bytes(), theirs.to_work().to_le_bytes());
    }
    if params.network == Network::Main && target <= params.pow_limit {
        let next = CompactTarget::from_next_work_required(
            CompactTarget::from_consensus(bits),
            seconds.into(),
            bitcoin::Network::Bitcoin,
        );
        let ours = retarget(bits, seconds.into(), params);
        assert_eq!(ours, next.to_consensus());
        assert!(permitted_difficulty_transition(2_016, bits, ours, params));
    }
    let (one, other) = (Work::from(seconds), target);
    let there = proof_equivalent_time(one, other, bits, params);
    assert_eq!(there, -proof_equivalent_time(other, one, bits, params));
}

/// Rules end in a verdict whatever the numbers are.
fn check_rules(parent: &BlockHeader, header: &BlockHeader, params: &Params) {
    let hash = header.block_hash();
    let verdict = check_header(&hash, header, params);
    assert!(verdict.is_err() || derive_target(header.bits, params.pow_limit).is_some());
    let ancestor = |height: u32| BlockHeader { time: height, ..*parent };
    for height in [0, 2_014, 2_015, parent.nonce >> 1] {
        let prev = PrevContext {
            height,
            header: *parent,
            median_time_past: parent.time,
            ancestor: &ancestor,
        };
        let verdict = contextual_check_header(header, &prev, params, NOW);
        assert!(verdict.is_err() || header.time > parent.time);
    }
}

/// What a pre-sync from genesis starts from.
struct OnlyGenesis(HeaderInfo);

impl HeaderIndex for OnlyGenesis {
    fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        (*hash == self.0.hash).then_some(self.0.id)
    }

    fn get(&self, _: HeaderId) -> HeaderInfo {
        self.0
    }

    fn median_time_past(&self, _: HeaderId) -> u32 {
        self.0.header.time
    }

    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId> {
        (height == 0).then_some(id)
    }

    fn parent(&self, _: HeaderId) -> Option<HeaderId> {
        None
    }

    fn tip(&self) -> HeaderId {
        self.0.id
    }

    fn best_header(&self) -> HeaderId {
        self.0.id
    }

    fn prune_height(&self) -> u32 {
        0
    }
}

/// Both passes of a pre-sync over the same headers.
fn check_presync(headers: &[BlockHeader], message: usize, wanted: Work, params: &Params) {
    let genesis = HeaderInfo {
        id: HeaderId(0),
        hash: params.genesis.block_hash(),
        header: params.genesis,
        height: 0,
        chain_work: block_proof(params.genesis.bits),
        stored: true,
        failed: false,
        connected: true,
    };
    let time = params.genesis.time;
    let mut presync = Presync::new(params, &genesis, time, wanted, [3; 16], 7, NOW);
    let bound = presync_memory_bound(params, NOW);
    let mut last: BlockHash = genesis.hash;
    let mut accepted = 0;
    for first_pass in [true, false] {
        for chunk in headers.chunks(message.min(MAX_HEADERS)) {
            let outcome = presync.process(chunk, true);
            assert!(presync.memory() <= bound, "{} bytes, {bound} promised", presync.memory());
            assert!(outcome.success || outcome.accepted.is_empty());
            for header in &outcome.accepted {
                assert_eq!(header.prev_blockhash, last);
                last = header.block_hash();
            }
            accepted += outcome.accepted.len();
            if !outcome.request_more {
                assert_eq!(presync.state(), PresyncState::Final);
                assert!(presync.next_locator(&OnlyGenesis(genesis)).is_empty());
                return assert!(accepted <= headers.len());
            }
            let locator = presync.next_locator(&OnlyGenesis(genesis));
            assert_eq!(locator.last(), Some(&genesis.hash));
            if first_pass && presync.state() == PresyncState::Redownloading {
                break;
            }
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, network) in NETWORKS.iter().enumerate() {
        let params = Params::new(*network);
        let mut header = params.genesis;
        let mut chain = Vec::new();
        for n in 0..12 {
            header.time += 600;
            header.nonce = n;
            chain.extend(header.to_bytes());
        }
        for (connects, wanted) in [(0, 1u64), (1, 1), (1, u64::MAX), (1, 12 << 32)] {
            let settings = [&[index as u8, connects, 5][..], &wanted.to_le_bytes()].concat();
            seeds.push([&settings[..], &chain].concat());
        }
    }
    if let Some(real) = godwit_testdata::shared_file("headers/mainnet_0_10236.bin.zst") {
        seeds.push([&[0, 0, 5, 1, 0, 0, 0, 1, 0, 0, 0][..], &real[80..80 * 41]].concat());
    }
    seeds
}
