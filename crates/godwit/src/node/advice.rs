//! Advice in the log for a user whose node makes no progress.

use std::time::Duration;

use godwit_chain::Chain;
use godwit_p2p::Now;

use crate::options::NodeOptions;

/// After this long without a peer, the log says what the user could try.
const NO_PEERS_AFTER: Duration = Duration::from_secs(60);

/// Notices when there has been no peer for long.
#[derive(Debug, Default)]
pub(super) struct NoPeers {
    since: Duration,
    reported: bool,
}

impl NoPeers {
    /// True once for each time that there is no connection for [`NO_PEERS_AFTER`].
    pub(super) fn take_due(&mut self, now: Duration, connections: usize) -> bool {
        if connections > 0 {
            *self = Self { since: now, reported: false };
        }
        let due = !self.reported && now >= self.since + NO_PEERS_AFTER;
        self.reported |= due;
        due
    }
}

/// Seconds by which a block may be ahead of the clock.
const MAX_AHEAD: i64 = 2 * 60 * 60;

/// A warning when the clock is behind what must have happened: the best header that this node knows,
/// and the block that this version of the program knows, are at most two hours ahead of the truth.
fn behind_the_chain(unix: i64, header: u32, program: i64) -> Option<String> {
    let least = i64::from(header).max(program).saturating_sub(MAX_AHEAD);
    let behind = match least.saturating_sub(unix) / 60 {
        minutes @ ..60 => format!("{} minutes", minutes.max(1)),
        minutes => format!("{} hours", minutes / 60),
    };
    (unix < least).then(|| {
        format!(
            "This computer's clock is at least {behind} behind: blocks that are known already are \
             newer. Blocks more than two hours ahead of it are not accepted. Check date, time and time zone."
        )
    })
}

/// Says it when the clock is behind the chain.
pub(super) fn warn_of_clock(now: Now, chain: &Chain) {
    let best = chain.tree().node(chain.tree().best_header()).header.time;
    if let Some(line) = behind_the_chain(now.unix, best, chain.params().chain_tx_data.time) {
        log::warn!("{line}");
    }
}

/// Advice for a node without peers; `None` if the options let it expect none.
pub(super) fn what_to_try(options: &NodeOptions) -> Option<String> {
    let NodeOptions { connect, add_nodes, reach, listening, network_active, .. } = options;
    let try_this = match (connect.as_deref(), add_nodes.is_empty(), reach.proxy) {
        _ if !network_active => return None,
        (Some([]), true, _) if listening.on => return None,
        (Some([]), true, _) => {
            "-noconnect connects to nobody; name a peer with -connect=HOST or -addnode=HOST"
        }
        (Some([]), false, _) => "check the host and port of -addnode, and that a node runs there",
        (Some(_), true, _) => "check the host and port of -connect, and that a node runs there",
        (Some(_), false, _) => {
            "check the hosts and ports of -connect and -addnode, and that nodes run there"
        }
        (None, _, Some(_)) => "check that the proxy of -proxy runs and is connected",
        (None, _, None) => {
            "check the internet connection and the firewall, or name a peer with -addnode=HOST"
        }
    };
    Some(format!("No peer for {} s: {try_this}.", NO_PEERS_AFTER.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_behind_the_chain_is_noticed_at_start() {
        let warned = |unix, header, program| behind_the_chain(unix, header, program).is_some();
        assert!(!warned(1_000_000, 1_007_200, 0) && warned(1_000_000, 1_007_201, 0));
        assert!(!warned(1_000_000, 0, 1_007_200) && warned(1_000_000, 0, 1_007_201));
        assert!(!warned(0, 0, 0), "a network of which nothing is known");
        let line = behind_the_chain(0, 7_200 + 36_000, 0).expect("a warning");
        assert!(line.contains("at least 10 hours behind"), "{line}");
        for (seconds, said) in [(1, "1 minutes"), (3_599, "59 minutes"), (3_600, "1 hours")] {
            let line = behind_the_chain(0, 7_200 + seconds, 0).expect("a warning");
            assert!(line.contains(&format!("at least {said} behind")), "{line}");
        }
    }

    #[test]
    fn a_lonely_node_says_so_once_for_each_time() {
        let mut no_peers = NoPeers::default();
        let mut due =
            |seconds, connections| no_peers.take_due(Duration::from_secs(seconds), connections);
        assert!(!due(59, 0) && due(60, 0) && !due(61, 0) && !due(1000, 0));
        assert!(!due(1001, 1) && !due(1060, 0) && due(1061, 0) && !due(2000, 0));
    }
}
