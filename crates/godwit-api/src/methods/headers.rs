//! Headers.

use godwit_chain::{Chain, NodeId};
use godwit_primitives::{BlockHash, BlockHeader, Work};
use godwit_rpc::{Json, RpcError};

use super::difficulty::{bits, difficulty, target, work};
use super::{Call, find, parse};

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
        Self::with_place(chain, id, is_active, next)
    }

    /// Of a block of which it is known whether it is in the active chain, and what follows there.
    fn with_place(chain: &Chain, id: NodeId, is_active: bool, next: Option<NodeId>) -> Self {
        let (tree, node) = (chain.tree(), chain.tree().node(id));
        let tip = tree.node(chain.tip());
        Self {
            hash: node.hash,
            header: node.header,
            height: node.height,
            tx_count: node.tx_count,
            median_time: tree.median_time_past(id),
            chain_work: tree.chain_work(id),
            confirmations: match is_active {
                true => i64::from(tip.height - node.height) + 1,
                false => -1,
            },
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

/// Those of the active chain from a block on, at most so many; none if that is not part of it. They are found
/// from the last one down, so that each costs a step.
pub(crate) fn headers_from(chain: &Chain, from: &BlockHash, count: usize) -> Vec<HeaderFacts> {
    let tree = chain.tree();
    let first = tree.find(from).filter(|id| super::is_active(chain, *id));
    let Some(first) = first.map(|id| tree.node(id).height) else { return Vec::new() };
    let tip = tree.node(chain.tip()).height;
    let last = tip.min(first.saturating_add(u32::try_from(count - 1).unwrap_or(u32::MAX)));
    let mut next = tree.ancestor(chain.tip(), last + 1);
    let mut facts = Vec::with_capacity((last - first) as usize + 1);
    let mut walk = Some(super::at_height(chain, last));
    while let Some(id) = walk.filter(|id| tree.node(*id).height >= first) {
        facts.push(HeaderFacts::with_place(chain, id, true, next));
        (next, walk) = (Some(id), tree.node(id).parent());
    }
    facts.reverse();
    facts
}

pub(super) fn header(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash: BlockHash = parse::hash(call.arg(0), "hash")?;
    let verbose = parse::flag(call.arg(1), true)?;
    let facts = call
        .node
        .ask(move |node| find(node.chain(), &hash).map(|id| HeaderFacts::of(node.chain(), id)))??;
    Ok(if verbose { facts.to_json() } else { Json::hex(&facts.header.to_bytes()) })
}
