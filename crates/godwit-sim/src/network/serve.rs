//! Answers to the node's requests, true and false ones.

use std::sync::Arc;
use std::time::Duration;

use godwit_p2p::{
    BlockTransactionsRequest, Command, CompactBlock, Inventory, InventoryKind, Locator, Message,
    block_transactions, compact_block,
};
use godwit_primitives::{Block, BlockHash, BlockHeader};

use super::branch::{Branch, StoredBlock};
use super::conduct::{BlockConduct, HeaderConduct};
use super::forge;
use super::out::Out;
use super::session::Session;

/// Most headers of an honest message (Core `MAX_HEADERS_RESULTS`).
const MAX_HEADERS: usize = 2_000;
/// Headers of a short fork of [`HeaderConduct::LowWork`].
const SHORT_FORK: usize = 60;
/// Full messages of [`HeaderConduct::Endless`] on one connection: each has to be mined.
const ENDLESS: u64 = 30;
/// Short forks in answer to one question.
const SHORT_FORKS: usize = 5;

impl Session {
    pub(super) fn serve_headers(&mut self, now: Duration, locator: &Locator) {
        let chain = self.chain(now);
        let honest = chain.headers_after(&locator.hashes, &locator.stop, MAX_HEADERS);
        match self.conduct.headers {
            HeaderConduct::Serve => self.say(now, Message::Headers(honest)),
            HeaderConduct::Silent => {}
            HeaderConduct::WithoutWork => {
                self.say(now, Message::Headers(forge::without_work(honest)));
            }
            HeaderConduct::Gap => self.say(now, Message::Headers(with_gap(honest))),
            HeaderConduct::TooMany => self.say(now, Message::Headers(too_many(&honest, &chain))),
            HeaderConduct::Unconnected => {
                let start = BlockHash::from_bytes([0xee; 32]);
                let headers = self.forged_headers(start, chain.tip().header.time, 3);
                self.say(now, Message::Headers(headers));
            }
            HeaderConduct::LowWork => {
                for _ in 0..SHORT_FORKS {
                    self.send_short_fork(now, &chain);
                }
            }
            HeaderConduct::Endless => self.send_endless(now, locator, &chain),
            HeaderConduct::Dribble(rate) => {
                self.answer(now, Out::Pace(rate));
                self.say(now, Message::Headers(honest));
            }
            HeaderConduct::Late(millis) => {
                self.say(now + Duration::from_millis(millis), Message::Headers(honest));
            }
        }
    }

    fn send_short_fork(&mut self, now: Duration, chain: &Branch) {
        let height = self.rng.below(u64::from(chain.height().min(20)) + 1) as u32;
        let start = chain.at(height).expect("below the tip");
        let headers = self.forged_headers(start.hash, start.header.time, SHORT_FORK);
        self.say(now, Message::Headers(headers));
    }

    /// Continues whatever was sent before: the node asks from the last header on.
    fn send_endless(&mut self, now: Duration, locator: &Locator, chain: &Branch) {
        if self.forged == ENDLESS {
            return;
        }
        let start = locator.hashes.first().copied();
        let known = start.and_then(|hash| chain.height_of(&hash));
        let (hash, time) = match (start, known) {
            (Some(hash), None) => (hash, chain.at(0).expect("genesis").header.time + 1_000_000),
            _ => {
                let genesis = chain.at(0).expect("genesis");
                (genesis.hash, genesis.header.time)
            }
        };
        let headers = self.forged_headers(hash, time, MAX_HEADERS);
        self.say(now, Message::Headers(headers));
    }

    fn forged_headers(&mut self, start: BlockHash, time: u32, count: usize) -> Vec<BlockHeader> {
        self.forged += 1;
        forge::headers(start, time, count, self.rng.next_u64())
    }

