//! The download of the blocks below a loaded snapshot's, beside those above it.

use std::collections::BTreeSet;
use std::time::Duration;

use godwit_primitives::Work;
use godwit_primitives::network::{Network, Params};

use super::super::{Downloads, PeerTraits, Receipt};
use super::simulation::HONEST;
use super::tree::{GENESIS, Tree};
use crate::{HeaderId, HistorySpan, Now, PeerId};

const FULL: PeerId = PeerId(1);
const LIMITED: PeerId = PeerId(2);
/// The snapshot's block, and the best one.
const BASE: u32 = 900;
const BEST: u32 = 1_000;

#[test]
fn the_history_is_asked_of_whoever_has_it_when_nothing_above_is_left_to_ask() {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, BEST, 1_000);
    (tree.tip, tree.history) =
        (HeaderId(BASE), Some(HistorySpan { tip: GENESIS, base: HeaderId(BASE) }));
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    let at = |milliseconds| Now { monotonic: Duration::from_millis(milliseconds), unix: 0 };
    for peer in [FULL, LIMITED] {
        let traits = PeerTraits { limited: peer == LIMITED, ..HONEST };
        downloads.add_peer(peer, traits, at(0));
        downloads.set_best_known(peer, best);
    }
    let mut asked = BTreeSet::new();
    for time in 1..20_000 {
        let requests = downloads.schedule(at(time), &tree, 100_000_000);
        asked.extend(requests.iter().map(|(_, id, _)| id.0));
        // What lies behind the window cannot be asked yet.
        let end = BEST.min(tree.tip.0 + downloads.window() as u32);
        for (peer, id, hash) in requests {
            if id.0 <= BASE {
                let first = (BASE + 1..=end).find(|above| !asked.contains(above));
                assert_eq!(first, None, "{id:?} came before it");
                // Of the last 288 a limited peer has some.
                assert!(peer == FULL || id.0 + 288 > BEST, "{id:?} of {peer:?}");
            }
            let receipt = downloads.received(peer, hash, 1_000, at(time));
            if receipt == Receipt::Requested {
                tree.nodes[id.0 as usize].stored = true;
                downloads.judged(hash, true);
            }
        }
        tree.connect();
        let Some(span) = &mut tree.history else { break };
        let next = |tip: HeaderId| HeaderId(tip.0 + 1);
        while span.tip != span.base && tree.nodes[next(span.tip).0 as usize].stored {
            span.tip = next(span.tip);
        }
        if span.tip == span.base {
            tree.history = None;
        }
    }
    assert_eq!((asked.len() as u32, tree.history, tree.tip), (BEST, None, best));
    assert_eq!(downloads.schedule(at(30_000), &tree, 100_000_000), []);
}

/// What branches off below the snapshot's block cannot be taken before that.
#[test]
fn a_better_chain_without_the_snapshots_block_is_asked_for_when_the_history_is_validated() {
    let mut tree = Tree::new();
    let best = tree.grow(GENESIS, BEST, 1_000);
    let fork = HeaderId(BASE - 100);
    let rival = tree.grow(fork, BEST, 1_000);
    for id in (0..=fork.0).chain(BASE + 1..=best.0) {
        tree.nodes[id as usize].stored = true;
    }
    (tree.tip, tree.history) = (best, Some(HistorySpan { tip: fork, base: HeaderId(BASE) }));
    let mut downloads = Downloads::new(&Params::new(Network::Regtest), Work::ZERO);
    let at = |seconds| Now { monotonic: Duration::from_secs(seconds), unix: 0 };
    downloads.add_peer(FULL, HONEST, at(0));
    downloads.set_best_known(FULL, rival);
    for seconds in 1..10 {
        assert_eq!(downloads.schedule(at(seconds), &tree, 100_000_000), []);
    }
    for id in fork.0..=BASE {
        tree.nodes[id as usize].stored = true;
    }
    tree.history = None;
    let asked = downloads.schedule(at(10), &tree, 100_000_000);
    assert_eq!(asked.first().map(|(_, id, _)| *id), Some(HeaderId(best.0 + 1)));
}
