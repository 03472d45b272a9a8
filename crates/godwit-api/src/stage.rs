//! What the server can answer from: only the stage of a start, or the running node.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_rpc::{RpcError, code};

use crate::seam::Seam;

/// The stage of the start, and later the node.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Shared>);

struct Shared {
    at: Mutex<At>,
    ended: Condvar,
}

enum At {
    Starting(String),
    Ready(Seam),
    Ended,
}

impl Stage {
    pub(crate) fn new(text: &str) -> Self {
        let at = Mutex::new(At::Starting(text.to_owned()));
        Self(Arc::new(Shared { at, ended: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, At> {
        self.0.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn starting(&self, text: String) {
        let mut at = self.lock();
        if matches!(*at, At::Starting(_)) {
            *at = At::Starting(text);
        }
    }

    /// Says that the node is unavailable for a while, and what it does meanwhile. Does nothing once the node
    /// has ended.
    pub(crate) fn pause(&self, text: &str) {
        let mut at = self.lock();
        if !matches!(*at, At::Ended) {
            *at = At::Starting(text.to_owned());
        }
    }

    pub(crate) fn ready(&self, seam: Seam) {
        *self.lock() = At::Ready(seam);
    }

    /// Drops the node, so that nothing keeps its thread's queue open.
    pub(crate) fn ended(&self) {
        *self.lock() = At::Ended;
        self.0.ended.notify_all();
    }

    /// Whether nothing begins any more.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.lock(), At::Ended)
    }

    /// Waits for so long, or until the node ends.
    pub(crate) fn sleep(&self, time: Duration) {
        let awake = |at: &mut At| !matches!(at, At::Ended);
        drop(self.0.ended.wait_timeout_while(self.lock(), time, awake));
    }

    /// The way to the node, once it answers.
    ///
    /// # Errors
    ///
    /// It is starting, or ending.
    pub(crate) fn node(&self) -> Result<Seam, RpcError> {
        match &*self.lock() {
            At::Starting(text) => Err(RpcError::new(code::IN_WARMUP, text.as_str())),
            At::Ready(seam) => Ok(seam.clone()),
            At::Ended => Err(RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::tests::ready;

    fn text_of(stage: &Stage) -> Option<(i32, String)> {
        stage.node().err().map(|error| (error.code, error.message))
    }

    #[test]
    fn a_node_that_pauses_is_starting_until_it_is_ready_and_not_behind_its_end() {
        let (stage, _node) = ready();
        let seam = stage.node().unwrap_or_else(|error| panic!("it is there: {}", error.message));
        stage.starting("later".to_owned());
        assert_eq!(text_of(&stage), None, "a node that answers does not start");
        stage.pause("loads");
        assert_eq!(text_of(&stage), Some((code::IN_WARMUP, "loads".to_owned())));
        stage.starting("loads (7%)".to_owned());
        assert_eq!(text_of(&stage), Some((code::IN_WARMUP, "loads (7%)".to_owned())));
        stage.ready(seam);
        assert_eq!(text_of(&stage), None);
        assert!(!stage.has_ended());
        stage.ended();
        assert!(stage.has_ended());
        stage.pause("loads");
        assert_eq!(text_of(&stage), Some((code::CLIENT_NOT_CONNECTED, "Shutting down".to_owned())));
    }
}
