//! Runs a commit as a job: block and undo bytes, the block index and the coins' manifest become
//! durable together, beside connecting.

use godwit_store::{Commit, StoreError};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

use crate::environment::Environment;

/// Makes `commit` durable and logs it; returns when it began and ended.
pub(super) fn run(env: &Environment, commit: Commit) -> Result<Range<Duration>, StoreError> {
    log::info!("Commit started: {}", Contents(&commit));
    let started = env.now();
    env.store.commit(commit)?;
    let ended = env.now();
    log::info!("Commit done in {} ms.", (ended - started).as_millis());
    Ok(started..ended)
}

/// What a commit makes durable, for the log.
struct Contents<'a>(&'a Commit);

impl fmt::Display for Contents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commit { blocks, verified_tip, utxo, .. } = self.0;
        write!(f, "{} entries of the block index", blocks.len())?;
        if let Some(tip) = verified_tip {
            write!(f, ", verified up to height {}", tip.height)?;
        }
        match utxo {
            Some(utxo) => write!(f, ", coins at height {}.", utxo.tip.height),
            None => f.write_str("."),
        }
    }
}
