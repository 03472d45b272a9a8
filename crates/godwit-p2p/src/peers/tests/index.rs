//! A small chain: real headers and blocks of the easiest difficulty, and an index over them.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use godwit_consensus::{Reject, RejectReason, ResultClass, Verdict};
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::work::block_proof;
use godwit_primitives::{
    Block, BlockHash, BlockHeader, MerkleRoot, Network, OutPoint, Params, Transaction, TxIn, TxOut,
};
use godwit_stream::DataStream;

use crate::index::is_ancestor;
use crate::{HeaderId, HeaderIndex, HeaderInfo, RefusedHeader};

/// A block and its bytes.
#[derive(Clone, Debug)]
pub(super) struct TestBlock {
    pub(super) header: BlockHeader,
    pub(super) hash: BlockHash,
    pub(super) bytes: Vec<u8>,
}

impl TestBlock {
    pub(super) fn genesis() -> Self {
        let params = Params::new(Network::Regtest);
        let (header, hash) = (params.genesis, params.genesis_hash);
        Self { header, hash, bytes: params.genesis_block() }
    }

    /// A block on top of `parent` with `transactions` beside the coinbase. Blocks of another `salt`
    /// differ.
    pub(super) fn on(parent: &Self, time: u32, salt: u32, transactions: u32) -> Self {
        let coinbase = transaction(OutPoint::NULL, salt);
        let others = (0..transactions)
            .map(|n| transaction(OutPoint { txid: coinbase.txid(), vout: n }, salt));
        let all: Vec<Transaction> = std::iter::once(coinbase.clone()).chain(others).collect();
        let (root, _) = merkle_root(all.iter().map(|tx| tx.txid().to_bytes()));
        let header = mine(BlockHeader {
            version: 4,
            prev_blockhash: parent.hash,
            merkle_root: MerkleRoot::from_bytes(root),
            time,
            bits: parent.header.bits,
            nonce: 0,
        });
        let mut bytes: DataStream = DataStream::new();
        bytes.put(&header);
        bytes.write_compact_size(all.len() as u64);
        all.iter().for_each(|tx| bytes.put(tx));
        Self { header, hash: header.block_hash(), bytes: bytes.as_slice().to_vec() }
    }

    /// `count` blocks on top of `parent`, the last one at `end`, ten minutes between them.
    pub(super) fn chain(parent: &Self, count: u32, end: u32, salt: u32) -> Vec<Self> {
        let mut blocks: Vec<Self> = Vec::with_capacity(count as usize);
        for n in 0..count {
            let time = end - (count - 1 - n) * 600;
            let block = Self::on(blocks.last().unwrap_or(parent), time, salt, 0);
            blocks.push(block);
        }
        blocks
    }
}

fn transaction(prevout: OutPoint, salt: u32) -> Transaction {
    let script_sig = vec![4, salt as u8, (salt >> 8) as u8, (salt >> 16) as u8, 1];
    let input = TxIn { prevout, script_sig, sequence: u32::MAX, witness: Vec::new() };
    let output = TxOut { value: 1, script_pubkey: vec![0x51; 20] };
    Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 }
}

/// Finds a nonce that keeps the target.
pub(super) fn mine(mut header: BlockHeader) -> BlockHeader {
    let params = Params::new(Network::Regtest);
    let works = |header: &BlockHeader| {
        godwit_consensus::check_proof_of_work(&header.block_hash(), header.bits, &params)
    };
    while !works(&header) {
        header.nonce += 1;
    }
    header
}

/// Finds a nonce that does not.
pub(super) fn spoil(mut header: BlockHeader) -> BlockHeader {
    let params = Params::new(Network::Regtest);
    while godwit_consensus::check_proof_of_work(&header.block_hash(), header.bits, &params) {
        header.nonce += 1;
    }
    header
}

struct Node {
    info: HeaderInfo,
    parent: Option<HeaderId>,
    /// The ancestors at heights that are multiples of [`STRIDE`], by height.
    milestones: std::rc::Rc<Vec<HeaderId>>,
    bytes: Vec<u8>,
}

