//! Sends transactions: they are judged on the method's thread, and kept in the outbox.
//!
//! A transaction is judged against the state of one moment: the node takes it only if the tip and the outbox
//! are still the same, and otherwise it is judged again.

pub(super) mod amount;
mod ground;
mod packages;

use std::collections::BTreeSet;

use godwit_p2p::OutboxTx;
use godwit_policy::{
    Class, FeeRate, Judged, MAX_PACKAGE, Pay, Refusal, Terms, judge, judge_package,
};
use godwit_primitives::coin::is_unspendable;
use godwit_primitives::{COIN, TxView, Txid};
use godwit_rpc::{Json, RpcError, code};

use super::transaction::{TxForm, has_valid_operations, parse_transaction};
use super::{Call, parse};
use crate::seam::{JudgedTxs, SendRefusal};
use amount::amount;
use ground::Ground;

pub(super) use ground::outbox_with_coins;
pub(super) use packages::submit;

/// How often a transaction is judged while tip or outbox move.
const ATTEMPTS: usize = 10;

/// Core `DEFAULT_MAX_RAW_TX_FEE_RATE`.
const MAX_FEE_RATE: i64 = COIN / 10;

/// The argument `maxfeerate` (Core `ParseFeeRate`).
fn max_rate(value: &Json) -> Result<FeeRate, RpcError> {
    let rate = if value.is_null() { MAX_FEE_RATE } else { amount(value)? };
    if rate >= COIN {
        let text = "Fee rates larger than or equal to 1BTC/kvB are not accepted";
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    Ok(FeeRate::per_kvb(rate))
}

/// The argument `maxburnamount`.
fn max_burn(value: &Json) -> Result<i64, RpcError> {
    if value.is_null() { Ok(0) } else { amount(value) }
}

/// Fails where an output that nobody can spend has more than `most`.
fn check_burn(tx: TxView<'_>, most: i64) -> Result<(), RpcError> {
    let burns = tx.outputs().any(|output| {
        let script = output.script_pubkey;
        (is_unspendable(script) || !has_valid_operations(script)) && output.value > most
    });
    if burns {
        let text = "Unspendable output exceeds maximum configured by user (maxburnamount)";
        return Err(RpcError::new(code::VERIFY_ERROR, text));
    }
    Ok(())
}

/// As many transactions as may be handed in together.
fn package<'a>(call: &Call<'a>) -> Result<&'a [Json], RpcError> {
    let list = call.args.first().unwrap_or(&Json::Null).as_list()?;
    if list.is_empty() || list.len() > MAX_PACKAGE {
        let text = format!("Array must contain between 1 and {MAX_PACKAGE} transactions.");
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    Ok(list)
}

/// The transactions of an argument, in bytes. Nothing unspendable may have more than `most_burnt`.
fn transactions(list: &[Json], most_burnt: Option<i64>) -> Result<Vec<Vec<u8>>, RpcError> {
    let decoded = |item: &Json| {
        let text = item.as_text()?;
        let bytes = parse::hex(text);
        let Some(tx) = bytes.as_deref().and_then(decode) else {
            let text = format!("TX decode failed: {text} Make sure the tx has at least one input.");
            return Err(RpcError::new(code::DESERIALIZATION_ERROR, text));
        };
        if let Some(most) = most_burnt {
            check_burn(tx, most)?;
        }
        Ok(bytes.unwrap_or_default())
    };
    list.iter().map(decoded).collect()
}

fn decode(bytes: &[u8]) -> Option<TxView<'_>> {
    parse_transaction(bytes, TxForm::Extended)
}

fn views(all: &[Vec<u8>]) -> Vec<TxView<'_>> {
    all.iter().map(|bytes| decode(bytes).expect("it was decoded")).collect()
}

/// What `sendrawtransaction` says of a refusal.
fn rejected(refusal: &Refusal) -> RpcError {
    let code = match refusal.class() {
        Class::MissingInputs => code::VERIFY_ERROR,
        Class::Reconsiderable | Class::Final => code::VERIFY_REJECTED,
    };
    RpcError::new(code, refusal.to_string())
}

fn moved() -> RpcError {
    let text = "Blocks arrive faster than the transaction can be checked; send it again";
    RpcError::new(code::MISC_ERROR, text)
}

/// Puts transactions into the outbox in place of `leaving`, if `ground` is still the ground.
fn put(
    call: &Call<'_>,
    ground: &Ground,
    judged: &[&Judged<'_>],
    leaving: BTreeSet<Txid>,
) -> Result<Result<(), SendRefusal>, RpcError> {
    let kept = |judged: &&Judged<'_>| {
        let tx = &judged.tx;
        let mut kept = OutboxTx::new(tx.tx, tx.fee, tx.vsize, 0, ground.tip.height);
        kept.weight = tx.weight;
        kept
    };
    let mut txs: Vec<OutboxTx> = judged.iter().map(kept).collect();
    let replaced = leaving.into_iter().collect();
    let (tip, outbox) = (ground.tip.hash, ground.version);
    call.node.ask(move |node| {
        let now = node.now().unix;
        txs.iter_mut().for_each(|tx| tx.time = now);
        node.send_transactions(JudgedTxs { tip, outbox, txs, replaced })
    })
}

