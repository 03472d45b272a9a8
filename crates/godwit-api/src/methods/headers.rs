//! `getblockheader`, and a block header as JSON.

use godwit_chain::{Chain, NodeId};
use godwit_primitives::{BlockHash, BlockHeader, Work};
use godwit_rpc::{Json, RpcError};

use super::difficulty::{bits, difficulty, target, work};
use super::{Call, find, parse};
use crate::seam::Seam;

/// What the index knows of a block, at one moment.
#[derive(Clone, Copy)]
pub(crate) struct HeaderFacts {
    pub(super) hash: BlockHash,
    pub(crate) header: BlockHeader,
    pub(crate) height: u32,
    pub(super) tx_count: u32,
    median_time: u32,
    chain_work: Work,
    /// -1 outside the active chain.
    pub(super) confirmations: i64,
    next: Option<BlockHash>,
}

impl HeaderFacts {
    pub(crate) fn of(chain: &Chain, id: NodeId) -> Self {
        let tree = chain.tree();
        let is_active = super::is_active(chain, id);
        let next = tree.ancestor(chain.tip(), tree.node(id).height + 1).filter(|_| is_active);
        Self::with_place(chain, id, Some(chain.tip()).filter(|_| is_active), next)
    }

    /// Of a block of which it is known in which end of the active chain it is, if it is, and what follows
    /// there.
    fn with_place(chain: &Chain, id: NodeId, tip: Option<NodeId>, next: Option<NodeId>) -> Self {
        let (tree, node) = (chain.tree(), chain.tree().node(id));
        let tip = tip.map(|tip| tree.node(tip).height);
        Self {
            hash: node.hash,
            header: node.header,
            height: node.height,
            tx_count: node.tx_count,
            median_time: tree.median_time_past(id),
            chain_work: tree.chain_work(id),
            confirmations: tip.map_or(-1, |tip| i64::from(tip - node.height) + 1),
            next: next.map(|next| tree.node(next).hash),
        }
    }

    /// What `getblock` tells of every block as well.
    pub(crate) fn to_json(self) -> Json {
        let header = &self.header;
        let mut json = Json::object([
            ("hash", self.hash.to_string().into()),
            ("confirmations", self.confirmations.into()),
            ("height", self.height.into()),
            ("version", header.version.into()),
            ("versionHex", format!("{:08x}", header.version).into()),
            ("merkleroot", header.merkle_root.to_string().into()),
            ("time", header.time.into()),
            ("mediantime", self.median_time.into()),
            ("nonce", header.nonce.into()),
            ("bits", bits(header.bits)),
            ("target", target(header.bits)),
            ("difficulty", Json::real(difficulty(header.bits))),
            ("chainwork", work(self.chain_work)),
            ("nTx", self.tx_count.into()),
        ]);
        if self.height > 0 {
            json.push("previousblockhash", header.prev_blockhash.to_string());
        }
        if let Some(next) = self.next {
            json.push("nextblockhash", next.to_string());
        }
        json
    }

    pub(super) fn median_time(&self) -> u32 {
        self.median_time
    }
}

/// Headers that are told in one question: in each some forty nodes of the tree are looked at.
const AT_ONCE: u32 = 100;

/// The last block of the active chain at one moment, and heights of it.
type Part = (NodeId, std::ops::RangeInclusive<u32>);

/// The heights from a block on, at most so many; `None` if it is not part of the active chain.
fn part(chain: &Chain, from: &BlockHash, count: usize) -> Option<Part> {
    let tree = chain.tree();
    let first = tree.find(from).filter(|id| super::is_active(chain, *id))?;
    let (first, tip) = (tree.node(first).height, tree.node(chain.tip()).height);
    let last = tip.min(first.saturating_add(u32::try_from(count - 1).unwrap_or(u32::MAX)));
    Some((chain.tip(), first..=last))
}

/// Some of the chain that ends in `tip`. They are found from the last one down, so that each costs a step.
fn some_of(chain: &Chain, (tip, heights): Part) -> Vec<HeaderFacts> {
    let tree = chain.tree();
    let (first, last) = heights.into_inner();
    let mut next = tree.ancestor(tip, last + 1);
    let mut facts = Vec::with_capacity((last - first) as usize + 1);
    let mut walk = tree.ancestor(tip, last);
    while let Some(id) = walk.filter(|id| tree.node(*id).height >= first) {
        facts.push(HeaderFacts::with_place(chain, id, Some(tip), next));
        (next, walk) = (Some(id), tree.node(id).parent());
    }
    facts.reverse();
    facts
}

/// Those of the active chain from a block on, at most so many, as of one moment; none if that is not part of
/// it. The chain goes on between questions.
pub(crate) fn headers_from(
    node: &Seam,
    from: BlockHash,
    count: usize,
) -> Result<Vec<HeaderFacts>, RpcError> {
    let asked = node.ask(move |node| part(node.chain(), &from, count))?;
    let Some((tip, heights)) = asked else { return Ok(Vec::new()) };
    let (mut first, last) = heights.into_inner();
    let mut facts = Vec::new();
    while first <= last {
        let end = last.min(first + AT_ONCE - 1);
        facts.extend(node.ask(move |node| some_of(node.chain(), (tip, first..=end)))?);
        first = end + 1;
    }
    Ok(facts)
}

pub(super) fn header(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "hash")?;
    let verbose = parse::flag(call.arg(1), true)?;
    let facts = call
        .node
        .ask(move |node| find(node.chain(), &hash).map(|id| HeaderFacts::of(node.chain(), id)))??;
    Ok(if verbose { facts.to_json() } else { Json::hex(&facts.header.to_bytes()) })
}