/// Steps of one that an ancestor is away from a milestone at most.
const STRIDE: u32 = 32;

/// The driver's side: a header tree with blocks, judged by a few made-up rules.
pub(super) struct TestIndex {
    nodes: Vec<Node>,
    by_hash: HashMap<BlockHash, HeaderId>,
    tip: HeaderId,
    best: HeaderId,
    /// Headers that are not connected and may be, parents first.
    waiting: Vec<HeaderId>,
    pub(super) prune_height: u32,
    /// Steps from a header to its parent so far.
    pub(super) steps: Cell<usize>,
    /// Headers of a later time are too far ahead of the clock.
    pub(super) latest_time: u32,
    /// Headers that break a rule.
    pub(super) bad_headers: HashSet<BlockHash>,
    /// Blocks that turn out invalid when they are connected.
    pub(super) bad_blocks: HashSet<BlockHash>,
}

impl TestIndex {
    pub(super) fn new() -> Self {
        let genesis = TestBlock::genesis();
        let id = HeaderId(0);
        let info = HeaderInfo {
            id,
            hash: genesis.hash,
            header: genesis.header,
            height: 0,
            chain_work: block_proof(genesis.header.bits),
            stored: true,
            failed: false,
            connected: true,
        };
        Self {
            nodes: vec![Node {
                info,
                parent: None,
                milestones: vec![id].into(),
                bytes: genesis.bytes,
            }],
            by_hash: HashMap::from([(genesis.hash, id)]),
            tip: id,
            best: id,
            waiting: Vec::new(),
            prune_height: 0,
            steps: Cell::new(0),
            latest_time: u32::MAX,
            bad_headers: HashSet::new(),
            bad_blocks: HashSet::new(),
        }
    }

    pub(super) fn height(&self) -> u32 {
        self.get(self.tip).height
    }

