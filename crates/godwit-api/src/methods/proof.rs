//! Proofs that a block contains given transactions (Core `merkleblock.cpp`).

use std::collections::BTreeSet;

use data_encoding::HEXLOWER;
use godwit_chain::{Chain, NodeId};
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE, OutPoint, Txid};
use godwit_rpc::{Json, RpcError, code};
use godwit_stream::{DecodeError, SpanReader};

use super::indexes::FoundTransaction;
use super::{
    BlockSource, Call, Missing, at_height, block_source, cost, find, indexes, is_active, output,
    parse, source, stored,
};

/// The smallest transaction and so the most of a block (Core `MIN_TRANSACTION_WEIGHT`).
const MAX_TRANSACTIONS: u64 = 4_000_000 / 240;

/// Outputs of a transaction that are looked up to find its block: as many as fit a block, each a value of
/// eight bytes and the length of a script (Core `MAX_OUTPUTS_PER_BLOCK`).
const OUTPUTS_LOOKED_UP: u32 = 1_000_000 / 9;
/// Of these, so many with one question: each costs a turn of the node, and they take a fraction of a
/// millisecond there.
const OUTPUTS_AT_ONCE: usize = 512;

/// A partial tree: of the branches that lead to no wanted leaf, only the hash.
struct PartialTree {
    transactions: u32,
    bits: Vec<bool>,
    hashes: Vec<[u8; 32]>,
}

fn width(transactions: u32, height: u32) -> u32 {
    ((u64::from(transactions) + (1 << height) - 1) >> height) as u32
}

fn height(transactions: u32) -> u32 {
    (0..).find(|height| width(transactions, *height) <= 1).expect("it narrows")
}

fn pair(left: [u8; 32], right: [u8; 32]) -> [u8; 32] {
    sha256d(&[left, right].concat())
}

impl PartialTree {
    fn of(txids: &[Txid], wanted: &[bool]) -> Self {
        let transactions = txids.len() as u32;
        let mut tree = Self { transactions, bits: Vec::new(), hashes: Vec::new() };
        tree.build(height(transactions), 0, txids, wanted);
        tree
    }

    fn hash(&self, height: u32, at: u32, txids: &[Txid]) -> [u8; 32] {
        if height == 0 {
            return txids[at as usize].to_bytes();
        }
        let left = self.hash(height - 1, at * 2, txids);
        let right = match at * 2 + 1 < width(self.transactions, height - 1) {
            true => self.hash(height - 1, at * 2 + 1, txids),
            false => left,
        };
        pair(left, right)
    }

    fn build(&mut self, height: u32, at: u32, txids: &[Txid], wanted: &[bool]) {
        let (start, end) = ((at << height) as usize, ((at + 1) << height) as usize);
        let leads = wanted[start..end.min(wanted.len())].contains(&true);
        self.bits.push(leads);
        if height == 0 || !leads {
            let hash = self.hash(height, at, txids);
            self.hashes.push(hash);
            return;
        }
        self.build(height - 1, at * 2, txids, wanted);
        if at * 2 + 1 < width(self.transactions, height - 1) {
            self.build(height - 1, at * 2 + 1, txids, wanted);
        }
    }

    fn encode(&self, header: &BlockHeader) -> Vec<u8> {
        let mut out: godwit_stream::DataStream = godwit_stream::DataStream::new();
        out.write(&header.to_bytes());
        out.put(&self.transactions);
        out.write_compact_size(self.hashes.len() as u64);
        self.hashes.iter().for_each(|hash| out.write(hash));
        let bytes = self.bits.chunks(8).map(|bits| {
            bits.iter().enumerate().fold(0u8, |byte, (n, bit)| byte | u8::from(*bit) << n)
        });
        let bytes: Vec<u8> = bytes.collect();
        out.write_compact_size(bytes.len() as u64);
        out.write(&bytes);
        out.as_slice().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<(BlockHeader, Self), DecodeError> {
        let mut reader = SpanReader::new(bytes);
        let header = reader.get::<BlockHeader>()?;
        let transactions = reader.get::<u32>()?;
        let mut hashes = Vec::new();
        for _ in 0..reader.compact_size()? {
            hashes.push(reader.array()?);
        }
        let count = reader.compact_size()?;
        let mut bits = Vec::new();
        for _ in 0..count {
            let [byte] = reader.array::<1>()?;
            bits.extend((0..8).map(|n| byte >> n & 1 == 1));
        }
        Ok((header, Self { transactions, bits, hashes }))
    }

    /// The root and the wanted leaves; `None` for a tree that is not as it would be made.
    fn extract(&self) -> Option<([u8; 32], Vec<Txid>)> {
        let plausible = self.transactions > 0
            && u64::from(self.transactions) <= MAX_TRANSACTIONS
            && self.hashes.len() <= self.transactions as usize
            && self.bits.len() >= self.hashes.len();
        if !plausible {
            return None;
        }
        let mut walk = Walk { tree: self, bits: 0, hashes: 0, found: Vec::new() };
        let root = walk.descend(height(self.transactions), 0)?;
        let all_used = walk.bits.div_ceil(8) == self.bits.len().div_ceil(8)
            && walk.hashes == self.hashes.len();
        all_used.then_some((root, walk.found))
    }
}

struct Walk<'a> {
    tree: &'a PartialTree,
    bits: usize,
    hashes: usize,
    found: Vec<Txid>,
}

