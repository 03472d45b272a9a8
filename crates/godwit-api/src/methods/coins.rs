//! All coins of the running node.

use std::fmt;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use crossbeam_channel::bounded;
use godwit_chain::{ChainError, CoinsHash, CoinsView, VIEW_SORT_BYTES};
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};
use godwit_store::StoreError;

use super::Call;

/// Between two looks whether another reader has ended.
const TURN_INTERVAL: Duration = Duration::from_millis(50);

/// Memory of a sort: that of the coins, and buffers.
const SORT_BYTES: usize = VIEW_SORT_BYTES + (2 << 20);

/// What has to stay free on the disk beside what a sort needs.
const SPARE_BYTES: u64 = 64 << 20;

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

/// The same, while somebody waits for the answer.
fn view(call: &Call<'_>) -> Result<CoinsView, RpcError> {
    view_unless(call, &|| false)?.ok_or_else(over)
}

/// Fails where nobody wants the answer, or the node ends.
pub(super) fn check(call: &Call<'_>) -> Result<(), RpcError> {
    if call.node.is_ending() || (call.is_gone)() { Err(over()) } else { Ok(()) }
}

/// What a fault while reading coins is answered with.
pub(super) fn unreadable(error: &dyn fmt::Display) -> RpcError {
    log::error!("The coins cannot be read: {error}");
    RpcError::new(code::INTERNAL_ERROR, "Unable to read UTXO set")
}

fn over() -> RpcError {
    RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down")
}

/// Fails where scratch files might take what the chain needs of the disk.
fn check_space(view: &CoinsView) -> Result<(), RpcError> {
    let free = rustix::fs::statvfs(view.dir()).map(|disk| disk.f_bavail * disk.f_frsize);
    let free = free.map_err(|error| unreadable(&error))?;
    let needed = 2 * view.bytes() + SPARE_BYTES;
    if free >= needed {
        return Ok(());
    }
    let text = format!("Sorting the UTXO set needs {needed} free bytes, and there are {free}");
    Err(RpcError::new(code::INTERNAL_ERROR, text))
}

/// Waits until no other call sorts coins, and runs `sort`.
fn in_turn<T>(
    call: &mut Call<'_>,
    sort: impl FnOnce(&mut Call<'_>, &CoinsView) -> Result<T, RpcError>,
) -> Result<T, RpcError> {
    let _waiting = call.api.begin_wait()?;
    let _turn = loop {
        match call.api.coins.sorting.try_lock() {
            Ok(turn) => break turn,
            Err(TryLockError::Poisoned(turn)) => break turn.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        check(call)?;
        call.api.stage.sleep(TURN_INTERVAL);
    };
    call.room.grow(SORT_BYTES)?;
    let view = view(call)?;
    check_space(&view)?;
    sort(call, &view)
}

pub(super) fn set_info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let hash = match call.arg(0) {
        Json::Null => CoinsHash::Serialized,
        kind => match kind.as_text()? {
            "hash_serialized_3" => CoinsHash::Serialized,
            "muhash" => CoinsHash::MuHash,
            "none" => CoinsHash::Nothing,
            other => {
                let text = format!("'{other}' is not a valid hash_type");
                return Err(RpcError::new(code::INVALID_PARAMETER, text));
            }
        },
    };
    if !call.arg(1).is_null() {
        let text = "Querying specific block heights requires coinstatsindex";
        return Err(RpcError::new(code::INVALID_PARAMETER, text));
    }
    in_turn(call, |call, view| {
        let is_over = || check(call).is_err();
        let stats = view.stats(hash, &is_over).map_err(|error| match error {
            ChainError::Store(StoreError::Stopped) => over(),
            error => unreadable(&error),
        })?;
        let mut json = Json::object([
            ("height", view.tip().height.into()),
            ("bestblock", view.tip().hash.to_string().into()),
            ("txouts", stats.totals.txouts.into()),
            ("bogosize", stats.totals.bogosize.into()),
        ]);
        let digest = BlockHash::from_bytes(stats.hash).to_string();
        match hash {
            CoinsHash::Nothing => {}
            CoinsHash::MuHash => json.push("muhash", digest),
            CoinsHash::Serialized => json.push("hash_serialized_3", digest),
        }
        json.push("total_amount", Json::amount(stats.totals.total_amount));
        json.push("transactions", stats.transactions);
        json.push("disk_size", view.bytes());
        Ok(json)
    })
}
