//! Finds what limits the speed of a sync.

use super::estimate::{Machine, Sample};

/// The current bottleneck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bottleneck {
    /// Nothing is to be done.
    #[default]
    Nothing,
    NoPeers,
    /// All known blocks are connected: the node waits for headers from the network.
    Headers,
    /// Blocks arrive more slowly than they are checked.
    Network,
    /// The next block is asked of this peer, and it does not come.
    Peer(u64),
    /// All processors compute.
    Processor,
    /// The one thread that orders all blocks computes; more processors would not help.
    Connector,
    /// Jobs wait for reads and writes, or for processors that other programs use: what remains if it is none
    /// of the others.
    Disk,
}

/// The share of the time without blocks from which on they count as the bottleneck.
const STARVED: f64 = 0.5;
/// The share of all processors' time, and that of the connector's.
const COMPUTING: f64 = 0.8;
const CONNECTING: f64 = 0.8;

/// The bottleneck according to the last seconds; `late` is the peer that has owed the next block for too
/// long.
pub(super) fn bottleneck(
    past: &Sample,
    machine: &Machine,
    peers: usize,
    late: Option<u64>,
) -> Bottleneck {
    if past.at <= 0.0 {
        return Bottleneck::Nothing;
    }
    let share = |seconds: f64| seconds / past.at;
    if share(past.starved) >= STARVED {
        return match late {
            _ if peers == 0 => Bottleneck::NoPeers,
            Some(peer) => Bottleneck::Peer(peer),
            None => Bottleneck::Network,
        };
    }
    if share(past.processor) >= COMPUTING * machine.processors {
        Bottleneck::Processor
    } else if share(past.stages.computing()) >= CONNECTING {
        Bottleneck::Connector
    } else {
        Bottleneck::Disk
    }
}

impl Bottleneck {
    /// One of each name.
    pub(crate) const KINDS: [Self; 7] = [
        Self::Nothing,
        Self::NoPeers,
        Self::Network,
        Self::Peer(0),
        Self::Processor,
        Self::Connector,
        Self::Disk,
    ];

    /// One word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::NoPeers => "no_peers",
            Self::Network | Self::Headers => "network",
            Self::Peer(_) => "peer",
            Self::Processor => "processor",
            Self::Connector => "connector",
            Self::Disk => "disk",
        }
    }

    /// A few words for people.
    pub fn words(self) -> String {
        match self {
            Self::Nothing => "nothing".to_owned(),
            Self::NoPeers => "the lack of peers".to_owned(),
            Self::Network | Self::Headers => "the network".to_owned(),
            Self::Peer(id) => format!("peer {id}"),
            Self::Processor => "the processor".to_owned(),
            Self::Connector => "one core".to_owned(),
            Self::Disk => "the disk or other programs".to_owned(),
        }
    }

    /// The bottleneck with a reason, which the page shows after "Held up by".
    pub fn sentence(self) -> String {
        match self {
            Self::Nothing => "nothing is waited for".to_owned(),
            Self::NoPeers => "the lack of peers: none answers".to_owned(),
            Self::Headers => "the network: headers are awaited".to_owned(),
            Self::Network => {
                "the network: blocks arrive more slowly than they are checked".to_owned()
            }
            Self::Peer(id) => format!("peer {id}: the next block is asked of it and does not come"),
            Self::Processor => "the processor: all cores compute".to_owned(),
            Self::Connector => "one core: the thread that orders all blocks computes".to_owned(),
            Self::Disk => "the disk, or other programs that use this machine".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::estimate::Stages;

    const MACHINE: Machine = Machine { processors: 4.0, script: 0.0 };

    fn told(starved: f64, processor: f64, apply: f64) -> Bottleneck {
        let stages = Stages { apply, ..Stages::default() };
        let past = Sample { at: 10.0, starved, processor, stages, ..Sample::default() };
        bottleneck(&past, &MACHINE, 8, None)
    }

    #[test]
    fn what_takes_the_time_is_told_at_both_sides_of_each_bound() {
        assert_eq!(
            [told(5.0, 39.0, 9.0), told(4.9, 39.0, 9.0)],
            [Bottleneck::Network, Bottleneck::Processor]
        );
        assert_eq!(
            [told(0.0, 32.0, 9.0), told(0.0, 31.9, 9.0)],
            [Bottleneck::Processor, Bottleneck::Connector]
        );
        assert_eq!(
            [told(0.0, 10.0, 8.0), told(0.0, 10.0, 7.9)],
            [Bottleneck::Connector, Bottleneck::Disk]
        );
        assert_eq!(bottleneck(&Sample::default(), &MACHINE, 8, None), Bottleneck::Nothing);
    }

    #[test]
    fn a_sentence_says_what_holds_it_up_before_it_says_why() {
        use Bottleneck::{Connector, Headers, Network, NoPeers, Peer, Processor};
        for bottleneck in [NoPeers, Headers, Network, Peer(7), Processor, Connector] {
            let (words, sentence) = (bottleneck.words(), bottleneck.sentence());
            assert!(sentence.starts_with(&format!("{words}: ")), "Held up by {sentence}.");
        }
    }

    #[test]
    fn a_peer_is_named_only_where_blocks_are_missing() {
        let past = |starved| Sample { at: 10.0, starved, ..Sample::default() };
        assert_eq!(bottleneck(&past(9.0), &MACHINE, 2, Some(7)), Bottleneck::Peer(7));
        assert_eq!(bottleneck(&past(1.0), &MACHINE, 2, Some(7)), Bottleneck::Disk);
        assert_eq!(bottleneck(&past(9.0), &MACHINE, 0, None), Bottleneck::NoPeers);
    }
}
