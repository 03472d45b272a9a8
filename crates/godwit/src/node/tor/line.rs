//! The node thread's handle on the connection to Tor: it can end the connection, and whatever the Tor thread
//! waits for.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(super) struct Line {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    is_ending: bool,
    stream: Option<TcpStream>,
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, and every pause.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.is_ending = true;
        if let Some(stream) = state.stream.take()
            && let Err(error) = stream.shutdown(Shutdown::Both)
        {
            log::debug!("the connection had ended before: {error}");
        }
        self.ended.notify_all();
    }

    pub(super) fn is_ending(&self) -> bool {
        self.state().is_ending
    }

    /// The connection is this one from now on.
    ///
    /// # Errors
    ///
    /// It is not wanted any more, or the system has no descriptor for it.
    pub(super) fn hold(&self, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut state = self.state();
        if state.is_ending {
            return Err(io::ErrorKind::Interrupted.into());
        }
        state.stream = Some(stream);
        Ok(())
    }

    /// Waits, without a connection, for so long or until the end.
    pub(super) fn pause(&self, time: Duration) {
        let mut state = self.state();
        state.stream = None;
        drop(self.ended.wait_timeout_while(state, time, |state| !state.is_ending));
    }
}
