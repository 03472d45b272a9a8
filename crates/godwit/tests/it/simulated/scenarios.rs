//! Single scenarios, named after `ecosystem.md` §6.3.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use godwit::node::sockets::InboxLimits;
use godwit_chain::{BlockMemory, RECEIVING_BYTES};
use godwit_fault_disk::Survival;
use godwit_p2p::{Host, NetAddress, NetEvent, Now};
use godwit_sim::network::{
    BlockConduct, Branch, Conduct, HeaderConduct, LinkSpec, Noise, PeerPlan, View,
};
use godwit_store::utxo::CacheMinima;
use godwit_stream::DataStream;

use super::driver::{Discovery, Driver, NodePlan};
use super::run::{BLOCK_MEMORY, check, tip};
use super::worlds::Stage;

pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// Two of the large blocks of a heavy chain, about.
pub(super) const SMALL_INBOX: InboxLimits = InboxLimits { blocks: 200_000, ..InboxLimits::PRODUCT };

fn link(rate: u64) -> LinkSpec {
    LinkSpec {
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(5),
        rate,
        window: 64 << 10,
    }
}

/// Peers of different networks that listen.
pub(super) fn company(conducts: impl IntoIterator<Item = Conduct>, rate: u64) -> Vec<PeerPlan> {
    let plan = |(n, conduct): (usize, Conduct)| PeerPlan {
        address: NetAddress::new(
            Host::Ipv4([20 + (n % 60) as u8, 7 + (n / 60) as u8, 7, 7]),
            18_444,
        ),
        conduct: Arc::new(conduct),
        link: link(rate),
        listens: true,
        dials: None,
    };
    conducts.into_iter().enumerate().map(plan).collect()
}

/// The same peers, but they come by themselves.
pub(super) fn inbound(mut plans: Vec<PeerPlan>) -> Vec<PeerPlan> {
    for plan in &mut plans {
        plan.listens = false;
        plan.dials = Some((Duration::from_millis(10), Duration::from_secs(5)));
    }
    plans
}

pub(super) fn honest(stage: &Stage) -> Conduct {
    Conduct::honest_with(&stage.world.best)
}

pub(super) fn hostile(stage: &Stage) -> Conduct {
    Conduct::hostile("hostile", View::constant(Arc::clone(&stage.world.best)))
}

pub(super) fn several(count: usize, conduct: &Conduct) -> Vec<Conduct> {
    vec![conduct.clone(); count]
}

pub(super) fn node(seed: u64, discovery: Discovery) -> NodePlan {
    NodePlan {
        seed,
        discovery,
        workers: 1,
        max_inbound: 125,
        v2: false,
        block_memory: BlockMemory::default(),
        inbox: InboxLimits::PRODUCT,
        turn: Duration::ZERO,
        delays: None,
        minima: CacheMinima::PRODUCT,
        journal: false,
        scrub: true,
    }
}

pub(super) fn driver(stage: &'static Stage, line: Option<u64>, peers: Vec<PeerPlan>) -> Driver {
    Driver::new(stage, node(1, Discovery::Connect), line, peers)
}

/// A node that may leave its peers: those that its user named it keeps, whatever they do.
fn choosing(stage: &'static Stage, peers: Vec<PeerPlan>) -> Driver {
    Driver::new(stage, node(1, Discovery::Seed), None, peers)
}

/// Runs until the best chain is the node's: the time that took.
pub(super) fn synchronise(driver: &mut Driver, stage: &Stage, limit: Duration) -> Duration {
    let best = stage.world.best.tip().hash;
    if !driver.run(limit, |driver| tip(driver) == best) {
        driver.fail("the best chain was not reached");
    }
    let took = driver.crowd.now();
    driver.run(took + Duration::from_secs(60), |_| false);
    check(driver, stage);
    took
}

fn bytes(branch: &Branch) -> u64 {
    branch.blocks().iter().map(|block| block.bytes.len() as u64).sum()
}

