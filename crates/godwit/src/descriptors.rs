//! The limit of open files and sockets of the process.

use std::io;

use godwit_store::MAX_OPEN_FILES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are used by neither the data directory nor connections: standard streams, log,
/// listening sockets, wakers, name lookups, a file being imported or written, a read by each
/// worker.
const OTHERS: usize = 72;

/// Descriptors that everything but connections needs (Core `MIN_CORE_FDS` is 151).
pub(crate) const BESIDE_CONNECTIONS: u64 = (MAX_OPEN_FILES + OTHERS) as u64;

/// Raises the limit for the data directory, and says so where the system does not allow as many as it may
/// need.
pub(crate) fn raise_for_files() {
    let limit = raise(BESIDE_CONNECTIONS);
    too_few(limit).iter().for_each(|text| log::warn!("{text}"));
}

fn too_few(limit: u64) -> Option<String> {
    (limit < BESIDE_CONNECTIONS).then(|| {
        format!(
            "Only {limit} files may be open at once, and up to {BESIDE_CONNECTIONS} may be needed, beside \
             connections: the program may end with \"Too many open files\". Raise ulimit -n, or LimitNOFILE of a \
             service."
        )
    })
}

/// Raises the limit of descriptors if it is below `needed`, as far as the system allows, and
/// returns it. Must run before the data directory is opened.
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
            log::warn!("The limit of open files cannot be raised: {error}");
            current
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_what_the_data_directory_may_need_is_told() {
        assert_eq!(too_few(BESIDE_CONNECTIONS), None);
        let line = too_few(BESIDE_CONNECTIONS - 1).expect("a warning");
        assert!(line.starts_with(&format!("Only {} files", BESIDE_CONNECTIONS - 1)), "{line}");
    }
}
