//! `gettxoutsetinfo`, and the view of all coins that long calls read.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use godwit_chain::{ChainError, CoinsHash, CoinsView, VIEW_SORT_BYTES, ViewStats};
use godwit_index::{CoinStats, CoinStatsIndex, Unspendables};
use godwit_primitives::ReversedHex;
use godwit_rpc::{Json, RpcError, code};
use godwit_store::disk::{Disk, RealDisk};
use godwit_store::utxo::MIN_SORT_MEMORY;
use godwit_store::{ChainPoint, StoreError};

use super::indexes::{self, catch_up};
use super::named::Named;
use super::{Call, parse};

/// Between two looks whether another reader has ended.
const TURN_INTERVAL: Duration = Duration::from_millis(50);

/// The part of the answers' memory that coins are sorted in, for minutes.
const SORT_SHARE: usize = 4;

/// Memory of a sort beside that of the coins.
const SORT_BUFFERS: usize = 2 << 20;

/// What has to stay free on the disk beside what a sort needs, and while it goes on.
const SPARE_BYTES: u64 = 64 << 20;

/// Looks whether a sort is to end between two at the disk: it writes about a megabyte between them.
const LOOKS: u32 = 16;

/// The coins of the tip, which the chain goes on from meanwhile; `None` once they are not wanted any more.
pub(super) fn view_unless(
    call: &Call<'_>,
    unwanted: &dyn Fn() -> bool,
) -> Result<Option<CoinsView>, RpcError> {
    let (sender, view) = bounded(1);
    // Dropped with this call: the chain then knows that nobody waits.
    let sender = Arc::new(sender);
    let to = Arc::downgrade(&sender);
    call.node.post(move |node| node.view_coins(to))?;
    match call.node.wait_for(&view, &|| unwanted() || (call.is_gone)()) {
        Ok(view) => Ok(Some(view)),
        Err(_) if unwanted() && !call.node.is_ending() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same, while the client waits for the answer.
pub(super) fn view(call: &Call<'_>) -> Result<CoinsView, RpcError> {
    view_unless(call, &|| false)?.ok_or_else(|| call.node.ended())
}

/// Fails where nobody wants the answer, or the node ends.
pub(super) fn check(call: &Call<'_>) -> Result<(), RpcError> {
    if call.node.is_ending() || (call.is_gone)() { Err(call.node.ended()) } else { Ok(()) }
}

/// What a fault while reading coins is answered with.
pub(super) fn unreadable(error: &dyn fmt::Display) -> RpcError {
    log::error!("The coins cannot be read: {error}");
    RpcError::new(code::INTERNAL_ERROR, "Unable to read UTXO set")
}

/// What a fault while sorting coins is answered with. Coins are only read: what cannot be written is a
/// scratch file.
pub(super) fn unsorted(error: &StoreError) -> RpcError {
    match error {
        StoreError::Io(failure) | StoreError::Closed(failure)
            if failure.operation.changes_disk() =>
        {
            let text = format!("Couldn't sort the UTXO set: {failure}");
            log::error!("{text}");
            RpcError::new(code::INTERNAL_ERROR, text)
        }
        error => unreadable(error),
    }
}

pub(super) fn free(view: &CoinsView) -> Result<u64, RpcError> {
    RealDisk.free_bytes(view.dir()).map_err(|error| unreadable(&error))
}

fn too_little_space(needed: u64, free: u64) -> RpcError {
    let text = format!("Sorting the UTXO set needs {needed} free bytes, and there are {free}");
    RpcError::new(code::INTERNAL_ERROR, text)
}

/// Fails where scratch files might take what the chain needs of the disk.
fn check_space(view: &CoinsView) -> Result<(), RpcError> {
    let (free, needed) = (free(view)?, 2 * view.bytes() + SPARE_BYTES);
    if free < needed { Err(too_little_space(needed, free)) } else { Ok(()) }
}

/// Ends a sort when others have filled the disk meanwhile: a write of the chain that fails would end the
/// node.
pub(super) struct Space<'a> {
    free: &'a dyn Fn() -> Result<u64, RpcError>,
    looks: Cell<u32>,
    pub(super) short: Cell<Option<RpcError>>,
}

impl<'a> Space<'a> {
    pub(super) fn new(free: &'a dyn Fn() -> Result<u64, RpcError>) -> Self {
        Self { free, looks: Cell::new(0), short: Cell::new(None) }
    }

    /// Whether too little is left, as far as has been looked.
    pub(super) fn is_short(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        if !self.looks.get().is_multiple_of(LOOKS) {
            return false;
        }
        let short = match (self.free)() {
            Ok(free) if free >= SPARE_BYTES => return false,
            Ok(free) => too_little_space(SPARE_BYTES, free),
            Err(error) => error,
        };
        self.short.set(Some(short));
        true
    }
}

/// The memory that coins are sorted in.
fn sort_memory(limit: usize) -> usize {
    (limit / SORT_SHARE).clamp(MIN_SORT_MEMORY, VIEW_SORT_BYTES)
}

/// Waits until no other call sorts coins, and runs `sort` with the memory for it.
pub(super) fn in_turn<T>(
    call: &mut Call<'_>,
    sort: impl FnOnce(&mut Call<'_>, &CoinsView, usize) -> Result<T, RpcError>,
) -> Result<T, RpcError> {
    let api = call.api;
    let turn = api.coins.queue_to_sort();
    let mut turn = turn.ok_or_else(|| {
        let text = "Another call counts the UTXO set, and one waits for it";
        RpcError::new(code::LIMIT_EXCEEDED, text)
    })?;
    let _waiting = api.begin_wait()?;
    while !turn.begin() {
        check(call)?;
        api.stage.sleep(TURN_INTERVAL);
    }
    let memory = sort_memory(call.room.limit());
    call.room.grow(memory + SORT_BUFFERS)?;
    let view = view(call)?;
    check_space(&view)?;
    sort(call, &view, memory)
}

/// Counts and hashes the coins of a view, sorted within so much memory.
pub(super) fn count(
    call: &Call<'_>,
    view: &CoinsView,
    hash: CoinsHash,
    memory: usize,
) -> Result<ViewStats, RpcError> {
    let free = || free(view);
    let space = Space::new(&free);
    let is_over = || check(call).is_err() || space.is_short();
    view.stats(hash, memory, &is_over).map_err(|error| match error {
        ChainError::Store(StoreError::Stopped) => {
            space.short.take().unwrap_or_else(|| call.node.ended())
        }
        ChainError::Store(error) => unsorted(&error),
        error => unreadable(&error),
    })
}

/// What a kind of hash is called.
fn parse_hash(kind: &Json) -> Result<CoinsHash, RpcError> {
    match kind {
        Json::Null => Ok(CoinsHash::Serialized),
        kind => match kind.as_text()? {
            "hash_serialized_3" => Ok(CoinsHash::Serialized),
            "muhash" => Ok(CoinsHash::MuHash),
            "none" => Ok(CoinsHash::Nothing),
            other => {
                let text = format!("'{other}' is not a valid hash_type");
                Err(RpcError::new(code::INVALID_PARAMETER, text))
            }
        },
    }
}

pub(super) fn set_info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash = parse_hash(call.arg(0))?;
    let use_index = parse::flag(call.arg(2), true)?;
    let index = call.node.indexes().coin_stats.clone();
    let block = match call.arg(1) {
        Json::Null => None,
        _ if index.is_none() => {
            let text = "Querying specific block heights requires coinstatsindex";
            return Err(RpcError::new(code::INVALID_PARAMETER, text));
        }
        block => Some(named(call, block, hash, use_index)?),
    };
    match index.filter(|_| use_index) {
        None => counted(call, hash),
        Some(index) => {
            let is_complete = catch_up(call, index.status())?;
            let height = index.status().best().map_or(0, |best| best.height);
            if block.is_some_and(|block| !is_complete && block.height > height) {
                let text = format!(
                    "Unable to get data because coinstatsindex is still syncing. Current height: {height}"
                );
                return Err(RpcError::new(code::INTERNAL_ERROR, text));
            }
            match hash {
                CoinsHash::Serialized => counted(call, hash),
                CoinsHash::Nothing | CoinsHash::MuHash => indexed(call, &index, hash, block),
            }
        }
    }
}

/// The block that is asked for, in the order of Core's checks.
fn named(
    call: &Call<'_>,
    block: &Json,
    hash: CoinsHash,
    use_index: bool,
) -> Result<ChainPoint, RpcError> {
    let refused = |text| Err(RpcError::new(code::INVALID_PARAMETER, text));
    if hash == CoinsHash::Serialized {
        return refused("hash_serialized_3 hash type cannot be queried for a specific block");
    }
    if !use_index {
        return refused("Cannot set use_index to false when querying for a specific block");
    }
    let named = Named::parse(block)?;
    call.node.ask(move |node| {
        let chain = node.chain();
        let found = chain.tree().node(named.find(chain)?);
        Ok(ChainPoint { hash: found.hash, height: found.height })
    })?
}

/// What both ways of counting say of the coins.
fn totals(at: ChainPoint, txouts: u64, bogosize: u64, hash: CoinsHash, digest: [u8; 32]) -> Json {
    let mut json = Json::object([
        ("height", at.height.into()),
        ("bestblock", at.hash.to_string().into()),
        ("txouts", txouts.into()),
        ("bogosize", bogosize.into()),
    ]);
    let digest = ReversedHex(&digest).to_string();
    match hash {
        CoinsHash::Nothing => {}
        CoinsHash::MuHash => json.push("muhash", digest),
        CoinsHash::Serialized => json.push("hash_serialized_3", digest),
    }
    json
}

/// By reading all coins of the tip.
fn counted(call: &mut Call<'_>, hash: CoinsHash) -> Result<Json, RpcError> {
    in_turn(call, |call, view, memory| {
        let stats = count(call, view, hash, memory)?;
        let ViewStats { totals: all, .. } = stats;
        let mut json = totals(view.tip(), all.txouts, all.bogosize, hash, stats.hash);
        json.push("total_amount", Json::amount(all.total_amount));
        json.push("transactions", stats.transactions);
        json.push("disk_size", view.bytes());
        Ok(json)
    })
}

/// What the index has of a block, or of the tip.
fn indexed(
    call: &Call<'_>,
    index: &CoinStatsIndex,
    hash: CoinsHash,
    block: Option<ChainPoint>,
) -> Result<Json, RpcError> {
    let at = match block {
        Some(block) => block,
        None => call.node.ask(|node| node.chain().tip_point())?,
    };
    let found = index.stats(at).map_err(|error| indexes::unreadable(&error))?;
    let CoinStats { muhash, totals: all, block } =
        found.ok_or_else(|| RpcError::new(code::INTERNAL_ERROR, "Unable to read UTXO set"))?;
    let mut json = totals(at, all.txouts, all.bogosize, hash, muhash);
    json.push("total_amount", Json::amount(all.amount));
    json.push("total_unspendable_amount", Json::amount(all.unspendable));
    let Unspendables { genesis_block, bip30, scripts, unclaimed_rewards } = block.unspendables;
    let unspendables = Json::object([
        ("genesis_block", Json::amount(genesis_block)),
        ("bip30", Json::amount(bip30)),
        ("scripts", Json::amount(scripts)),
        ("unclaimed_rewards", Json::amount(unclaimed_rewards)),
    ]);
    let info = Json::object([
        ("prevout_spent", Json::amount(block.prevout_spent)),
        ("coinbase", Json::amount(block.coinbase)),
        ("new_outputs_ex_coinbase", Json::amount(block.new_outputs_ex_coinbase)),
        ("unspendable", Json::amount(block.unspendables.total())),
        ("unspendables", unspendables),
    ]);
    json.push("block_info", info);
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sort_ends_when_the_disk_fills() {
        for (last, is_short) in [(SPARE_BYTES, false), (SPARE_BYTES - 1, true)] {
            let asked = Cell::new(0);
            let free = || {
                asked.set(asked.get() + 1);
                Ok(if asked.get() < 3 { u64::MAX } else { last })
            };
            let space = Space::new(&free);
            assert!((1..3 * LOOKS).all(|_| !space.is_short()));
            assert_eq!((space.is_short(), asked.get()), (is_short, 3));
            assert_eq!(space.short.take().is_some(), is_short);
        }
        let fails = || Err(RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down"));
        let space = Space::new(&fails);
        assert!((0..LOOKS).any(|_| space.is_short()) && space.short.take().is_some());
    }

    #[test]
    fn a_sort_takes_part_of_the_memory() {
        for (limit, memory) in [
            (0, MIN_SORT_MEMORY),
            (4 * MIN_SORT_MEMORY + 4, MIN_SORT_MEMORY + 1),
            (4 * VIEW_SORT_BYTES - 4, VIEW_SORT_BYTES - 1),
            (48 << 20, VIEW_SORT_BYTES),
        ] {
            assert_eq!(sort_memory(limit), memory);
        }
    }
}
