//! The encrypted transport (BIP324) in the simulated world: B16 of `ecosystem.md` §6.3, and the
//! scenarios of others that look different when the bytes are encrypted.

use std::time::Duration;

use godwit_p2p::{Protocol, Services};
use godwit_sim::network::{BlockConduct, Conduct, Noise, PeerPlan, Speech};

use super::driver::{Discovery, Driver, NodePlan};
use super::scenarios::{HOUR, company, honest, hostile, inbound, node, several, synchronise};
use super::worlds::Stage;

fn encrypting(conduct: Conduct) -> Conduct {
    let services = conduct.services | Services::P2P_V2;
    Conduct { services, ..conduct.speaking(Speech::Encrypted) }
}

fn driver(stage: &'static Stage, discovery: Discovery, peers: Vec<PeerPlan>) -> Driver {
    let plan = NodePlan { v2: true, ..node(1, discovery) };
    Driver::new(stage, plan, None, peers)
}

fn encrypted(driver: &Driver) -> usize {
    let is_v2 = |protocol: &Protocol| matches!(protocol, Protocol::V2 { .. });
    driver.protocols.iter().filter(|(_, protocol)| is_v2(protocol)).count()
}

#[test]
fn b16_a_chain_comes_over_encrypted_connections_of_both_directions() {
    let stage = Stage::mixed();
    let peers = several(3, &encrypting(honest(stage)));
    for peers in [company(peers.clone(), 100_000), inbound(company(peers, 100_000))] {
        let discovery = if peers[0].listens { Discovery::Connect } else { Discovery::Seed };
        let mut driver = driver(stage, discovery, peers);
        synchronise(&mut driver, stage, HOUR);
        assert_eq!((encrypted(&driver), driver.protocols.len()), (3, 3), "{:?}", driver.protocols);
        assert!(driver.disconnected.is_empty(), "{:?}", driver.disconnected);
    }
}

/// Nothing says beforehand that they speak it: those of a seed are tried in plain first, and those
/// that say so in their `version` are encrypted from then on.
#[test]
fn b16_only_peers_that_are_said_to_encrypt_are_offered_it_unasked() {
    let stage = Stage::reorganising();
    let mut driver =
        driver(stage, Discovery::Seed, company(several(2, &encrypting(honest(stage))), 100_000));
    driver.run(Duration::from_secs(30), |_| false);
    assert_eq!(encrypted(&driver), 0, "{:?}", driver.protocols);
}

#[test]
fn b16_peers_that_speak_in_plain_alone_are_found_in_plain_and_keep_their_connection() {
    let stage = Stage::mixed();
    // They claim it; a downgrade by whoever sits between looks the same, and is no more than that.
    let mut conduct = honest(stage);
    conduct.services = conduct.services | Services::P2P_V2;
    let mut driver = driver(stage, Discovery::Connect, company(several(3, &conduct), 100_000));
    synchronise(&mut driver, stage, HOUR);
    assert_eq!(driver.protocols.len(), 3, "{:?}", driver.protocols);
    assert!(driver.protocols.iter().all(|(_, protocol)| *protocol == Protocol::V1));
    assert!(driver.disconnected.is_empty(), "{:?}", driver.disconnected);
}

#[test]
fn b16_a_peer_that_calls_in_plain_is_answered_in_plain() {
    let stage = Stage::mixed();
    let peers = inbound(company(several(3, &honest(stage)), 100_000));
    let mut driver = driver(stage, Discovery::Seed, peers);
    synchronise(&mut driver, stage, HOUR);
    assert!(driver.protocols.iter().all(|(_, protocol)| *protocol == Protocol::V1));
}

