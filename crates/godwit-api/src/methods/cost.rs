//! Bounds of the memory that JSON about transactions takes: its values, and the text that they become.
//!
//! The memory is reserved before the JSON is made, so these are upper bounds: up to half of a growing string
//! may be spare capacity.

use godwit_primitives::{Coin, TxView};

use crate::script::Ops;

/// Of each byte of a block that is decoded, with the coins that it spent; of each byte of their record beside
/// that.
pub(crate) const DECODED: usize = 4;
pub(crate) const OF_RECORD: usize = 2;

/// Of a transaction, an input, an item of its witness, an output, and the output that an input spends: names,
/// hashes and numbers.
const TRANSACTION: usize = 1800;
const INPUT: usize = 1200;
const WITNESS_ITEM: usize = 72;
/// There may be four million of them in a block: a place in their list, and two quotes with a comma.
const EMPTY_WITNESS_ITEM: usize = 40;
const OUTPUT: usize = 1500;
const PREVOUT: usize = 1800;

/// Of bytes in hexadecimal.
const HEX: usize = 4;

/// The longest name of an operation, and a space.
const WORD: usize = 23;

/// Of the words of a script, twice as long as they are in a value and once in the text.
fn words(script: &[u8]) -> usize {
    let word =
        |op: Result<crate::script::Op<'_>, _>| op.map_or(WORD, |op| WORD + 2 * op.data.len());
    3 * Ops(script).map(word).sum::<usize>()
}

/// Of a locking script: words, hexadecimal, and a descriptor that may hold all of it.
pub(super) fn locking(script: &[u8]) -> usize {
    words(script) + (HEX + 6) * script.len()
}

fn witness_item(item: &[u8]) -> usize {
    if item.is_empty() { EMPTY_WITNESS_ITEM } else { WITNESS_ITEM + HEX * item.len() }
}

/// Of an output that is spent.
pub(crate) fn prevout(coin: &Coin) -> usize {
    PREVOUT + locking(&coin.script_pubkey)
}