/// One of eight peers keeps blocks back in some way; the others are not faster than a slow line.
fn delay_by_one_of_eight(blocks: BlockConduct) -> f64 {
    const RATE: u64 = 5_000;
    let stage = Stage::mixed();
    let alone = company(several(7, &honest(stage)), RATE);
    let undisturbed = synchronise(&mut driver(stage, None, alone), stage, 5 * HOUR);
    let bad = hostile(stage).with_blocks(blocks);
    let peers = company([bad].into_iter().chain(several(7, &honest(stage))), RATE);
    let disturbed = synchronise(&mut driver(stage, None, peers), stage, 5 * HOUR);
    let ratio = disturbed.as_secs_f64() / undisturbed.as_secs_f64();
    eprintln!("{blocks:?}: {disturbed:?} instead of {undisturbed:?}, {ratio:.3}");
    ratio
}

#[test]
fn b4_one_of_eight_that_stalls_costs_a_fifth_at_most() {
    assert!(delay_by_one_of_eight(BlockConduct::Silent) <= 1.2);
}

#[test]
fn b4_one_of_eight_that_dribbles_costs_a_fifth_at_most() {
    assert!(delay_by_one_of_eight(BlockConduct::Dribble(1)) <= 1.2);
}

#[test]
fn b4_one_of_eight_that_withholds_what_holds_up_the_window_costs_a_fifth_at_most() {
    assert!(delay_by_one_of_eight(BlockConduct::WithholdFirst) <= 1.2);
}

#[test]
fn b4_one_of_eight_that_withholds_the_last_block_costs_a_fifth_at_most() {
    assert!(delay_by_one_of_eight(BlockConduct::WithholdLast) <= 1.2);
}

/// What the runs of random companies go by: whatever the reason, an honest peer is not let go.
#[test]
#[should_panic(expected = "was punished: timeout downloading blocks")]
fn an_honest_peer_that_is_let_go_as_too_slow_is_noticed() {
    let stage = Stage::mixed();
    let stalls = Conduct { honest: true, ..hostile(stage).with_blocks(BlockConduct::Silent) };
    let peers = company([stalls].into_iter().chain(several(3, &honest(stage))), 5_000);
    synchronise(&mut choosing(stage, peers), stage, HOUR);
}

#[test]
fn b4_with_slow_peers_only_the_node_still_progresses_and_disconnects_nobody() {
    const RATE: u64 = 400;
    let stage = Stage::mixed();
    let mut driver = driver(stage, None, company(several(4, &honest(stage)), RATE));
    let took = synchronise(&mut driver, stage, 24 * HOUR);
    let ideal = bytes(&stage.world.best) as f64 / (4 * RATE) as f64;
    eprintln!("{took:?}, at full rate {ideal:.0} s; {:?}", driver.disconnected);
    assert!(took.as_secs_f64() < 2.0 * ideal);
    assert!(driver.disconnected.is_empty(), "{:?}", driver.disconnected);
}

/// One of eight has its own way with headers and is reached first; none has another line than
/// `line`. The time of the synchronisation and how many times the headers were fetched.
fn headers_with_one_of_eight(bad: HeaderConduct, line: Option<u64>) -> (Duration, f64) {
    let stage = Stage::long();
    let mut peers = company([hostile(stage).with_headers(bad)], 1_000_000);
    let mut good = company(several(8, &honest(stage)), 1_000_000).split_off(1);
    for plan in peers.iter_mut() {
        plan.link.latency = Duration::from_millis(1);
    }
    for plan in &mut good {
        plan.link.latency = Duration::from_millis(200);
    }
    peers.extend(good);
    let mut driver = driver(stage, line, peers);
    let took = synchronise(&mut driver, stage, 24 * HOUR);
    let once = f64::from(stage.world.best.height() * 81);
    let fetched = driver.header_bytes as f64 / once;
    eprintln!("{bad:?}: {took:?}, headers fetched {fetched:.2} times, {:?}", driver.disconnected);
    (took, fetched)
}

#[test]
fn b4_headers_that_dribble_cost_seconds() {
    let (usual, _) = headers_with_one_of_eight(HeaderConduct::Serve, None);
    for rate in [1, 1_000] {
        let (took, _) = headers_with_one_of_eight(HeaderConduct::Dribble(rate), None);
        assert!(took < usual + Duration::from_secs(15), "{took:?} instead of {usual:?}");
    }
}