/// Among bad peers of one kind there is a good one; why the node left the bad ones.
fn left_because(bad: &Conduct, discovery: Discovery) -> Vec<String> {
    let stage = Stage::mixed();
    let conducts = several(3, bad).into_iter().chain([encrypting(honest(stage))]);
    let mut peers = company(conducts, 100_000);
    if discovery == Discovery::Seed {
        let good = peers.pop().expect("the last is good");
        peers = inbound(peers);
        peers.push(good);
    }
    let mut driver = driver(stage, discovery, peers);
    synchronise(&mut driver, stage, HOUR);
    assert!(driver.disconnected.iter().all(|gone| gone.peer.conduct.name == "hostile"));
    let why = driver.disconnected.iter().map(|gone| gone.why.to_string()).collect();
    let receiving = driver.peak.receiving;
    let most = driver.peak.connections * (64 << 10) + (4 << 20);
    assert!(receiving <= most, "{receiving} bytes held for what was never proven");
    why
}

#[test]
fn b16_garbage_without_an_end_ends_the_connection() {
    let bad = hostile(Stage::mixed()).speaking(Speech::Garbage);
    for discovery in [Discovery::Connect, Discovery::Seed] {
        let why = left_because(&bad, discovery);
        assert!(!why.is_empty() && why.iter().all(|why| why == "v2 transport error"), "{why:?}");
    }
}

#[test]
fn b16_bytes_that_are_no_packet_of_the_peer_end_the_connection_and_nothing_else() {
    let bad = encrypting(hostile(Stage::mixed()));
    for noise in [Noise::Garbage, Noise::WrongMagic, Noise::WrongChecksum, Noise::Announced] {
        let bad = bad.clone().with_noise(noise, 40, Duration::from_secs(5));
        let why = left_because(&bad, Discovery::Connect);
        // What looks like the length of a packet may make the node wait for the rest, for a while.
        let expected = ["v2 transport error", "stalling the block download"];
        assert!(why.iter().all(|why| expected.contains(&why.as_str())), "{noise:?}: {why:?}");
        assert!(why.contains(&expected[0].to_owned()), "{noise:?}: {why:?}");
    }
}

#[test]
fn b20_flipped_bits_that_are_encrypted_by_their_sender_are_their_sender_s() {
    let stage = Stage::mixed();
    let bad = encrypting(hostile(stage).with_blocks(BlockConduct::BitFlipped));
    let conducts = several(3, &bad).into_iter().chain([encrypting(honest(stage))]);
    let peers = inbound(company(conducts, 100_000));
    let mut driver = driver(stage, Discovery::Seed, peers);
    synchronise(&mut driver, stage, HOUR);
    let gone = &driver.disconnected;
    assert!(!gone.is_empty(), "somebody was asked for a block");
    assert!(gone.iter().all(|gone| gone.misbehaved()), "{gone:?}");
}

/// How far a block has come is seen before its packet is proven: a slow peer is told from a silent
/// one as in plain.
#[test]
fn b4_one_of_eight_that_dribbles_encrypted_costs_a_fifth_at_most() {
    const RATE: u64 = 5_000;
    let stage = Stage::mixed();
    let good = several(7, &encrypting(honest(stage)));
    let alone = company(good.clone(), RATE);
    let undisturbed = synchronise(&mut driver(stage, Discovery::Connect, alone), stage, 5 * HOUR);
    let bad = encrypting(hostile(stage).with_blocks(BlockConduct::Dribble(1)));
    let peers = company([bad].into_iter().chain(good), RATE);
    let disturbed = synchronise(&mut driver(stage, Discovery::Connect, peers), stage, 5 * HOUR);
    let ratio = disturbed.as_secs_f64() / undisturbed.as_secs_f64();
    eprintln!("{disturbed:?} instead of {undisturbed:?}, {ratio:.3}");
    assert!(ratio <= 1.2);
}

#[test]
fn b4_with_slow_encrypted_peers_only_nobody_is_disconnected() {
    const RATE: u64 = 400;
    let stage = Stage::mixed();
    let peers = company(several(4, &encrypting(honest(stage))), RATE);
    let mut driver = driver(stage, Discovery::Connect, peers);
    synchronise(&mut driver, stage, 24 * HOUR);
    assert_eq!(encrypted(&driver), 4);
    assert!(driver.disconnected.is_empty(), "{:?}", driver.disconnected);
}
