//! How long headers may take, and what they may cost.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_primitives::{BlockHash, Work};

use super::harness::{Harness, chain, config};
use super::headers::locators;
use super::index::TestBlock;
use crate::{
    Command, ConnectionKind, DisconnectReason, HeaderIndex, MAX_HEADERS, Message, NetEvent, PeerId,
    PeersConfig,
};

#[test]
fn b4_a_peer_that_does_not_answer_delays_headers_by_seconds() {
    let mut node = Harness::new(config());
    let (silent, second, third) = (node.full_peer(), node.full_peer(), node.full_peer());
    node.take(silent);
    node.advance(Duration::from_secs(4));
    assert_eq!(locators(&mut node, second).len(), 0);
    node.advance(Duration::from_secs(2));
    assert_eq!(locators(&mut node, second).len(), 1, "asked beside the silent one");
    node.advance(Duration::from_secs(8));
    assert_eq!(locators(&mut node, third).len(), 0, "the second one gets twice the time");
    node.headers(second, &chain(5, 400_000));
    node.advance(Duration::from_secs(1));
    assert_eq!(locators(&mut node, third).len(), 1);
    assert_eq!(node.is_gone(silent), None, "it may only be slow");
    node.answers_pings = false;
    node.headers(third, &chain(5, 400_000));
    // It has answered a ping, by which we found our own line alive, and is asked once more for that.
    for _ in 0..250 {
        node.advance(Duration::from_secs(1));
        node.says(third, Message::SendHeaders);
    }
    assert_eq!(node.is_gone(silent), Some(DisconnectReason::HeadersTimeout));
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn b4_a_lost_answer_of_the_only_peer_is_asked_for_again() {
    let mut node = Harness::new(config());
    let id = node.full_peer();
    assert_eq!(locators(&mut node, id).len(), 1);
    node.advance(Duration::from_secs(119));
    assert_eq!(locators(&mut node, id).len(), 0);
    node.advance(Duration::from_secs(2));
    assert_eq!(locators(&mut node, id).len(), 1);
    node.headers(id, &chain(5, 400_000));
    node.advance(Duration::from_secs(500));
    assert_eq!((node.index.headers(), locators(&mut node, id).len()), (6, 0));
}

#[test]
fn b5_a_presync_on_a_slow_line_has_time_as_long_as_it_goes_on() {
    let minimum_chain_work = Work::from(2 * 9_000u32);
    let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
    let id = node.full_peer();
    let blocks = chain(4 * MAX_HEADERS as u32, 10_000_000);
    for part in blocks.chunks(MAX_HEADERS) {
        node.advance(Duration::from_secs(15 * 60));
        node.headers(id, part);
    }
    assert_eq!(node.presync_height(), Some(4 * MAX_HEADERS as u32));
    node.advance(Duration::from_secs(19 * 60));
    assert_eq!(node.is_gone(id), None);
    node.advance(Duration::from_secs(25 * 60));
    assert_eq!(node.is_gone(id), Some(DisconnectReason::StaleChain), "it stopped");
}

#[test]
fn b5_slow_headers_on_a_slow_line_punish_nobody() {
    let mut node = Harness::new(config());
    let (slow, other) = (node.full_peer(), node.full_peer());
    let blocks = chain(3 * MAX_HEADERS as u32, 10_000_000);
    for (round, part) in blocks.chunks(MAX_HEADERS).enumerate() {
        node.advance(Duration::from_secs(100));
        node.headers(slow, part);
        if round == 1 {
            // Asked beside the slow one: both answers shared the line.
            assert_eq!(locators(&mut node, other).len(), 1);
            node.headers(other, &blocks[..MAX_HEADERS]);
        }
    }
    node.advance(Duration::from_secs(60));
    assert_eq!((node.is_gone(slow), node.is_gone(other)), (None, None));
    assert_eq!(node.index.headers(), 1 + blocks.len());
}

/// Lets `seconds` pass in which so many bytes of a `headers` message arrive in each.
fn trickle(node: &mut Harness, id: PeerId, seconds: u64, bytes: usize) {
    for _ in 0..seconds {
        node.tell(NetEvent::Arriving { peer: id, command: Command::HEADERS, bytes });
        node.advance(Duration::from_secs(1));
    }
}

#[test]
fn b5_an_answer_that_is_under_way_on_a_slow_line_is_waited_for() {
    let mut node = Harness::new(config());
    let (slow, other) = (node.full_peer(), node.full_peer());
    node.take(slow);
    trickle(&mut node, slow, 16, 10_000);
    assert_eq!(locators(&mut node, other).len(), 0, "the line would carry both");
    node.headers(slow, &chain(MAX_HEADERS as u32, 10_000_000));
    assert_eq!(locators(&mut node, slow).len(), 1);
}

/// The same answer costs the peer and our line 162 kB each time, and nothing can come of it before the clock
/// is put right.
#[test]
fn headers_ahead_of_a_wrong_clock_are_asked_for_ever_more_rarely() {
    let mut node = Harness::new(config());
    let blocks = chain(MAX_HEADERS as u32 + 10, 400_000);
    node.index.latest_time = blocks[3].header.time;
    // One that is not exchanged for another.
    let id = node.peer(ConnectionKind::Manual);
    let asked = |node: &mut Harness, seconds: u64| {
        let mut times = 0;
        for _ in 0..seconds {
            for locator in locators(node, id) {
                times += 1;
                let told = answer(&blocks, &locator).to_vec();
                node.headers(id, &told);
            }
            node.advance(Duration::from_secs(1));
        }
        times
    };
    let first_hour = asked(&mut node, 3_600);
    assert_eq!(node.is_gone(id), None);
    assert!((4..=6).contains(&first_hour), "{first_hour} times");
    let day = asked(&mut node, 24 * 3_600);
    assert!((40..=48).contains(&day), "{day} times");
    assert_eq!((node.is_gone(id), node.index.headers()), (None, 5));
    node.index.latest_time = u32::MAX;
    asked(&mut node, 3_600);
    assert_eq!(node.index.headers(), 1 + blocks.len());
}

/// It is faster than the other, and has nothing to tell.
#[test]
fn a_peer_whose_headers_were_refused_wins_no_race() {
    let mut node = Harness::new(config());
    let (bad, good) = (chain(2 * MAX_HEADERS as u32, 400_000), chain(5_000, 4_000_000));
    node.index.bad_headers.insert(bad[10].hash);
    let (refused, other) = (node.peer(ConnectionKind::Manual), node.full_peer());
    for _ in 0..60 {
        for (id, blocks) in [(refused, &bad), (other, &good)] {
            for locator in locators(&mut node, id) {
                let told = answer(blocks, &locator).to_vec();
                node.headers(id, &told);
            }
        }
        node.advance(Duration::from_secs(1));
    }
    assert_eq!((node.is_gone(refused), node.is_gone(other)), (None, None));
    assert_eq!(node.index.get(node.index.best_header()).hash, good.last().expect("some").hash);
}

/// They were asked for: the peer is not to be let go for them.
#[test]
fn a_presync_whose_headers_are_refused_ends_and_is_held_against_nobody() {
    let minimum_chain_work = Work::from(2 * 30_000u32);
    let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
    let blocks = chain(40_000, 40_000_000);
    node.index.latest_time = blocks[9_000].header.time;
    let id = node.full_peer();
    let mut times = 0;
    for _ in 0..600 {
        for locator in locators(&mut node, id) {
            times += 1;
            let told = answer(&blocks, &locator).to_vec();
            node.headers(id, &told);
        }
        node.advance(Duration::from_millis(500));
    }
    assert_eq!(node.is_gone(id), None);
    assert!(node.index.headers() > 5_000, "the second pass has begun: {}", node.index.headers());
    assert!(times < 45, "asked {times} times");
}

/// What a peer with `blocks` answers to a locator.
fn answer<'a>(blocks: &'a [TestBlock], locator: &[BlockHash]) -> &'a [TestBlock] {
    let known = |hash: &BlockHash| blocks.iter().position(|block| block.hash == *hash);
    let next = locator.iter().find_map(known).map_or(0, |place| place + 1);
    &blocks[next..blocks.len().min(next + MAX_HEADERS)]
}

