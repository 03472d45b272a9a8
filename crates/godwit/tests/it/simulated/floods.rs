//! Peers that send too much, named after `ecosystem.md` §6.3: what they cost has a bound, and the node
//! synchronises beside them.

use std::time::Duration;

use godwit_p2p::SEND_QUEUE_MAX;
use godwit_sim::network::{Conduct, HeaderConduct, Noise};

use super::driver::Driver;
use super::scenarios::{HOUR, company, driver, honest, hostile, inbound, several, synchronise};
use super::worlds::Stage;

const SECOND: Duration = Duration::from_secs(1);

/// The node synchronises from one honest peer while two of each of the others do what they do, one
/// that it chose and one that came. Then they go on for a while.
fn beside(stage: &'static Stage, bad: &[Conduct], then: Duration) -> Driver {
    let mut peers = inbound(company(bad.iter().cloned(), 500_000));
    let chosen = company(bad.iter().cloned().chain([honest(stage)]), 500_000);
    for (n, plan) in peers.iter_mut().enumerate() {
        let address = chosen[n].address.to_string().replace(".7.7.7", ".8.8.8");
        plan.address = address.parse().expect("an address");
    }
    peers.extend(chosen);
    let mut driver = driver(stage, None, peers);
    let took = synchronise(&mut driver, stage, 2 * HOUR);
    driver.run(took + then, |_| false);
    eprintln!("{took:?}, {:?}, {} bytes of log", driver.peak, driver.log_bytes);
    driver
}

fn noise(stage: &Stage, kinds: &[Noise], pause: Duration) -> Vec<Conduct> {
    kinds.iter().map(|kind| hostile(stage).with_noise(*kind, 2, pause)).collect()
}

#[test]
fn b1_headers_below_the_minimum_of_work_leave_nothing_in_the_tree() {
    let stage = Stage::long();
    let kinds = [HeaderConduct::LowWork, HeaderConduct::WithoutWork, HeaderConduct::Gap];
    let bad = kinds.map(|headers| hostile(stage).with_headers(headers));
    let mut driver = beside(stage, &bad, 600 * SECOND);
    let headers = driver.core().chain().tree().len() as u32;
    assert_eq!(headers, stage.world.best.height() + 1);
}

#[test]
fn b2_headers_without_an_end_do_not_keep_the_node_from_the_best_chain() {
    let stage = Stage::long();
    let bad = hostile(stage).with_headers(HeaderConduct::Endless);
    beside(stage, &[bad], 600 * SECOND);
}

#[test]
fn b3_headers_that_break_the_protocol_are_their_sender_s() {
    let stage = Stage::reorganising();
    let kinds = [
        HeaderConduct::TooMany,
        HeaderConduct::WithoutWork,
        HeaderConduct::Gap,
        HeaderConduct::Unconnected,
    ];
    let bad = kinds.map(|headers| hostile(stage).with_headers(headers));
    let mut driver = beside(stage, &bad, SECOND);
    let headers = driver.core().chain().tree().len() as u32;
    assert_eq!(headers, stage.world.best.height() + 1);
    assert!(driver.disconnected.iter().filter(|gone| gone.misbehaved()).count() >= 3);
}

#[test]
fn b7_b8_floods_of_inv_getdata_and_getheaders_fill_no_queue() {
    let stage = Stage::mixed();
    let kinds = [Noise::Inventory, Noise::GetData, Noise::GetDataUnread, Noise::GetHeadersUnread];
    let driver = beside(stage, &noise(stage, &kinds, SECOND / 2), 300 * SECOND);
    assert!(driver.peak.sending <= driver.peak.connections * SEND_QUEUE_MAX);
}

#[test]
fn b7_small_blocks_for_peers_that_read_nothing_hold_no_buffers_of_large_ones() {
    let stage = Stage::mixed();
    let driver = beside(stage, &noise(stage, &[Noise::StrippedUnread], SECOND / 2), 300 * SECOND);
    let peak = driver.peak;
    assert!(peak.sending > 1 << 20 && peak.memory < 4 * peak.sending, "{peak:?}");
}

#[test]
fn b10_b12_addresses_and_transactions_are_taken_slowly() {
    let stage = Stage::reorganising();
    let bad = noise(stage, &[Noise::Addresses, Noise::Transactions, Noise::Pings], SECOND);
    let driver = beside(stage, &bad, HOUR);
    // A tenth a second from each of seven peers, after the thousand that each was asked for.
    assert!(driver.peak.addresses <= 7 * (1_000 + 400), "{:?}", driver.peak);
}

#[test]
fn b13_user_agents_and_clocks_of_peers_change_nothing() {
    let stage = Stage::reorganising();
    let agent = |user_agent: String| Conduct { user_agent, ..hostile(stage) };
    let clock = |clock_error| Conduct { clock_error, ..hostile(stage) };
    let bad = [
        agent("x".repeat(900)),
        agent("\u{1b}[2J\n<script>".repeat(20)),
        clock(i64::MAX),
        clock(i64::MIN),
        clock(10 * 365 * 86_400),
        clock(-10 * 365 * 86_400),
    ];
    let driver = beside(stage, &bad, 60 * SECOND);
    assert!(driver.log_bytes < 1 << 20, "{} bytes", driver.log_bytes);
}

#[test]
fn b14_an_hour_of_broken_messages_gives_less_than_a_megabyte_of_log() {
    let stage = Stage::reorganising();
    let kinds = [
        Noise::Garbage,
        Noise::WrongMagic,
        Noise::WrongChecksum,
        Noise::Truncated,
        Noise::Oversized,
        Noise::TooManyEntries,
        Noise::Unknown,
    ];
    let mut bad = noise(stage, &kinds, SECOND / 4);
    bad.extend(several(3, &hostile(stage).with_headers(HeaderConduct::WithoutWork)));
    let driver = beside(stage, &bad, HOUR);
    assert!(driver.log_bytes < 1 << 20, "{} bytes", driver.log_bytes);
}