    pub(super) fn headers(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn bytes(&self, id: HeaderId) -> &[u8] {
        &self.nodes[id.0 as usize].bytes
    }

    /// Headers, blocks and all, as if they had been there from the beginning.
    pub(super) fn extend(&mut self, blocks: &[TestBlock]) {
        for block in blocks {
            self.accept_header(&block.header).expect("a good header");
            self.store(block.hash, block.bytes.clone());
        }
        self.connect();
    }

    pub(super) fn accept(&mut self, headers: &[BlockHeader]) -> Result<HeaderId, RefusedHeader> {
        let mut last = None;
        for (index_of_bad, header) in headers.iter().enumerate() {
            last = Some(
                self.accept_header(header)
                    .map_err(|reject| RefusedHeader { reject, index_of_bad })?,
            );
        }
        Ok(last.expect("never empty"))
    }

    fn accept_header(&mut self, header: &BlockHeader) -> Result<HeaderId, Reject> {
        let hash = header.block_hash();
        if let Some(&id) = self.by_hash.get(&hash) {
            let failed = self.get(id).failed;
            return if failed { Err(Reject::new(RejectReason::DuplicateInvalid)) } else { Ok(id) };
        }
        let parent = self.by_hash.get(&header.prev_blockhash).copied();
        let parent = self.get(parent.expect("the engine checked that it connects"));
        if parent.failed {
            return Err(Reject::new(RejectReason::BadPrevblk));
        }
        if self.bad_headers.contains(&hash) {
            return Err(Reject::new(RejectReason::BadDiffbits));
        }
        if header.time > self.latest_time {
            return Err(Reject::new(RejectReason::TimeTooNew));
        }
        let id = HeaderId(self.nodes.len() as u32);
        let chain_work = parent.chain_work + block_proof(header.bits);
        let info = HeaderInfo {
            id,
            hash,
            header: *header,
            height: parent.height + 1,
            chain_work,
            stored: false,
            failed: false,
            connected: false,
        };
        let mut milestones = std::rc::Rc::clone(&self.nodes[parent.id.0 as usize].milestones);
        if info.height.is_multiple_of(STRIDE) {
            std::rc::Rc::make_mut(&mut milestones).push(id);
        }
        self.nodes.push(Node { info, parent: Some(parent.id), milestones, bytes: Vec::new() });
        self.by_hash.insert(hash, id);
        self.waiting.push(id);
        if chain_work > self.get(self.best).chain_work {
            self.best = id;
        }
        Ok(id)
    }

    /// What the structural checks say of a block; a good one is stored.
    pub(super) fn judge(&mut self, hash: BlockHash, bytes: &[u8]) -> Verdict {
        let Ok(block) = Block::from_bytes(bytes) else { return Verdict::Undecodable };
        assert_eq!(block.hash(), hash, "the engine hashed the header");
        let (root, repeated) = merkle_root(block.view().txids().iter().map(|id| id.to_bytes()));
        if repeated || root != block.header().merkle_root.to_bytes() {
            let reject = Reject::new(RejectReason::BadTxnMrklRoot);
            assert_eq!(reject.class, ResultClass::Mutated);
            return Verdict::Rejected(reject);
        }
        let id = self.find(&hash).expect("the engine knows the header");
        if self.get(id).stored {
            return Verdict::Duplicate;
        }
        self.store(hash, bytes.to_vec());
        Verdict::Stored
    }

    fn store(&mut self, hash: BlockHash, bytes: Vec<u8>) {
        let id = self.by_hash[&hash];
        let node = &mut self.nodes[id.0 as usize];
        node.bytes = bytes;
        node.info.stored = true;
    }

    /// Moves the tip to the best stored chain; the blocks that turned out invalid.
    pub(super) fn connect(&mut self) -> Vec<BlockHash> {
        let mut invalid = Vec::new();
        // Children come after their parents, so one look at each that is not connected suffices.
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&id| {
            let node = &self.nodes[id.0 as usize];
            let parent = self.get(node.parent.expect("genesis is connected"));
            let info = node.info;
            if info.failed || parent.failed {
                self.fail(id);
                return false;
            }
            if !info.stored || !parent.connected {
                return true;
            }
            if self.bad_blocks.contains(&info.hash) {
                invalid.push(info.hash);
                self.fail(id);
                return false;
            }
            self.nodes[id.0 as usize].info.connected = true;
            if info.chain_work > self.get(self.tip).chain_work {
                self.tip = id;
            }
            false
        });
        self.waiting = waiting;
        invalid
    }

    /// The tip is declared invalid.
    pub(super) fn invalidate_tip(&mut self) {
        let id = self.tip;
        self.fail(id);
        self.tip = self.parent(id).expect("the genesis block stays valid");
    }

    fn fail(&mut self, id: HeaderId) {
        self.nodes[id.0 as usize].info.failed = true;
        if is_ancestor(self, id, self.best) {
            let good = self.nodes.iter().filter(|node| !node.info.failed);
            let below = |node: &&Node| !is_ancestor(self, id, node.info.id);
            let best = good.filter(below).max_by_key(|node| node.info.chain_work);
            self.best = best.expect("genesis is good").info.id;
        }
    }
}

impl HeaderIndex for TestIndex {
    fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        self.by_hash.get(hash).copied()
    }

    fn get(&self, id: HeaderId) -> HeaderInfo {
        self.nodes[id.0 as usize].info
    }

    fn median_time_past(&self, id: HeaderId) -> u32 {
        self.get(id).header.time
    }

    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId> {
        let mut at = id;
        if self.get(at).height < height {
            return None;
        }
        let above = (height.div_ceil(STRIDE)) as usize;
        if let Some(&milestone) = self.nodes[id.0 as usize].milestones.get(above) {
            at = milestone;
        }
        while self.get(at).height > height {
            at = self.parent(at)?;
        }
        Some(at)
    }

    fn parent(&self, id: HeaderId) -> Option<HeaderId> {
        self.steps.set(self.steps.get() + 1);
        self.nodes[id.0 as usize].parent
    }

    fn tip(&self) -> HeaderId {
        self.tip
    }

    fn best_header(&self) -> HeaderId {
        self.best
    }

    fn prune_height(&self) -> u32 {
        self.prune_height
    }
}
