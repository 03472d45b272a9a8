//! Core's checks of the transactions in a block that is to be mined (`validation.cpp`, `TestBlockValidity`):
//! the rules for each by itself, its lock time and the coins that it spends.

use std::collections::HashMap;

use godwit_consensus::{RejectReason, TxFacts, check_transaction, check_tx_inputs, is_final};
use godwit_primitives::coin::is_unspendable;
use godwit_primitives::{Coin, CoinView, OutPoint, TxView};

use crate::judge::input_details;
use crate::refusal::Refusal;

/// Whether these transactions can be in a block at a height, in this order, behind its coinbase. `coins` are
/// those of the block before that they may spend; afterwards those that there are behind them. `overwrites`:
/// one of their outputs is among the coins of the block before, where BIP30 forbids that. `lock_time_cutoff`
/// is what lock times are compared with. Relative lock times, numbers of signature operations and scripts are
/// not looked at.
///
/// # Errors
///
/// The first rule that is broken, in Core's order, and what Core adds.
pub fn check_in_block(
    txs: &[TxView<'_>],
    coins: &mut HashMap<OutPoint, Coin>,
    overwrites: bool,
    height: u32,
    lock_time_cutoff: u32,
) -> Result<(), Refusal> {
    if txs.iter().any(TxView::is_coinbase) {
        let details = "more than one coinbase".to_owned();
        return Err(Refusal::Rule(RejectReason::BadCbMultiple, details));
    }
    for tx in txs {
        check_transaction(*tx).map_err(|reject| {
            // Core leaves room for what it would add here.
            let details = format!("Transaction check failed (tx hash {}) ", tx.txid());
            Refusal::Rule(reject.reason, details)
        })?;
    }
    if !txs.iter().all(|tx| is_final(*tx, height, lock_time_cutoff)) {
        let details = "non-final transaction".to_owned();
        return Err(Refusal::Rule(RejectReason::TxnsNonfinal, details));
    }
    // Of all transactions, before the first of them spends anything.
    if overwrites {
        let details = "tried to overwrite transaction".to_owned();
        return Err(Refusal::Rule(RejectReason::Bip30, details));
    }
    txs.iter().try_for_each(|tx| apply(*tx, coins, height))
}

/// Takes what the transaction spends from the coins, and adds what it creates.
fn apply(tx: TxView<'_>, coins: &mut HashMap<OutPoint, Coin>, height: u32) -> Result<(), Refusal> {
    let spent: Vec<Coin> = tx.inputs().map_while(|input| coins.remove(&input.prevout)).collect();
    let views: Vec<CoinView<'_>> = spent.iter().map(CoinView::from).collect();
    check_tx_inputs(tx, &TxFacts::of(tx), &views, height).map_err(|reject| {
        let details = match reject.reason {
            RejectReason::InputsMissingOrSpent => "CheckTxInputs: inputs missing/spent".to_owned(),
            _ => input_details(reject, tx, &spent, height),
        };
        Refusal::Rule(reject.reason, format!("{details} in transaction {}", tx.txid()))
    })?;
    let txid = tx.txid();
    for (vout, output) in (0..).zip(tx.outputs()) {
        if !is_unspendable(output.script_pubkey) {
            let script_pubkey = output.script_pubkey.into();
            let coin = Coin { value: output.value, script_pubkey, height, coinbase: false };
            coins.insert(OutPoint { txid, vout }, coin);
        }
    }
    Ok(())
}
