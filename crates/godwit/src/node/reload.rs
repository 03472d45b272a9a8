//! Between two runs of a node: a snapshot is loaded into the closed data directory.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use godwit_api::{LOADING, LoadOutcome, Server, SnapshotLoad};
use godwit_chain::Loading;
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::{StoreError, check_unused};
use indicatif::{MultiProgress, ProgressDrawTarget};

use crate::failure::Failure;
use crate::open::{Says, open_coins};
use crate::options::Config;
use crate::process::StopFlag;
use crate::utxo;

/// How long requests that came before the end of the run may go on reading its files. They look whether it
/// ends between two blocks, so it takes a part of a second.
const LAST_READERS: Duration = Duration::from_secs(30);

/// Between two looks whether they are gone.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What programs that ask, and systemd, are told while the coins are hashed.
const HASHING: &str = "Hashing UTXO snapshot…";

/// Loads the snapshot once nobody uses any more what the last run had open; what is outside of the result is
/// a fault of the directory. Says how far it is, and stops where a signal comes: nothing is lost then.
pub(super) fn load_closed(
    config: &Config,
    load: &SnapshotLoad,
    server: Option<&Server>,
    says: &Says,
    stop: &StopFlag,
) -> Result<LoadOutcome, Failure> {
    wait_until_unused(&config.network_dir(), server, stop);
    let said = Cell::new(String::new());
    let watch = |at: Loading| {
        let text = text_of(at);
        if said.replace(text.clone()) != text {
            says(&text);
        }
        if stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let chain = match stop.is_set() {
        // The directory may still be in use.
        true => None,
        false => open_coins(
            config,
            &MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            stop,
        )?,
    };
    let outcome = match chain {
        Some(chain) => utxo::load_into(chain, load.path(), None, &watch)?,
        None => Err(StoreError::Stopped.into()),
    };
    if let Err(error) = &outcome {
        log::error!("The snapshot was not loaded: {error}");
    }
    Ok(outcome)
}

fn text_of(at: Loading) -> String {
    match at {
        Loading::Coins { loaded, all } if all > 0 => {
            let percent = u128::from(loaded) * 100 / u128::from(all);
            format!("{LOADING} ({percent}%)")
        }
        Loading::Forgetting | Loading::Coins { .. } => LOADING.to_owned(),
        Loading::Hashing => HASHING.to_owned(),
    }
}

/// Waits until nobody reads any more what the last run had open: its store is closed then.
fn wait_until_unused(dir: &Path, server: Option<&Server>, stop: &StopFlag) {
    let disk = StoreDisk::new(Arc::new(RealDisk));
    let is_used = || server.is_some_and(Server::has_requests) || check_unused(&disk, dir).is_err();
    let started = Instant::now();
    while is_used() && started.elapsed() < LAST_READERS && !stop.is_set() {
        thread::sleep(LOOK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_how_far_a_load_is() {
        let coins = |loaded, all| text_of(Loading::Coins { loaded, all });
        assert_eq!(text_of(Loading::Forgetting), "Loading UTXO snapshot…");
        assert_eq!(coins(0, 200), "Loading UTXO snapshot… (0%)");
        assert_eq!(coins(199, 200), "Loading UTXO snapshot… (99%)");
        assert_eq!(coins(u64::MAX - 1, u64::MAX), "Loading UTXO snapshot… (99%)");
        assert_eq!(coins(0, 0), "Loading UTXO snapshot…");
        assert_eq!(text_of(Loading::Hashing), "Hashing UTXO snapshot…");
    }
}
