//! Script rules: every row is an output and a block that spends it.

mod legacy;
mod programs;
mod signatures;
pub(super) mod taproot;
mod tapscript;
mod time;

use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxOut, Witness, absolute, transaction,
};

use super::Suite;
use super::asm::{asm, concat, push};
use super::stage::{self, COIN_VALUE, Stage};
use crate::lock::{Coin, Lock};

const FAILED: &str = "block-script-verify-flag-failed";
/// Rows whose outputs are made in the same block.
const FUNDED_TOGETHER: usize = 50;

/// Script signature and witness of an input.
type Proof = (ScriptBuf, Witness);
/// Makes them for input `index` of a transaction that spends the given outputs.
type Prove = Box<dyn Fn(&Transaction, usize, &[TxOut]) -> Proof>;

/// A spend that is valid or not by its scripts alone.
pub(super) struct Row {
    name: String,
    script_pubkey: ScriptBuf,
    prove: Prove,
    valid: bool,
    version: i32,
    lock_time: u32,
    sequence: u32,
    /// Another coin is spent by the input before this one.
    second: bool,
}

impl Row {
    fn new(name: &str, script_pubkey: ScriptBuf, valid: bool, prove: Prove) -> Row {
        Row {
            name: name.to_owned(),
            script_pubkey,
            prove,
            valid,
            version: 2,
            lock_time: 0,
            sequence: u32::MAX,
            second: false,
        }
    }

    /// A row whose proof does not depend on the transaction.
    fn fixed(
        name: &str,
        script_pubkey: ScriptBuf,
        script_sig: ScriptBuf,
        items: &[Vec<u8>],
        valid: bool,
    ) -> Row {
        let witness = Witness::from_slice(items);
        let prove = Box::new(move |_: &Transaction, _: usize, _: &[TxOut]| {
            (script_sig.clone(), witness.clone())
        });
        Row::new(name, script_pubkey, valid, prove)
    }

    /// Output script and script signature in the notation of [`asm`].
    pub(super) fn plain(name: &str, script_pubkey: &str, script_sig: &str, valid: bool) -> Row {
        Row::fixed(name, asm(script_pubkey), asm(script_sig), &[], valid)
    }

    /// A P2SH output of `redeem`, spent with it behind the pushes of `before`.
    fn p2sh(name: &str, redeem: &ScriptBuf, before: &str, valid: bool) -> Row {
        let script_sig = concat(&[&asm(before), &push(redeem.as_bytes())]);
        Row::fixed(name, redeem.to_p2sh(), script_sig, &[], valid)
    }

    /// A P2WSH output of `script`, spent with it behind `items`.
    fn p2wsh(name: &str, script: &ScriptBuf, items: &[Vec<u8>], valid: bool) -> Row {
        let items = [items, &[script.to_bytes()]].concat();
        Row::fixed(name, script.to_p2wsh(), ScriptBuf::new(), &items, valid)
    }

    fn transaction(&self, coins: &[Coin], output: TxOut) -> Transaction {
        let mut tx = stage::unsigned(coins, vec![output]);
        tx.version = transaction::Version(self.version);
        tx.lock_time = absolute::LockTime::from_consensus(self.lock_time);
        let index = coins.len() - 1;
        tx.input[index].sequence = Sequence(self.sequence);
        let prevouts: Vec<TxOut> = coins.iter().map(Coin::tx_out).collect();
        let (script_sig, witness) = (self.prove)(&tx, index, &prevouts);
        tx.input[index].script_sig = script_sig;
        tx.input[index].witness = witness;
        tx
    }
}

pub(super) fn suites(stage: &Stage) -> Vec<Suite> {
    type Table = (&'static str, fn() -> Vec<Row>);
    let tables: [Table; 6] = [
        ("scripts", legacy::rows),
        ("programs", programs::rows),
        ("signatures", signatures::rows),
        ("taproot", taproot::rows),
        ("tapscript", tapscript::rows),
        ("time locks", time::rows),
    ];
    tables.into_iter().map(|(name, rows)| suite(stage.named(name), rows())).collect()
}

fn suite(mut stage: Stage, rows: Vec<Row>) -> Suite {
    let txs = spends(&mut stage, &rows);
    // Relative locks of the rows count from the blocks just made.
    stage.mine_empty(10);
    for (row, tx) in rows.iter().zip(txs) {
        let block = stage.sealed(vec![tx]);
        stage.judge(&row.name, &block, (!row.valid).then_some(FAILED));
    }
    stage.into_suite()
}

/// Makes the outputs of the rows in blocks of their own; returns the transactions that spend them.
pub(super) fn spends(stage: &mut Stage, rows: &[Row]) -> Vec<Transaction> {
    let mut coins = Vec::new();
    for chunk in rows.chunks(FUNDED_TOGETHER) {
        let scripts = chunk.iter().map(|row| row.script_pubkey.clone()).collect();
        coins.extend(coins_of(stage, scripts));
    }
    rows.iter()
        .zip(coins)
        .map(|(row, coin)| {
            let spent = if row.second { vec![stage.bare(), coin] } else { vec![coin] };
            let output = stage.output(COIN_VALUE, Lock::Bare);
            row.transaction(&spent, output)
        })
        .collect()
}

/// A signature that only BIP66 forbids.
pub(super) fn padded_signature() -> Row {
    signatures::padded()
}

/// A segwit v0 program spent as if segwit did not exist.
pub(super) fn program_without_witness() -> Row {
    Row::fixed("no witness", asm("1").to_p2wsh(), ScriptBuf::new(), &[], false)
}

/// One coin for each script, made in one block.
fn coins_of(stage: &mut Stage, scripts: Vec<ScriptBuf>) -> Vec<Coin> {
    let source: Vec<Coin> = scripts.iter().map(|_| stage.bare()).collect();
    let value = Amount::from_sat(COIN_VALUE);
    let outputs =
        scripts.iter().cloned().map(|script_pubkey| TxOut { value, script_pubkey }).collect();
    let tx = stage::unsigned(&source, outputs);
    let (txid, height) = (tx.compute_txid(), stage.height());
    let block = stage.sealed(vec![tx]);
    stage.extend(&block);
    (0u32..)
        .zip(scripts)
        .map(|(vout, script_pubkey)| Coin {
            outpoint: OutPoint { txid, vout },
            value: COIN_VALUE,
            height,
            lock: Lock::Bare,
            key: 0,
            script_pubkey,
            revealed: ScriptBuf::new(),
        })
        .collect()
}