#[test]
fn b4_headers_that_are_always_late_cost_seconds() {
    let (usual, _) = headers_with_one_of_eight(HeaderConduct::Serve, None);
    let (took, _) = headers_with_one_of_eight(HeaderConduct::Late(4_900), None);
    assert!(took < usual + Duration::from_secs(15), "{took:?} instead of {usual:?}");
}

#[test]
fn b5_on_a_slow_line_headers_are_not_fetched_from_all_at_once() {
    // Twice for the pre-sync, and the end of the chain from everybody.
    let (_, fetched) = headers_with_one_of_eight(HeaderConduct::Serve, Some(12_000));
    assert!(fetched < 4.0, "{fetched}");
}

/// Eight good peers behind one slow line: how many times the chain was fetched.
fn fetched_over_a_slow_line(stage: &'static Stage, line: u64) -> f64 {
    let peers = company(several(8, &honest(stage)), 1_000_000);
    let mut driver = driver(stage, Some(line), peers);
    let took = synchronise(&mut driver, stage, 24 * HOUR);
    let chain = bytes(&stage.world.best) as f64;
    let (ideal, fetched) = (chain / line as f64, driver.block_bytes as f64 / chain);
    eprintln!("{took:?}, the line takes {ideal:.0} s; {fetched:.2} times the chain was fetched");
    assert!(took.as_secs_f64() < 2.0 * ideal);
    assert!(driver.disconnected.is_empty(), "{:?}", driver.disconnected);
    fetched
}

#[test]
fn b5_nobody_is_disconnected_because_the_whole_line_is_slow() {
    // 256 kbit/s.
    assert!(fetched_over_a_slow_line(Stage::mixed(), 32_000) <= 1.2);
    assert!(fetched_over_a_slow_line(Stage::reorganising(), 4_000) <= 1.2);
}

#[test]
fn blocks_that_come_faster_than_they_can_be_taken_wait() {
    let stage = Stage::mixed();
    let mut driver = driver(stage, None, Vec::new());
    let executor = driver.executor.clone();
    let core = driver.core();
    assert!(core.takes_blocks());
    let junk: DataStream = DataStream::from(&vec![1; RECEIVING_BYTES as usize][..]);
    core.chain_mut().receive_block(junk.into(), 0);
    assert!(!core.takes_blocks());
    let told = RefCell::new(Vec::new());
    let next = |takes_blocks| {
        told.borrow_mut().push(takes_blocks);
        Some(NetEvent::Resolved { host: "nobody.example".into(), addresses: Vec::new() })
    };
    let now = Now { monotonic: Duration::ZERO, unix: 0 };
    assert!(core.handle_some(now, 8, next), "everybody else is heard");
    assert_eq!(told.take(), [false; 8], "blocks wait");
    while !core.takes_blocks() {
        executor.finish_one();
        core.chain_mut().poll(now.unix).expect("no fault of its own");
    }
    assert_eq!(core.chain_mut().take_events().len(), 1);
    assert!(core.handle_some(now, 8, next));
    assert_eq!(told.take(), [true; 8]);
}

#[test]
fn a_chain_that_is_slower_than_its_peers_is_given_no_more_than_it_may_hold() {
    let stage = Stage::heavy();
    let most = |block_memory| {
        let turn = Duration::from_secs(10);
        let plan =
            NodePlan { block_memory, inbox: SMALL_INBOX, turn, ..node(1, Discovery::Connect) };
        let peers = company(several(8, &honest(stage)), 1_000_000);
        let mut driver = Driver::new(stage, plan, None, peers);
        // The driver looks at the bound whenever the chain was given a block.
        synchronise(&mut driver, stage, HOUR);
        driver.peak
    };
    let (limited, free) = (most(BLOCK_MEMORY), most(BlockMemory::default()));
    eprintln!("{limited:?} instead of {free:?}");
    assert!(limited.arriving >= BLOCK_MEMORY.receiving && limited.held > 0, "{limited:?}");
    assert!(free.arriving > BLOCK_MEMORY.receiving + stage.largest_buffer, "{free:?}");
}

