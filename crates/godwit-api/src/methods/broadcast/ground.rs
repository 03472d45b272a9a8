//! The state of one moment against which transactions are judged: coins, times and the outbox.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use godwit_chain::{CoinAtTip, StoredData};
use godwit_consensus::{check_transaction, is_time_locked};
use godwit_p2p::OutboxTx;
use godwit_policy::{NextBlock, Pool, PoolTx};
use godwit_primitives::{Coin, OutPoint, TxView, Txid};
use godwit_rpc::{RpcError, code};
use godwit_store::ChainPoint;

use super::super::output::read;
use super::super::{Call, at_height};
use super::{ATTEMPTS, moved};
use crate::seam::NodeState;

/// Coins that one question asks for: microseconds each.
const COINS_AT_ONCE: usize = 256;

/// Memory of an outpoint and its place, and of a coin beside its script.
const COIN_MEMORY: usize = 256;

/// See the module's documentation.
pub(super) struct Ground {
    pub(super) tip: ChainPoint,
    median_time: u32,
    outbox: Vec<Arc<OutboxTx>>,
    /// Of the outbox.
    pub(super) version: u64,
    /// Those that exist, of what the transactions spend and of their own outputs.
    pub(super) coins: HashMap<OutPoint, Coin>,
    /// Median times past, by height; that of the tip for the others, which the outbox would be above.
    median_time_at: Box<dyn Fn(u32) -> u32>,
}

/// Tip and outbox of a moment.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Moment {
    tip: ChainPoint,
    version: u64,
}

impl Moment {
    fn of(node: &dyn NodeState) -> Self {
        Self { tip: node.chain().tip_point(), version: node.peers().outbox().version() }
    }
}

type Coins = HashMap<OutPoint, Coin>;

/// The outbox, and the coins of the tip that it spends, of one moment. What it spends of itself is no coin,
/// and of a block that was left there is none.
pub(in crate::methods) fn outbox_with_coins(
    call: &mut Call<'_>,
) -> Result<(Vec<Arc<OutboxTx>>, Coins), RpcError> {
    for _ in 0..ATTEMPTS {
        let (moment, outbox) = call.node.ask(|node| {
            let outbox = node.peers().outbox().waiting().cloned().collect::<Vec<_>>();
            (Moment::of(node), outbox)
        })?;
        let own: HashSet<Txid> = outbox.iter().map(|tx| tx.txid).collect();
        let inputs = outbox.iter().flat_map(|tx| tx.view().inputs());
        let outpoints: Vec<OutPoint> = inputs
            .map(|input| input.prevout)
            .filter(|prevout| !own.contains(&prevout.txid))
            .collect();
        let before = call.room.bytes();
        call.room.grow(outpoints.len() * COIN_MEMORY)?;
        if let Some(coins) = coins(call, moment, &outpoints)? {
            return Ok((outbox, coins));
        }
        call.room.shrink_to(before);
    }
    let text = "Blocks arrive faster than what waits for one can be read; ask again";
    Err(RpcError::new(code::MISC_ERROR, text))
}

