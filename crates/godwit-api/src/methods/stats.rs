//! `getblockstats`.

use std::collections::BTreeSet;

use godwit_consensus::connect;
use godwit_primitives::MAX_MONEY;
use godwit_rpc::{Json, RpcError, code};
use godwit_store::BlockUndo;

use super::headers::HeaderFacts;
use super::named::Named;
use super::{Call, cost, source, stored};
use crate::script::is_unspendable;

/// What an unspent output takes beside its value and script: its outpoint, height and whether it is of a
/// coinbase.
const PER_OUTPUT: usize = 40;

/// The largest block (Core `MAX_BLOCK_SERIALIZED_SIZE`).
const MAX_BLOCK_SIZE: i64 = 4_000_000;

fn output_size(script: usize) -> i64 {
    let prefix = match script {
        0..=252 => 1,
        253..=0xffff => 3,
        _ => 5,
    };
    (8 + prefix + script + PER_OUTPUT) as i64
}

fn median(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    match values.len() {
        0 => 0,
        len if len % 2 == 0 => (values[len / 2 - 1] + values[len / 2]) / 2,
        len => values[len / 2],
    }
}

/// Fee rates at the 10th, 25th, 50th, 75th and 90th percentile of weight.
fn percentiles(rates: &mut [(i64, i64)], total_weight: i64) -> [i64; 5] {
    let mut found = [0; 5];
    let Some(last) = rates.iter().max().map(|(rate, _)| *rate) else { return found };
    rates.sort_unstable();
    let total = total_weight as f64;
    let bounds = [total / 10.0, total / 4.0, total / 2.0, total * 3.0 / 4.0, total * 9.0 / 10.0];
    let (mut next, mut weight) = (0, 0);
    for (rate, own) in rates.iter() {
        weight += own;
        while next < bounds.len() && weight as f64 >= bounds[next] {
            found[next] = *rate;
            next += 1;
        }
    }
    found[next..].fill(last);
    found
}

/// The statistics that are wanted, each once; none for all.
fn selected(names: &Json) -> Result<BTreeSet<String>, RpcError> {
    let names = if names.is_null() { &[] } else { names.as_list()? };
    names.iter().map(|name| name.as_text().map(str::to_owned)).collect()
}

pub(super) fn block_stats(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let named = Named::parse(call.arg(0))?;
    let (facts, source) = call.node.ask(move |node| {
        let chain = node.chain();
        let id = named.find(chain)?;
        Ok((HeaderFacts::of(chain, id), source(chain, id)))
    })??;
    let selected = selected(call.arg(1))?;
    let source = source?;
    call.room.grow(source.size() * cost::DECODED + source.undo_size() * cost::OF_RECORD)?;
    let undo = match facts.height {
        0 => BlockUndo::default(),
        _ => stored::undo(&source)
            .map_err(|_| RpcError::new(code::MISC_ERROR, "Can't read undo data from disk"))?
            .ok_or_else(|| RpcError::new(code::MISC_ERROR, "Undo data not available"))?,
    };
    let block = stored::decoded(call.read(&source)?)?;
    let subsidy = connect::block_subsidy(facts.height, call.node.params());
    let all = statistics(&facts, &block, &undo, subsidy);
    if selected.is_empty() {
        return Ok(all);
    }
    let mut json = Json::Object(Vec::new());
    for name in selected {
        let Some(value) = all.get(&name) else {
            let text = format!("Invalid selected statistic '{name}'");
            return Err(RpcError::new(code::INVALID_PARAMETER, text));
        };
        json.push(name, value.clone());
    }
    Ok(json)
}

/// Sums over the transactions of a block.
#[derive(Default)]
struct Sums {
    inputs: i64,
    outputs: i64,
    total_out: i64,
    total_size: i64,
    total_weight: i64,
    segwit: Segwit,
    unspent: Unspent,
    sizes: Vec<i64>,
    fees: Vec<i64>,
    rates: Vec<(i64, i64)>,
}

/// Of transactions with witness.
#[derive(Default)]
struct Segwit {
    count: i64,
    size: i64,
    weight: i64,
}

/// What the block adds to the unspent outputs.
#[derive(Default)]
struct Unspent {
    size: i64,
    /// Of those that can be spent.
    count: i64,
    spendable_size: i64,
}

