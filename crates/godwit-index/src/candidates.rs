//! Finds a transaction among the candidates that the transaction index names.

use godwit_chain::{Chain, NodeId};
use godwit_primitives::{HEADER_SIZE, TxView};
use godwit_stream::SpanReader;

use crate::txindex::{TxBlock, TxPlace};

/// A block that may have a transaction, and from which byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub block: NodeId,
    pub offset: u32,
}

/// The blocks of these places, in their order: all of the active chain before any that was left, because a
/// transaction that is in both is told as the active chain has it.
pub fn candidates(chain: &Chain, places: &[TxPlace]) -> Vec<Candidate> {
    let (tree, tip) = (chain.tree(), chain.tip());
    let mut found: Vec<Candidate> = Vec::new();
    for TxPlace { block, offset } in places {
        let block = match block {
            TxBlock::Active(height) => tree.ancestor(tip, *height),
            TxBlock::Connected(hash) => tree.find(hash),
        };
        let candidate = block.map(|block| Candidate { block, offset: *offset });
        found.extend(candidate.filter(|candidate| !found.contains(candidate)));
    }
    found
}

/// The transaction that begins at this byte of a stored block, and its number there. A script can contain the
/// bytes of any transaction, so only what all transactions before it lead to begins there.
pub fn transaction_at(block: &[u8], start: usize) -> Option<(usize, TxView<'_>)> {
    let mut reader = SpanReader::new(block.get(HEADER_SIZE..)?);
    let count = reader.compact_size().ok()?;
    let mut at = HEADER_SIZE + reader.position();
    for n in 0..usize::try_from(count).ok()? {
        if at > start {
            return None;
        }
        let tx = TxView::parse(block.get(at..)?).ok()?;
        if at == start {
            return Some((n, tx));
        }
        at += tx.total_size();
    }
    None
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut};
    use godwit_stream::DataStream;

    use super::*;

    fn transaction(script_sig: Vec<u8>) -> Vec<u8> {
        let input = TxIn { prevout: OutPoint::NULL, script_sig, sequence: 7, witness: Vec::new() };
        let output = TxOut { value: 1, script_pubkey: vec![0x51] };
        let tx =
            Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 };
        let mut bytes: DataStream = DataStream::new();
        bytes.put(&tx);
        bytes.as_slice().to_vec()
    }

    #[test]
    fn a_transaction_inside_a_script_is_none_of_the_block() {
        let hidden = transaction(vec![1]);
        let all = [transaction(vec![2]), transaction(hidden.clone()), transaction(vec![3])];
        let block = [&[0; HEADER_SIZE][..], &[3], &all.concat()].concat();
        let is_there = |start: usize| TxView::parse(&block[start..]).is_ok();
        let inside = block.windows(hidden.len()).position(|bytes| bytes == hidden);
        assert!(inside.is_some_and(is_there));

        let mut starts = vec![HEADER_SIZE + 1];
        for tx in &all {
            starts.push(starts[starts.len() - 1] + tx.len());
        }
        for at in 0..block.len() + 2 {
            let expected = starts[..all.len()].iter().position(|start| *start == at);
            let found = transaction_at(&block, at);
            assert_eq!(found.as_ref().map(|(n, _)| *n), expected, "{at}");
            if let Some((n, tx)) = found {
                assert_eq!(tx.bytes(), all[n]);
            }
        }
        assert!(transaction_at(&block[..HEADER_SIZE - 1], HEADER_SIZE + 1).is_none());
    }
}