/// Peers that answer after a time each, until one has told all of `blocks`: the time that takes, and
/// how many full answers.
fn race(
    node: &mut Harness,
    delays: &[(PeerId, Duration)],
    blocks: &[TestBlock],
) -> (Duration, usize) {
    let peers: Vec<_> = delays.iter().map(|(id, _)| *id).collect();
    let usual = |id, _| delays.iter().find(|(peer, _)| *peer == id).expect("one of them").1;
    race_with(node, &peers, blocks, usual)
}

/// The same with the time of a peer's answer to its question of that number.
fn race_with(
    node: &mut Harness,
    peers: &[PeerId],
    blocks: &[TestBlock],
    delay: impl Fn(PeerId, u32) -> Duration,
) -> (Duration, usize) {
    let (begun, mut full) = (node.now.monotonic, 0);
    let mut questions: BTreeMap<PeerId, u32> = BTreeMap::new();
    let mut due: Vec<(Duration, PeerId, Vec<BlockHash>)> = Vec::new();
    while node.index.headers() < 1 + blocks.len() {
        assert!(node.now.monotonic < begun + Duration::from_secs(3_600), "an hour");
        for &id in peers {
            for hashes in locators(node, id) {
                let question = questions.entry(id).or_default();
                due.push((node.now.monotonic + delay(id, *question), id, hashes));
                *question += 1;
            }
        }
        let step = Duration::from_millis(100);
        node.advance_in(step, step);
        let now = node.now.monotonic;
        for (_, id, hashes) in due.extract_if(.., |(at, ..)| *at <= now) {
            let answer = answer(blocks, &hashes);
            full += usize::from(answer.len() == MAX_HEADERS);
            node.headers(id, answer);
        }
    }
    (node.now.monotonic - begun, full)
}

