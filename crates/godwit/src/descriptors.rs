//! How many files and sockets the process may have open.

use std::io;

use godwit_store::MAX_OPEN_FILES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of everything but the data directory and connections: standard streams, log, listening
/// sockets, wakers, name lookups, a file that is imported or written, a read for each worker.
const OTHERS: usize = 72;

/// Descriptors that everything but connections needs (Core `MIN_CORE_FDS` is 151).
pub(crate) const BESIDE_CONNECTIONS: u64 = (MAX_OPEN_FILES + OTHERS) as u64;

/// Asks the system for more descriptors where it gives less than `needed`; how many there are then. To be
/// called before the data directory is opened.
pub(crate) fn raise(needed: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return current;
    }
    let raised = limit.maximum.unwrap_or(u64::MAX).min(needed);
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit }) {
        Ok(()) => raised,
        Err(errno) => {
            let error = io::Error::from(errno);
            log::warn!("The limit of open files can not be raised: {error}");
            current
        }
    }
}