    pub(super) fn serve_data(&mut self, now: Duration, wanted: &[Inventory]) {
        let mut missing = Vec::new();
        for entry in wanted {
            if !entry.kind.is_block() {
                missing.push(*entry);
                continue;
            }
            let hash = entry.block_hash();
            let first = *self.first_asked.get_or_insert(hash);
            match self.conduct.view.find(now, &hash).cloned() {
                Some(block) if entry.kind == InventoryKind::CMPCT_BLOCK => {
                    let compact = self.compact(&block);
                    self.say(now, Message::CmpctBlock(compact));
                }
                Some(block) => self.serve_block(now, &block, first, &mut missing),
                None => missing.push(*entry),
            }
        }
        if !missing.is_empty() {
            self.say(now, Message::NotFound(missing));
        }
    }

    fn serve_block(
        &mut self,
        now: Duration,
        block: &Arc<StoredBlock>,
        first: BlockHash,
        missing: &mut Vec<Inventory>,
    ) {
        let tip = self.chain(now).tip().hash;
        let whole = |block: &Arc<StoredBlock>| Out::Block(Arc::clone(block));
        let payload = |bytes: Vec<u8>| Out::Payload(Command::BLOCK, bytes);
        let out = match self.conduct.blocks {
            BlockConduct::Serve => whole(block),
            BlockConduct::Silent => return,
            BlockConduct::Dribble(rate) => {
                self.answer(now, Out::Pace(rate));
                whole(block)
            }
            BlockConduct::WithholdFirst if block.hash == first => return,
            BlockConduct::WithholdLast if block.hash == tip => return,
            BlockConduct::WithholdFirst | BlockConduct::WithholdLast => whole(block),
            BlockConduct::NotFound => {
                missing.push(Inventory::block(InventoryKind::WITNESS_BLOCK, block.hash));
                return;
            }
            BlockConduct::Other => whole(&self.other_block(now)),
            BlockConduct::Unrequested => {
                let other = self.other_block(now);
                self.answer(now, whole(&other));
                whole(block)
            }
            BlockConduct::Mutated => match forge::mutated(&block.bytes) {
                Some(bytes) => payload(bytes),
                None => whole(block),
            },
            BlockConduct::BitFlipped => payload(forge::bit_flipped(&block.bytes, &mut self.rng)),
            BlockConduct::Truncated => Out::Forged {
                command: Command::BLOCK,
                announced: block.bytes.len() as u32,
                payload: block.bytes[..block.bytes.len() / 2].to_vec(),
            },
        };
        self.answer(now, out);
    }

    pub(super) fn compact(&mut self, block: &StoredBlock) -> CompactBlock {
        let parsed = Block::from_bytes(&block.bytes).expect("peers have whole blocks");
        compact_block(parsed.view(), self.rng.next_u64())
    }

    /// The transactions that the node lacks of a compact block: all, as it has no mempool.
    pub(super) fn serve_transactions(&mut self, now: Duration, request: &BlockTransactionsRequest) {
        let Some(block) = self.conduct.view.find(now, &request.block_hash) else { return };
        let parsed = Block::from_bytes(&block.bytes).expect("peers have whole blocks");
        let answer = block_transactions(parsed.view(), request);
        self.say(now, Message::BlockTxn(answer.expect("the node asks for what is there")));
    }

    fn other_block(&mut self, now: Duration) -> Arc<StoredBlock> {
        let chain = self.chain(now);
        let height = self.rng.below(u64::from(chain.height()) + 1) as u32;
        Arc::clone(chain.at(height).expect("not above the tip"))
    }
}

fn with_gap(mut headers: Vec<BlockHeader>) -> Vec<BlockHeader> {
    if headers.len() > 2 {
        headers.remove(headers.len() / 2);
    }
    headers
}

fn too_many(honest: &[BlockHeader], chain: &Branch) -> Vec<BlockHeader> {
    let last = chain.tip().header;
    let filling = std::iter::repeat_n(last, MAX_HEADERS + 1 - honest.len().min(MAX_HEADERS));
    honest.iter().copied().chain(filling).collect()
}