#[test]
fn b4_a_peer_that_answers_just_in_time_each_time_delays_headers_by_seconds() {
    let blocks = chain(20 * MAX_HEADERS as u32 + 1, 40_000_000);
    for minimum_chain_work in [Work::ZERO, Work::from(2 * 39_000u32)] {
        let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
        let late = Duration::from_millis(4_900);
        let mut delays = vec![(node.full_peer(), late)];
        delays.extend((1..8).map(|_| (node.full_peer(), Duration::from_millis(200))));
        let (took, _) = race(&mut node, &delays, &blocks);
        // 21 answers, in a pre-sync twice, of 0.2 s each in steps of 0.1 s; and two that were late.
        assert!(took < Duration::from_secs(25), "{took:?}");
        assert_eq!(node.is_gone(delays[0].0), None, "it may only be slow");
    }
}

#[test]
fn b4_a_peer_that_is_quick_only_while_it_is_watched_delays_headers_by_seconds() {
    let blocks = chain(20 * MAX_HEADERS as u32 + 1, 40_000_000);
    for minimum_chain_work in [Work::ZERO, Work::from(2 * 39_000u32)] {
        let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
        let peers: Vec<_> = (0..8).map(|_| node.full_peer()).collect();
        let delay = |id, question: u32| match (id == peers[0], question % 3) {
            // As long as it may take, then a bit longer; another one is asked now.
            (true, 0) => Duration::from_secs(5 << (question / 3).min(5)),
            (true, 1) => Duration::from_millis(1_100),
            (true, _) => Duration::from_millis(100),
            (false, _) => Duration::from_millis(200),
        };
        let (took, answers) = race_with(&mut node, &peers, &blocks, delay);
        assert!(took < Duration::from_secs(25), "{took:?}");
        assert!(answers < 100, "{answers} full answers");
        assert!(peers.iter().all(|&id| node.is_gone(id).is_none()));
    }
}

#[test]
fn b5_peers_that_are_all_slow_are_not_all_asked_for_the_same() {
    let blocks = chain(20 * MAX_HEADERS as u32 + 1, 40_000_000);
    let mut node = Harness::new(config());
    let delays: Vec<_> = (0..8).map(|_| (node.full_peer(), Duration::from_secs(5))).collect();
    let (took, answers) = race(&mut node, &delays, &blocks);
    assert!(took < Duration::from_secs(120), "{took:?}");
    // Twenty-one, one for each race, and the last one of everybody.
    assert!(answers <= 26, "{answers} full answers");
}

#[test]
fn b4_a_peer_that_dribbles_headers_is_replaced_in_seconds_and_left_in_minutes() {
    let mut node = Harness::new(config());
    node.answers_pings = false;
    let (dribbling, other) = (node.full_peer(), node.full_peer());
    node.take(dribbling);
    trickle(&mut node, dribbling, 6, 1);
    assert_eq!(locators(&mut node, other).len(), 1, "asked beside it");
    node.headers(other, &chain(5, 400_000));
    trickle(&mut node, dribbling, 120, 1);
    assert_eq!(node.is_gone(dribbling), Some(DisconnectReason::HeadersTimeout));
    assert_eq!(node.discouraged(), 0);
}

#[test]
fn b7_a_flood_of_known_headers_is_not_looked_at_and_then_left() {
    let blocks = chain(MAX_HEADERS as u32, 3_600);
    let mut node = Harness::with_chain(config(), &blocks);
    let (flooder, other) = (node.full_peer(), node.inbound_peer());
    node.headers(flooder, &blocks[MAX_HEADERS - 1..]);
    node.take(flooder);
    for n in 0..25 {
        node.headers(flooder, &blocks);
        assert_eq!(node.is_gone(flooder), None, "message {n}");
    }
    assert_eq!(locators(&mut node, flooder).len(), 0, "it is not asked for more of the same");
    assert_eq!(node.submitted_headers.len(), 0);
    node.headers(flooder, &blocks);
    assert_eq!(node.is_gone(flooder), Some(DisconnectReason::UselessHeaders));
    assert_eq!(node.discouraged(), 0, "it may only be broken");
    // Every peer announces every block.
    for _ in 0..2_000 {
        for _ in 0..20 {
            node.headers(other, &blocks[MAX_HEADERS - 1..]);
        }
        node.now.monotonic += Duration::from_secs(1);
    }
    assert_eq!(node.is_gone(other), None);
}