fn sums(facts: &HeaderFacts, block: &godwit_primitives::Block, undo: &BlockUndo) -> Sums {
    let mut sums = Sums::default();
    let mut spent = undo.transactions();
    let repeated = connect::is_bip30_repeat(facts.height, &facts.hash);
    for (n, tx) in block.view().txs().enumerate() {
        let mut out = 0;
        for output in tx.outputs() {
            sums.outputs += 1;
            out += output.value;
            let size = output_size(output.script_pubkey.len());
            sums.unspent.size += size;
            // Of genesis, and of the coinbases that are there twice, nothing is in the set.
            let is_kept = facts.height > 0 && !(repeated && n == 0);
            if is_kept && !is_unspendable(output.script_pubkey) {
                sums.unspent.count += 1;
                sums.unspent.spendable_size += size;
            }
        }
        if n == 0 {
            continue;
        }
        let (size, weight) = (tx.total_size() as i64, tx.weight() as i64);
        sums.inputs += tx.input_count() as i64;
        sums.total_out += out;
        sums.total_size += size;
        sums.total_weight += weight;
        sums.sizes.push(size);
        if tx.has_witness() {
            sums.segwit.count += 1;
            sums.segwit.size += size;
            sums.segwit.weight += weight;
        }
        let mut paid = 0;
        for coin in spent.next().unwrap_or_default() {
            paid += coin.value;
            let size = output_size(coin.script_pubkey.len());
            sums.unspent.size -= size;
            sums.unspent.spendable_size -= size;
        }
        sums.fees.push(paid - out);
        let rate = if weight > 0 { (paid - out) * 4 / weight } else { 0 };
        sums.rates.push((rate, weight));
    }
    sums
}

fn statistics(
    facts: &HeaderFacts,
    block: &godwit_primitives::Block,
    undo: &BlockUndo,
    subsidy: i64,
) -> Json {
    let mut sums = sums(facts, block, undo);
    let others = block.view().tx_count() as i64 - 1;
    let average = |sum: i64| if others > 0 { sum / others } else { 0 };
    let total_fee: i64 = sums.fees.iter().sum();
    let rates = || sums.rates.iter().map(|(rate, _)| *rate);
    let least = |values: &mut dyn Iterator<Item = i64>, none: i64| {
        values.min().filter(|least| *least != none).unwrap_or(0)
    };
    let (max_fee, max_rate) = (sums.fees.iter().max().copied(), rates().max());
    let min_fee = least(&mut sums.fees.iter().copied(), MAX_MONEY);
    let min_rate = least(&mut rates(), MAX_MONEY);
    let (max_size, min_size) =
        (sums.sizes.iter().max().copied(), least(&mut sums.sizes.iter().copied(), MAX_BLOCK_SIZE));
    let average_rate = if sums.total_weight > 0 { total_fee * 4 / sums.total_weight } else { 0 };
    Json::object([
        ("avgfee", average(total_fee).into()),
        ("avgfeerate", average_rate.into()),
        ("avgtxsize", average(sums.total_size).into()),
        ("blockhash", facts.hash.to_string().into()),
        (
            "feerate_percentiles",
            percentiles(&mut sums.rates, sums.total_weight).into_iter().collect(),
        ),
        ("height", facts.height.into()),
        ("ins", sums.inputs.into()),
        ("maxfee", max_fee.unwrap_or(0).max(0).into()),
        ("maxfeerate", max_rate.unwrap_or(0).max(0).into()),
        ("maxtxsize", max_size.unwrap_or(0).into()),
        ("medianfee", median(&mut sums.fees).into()),
        ("mediantime", facts.median_time().into()),
        ("mediantxsize", median(&mut sums.sizes).into()),
        ("minfee", min_fee.into()),
        ("minfeerate", min_rate.into()),
        ("mintxsize", min_size.into()),
        ("outs", sums.outputs.into()),
        ("subsidy", subsidy.into()),
        ("swtotal_size", sums.segwit.size.into()),
        ("swtotal_weight", sums.segwit.weight.into()),
        ("swtxs", sums.segwit.count.into()),
        ("time", facts.header.time.into()),
        ("total_out", sums.total_out.into()),
        ("total_size", sums.total_size.into()),
        ("total_weight", sums.total_weight.into()),
        ("totalfee", total_fee.into()),
        ("txs", (others + 1).into()),
        ("utxo_increase", (sums.outputs - sums.inputs).into()),
        ("utxo_size_inc", sums.unspent.size.into()),
        ("utxo_increase_actual", (sums.unspent.count - sums.inputs).into()),
        ("utxo_size_inc_actual", sums.unspent.spendable_size.into()),
    ])
}