/// The most blocks in flight while the large ones of the chain arrive, over a line of that rate.
fn most_in_flight(line: u64, maximum: Option<u64>) -> usize {
    let stage = Stage::mixed();
    let peers = company(several(8, &honest(stage)), 1_000_000);
    let mut driver = driver(stage, Some(line), peers);
    if let Some(rate) = maximum {
        driver.core().set_max_download_rate(rate);
    }
    let best = stage.world.best.tip().hash;
    let most = Cell::new(0);
    let done = |driver: &mut Driver| {
        if (120..150).contains(&driver.core().chain().tip_point().height) {
            most.set(most.get().max(driver.core().peers().summary().blocks_in_flight));
        }
        tip(driver) == best
    };
    assert!(driver.run(HOUR, done), "it goes on");
    most.get()
}

#[test]
fn under_a_maximum_rate_less_is_asked_for_at_once() {
    const LINE: u64 = 20_000;
    let (free, limited) = (most_in_flight(LINE, None), most_in_flight(LINE, Some(LINE / 10)));
    eprintln!("{limited} in flight instead of {free}");
    // Some were asked for when the blocks were small.
    assert!(limited < free);
}

#[test]
fn b6_notfound_wrong_unrequested_and_stale_blocks_do_no_harm() {
    let stage = Stage::mixed();
    let kinds = [BlockConduct::NotFound, BlockConduct::Other, BlockConduct::Unrequested];
    let bad = kinds.map(|blocks| hostile(stage).with_blocks(blocks));
    let stale = Conduct::honest_with(&stage.world.stale[2]);
    let peers = company(bad.into_iter().chain([stale, honest(stage)]), 100_000);
    let mut driver = driver(stage, None, peers);
    synchronise(&mut driver, stage, HOUR);
    // What nobody asked for was not kept, and nothing was fetched more than twice.
    assert!(driver.block_bytes < 3 * bytes(&stage.world.best), "{}", driver.block_bytes);
}

#[test]
fn b9_memory_grows_with_received_bytes_not_with_announced_ones() {
    let stage = Stage::reorganising();
    let noise = |noise| hostile(stage).with_noise(noise, 1, Duration::from_secs(600));
    let mut bad = several(60, &noise(Noise::Announced));
    bad.extend(several(60, &hostile(stage).with_blocks(BlockConduct::Truncated)));
    let mut peers = inbound(company(bad, 100_000));
    peers.push(PeerPlan {
        address: NetAddress::new(Host::Ipv4([9, 9, 9, 9]), 18_444),
        listens: true,
        dials: None,
        ..company([honest(stage)], 100_000).remove(0)
    });
    let mut driver = driver(stage, None, peers);
    synchronise(&mut driver, stage, HOUR);
    eprintln!("{:?}", driver.peak);
    assert!(driver.peak.connections > 100, "{:?}", driver.peak);
    // Each claims at most 64 KiB; what 120 of them announced is 240 MB.
    assert!(driver.peak.receiving <= driver.peak.connections * (64 << 10), "{:?}", driver.peak);
}

#[test]
fn b18_a_node_that_knows_attackers_first_finds_the_honest_peer() {
    let stage = Stage::reorganising();
    let best = &stage.world.best;
    let behind = Arc::new(best.truncated(best.height() - 6));
    for seed in 0..3 {
        let bad = Conduct::hostile("stale", View::constant(Arc::clone(&behind)));
        let peers = company(several(24, &bad).into_iter().chain([honest(stage)]), 100_000);
        let mut driver = Driver::new(stage, node(seed, Discovery::Fixed), None, peers);
        let took = synchronise(&mut driver, stage, 72 * HOUR);
        eprintln!("seed {seed}: {took:?}");
    }
}

#[test]
fn b20_flipped_bits_are_their_sender_s_and_the_block_is_fetched_elsewhere() {
    let stage = Stage::mixed();
    let bad = hostile(stage).with_blocks(BlockConduct::BitFlipped);
    let peers = company(several(3, &bad).into_iter().chain([honest(stage)]), 100_000);
    let mut driver = choosing(stage, peers);
    synchronise(&mut driver, stage, HOUR);
    let gone = &driver.disconnected;
    assert_eq!(gone.len(), 3, "{gone:?}");
    assert!(gone.iter().all(|gone| gone.misbehaved()), "{gone:?}");
}