/// Of a transaction, and of the coins that it spends, if they are told.
pub(crate) fn transaction(tx: TxView<'_>, spent: &[Coin]) -> usize {
    let inputs: usize = tx
        .inputs()
        .map(|input| INPUT + words(input.script_sig) + HEX * input.script_sig.len())
        .sum();
    let items = tx.witnesses().flat_map(|witness| witness.items());
    let witnesses: usize = items.map(witness_item).sum();
    let outputs: usize = tx.outputs().map(|output| OUTPUT + locking(output.script_pubkey)).sum();
    let prevouts: usize = spent.iter().map(prevout).sum();
    TRANSACTION + HEX * tx.total_size() + inputs + witnesses + outputs + prevouts
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{Network, OutPoint, Transaction, TxIn, TxOut, Txid};
    use godwit_rpc::Json;
    use godwit_stream::{DataStream, Encode};

    use super::*;
    use crate::answers::CALL_BYTES;
    use crate::methods::transaction::{Detail, transaction as told};

    /// What the allocator adds.
    const BLOCK: usize = 16;

    fn of_text(text: &str, capacity: usize) -> usize {
        assert!(text.len() <= capacity);
        if capacity == 0 { 0 } else { capacity + BLOCK }
    }

    /// What a value takes beside its own place.
    fn memory(value: &Json) -> usize {
        match value {
            Json::Null | Json::Bool(_) => 0,
            Json::Number(text) | Json::Text(text) => of_text(text, text.capacity()),
            Json::List(items) => {
                BLOCK
                    + items.capacity() * size_of::<Json>()
                    + items.iter().map(memory).sum::<usize>()
            }
            Json::Object(members) => {
                let place = size_of::<(std::borrow::Cow<'static, str>, Json)>();
                let values = members.iter().map(|(_, value)| memory(value)).sum::<usize>();
                BLOCK + members.capacity() * place + values
            }
        }
    }

    fn scripts() -> Vec<Vec<u8>> {
        let multisig = |keys: u8| {
            let key = [&[33, 2][..], &[7; 32]].concat();
            [vec![0x51], key.repeat(usize::from(keys)), vec![0x50 + keys, 0xae]].concat()
        };
        vec![
            Vec::new(),
            vec![0x6a],
            vec![0xaf; 1000],
            [vec![0x76, 0xa9, 20], vec![1; 20], vec![0x88, 0xac]].concat(),
            [vec![0x51, 32], vec![1; 32]].concat(),
            [vec![0x00, 20], vec![1; 20]].concat(),
            [vec![0x4d, 0x08, 0x02], vec![1; 520]].concat(),
            [1, 0x81].repeat(300),
            multisig(3),
            vec![0x4e, 1, 0, 0, 0],
            vec![0x02, 1],
        ]
    }

    fn input(script_sig: Vec<u8>, witness: Vec<Vec<u8>>) -> TxIn {
        let prevout = OutPoint { txid: Txid::from_bytes([9; 32]), vout: u32::MAX - 1 };
        TxIn { prevout, script_sig, sequence: u32::MAX, witness }
    }

    /// Of blocks full of what takes most, with their bytes and what these decode to.
    #[test]
    fn what_a_block_may_have_most_of_is_within_what_a_call_may_take() {
        const MAX_WEIGHT: usize = 4_000_000;
        let with_bytes = |cost: usize, bytes: usize| cost + (HEX + DECODED) * bytes;
        let item = |bytes: usize| (with_bytes(witness_item(&vec![0; bytes]), 1 + bytes), 1 + bytes);
        let bare = |cost: usize, bytes: usize| (with_bytes(cost, bytes), 4 * bytes);
        let fullest = [
            item(0),
            item(1),
            item(2),
            bare(INPUT + PREVOUT, 41),
            bare(OUTPUT, 9),
            bare(OUTPUT + locking(&[0xaf; 300]), 309),
            bare(TRANSACTION + INPUT + PREVOUT + OUTPUT, 60),
        ];
        for (cost, weight) in fullest {
            let all = MAX_WEIGHT / weight * cost;
            assert!(all < CALL_BYTES - (1 << 20), "{all} bytes: {cost} for each {weight}");
        }
    }

    #[test]
    fn it_covers_what_is_told_of_all_kinds_of_transactions() {
        let value = 2_099_999_999_999_999;
        let mut all = Vec::new();
        for script in scripts() {
            for count in [1, 3, 100] {
                let outputs = vec![TxOut { value, script_pubkey: script.clone() }; count];
                all.push((vec![input(Vec::new(), Vec::new())], outputs));
                let inputs = vec![input(script.clone(), vec![script.clone(), Vec::new()]); count];
                all.push((inputs, vec![TxOut { value, script_pubkey: Vec::new() }]));
            }
        }
        for item in [Vec::new(), vec![7], vec![7; 2]] {
            all.push((vec![input(Vec::new(), vec![item; 5000])], Vec::new()));
        }
        for (inputs, outputs) in all {
            let spent: Vec<Coin> = inputs
                .iter()
                .map(|input| Coin {
                    value,
                    script_pubkey: input.script_sig.as_slice().into(),
                    height: 800_000,
                    coinbase: false,
                })
                .collect();
            let tx = Transaction { version: u32::MAX, inputs, outputs, lock_time: u32::MAX };
            let mut bytes: DataStream = DataStream::new();
            tx.encode(&mut bytes);
            let view = TxView::parse(bytes.as_slice()).expect("a transaction");
            for detail in [Detail::Fee, Detail::Prevouts] {
                let json = told(view, Network::Regtest, Some(&spent), detail, true);
                let taken = size_of::<Json>() + memory(&json) + json.written_len();
                let are_told = detail == Detail::Prevouts;
                let cost = transaction(view, if are_told { &spent } else { &[] });
                assert!(taken <= cost, "{taken} > {cost}: {detail:?} {tx:?}");
                assert!(cost < 5 * taken, "{cost} is far more than {taken}: {detail:?} {tx:?}");
            }
        }
    }
}
