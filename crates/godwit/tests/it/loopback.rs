//! The program against scripted peers on real sockets: eight at once, of which four are not what they
//! seem.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use godwit::exit::Exit;
use godwit_sim::chain::{GENERATOR_VERSION, generated};
use godwit_sim::miner::REGTEST_MAGIC;
use godwit_sim::network::{BlockConduct, Branch, Conduct, HeaderConduct, TcpPeer, View, forge};
use godwit_sim::plan::ChainPlan;
use godwit_sim::restamp::restamp;
use godwit_sim::summary::Summary;

use crate::node::Node;

/// Four hostile peers of eight may cost this many times what eight honest ones take.
const MOST_DELAY: f64 = 1.2;

/// An odd number.
const ROUNDS: usize = 3;

pub(crate) fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The chain of a plan, its last block stamped now: a node asks only one peer for headers while the
/// best that it knows are old.
fn chain(plan: ChainPlan) -> Branch {
    let plan = plan.ending_at(unix_now() as u32).expect("long after genesis");
    Branch::genesis().extended(generated(&plan))
}

/// Four good peers, and one each that stalls, dribbles, lies about headers, and has an invalid chain.
fn mixed_company(best: &Arc<Branch>) -> Vec<Conduct> {
    let view = || View::constant(Arc::clone(best));
    let height = best.height();
    let invalid = forge::invalid_branch(best, height - 3, forge::Flaw::Overpaid, 5);
    let mut company = vec![
        Conduct::hostile("stalls", view()).with_blocks(BlockConduct::Silent),
        Conduct::hostile("dribbles", view()).with_blocks(BlockConduct::Dribble(1)),
        Conduct::hostile("lies", view()).with_headers(HeaderConduct::WithoutWork),
        Conduct::hostile("invalid", View::constant(Arc::new(invalid))),
    ];
    company.extend((0..4).map(|_| Conduct::honest(view())));
    company
}

fn honest_company(best: &Arc<Branch>) -> Vec<Conduct> {
    (0..8).map(|_| Conduct::honest_with(best)).collect()
}

/// What a synchronisation gave.
struct Synchronised {
    took: Duration,
    muhash: String,
    log: String,
}

/// Synchronises a new node from the company to the height of `best`.
fn synchronise(best: &Branch, company: Vec<Conduct>) -> Synchronised {
    let listen = |conduct| TcpPeer::listen(conduct, REGTEST_MAGIC, unix_now() as i64);
    let peers: Vec<TcpPeer> =
        company.into_iter().map(|conduct| listen(conduct).expect("a free port")).collect();
    let node = Node::new("regtest");
    let mut words = vec!["-listen=0".to_owned(), format!("-stopatheight={}", best.height())];
    words.extend(peers.iter().map(|peer| format!("-connect={}", peer.address())));
    let words: Vec<&dyn AsRef<std::ffi::OsStr>> =
        words.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>).collect();
    let start = Instant::now();
    node.run(&words).expect(Exit::Success);
    let took = start.elapsed();
    assert!(peers.iter().all(|peer| peer.connections() > 0), "each was connected to");
    let stats = node.stats();
    assert_eq!(stats["bestblock"], best.tip().hash.to_string());
    let muhash = stats["muhash"].as_str().expect("a string").to_owned();
    Synchronised { took, muhash, log: node.log() }
}

#[test]
fn eight_peers_of_which_four_are_hostile_give_the_chain_of_eight_honest_ones() {
    let best = Arc::new(chain(ChainPlan::small(11)));
    let honest = synchronise(&best, honest_company(&best));
    let mixed = synchronise(&best, mixed_company(&best));
    assert_eq!(mixed.muhash, honest.muhash);
    eprintln!("eight honest: {:?}, four of eight: {:?}", honest.took, mixed.took);
    assert!(!honest.log.contains("misbehaving"), "{}", honest.log);
}

/// The benchmark's chain, moved in time to end now; from the cache that `tools/bench-chain` fills,
/// else made here, which takes minutes.
fn benchmark_chain() -> Branch {
    let cache = PathBuf::from(std::env::var_os("HOME").expect("a home directory"))
        .join(format!(".cache/godwit/chains/benchmark-v{GENERATOR_VERSION}.dat"));
    let Ok(summary) = fs::read(cache.with_extension("json")) else {
        return chain(ChainPlan::benchmark(1));
    };
    let summary: Summary = serde_json::from_slice(&summary).expect("a summary");
    let temp = tempfile::tempdir().expect("a temporary directory");
    let moved = temp.path().join("moved.dat");
    restamp(&cache, &moved, &summary, unix_now() as u32).expect("a generated chain");
    let file = fs::read(&moved).expect("just written");
    let mut rest = &file[..];
    let mut blocks = Vec::new();
    // Magic, length, block.
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let len = u32::from_le_bytes(*head.last_chunk().expect("four of eight")) as usize;
        blocks.push(after[..len].to_vec());
        rest = &after[len..];
    }
    Branch::genesis().extended(blocks)
}

/// Must-show 3 of the issue. Each round compares two runs of one process one after the other, and the
/// median of three is bounded; it wants a quiet machine all the same.
#[test]
#[ignore = "soak"]
fn eight_peers_of_which_four_are_hostile_take_hardly_longer_than_eight_honest_ones() {
    let best = Arc::new(benchmark_chain());
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let honest = synchronise(&best, honest_company(&best));
        let mixed = synchronise(&best, mixed_company(&best));
        assert_eq!(mixed.muhash, honest.muhash);
        let (honest, mixed) = (honest.took.as_secs_f64(), mixed.took.as_secs_f64());
        let ratio = mixed / honest;
        eprintln!(
            "round {round}: eight honest {honest:.1} s, four of eight hostile {mixed:.1} s, ratio \
             {ratio:.3}"
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ROUNDS / 2];
    assert!(median <= MOST_DELAY, "the median of {ratios:?} is above {MOST_DELAY}");
}