/// Nor is it connected to, until half of its allowance has come back.
#[test]
fn b7_a_flooder_that_connects_again_goes_on_with_what_was_left() {
    let blocks = chain(MAX_HEADERS as u32, 3_600);
    let mut node = Harness::with_chain(config(), &blocks);
    let flooder = node.full_peer();
    let address = node.address_of(flooder);
    node.headers(flooder, &blocks[MAX_HEADERS - 1..]);
    for _ in 0..=25 {
        node.headers(flooder, &blocks);
    }
    assert_eq!(node.is_gone(flooder), Some(DisconnectReason::UselessHeaders));
    let gone_at = node.now.monotonic;
    let mut messages = |seconds| {
        node.now.monotonic = gone_at + Duration::from_secs(seconds);
        let id = node.accept(address).expect("a place");
        node.pump();
        node.greet(id);
        node.headers(id, &blocks[MAX_HEADERS - 1..]);
        let sent = (0..30).take_while(|_| {
            node.headers(id, &blocks);
            node.is_gone(id).is_none()
        });
        sent.count()
    };
    // 50 a second come back, for all of its connections together.
    assert_eq!([39, 41, 42, 60, 82].map(&mut messages), [0, 1, 0, 0, 1]);
    assert!(messages(2_000) >= 24, "everything has come back");
}

#[test]
fn b7_a_flood_of_headers_that_lead_nowhere_is_left() {
    let mut node = Harness::with_chain(config(), &chain(5, 60));
    let id = node.full_peer();
    let elsewhere = TestBlock::on(&TestBlock::genesis(), 9, 9, 0);
    let elsewhere = TestBlock::chain(&elsewhere, 1_000, 1 << 30, 9);
    for _ in 0..=50 {
        assert_eq!(node.is_gone(id), None);
        node.headers(id, &elsewhere);
    }
    assert_eq!(node.is_gone(id), Some(DisconnectReason::UselessHeaders));
}

/// Seed 7179 of the runs with kills: a peer of a lower chain lost its connection every few seconds.
#[test]
fn b5_a_peer_of_a_lower_chain_may_tell_it_to_each_question() {
    let minimum_chain_work = Work::from(2 * 2_000u32);
    let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
    let address = node.fresh_address();
    let lower = chain(1_000, 100_000);
    for _ in 0..=50 {
        let id = node.accept(address).expect("there is a place");
        node.greet(id);
        assert_eq!(locators(&mut node, id).len(), 1);
        node.headers(id, &lower);
        assert_eq!(node.is_gone(id), None);
        node.tell(NetEvent::Closed { peer: id });
    }
}

#[test]
fn b2_an_answer_that_is_the_same_for_ever_ends() {
    let mut node = Harness::new(config());
    let liar = node.full_peer();
    let blocks = chain(MAX_HEADERS as u32, 4_000_000);
    for _ in 0..40 {
        if !locators(&mut node, liar).is_empty() {
            node.headers(liar, &blocks);
        }
    }
    assert_eq!(node.is_gone(liar), Some(DisconnectReason::UselessHeaders));
}

#[test]
fn b5_a_peer_far_behind_may_tell_its_whole_chain() {
    let blocks = chain(27 * MAX_HEADERS as u32, 100_000);
    let mut node = Harness::with_chain(config(), &blocks);
    let id = node.inbound_peer();
    let behind = &blocks[..blocks.len() - 10];
    for part in behind.chunks(MAX_HEADERS) {
        assert_eq!(locators(&mut node, id).len(), 1);
        node.headers(id, part);
        assert_eq!(node.is_gone(id), None);
    }
    assert_eq!(locators(&mut node, id).len(), 0, "it has told all");
    assert_eq!(node.submitted_headers.len(), 0);
}

#[test]
fn b5_who_is_second_in_a_presync_is_not_to_blame() {
    let minimum_chain_work = Work::from(2 * 74_000u32);
    let mut node = Harness::new(PeersConfig { minimum_chain_work, ..config() });
    let peers = [node.full_peer(), node.full_peer()];
    let blocks = chain(38 * MAX_HEADERS as u32, 40_000_000);
    let mut asked = locators(&mut node, peers[0]);
    node.advance(Duration::from_secs(6));
    let mut rounds = 0;
    while node.index.headers() < 1 + blocks.len() {
        rounds += 1;
        assert!(rounds < 100);
        for id in peers {
            asked.extend(locators(&mut node, id));
            for hashes in asked.drain(..) {
                node.headers(id, answer(&blocks, &hashes));
            }
            assert_eq!(node.is_gone(id), None, "{rounds}");
        }
    }
}