impl Walk<'_> {
    fn descend(&mut self, height: u32, at: u32) -> Option<[u8; 32]> {
        let leads = *self.tree.bits.get(self.bits)?;
        self.bits += 1;
        if height == 0 || !leads {
            let hash = *self.tree.hashes.get(self.hashes)?;
            self.hashes += 1;
            if height == 0 && leads {
                self.found.push(Txid::from_bytes(hash));
            }
            return Some(hash);
        }
        let left = self.descend(height - 1, at * 2)?;
        if at * 2 + 1 >= width(self.tree.transactions, height - 1) {
            return Some(pair(left, left));
        }
        let right = self.descend(height - 1, at * 2 + 1)?;
        // Equal halves would let other numbers of transactions have the same root.
        (left != right).then(|| pair(left, right))
    }
}

fn wanted(list: &Json) -> Result<BTreeSet<Txid>, RpcError> {
    let refused = |text: String| RpcError::new(code::INVALID_PARAMETER, text);
    let items = list.as_list()?;
    if items.is_empty() {
        return Err(refused("Parameter 'txids' cannot be empty".to_owned()));
    }
    let mut txids = BTreeSet::new();
    for item in items {
        let txid: Txid = parse::hash(item, "txid")?;
        if !txids.insert(txid) {
            return Err(refused(format!(
                "Invalid parameter, duplicated txid: {}",
                item.as_text()?
            )));
        }
    }
    Ok(txids)
}

/// A stored block that cannot be read is another error here than elsewhere, as in Core.
fn unreadable() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "Can't read block from disk")
}

/// Where the bytes of the block are of which there is to be a proof.
fn source_to_prove(chain: &Chain, id: NodeId) -> Result<BlockSource, RpcError> {
    match block_source(chain, id) {
        Err(Missing::Damaged) => Err(unreadable()),
        _ => source(chain, id),
    }
}

/// The block of a transaction of which an output is unspent.
fn block_of_unspent(call: &Call<'_>, txids: &BTreeSet<Txid>) -> Result<Option<u32>, RpcError> {
    for txid in txids {
        for first in (0..OUTPUTS_LOOKED_UP).step_by(OUTPUTS_AT_ONCE) {
            if (call.is_gone)() {
                return Ok(None);
            }
            let vouts = first..OUTPUTS_LOOKED_UP.min(first + OUTPUTS_AT_ONCE as u32);
            let outpoints = vouts.map(|vout| OutPoint { txid: *txid, vout }).collect();
            if let (Some(coin), _) = output::first_coin(&call.node, outpoints)? {
                return Ok(Some(coin.height));
            }
        }
    }
    Ok(None)
}

/// The block of one of the transactions: of one that has an unspent output, or of the first in the index.
///
/// An index that has come to the tip knows each transaction of the chain, so it is asked first: a transaction
/// of which it knows nothing has no output to look for, and to look for all that there may be takes a
/// thousand times as long.
fn source_of_any(
    call: &mut Call<'_>,
    txids: &BTreeSet<Txid>,
) -> Result<Option<BlockSource>, RpcError> {
    let Some(first) = txids.first() else { return Ok(None) };
    let mut may_be_unspent = txids.clone();
    let mut indexed = None;
    if let Some(index) = call.node.indexes().transactions.clone() {
        let is_complete = indexes::catch_up(call, index.status())?;
        indexed = indexes::find_transaction(call, first)?;
        if is_complete {
            // Whichever of the transactions has an unspent output: if that is in another block, not all
            // are in the same.
            if indexed.as_ref().is_some_and(FoundTransaction::is_active) {
                return Ok(indexed.map(|found| found.source));
            }
            may_be_unspent = indexes::known(&index, txids)?;
        }
    }
    let Some(height) = block_of_unspent(call, &may_be_unspent)? else {
        return Ok(indexed.map(|found| found.source));
    };
    let source = call.node.ask(move |node| {
        let chain = node.chain();
        source_to_prove(chain, at_height(chain, height.min(chain.tip_point().height)))
    })??;
    Ok(Some(source))
}

