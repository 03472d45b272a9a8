//! Counting signature operations.
//!
//! Source: Core `script/script.cpp` (`GetSigOpCount`), `consensus/tx_verify.cpp`
//! (`GetTransactionSigOpCost`), `script/interpreter.cpp` (`CountWitnessSigOps`).

use godwit_primitives::{CoinView, Lock, ScriptFlags, TxView, WitnessView};

use crate::limits::{MAX_PUBKEYS_PER_MULTISIG, WITNESS_SCALE_FACTOR};
use crate::script::{
    OP_0, OP_1, OP_16, OP_CHECKMULTISIG, OP_CHECKMULTISIGVERIFY, OP_CHECKSIG, OP_CHECKSIGVERIFY,
    OP_DUP, OP_EQUAL, OP_EQUALVERIFY, OP_HASH160, OP_INVALIDOPCODE, is_pay_to_script_hash,
    last_push, next_op, witness_program,
};
use crate::tx_facts::TxFacts;

/// How the keys of a CHECKMULTISIG are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Multisig {
    /// Always 20: scripts of inputs and outputs.
    Worst,
    /// As many as the number pushed just before says: scripts behind P2SH and P2WSH.
    Pushed,
}

/// Signature operations of `script` up to its end or its first truncated push.
fn count_sigops(mut script: &[u8], multisig: Multisig) -> u64 {
    let mut count = 0;
    let mut last = OP_INVALIDOPCODE;
    while let Ok(Some((opcode, _))) = next_op(&mut script) {
        count += match opcode {
            OP_CHECKSIG | OP_CHECKSIGVERIFY => 1,
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => match last {
                OP_1..=OP_16 if multisig == Multisig::Pushed => u64::from(last - OP_1 + 1),
                _ => MAX_PUBKEYS_PER_MULTISIG,
            },
            _ => 0,
        };
        last = opcode;
    }
    count
}

/// Signature operations in the input and output scripts of `tx` alone; a CHECKMULTISIG counts 20.
pub fn legacy_sigop_count(tx: TxView<'_>) -> u64 {
    let inputs = tx.inputs().map(|input| input_sigops(input.script_sig));
    let outputs = tx.outputs().map(|output| output_sigops(output.script_pubkey));
    inputs.sum::<u64>() + outputs.sum::<u64>()
}

/// Those of one input script.
pub(crate) fn input_sigops(script_sig: &[u8]) -> u64 {
    count_sigops(script_sig, Multisig::Worst)
}

/// Those of one output script. Nearly all are of a few forms, whose count needs no walk.
pub(crate) fn output_sigops(script_pubkey: &[u8]) -> u64 {
    match (script_pubkey.len(), script_pubkey) {
        (25, [OP_DUP, OP_HASH160, 20, .., OP_EQUALVERIFY, OP_CHECKSIG]) => 1,
        (23, [OP_HASH160, 20, .., OP_EQUAL]) => 0,
        (22, [OP_0, 20, ..]) | (34, [OP_0 | OP_1, 32, ..]) => 0,
        _ => count_sigops(script_pubkey, Multisig::Worst),
    }
}

/// The cost of the signature operations of `tx`: 4 for each in its own scripts and in scripts behind
/// P2SH (BIP16), 1 for each behind a version 0 witness program (BIP141). Of a coinbase only its own
/// scripts count. `facts` are its own, `coins` those that the inputs spend, in their order.
pub fn sigop_cost(
    tx: TxView<'_>,
    facts: &TxFacts,
    coins: &[CoinView<'_>],
    flags: ScriptFlags,
) -> u64 {
    let own = u64::from(facts.own_sigops) * WITNESS_SCALE_FACTOR;
    if !flags.contains(ScriptFlags::P2SH) || tx.is_coinbase() {
        return own;
    }
    let witness_counts = flags.contains(ScriptFlags::WITNESS);
    let hidden = |coin: &CoinView<'_>| match coin.lock {
        Lock::Key => Some(0),
        Lock::ScriptHash => None,
        Lock::Script(script) if is_pay_to_script_hash(script) => None,
        Lock::Script(script) if witness_counts => program_sigops(script),
        Lock::Script(_) => Some(0),
    };
    // Of most transactions the coins alone say how many there are.
    match coins.iter().map(hidden).sum::<Option<u64>>() {
        Some(hidden) => own + hidden,
        None => own + hidden_sigop_cost(tx, coins, witness_counts),
    }
}

/// As [`sigop_cost`], of the scripts that input scripts and witnesses reveal.
fn hidden_sigop_cost(tx: TxView<'_>, coins: &[CoinView<'_>], witness_counts: bool) -> u64 {
    let mut cost = 0;
    for ((input, witness), coin) in tx.inputs().zip(tx.witnesses()).zip(coins) {
        let program = match coin.lock {
            Lock::Key => continue,
            Lock::Script(script) if !is_pay_to_script_hash(script) => script,
            Lock::Script(_) | Lock::ScriptHash => {
                let Some(redeem_script) = last_push(input.script_sig) else { continue };
                cost += count_sigops(redeem_script, Multisig::Pushed) * WITNESS_SCALE_FACTOR;
                redeem_script
            }
        };
        if witness_counts {
            cost += witness_sigops(program, witness);
        }
    }
    cost
}

/// [`witness_sigops`], where they do not depend on the witness.
fn program_sigops(script: &[u8]) -> Option<u64> {
    match witness_program(script) {
        Some((0, program)) if program.len() == 20 => Some(1),
        Some((0, program)) if program.len() == 32 => None,
        _ => Some(0),
    }
}

/// One for P2WPKH, those of the last witness item for P2WSH, none for other versions and lengths.
fn witness_sigops(script: &[u8], witness: WitnessView<'_>) -> u64 {
    program_sigops(script).unwrap_or_else(|| {
        witness.items().last().map_or(0, |script| count_sigops(script, Multisig::Pushed))
    })
}

#[cfg(test)]
mod tests;
