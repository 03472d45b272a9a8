//! The queue of commands to the sockets' thread.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, TryRecvError};
use godwit_p2p::NetCommand;

/// A command to the sockets' thread.
pub(super) enum Order {
    /// By the engine.
    Net(NetCommand),
    /// Onion addresses are reached through this proxy from now on.
    OnionProxy(SocketAddr),
}

impl Order {
    /// Its memory.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Net(NetCommand::Send { payload, .. }) => size_of::<Self>() + payload.capacity(),
            _ => size_of::<Self>(),
        }
    }
}

/// The thread's end of the queue.
pub(super) struct Commands {
    pub(super) receiver: Receiver<Order>,
    /// Memory of what waits.
    pub(super) backlog: Arc<AtomicUsize>,
}

impl Commands {
    pub(super) fn try_recv(&self) -> Result<Order, TryRecvError> {
        let order = self.receiver.try_recv()?;
        self.backlog.fetch_sub(order.cost(), Ordering::Relaxed);
        Ok(order)
    }
}

/// The thread has ended. With room, the node goes on to take events, where it finds out
/// ([`Inbox::take`](super::Inbox::take)).
impl Drop for Commands {
    fn drop(&mut self) {
        self.backlog.store(0, Ordering::Relaxed);
    }
}