pub(super) fn make(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let txids = wanted(call.arg(0))?;
    let named = parse::block_hash(call.arg(1))?;
    let refused = |text: &str| RpcError::new(code::INVALID_ADDRESS_OR_KEY, text);
    let source = match named {
        Some(hash) => call
            .node
            .ask(move |node| source_to_prove(node.chain(), find(node.chain(), &hash)?))??,
        None => {
            source_of_any(call, &txids)?.ok_or_else(|| refused("Transaction not yet in block"))?
        }
    };
    call.room.grow(source.size() * cost::DECODED)?;
    let block = stored::readable(call, &source)?.ok_or_else(unreadable)?;
    let all = block.view().txids();
    let matches: Vec<bool> = all.iter().map(|txid| txids.contains(txid)).collect();
    if matches.iter().filter(|matches| **matches).count() != txids.len() {
        return Err(refused("Not all transactions found in specified or retrieved block"));
    }
    Ok(HEXLOWER.encode(&PartialTree::of(all, &matches).encode(block.header())).into())
}

/// What a proof says: that this block, which has so many transactions, has these.
#[derive(Debug, PartialEq, Eq)]
struct Claim {
    block: BlockHash,
    transactions: u32,
    txids: Vec<Txid>,
}

impl Claim {
    /// `None` where the tree has another root than the header.
    fn read(bytes: &[u8]) -> Result<Option<Self>, DecodeError> {
        let (header, tree) = match bytes.len() {
            0..HEADER_SIZE => return Err(DecodeError::UnexpectedEnd),
            _ => PartialTree::decode(bytes)?,
        };
        // As in Core, the root of a tree that is not as it would be made is zero. No block has that one.
        let (root, txids) = tree.extract().unwrap_or_default();
        let claim = Self { block: header.block_hash(), transactions: tree.transactions, txids };
        Ok((root == header.merkle_root.to_bytes()).then_some(claim))
    }
}

pub(super) fn verify(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let bytes = parse::named_hex(call.arg(0), "proof")?;
    // Whatever the stream says, Core passes it on.
    let unread = |why: DecodeError| {
        let why = match why {
            DecodeError::NonCanonicalCompactSize => "non-canonical ReadCompactSize()",
            DecodeError::CompactSizeTooLarge => "ReadCompactSize(): size too large",
            _ => "SpanReader::read(): end of data",
        };
        RpcError::new(code::MISC_ERROR, format!("{why}: iostream error"))
    };
    // Each bit of it becomes a byte.
    call.room.grow(8 * bytes.len())?;
    let none = Json::List(Vec::new());
    let Some(claim) = Claim::read(&bytes).map_err(unread)? else { return Ok(none) };
    let hash = claim.block;
    let count = call.node.ask(move |node| {
        let chain = node.chain();
        let id = chain.tree().find(&hash).filter(|id| is_active(chain, *id))?;
        Some(chain.tree().node(id).tx_count).filter(|count| *count > 0)
    })?;
    let missing = || RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Block not found in chain");
    let count = count.ok_or_else(missing)?;
    if count != claim.transactions {
        return Ok(none);
    }
    Ok(claim.txids.iter().map(ToString::to_string).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with this root, and a tree of this many transactions that is nothing else.
    fn without_a_tree(root: u8, transactions: u8) -> Vec<u8> {
        [&[0; 36][..], &[root; 32], &[0; 12], &[transactions, 0, 0, 0], &[0, 0]].concat()
    }

    /// Core compares the root of a bad tree, which is zero, with the header's, and then looks for the block.
    #[test]
    fn a_proof_without_a_tree_is_of_a_block_with_no_root() {
        for transactions in [0, 1, 2] {
            assert_eq!(Claim::read(&without_a_tree(1, transactions)), Ok(None));
            let claim = Claim::read(&without_a_tree(0, transactions)).expect("it is read");
            let claim = claim.expect("both roots are zero");
            assert_eq!((claim.transactions, claim.txids), (u32::from(transactions), Vec::new()));
        }
        assert_eq!(Claim::read(&[0; 79]), Err(DecodeError::UnexpectedEnd));
    }

    #[test]
    fn a_proof_shows_what_it_was_made_of_and_nothing_else() {
        let header = godwit_primitives::Params::new(godwit_primitives::Network::Regtest).genesis;
        for count in [1u8, 2, 3, 7, 8, 30] {
            let txids: Vec<Txid> = (0..count).map(|n| Txid::from_bytes([n; 32])).collect();
            for wanted in 0..usize::from(count) {
                let matches: Vec<bool> = (0..txids.len()).map(|n| n == wanted || n == 0).collect();
                let bytes = PartialTree::of(&txids, &matches).encode(&header);
                let (_, tree) = PartialTree::decode(&bytes).expect("it decodes");
                let (root, found) = tree.extract().expect("it is as it was made");
                let expected: Vec<Txid> = txids
                    .iter()
                    .zip(&matches)
                    .filter(|(_, m)| **m)
                    .map(|(txid, _)| *txid)
                    .collect();
                assert_eq!(found, expected);
                let leaves = txids.iter().map(|txid| txid.to_bytes());
                assert_eq!(root, godwit_primitives::merkle::merkle_root(leaves).0);
                for end in 0..bytes.len() {
                    assert!(PartialTree::decode(&bytes[..end]).is_err());
                }
            }
        }
    }
}