#[test]
fn mutated_blocks_are_their_sender_s_and_the_block_is_fetched_elsewhere() {
    let stage = Stage::mixed();
    let bad = hostile(stage).with_blocks(BlockConduct::Mutated);
    let peers = company(several(3, &bad).into_iter().chain([honest(stage)]), 100_000);
    let mut driver = choosing(stage, peers);
    synchronise(&mut driver, stage, HOUR);
    let gone = &driver.disconnected;
    assert!(!gone.is_empty() && gone.iter().all(|gone| gone.misbehaved()));
}

#[test]
fn invalid_chains_with_more_work_are_left_again_and_their_senders_go() {
    for stage in [Stage::reorganising(), Stage::mixed()] {
        let bad = stage.world.invalid.iter();
        let bad = bad.map(|chain| Conduct::hostile("invalid", View::constant(Arc::clone(chain))));
        let peers = company(bad.chain([honest(stage)]), 100_000);
        let mut driver = choosing(stage, peers);
        synchronise(&mut driver, stage, HOUR);
        let why: Vec<String> =
            driver.disconnected.iter().map(|gone| gone.why.to_string()).collect();
        assert!(why.iter().any(|why| why.starts_with("misbehaving: invalid")), "{why:?}");
    }
}

#[test]
fn the_tip_follows_the_network_through_reorganisations_and_back() {
    let stage = Stage::reorganising();
    let (best, second) = (&stage.world.best, &stage.world.stale[0]);
    let at = Duration::from_secs;
    let shorter = Arc::new(best.truncated(best.height() - 3));
    // Ninety-nine blocks deep there, and a hundred and one back.
    let view = View::constant(Arc::clone(&shorter)).then(at(400), Arc::clone(second));
    let view = view.then(at(800), Arc::clone(best));
    let peers = company(several(3, &Conduct::honest(view)), 100_000);
    let mut driver = driver(stage, None, peers);
    for (until, expected) in [(399, &shorter), (799, second)] {
        driver.run(at(until), |_| false);
        assert_eq!(tip(&mut driver), expected.tip().hash, "after {until} s");
    }
    synchronise(&mut driver, stage, HOUR);
    assert!(driver.disconnected.is_empty(), "{:?}", driver.disconnected);
}

#[test]
fn killed_again_and_again_the_node_fetches_only_what_had_not_arrived() {
    let stage = Stage::mixed();
    let total = bytes(&stage.world.best);
    let rate = total / 30;
    for survival in [Survival::All, Survival::Nothing, Survival::Part(7)] {
        let peers = company(several(2, &honest(stage)), rate / 2);
        let mut driver = driver(stage, None, peers);
        for n in 1..8 {
            driver.run(n * Duration::from_secs(4), |_| false);
            driver.kill(survival);
        }
        synchronise(&mut driver, stage, HOUR);
        eprintln!("{survival:?}: {} blocks fetched again", driver.fetched_again);
        // The process alone has died: what was written is there.
        if matches!(survival, Survival::All) {
            assert_eq!(driver.fetched_again, 0);
        }
    }
}

/// The company of the third must-show of issue 3, on fast links: four of eight are hostile.
#[test]
fn four_of_eight_that_stall_dribble_lie_and_have_an_invalid_chain_cost_seconds() {
    let stage = Stage::mixed();
    let alone = company(several(8, &honest(stage)), 2_000_000);
    let undisturbed = synchronise(&mut driver(stage, None, alone), stage, HOUR);
    let invalid = View::constant(Arc::clone(&stage.world.invalid[0]));
    let mut peers = vec![
        hostile(stage).with_blocks(BlockConduct::Silent),
        hostile(stage).with_blocks(BlockConduct::Dribble(1)),
        hostile(stage).with_headers(HeaderConduct::WithoutWork),
        Conduct::hostile("invalid", invalid),
    ];
    peers.extend(several(4, &honest(stage)));
    let mut driver = driver(stage, None, company(peers, 2_000_000));
    let disturbed = synchronise(&mut driver, stage, HOUR);
    eprintln!("{disturbed:?} instead of {undisturbed:?}");
    assert!(disturbed < undisturbed + Duration::from_secs(10));
}