impl Ground {
    /// That of these transactions. What is no transaction by itself needs none.
    pub(super) fn of(call: &mut Call<'_>, txs: &[TxView<'_>]) -> Result<Self, RpcError> {
        let mut outpoints = Vec::new();
        for tx in txs.iter().filter(|tx| check_transaction(**tx).is_ok()) {
            outpoints.extend(tx.inputs().map(|input| input.prevout));
            let txid = tx.txid();
            outpoints.extend((0..tx.output_count() as u32).map(|vout| OutPoint { txid, vout }));
        }
        outpoints.sort_unstable();
        outpoints.dedup();
        call.room.grow(outpoints.len() * COIN_MEMORY)?;
        for _ in 0..ATTEMPTS {
            if let Some(ground) = Self::of_a_moment(call, txs, &outpoints)? {
                return Ok(ground);
            }
        }
        Err(moved())
    }

    /// `None` where tip or outbox have moved meanwhile.
    fn of_a_moment(
        call: &mut Call<'_>,
        txs: &[TxView<'_>],
        outpoints: &[OutPoint],
    ) -> Result<Option<Self>, RpcError> {
        let (first, median_time, outbox) = call.node.ask(|node| {
            let median_time = node.chain().tree().median_time_past(node.chain().tip());
            let outbox = node.peers().outbox().waiting().cloned().collect::<Vec<_>>();
            (Moment::of(node), median_time, outbox)
        })?;
        let Some(coins) = coins(call, first, outpoints)? else { return Ok(None) };
        let Some(median_times) = median_times(call, first, txs, &coins)? else { return Ok(None) };
        let Moment { tip, version } = first;
        let median_time_at =
            Box::new(move |height: u32| median_times.get(&height).copied().unwrap_or(median_time));
        Ok(Some(Self { tip, median_time, outbox, version, coins, median_time_at }))
    }

    /// Whether outputs of `tx` exist at the tip.
    pub(super) fn has_outputs_of(&self, tx: TxView<'_>) -> bool {
        let txid = tx.txid();
        self.coins.keys().any(|outpoint| outpoint.txid == txid)
    }

    pub(super) fn pool(&self) -> Pool<'_> {
        let mut pool = Pool::default();
        for tx in &self.outbox {
            let OutboxTx { txid, wtxid, fee, vsize, weight, .. } = **tx;
            pool.add(PoolTx { tx: tx.view(), txid, wtxid, fee, vsize, weight });
        }
        pool
    }

    pub(super) fn next_block(&self) -> NextBlock<'_> {
        NextBlock {
            height: self.tip.height + 1,
            median_time: self.median_time,
            median_time_at: &*self.median_time_at,
        }
    }
}

/// Where these coins are, if the moment is still the same.
fn places(
    call: &Call<'_>,
    moment: Moment,
    outpoints: Vec<OutPoint>,
) -> Result<Option<Vec<CoinAtTip>>, RpcError> {
    call.node.ask(move |node| {
        let stored = StoredData::of(node.chain());
        (moment == Moment::of(node))
            .then(|| outpoints.iter().map(|outpoint| stored.coin(outpoint)).collect())
    })
}

/// Those of these coins that exist, if the moment is still the same.
fn coins(
    call: &mut Call<'_>,
    moment: Moment,
    outpoints: &[OutPoint],
) -> Result<Option<HashMap<OutPoint, Coin>>, RpcError> {
    let mut coins = HashMap::new();
    for part in outpoints.chunks(COINS_AT_ONCE) {
        let Some(places) = places(call, moment, part.to_vec())? else { return Ok(None) };
        for (outpoint, place) in part.iter().zip(places) {
            let Some(coin) = read(place)? else { continue };
            call.room.grow(coin.script_pubkey.len())?;
            coins.insert(*outpoint, coin);
        }
    }
    Ok(Some(coins))
}

/// The median times past that locks of the transactions count from, if the moment is still the same. For
/// outputs of the outbox it is that of the tip.
fn median_times(
    call: &Call<'_>,
    moment: Moment,
    txs: &[TxView<'_>],
    coins: &HashMap<OutPoint, Coin>,
) -> Result<Option<HashMap<u32, u32>>, RpcError> {
    let mut heights: Vec<u32> = Vec::new();
    for tx in txs {
        let locked = tx.inputs().filter(|input| is_time_locked(tx.version(), input.sequence));
        let coins = locked.filter_map(|input| coins.get(&input.prevout));
        heights.extend(coins.map(|coin| coin.height.saturating_sub(1)));
    }
    heights.sort_unstable();
    heights.dedup();
    if heights.is_empty() {
        return Ok(Some(HashMap::new()));
    }
    call.node.ask(move |node| {
        let (chain, version) = (node.chain(), node.peers().outbox().version());
        let tip = chain.tip_point();
        let tree = chain.tree();
        let time = |height: u32| (height, tree.median_time_past(at_height(chain, height)));
        (moment == Moment { tip, version }).then(|| heights.into_iter().map(time).collect())
    })
}