pub(super) fn send(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let most_burnt = max_burn(call.arg(2))?;
    let failed = || {
        let text = "TX decode failed. Make sure the tx has at least one input.";
        RpcError::new(code::DESERIALIZATION_ERROR, text)
    };
    let bytes = parse::hex(call.arg(0).as_text()?).ok_or_else(failed)?;
    let tx = decode(&bytes).ok_or_else(failed)?;
    check_burn(tx, most_burnt)?;
    let most = max_rate(call.arg(1))?.fee_of((tx.weight() as u64).div_ceil(4));
    let txid = tx.txid();
    for _ in 0..ATTEMPTS {
        let ground = Ground::of(call, &[tx])?;
        if ground.has_outputs_of(tx) {
            let text = "Transaction outputs already in utxo set";
            return Err(RpcError::new(code::VERIFY_ALREADY_IN_UTXO_SET, text));
        }
        let pool = ground.pool();
        if pool.get(&txid).is_some() {
            call.node.ask(move |node| node.announce_again(&txid))?;
            return Ok(txid.to_string().into());
        }
        let terms = Terms { replaces: true, max_rate: None };
        let judged = judge(tx, &ground.coins, &pool, &ground.next_block(), terms)
            .map_err(|refusal| rejected(&refusal))?;
        if most > 0 && judged.tx.fee > most {
            let text = "Fee exceeds maximum configured by user (e.g. -maxtxfee, maxfeerate)";
            return Err(RpcError::new(code::VERIFY_ERROR, text));
        }
        match put(call, &ground, &[&judged], judged.replaced.clone())? {
            Ok(()) => return Ok(txid.to_string().into()),
            Err(SendRefusal::Full) => return Err(rejected(&Refusal::Full)),
            Err(SendRefusal::Moved) => {}
        }
    }
    Err(moved())
}

/// The fees of a transaction that is accepted, and what they are for.
fn fees(judged: &Judged<'_>, includes: Vec<String>) -> Json {
    Json::object([
        ("base", Json::amount(judged.tx.fee)),
        ("effective-feerate", Json::amount(judged.rate.rate_per_kvb())),
        ("effective-includes", includes.into_iter().map(Json::from).collect()),
    ])
}

fn refused(json: &mut Json, refusal: &Refusal) {
    json.push("allowed", false);
    match refusal.class() {
        Class::MissingInputs => json.push("reject-reason", "missing-inputs"),
        Class::Reconsiderable | Class::Final => {
            json.push("reject-reason", refusal.reason().to_owned());
            json.push("reject-details", refusal.to_string());
        }
    }
}

pub(super) fn test(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let list = package(call)?;
    let most = max_rate(call.arg(1))?;
    let all = transactions(list, None)?;
    let txs = views(&all);
    let ground = Ground::of(call, &txs)?;
    let (pool, next_block) = (ground.pool(), ground.next_block());
    let terms = Terms { replaces: txs.len() == 1, max_rate: None };
    let (mut whole, mut refusals, mut accepted) = (None, None, Vec::new());
    if let [tx] = txs[..] {
        match judge(tx, &ground.coins, &pool, &next_block, terms) {
            Ok(judged) => accepted.push(judged),
            Err(refusal) => refusals = Some((0, refusal)),
        }
    } else {
        let verdict = judge_package(&txs, &ground.coins, &pool, &next_block, terms, Pay::Alone);
        (whole, refusals, accepted) = (verdict.whole, verdict.refused, verdict.judged);
    }
    let mut ends = false;
    let results = txs.iter().enumerate().map(|(n, tx)| {
        let mut json = Json::object([
            ("txid", tx.txid().to_string().into()),
            ("wtxid", tx.wtxid().to_string().into()),
        ]);
        if let Some(whole) = whole {
            json.push("package-error", whole.reason());
        }
        if let Some((_, refusal)) = refusals.as_ref().filter(|(refused, _)| *refused == n && !ends)
        {
            refused(&mut json, refusal);
        } else if let Some(judged) = accepted.get(n).filter(|_| !ends) {
            let most = most.fee_of(judged.tx.vsize);
            if most > 0 && judged.tx.fee > most {
                json.push("allowed", false);
                json.push("reject-reason", "max-fee-exceeded");
                ends = true;
            } else {
                json.push("allowed", true);
                json.push("vsize", judged.tx.vsize);
                json.push("fees", fees(judged, vec![tx.wtxid().to_string()]));
            }
        }
        json
    });
    Ok(results.collect())
}
