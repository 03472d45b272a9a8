//! Outputs that are worth less than spending them costs (Core `policy.cpp`, `GetDustThreshold`, and
//! `ephemeral_policy.cpp`).

use godwit_primitives::coin::is_unspendable;
use godwit_primitives::{OutPoint, OutputView, TxView, Txid};

use crate::FeeRate;
use crate::pool::Pool;
use crate::refusal::Refusal;

/// Core `DUST_RELAY_TX_FEE`.
const DUST_FEE: FeeRate = FeeRate::per_kvb(3000);

/// Bytes of an input that spends an output, and the same where its script is a witness program.
const SPENDING: u64 = 32 + 4 + 1 + 107 + 4;
const SPENDING_WITNESS: u64 = 32 + 4 + 1 + 107 / 4 + 4;

fn is_witness_program(script: &[u8]) -> bool {
    let [version, size, ref program @ ..] = *script else { return false };
    (version == 0 || (0x51..=0x60).contains(&version))
        && (2..=40).contains(&program.len())
        && usize::from(size) == program.len()
}

fn is_dust(output: &OutputView<'_>) -> bool {
    let script = output.script_pubkey;
    if is_unspendable(script) {
        return false;
    }
    let prefix = if script.len() < 0xfd { 1 } else { 3 };
    let own = 8 + prefix + script.len() as u64;
    let spending = if is_witness_program(script) { SPENDING_WITNESS } else { SPENDING };
    output.value < DUST_FEE.fee_of(own + spending)
}

/// The numbers of the outputs of `tx` that are dust.
fn dust_of(tx: TxView<'_>) -> impl Iterator<Item = u32> {
    (0..).zip(tx.outputs()).filter(|(_, output)| is_dust(output)).map(|(n, _)| n)
}

/// Only a transaction without a fee has an output of dust: it is not mined alone.
pub(crate) fn dust_pays_no_fee(tx: TxView<'_>, fee: i64) -> Result<(), Refusal> {
    match fee != 0 && dust_of(tx).next().is_some() {
        true => Err(Refusal::Dust),
        false => Ok(()),
    }
}

/// Whoever spends an output of an unconfirmed transaction spends its dust.
pub(crate) fn spends_parents_dust(tx: TxView<'_>, pool: &Pool<'_>) -> Result<(), Refusal> {
    let mut parents: Vec<Txid> = tx.inputs().map(|input| input.prevout.txid).collect();
    parents.sort_unstable();
    parents.dedup();
    for txid in parents {
        let Some(parent) = pool.get(&txid) else { continue };
        for vout in dust_of(parent.tx) {
            let dust = OutPoint { txid, vout };
            if tx.inputs().all(|input| input.prevout != dust) {
                return Err(Refusal::UnspentDust { txid: tx.txid(), wtxid: tx.wtxid() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dust_is_below_what_core_s_comments_say() {
        let dust = |script: &[u8], value| is_dust(&OutputView { value, script_pubkey: script });
        let p2pkh = [&[0x76, 0xa9, 20][..], &[7; 20], &[0x88, 0xac]].concat();
        let p2wpkh = [&[0, 20][..], &[7; 20]].concat();
        assert!(dust(&p2pkh, 545) && !dust(&p2pkh, 546));
        assert!(dust(&p2wpkh, 293) && !dust(&p2wpkh, 294));
        assert!(!dust(&[0x6a, 1, 2], 0), "nobody spends it");
        assert!(dust(&[0x51, 2, 0x4e, 0x73], 239) && !dust(&[0x51, 2, 0x4e, 0x73], 240));
    }
}
