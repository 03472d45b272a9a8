//! The progress of a sync as people see it: how far it is, when it ends, and what limits it.
//!
//! Once a second the node's thread hands in [`SyncFacts`], plain numbers. [`SyncWatch`] keeps a bounded
//! history of them and makes the [`SyncReport`] that terminal, status page, `getsyncstatus` and metrics show.
//! All of it is arithmetic on these numbers: it reads no clock and no file, and asks the node nothing.

mod ahead;
mod bottleneck;
mod estimate;
mod facts;
mod history;
mod lines;
mod report;
mod watch;

pub use ahead::Schedule;
pub use bottleneck::Bottleneck;
pub use estimate::Machine;
pub use facts::{
    Connections, MemoryFacts, PeerFacts, SyncFacts, Tip, UnvalidatedHistory, Verification,
};
#[cfg(test)]
pub(crate) use report::PeerLine;
pub(crate) use report::sync_json;
pub use report::{SyncReport, SyncStage};
pub use watch::SyncWatch;
#[cfg(test)]
pub(crate) use watch::report_of_all;
