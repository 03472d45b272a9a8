//! Rules for a block over the coins that it spends.
//!
//! Source: Core `validation.cpp` (`ConnectBlock`, `GetBlockScriptFlags`, `GetBlockSubsidy`,
//! `IsBIP30Repeat`, `IsBIP30Unspendable`).
//!
//! Core's order, which decides the reason of a block that breaks several rules:
//!
//! 1. where [`enforces_bip30`] holds, no output of the block exists already
//!    ([`RejectReason::Bip30`]);
//! 2. for each transaction in turn: [`check_tx_inputs`](crate::check_tx_inputs), [`add_fee`],
//!    [`sequence_locks_met`](crate::sequence_locks_met) from BIP68's height on, all but for the
//!    coinbase; then [`sigop_cost`](crate::sigop_cost) and [`sigop_cost_within_limit`];
//! 3. [`check_coinbase_amount`];
//! 4. the scripts under [`script_flags`] ([`RejectReason::BlockScriptVerifyFlagFailed`]), unless
//!    [`script_check_reason`](crate::script_check_reason) says that they need not run.

use godwit_primitives::network::{Deployment, Params};
use godwit_primitives::{Amount, BlockHash, COIN, ScriptFlags, money_range};

use crate::limits::{BIP34_IMPLIES_BIP30_LIMIT, MAX_BLOCK_SIGOPS_COST};
use crate::reject::{Reject, RejectReason, ensure};
use crate::tx_facts::TxFacts;

/// What a block's miner may create: 50 bitcoin, halved every
/// [`subsidy_halving_interval`](Params::subsidy_halving_interval) blocks, in whole satoshi; nothing
/// after 63 halvings.
pub fn block_subsidy(height: u32, params: &Params) -> Amount {
    let halvings = height / params.subsidy_halving_interval;
    (50 * COIN).checked_shr(halvings).unwrap_or(0)
}

/// The flags under which the scripts of the block at `height` run. P2SH, segwit and taproot hold in
/// every block but the network's exceptions, since no other block breaks them; BIP66, BIP65, BIP112
/// and BIP147 hold from their heights on.
pub fn script_flags(height: u32, hash: &BlockHash, params: &Params) -> ScriptFlags {
    let exception = params.script_flag_exceptions.iter().find(|(block, _)| block == hash);
    let base = exception
        .map_or(ScriptFlags::P2SH | ScriptFlags::WITNESS | ScriptFlags::TAPROOT, |(_, flags)| {
            *flags
        });
    [
        (Deployment::Dersig, ScriptFlags::DERSIG),
        (Deployment::Cltv, ScriptFlags::CHECKLOCKTIMEVERIFY),
        (Deployment::Csv, ScriptFlags::CHECKSEQUENCEVERIFY),
        (Deployment::Segwit, ScriptFlags::NULLDUMMY),
    ]
    .into_iter()
    .filter(|(deployment, _)| params.is_active(*deployment, height))
    .fold(base, |flags, (_, flag)| flags | flag)
}

/// A hash whose digits are in the order in which Core prints them.
const fn hash(words: [u64; 4]) -> BlockHash {
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = (words[3 - i / 8] >> (8 * (i % 8))) as u8;
        i += 1;
    }
    BlockHash::from_bytes(bytes)
}

/// The two blocks whose coinbases repeat the ones of [`BIP30_UNSPENDABLE`].
const BIP30_REPEATS: [(u32, BlockHash); 2] = [
    (
        91_842,
        hash([0x00000000000a4d0a, 0x398161ffc163c503, 0x763b1f4360639393, 0xe0e4c8e300e0caec]),
    ),
    (
        91_880,
        hash([0x00000000000743f1, 0x90a18c5577a3c2d2, 0xa1f610ae9601ac04, 0x6a38084ccb7cd721]),
    ),
];

/// The two blocks whose coinbases were overwritten before they were spent.
const BIP30_UNSPENDABLE: [(u32, BlockHash); 2] = [
    (
        91_722,
        hash([0x00000000000271a2, 0xdc26e7667f8419f2, 0xe15416dc6955e5a6, 0xc6cdf3f2574dd08e]),
    ),
    (
        91_812,
        hash([0x00000000000af0ae, 0xd4792b1acee3d966, 0xaf36cf5def14935d, 0xb8de83d6f9306f2f]),
    ),
];

/// Whether the block is one of the two whose coinbase may overwrite an older one.
pub fn is_bip30_repeat(height: u32, hash: &BlockHash) -> bool {
    BIP30_REPEATS.contains(&(height, *hash))
}

/// Whether the block is one of the two whose coinbase another one overwrote.
pub fn is_bip30_unspendable(height: u32, hash: &BlockHash) -> bool {
    BIP30_UNSPENDABLE.contains(&(height, *hash))
}

/// BIP30: no transaction of a block has the txid of one that still has unspent outputs
/// (`bad-txns-BIP30`). This says whether it has to be looked up.
///
/// It holds by itself on a chain that contains the network's BIP34 block, above it and below height
/// 1,983,702, the first at which an early coinbase could be repeated; and it is waived for two
/// blocks. `ancestor(h)` is the block at height `h` below this block, asked for the BIP34 height.
pub fn enforces_bip30(
    height: u32,
    hash: &BlockHash,
    ancestor: &dyn Fn(u32) -> BlockHash,
    params: &Params,
) -> bool {
    let implied_by_bip34 = height > params.bip34_height
        && params.bip34_hash.is_some_and(|bip34| ancestor(params.bip34_height) == bip34);
    height >= BIP34_IMPLIES_BIP30_LIMIT || !(is_bip30_repeat(height, hash) || implied_by_bip34)
}

/// The fees of a block are within the money limit (`bad-txns-accumulated-fee-outofrange`). `fees` are
/// those of the transactions before, `fee` is what [`check_tx_inputs`](crate::check_tx_inputs) gave;
/// their sum.
pub fn add_fee(fees: Amount, fee: Amount) -> Result<Amount, Reject> {
    // Both are at most the money limit, twice which fits.
    let sum = fees + fee;
    ensure(money_range(sum), RejectReason::AccumulatedFeeOutOfRange)?;
    Ok(sum)
}

/// BIP141: the signature operations of a block cost at most 80,000 (`bad-blk-sigops`). `cost` is that
/// of the block's transactions up to and including the one just counted.
pub fn sigop_cost_within_limit(cost: u64) -> Result<(), Reject> {
    ensure(cost <= MAX_BLOCK_SIGOPS_COST, RejectReason::BadBlkSigops)
}

/// A coinbase creates at most the subsidy and the fees of its block (`bad-cb-amount`).
pub fn check_coinbase_amount(
    coinbase: &TxFacts,
    fees: Amount,
    height: u32,
    params: &Params,
) -> Result<(), Reject> {
    let limit = fees + block_subsidy(height, params);
    ensure(coinbase.value_out <= limit, RejectReason::BadCbAmount)
}

#[cfg(test)]
mod tests;
