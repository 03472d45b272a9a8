//! Connections that the operator tries once (`addnode` with `onetry`).

use std::time::Duration;

use super::harness::{Harness, address, config};
use crate::{
    ConnectFailure, ConnectionKind, Event, MAX_TRIED_CONNECTIONS, NetEvent, NodeCommand, PeerId,
    Target,
};

fn command(node: &mut Harness, command: NodeCommand) {
    node.tell(Event::Operator(command));
    node.pump();
}

/// Tries peers once; who is called at once.
fn tries(node: &mut Harness, targets: &[Target]) -> Vec<(PeerId, Target)> {
    targets.iter().for_each(|target| command(node, NodeCommand::TryNode(target.clone())));
    let called = std::mem::take(&mut node.connects);
    assert!(called.iter().all(|(_, _, kind)| *kind == ConnectionKind::Manual));
    called.into_iter().map(|(id, target, _)| (id, target)).collect()
}

fn targets(count: usize) -> Vec<Target> {
    (0..count).map(|n| Target::Address(address(n as u8))).collect()
}

#[test]
fn a_single_try_that_an_inactive_network_does_not_allow_is_not_made_later() {
    let mut node = Harness::new(config());
    command(&mut node, NodeCommand::SetNetworkActive(false));
    let target = &targets(1)[0];
    assert_eq!(tries(&mut node, std::slice::from_ref(target)), []);
    assert!(!node.peers.refuses_try(target), "Core says nothing then");
    command(&mut node, NodeCommand::SetNetworkActive(true));
    node.advance(Duration::from_secs(60));
    assert_eq!(node.connects, []);
    assert_eq!(tries(&mut node, std::slice::from_ref(target)).len(), 1);
}

#[test]
fn single_tries_are_made_at_once_while_there_are_places_and_never_else() {
    let mut node = Harness::new(config());
    let all = targets(MAX_TRIED_CONNECTIONS + 3);
    let (made, refused) = all.split_at(MAX_TRIED_CONNECTIONS);
    let called = tries(&mut node, &all);
    assert!(called.iter().map(|(_, target)| target).eq(made));
    assert!(refused.iter().all(|target| node.peers.refuses_try(target)));
    assert!(made.iter().all(|target| !node.peers.refuses_try(target)), "they are being called");
    // Two places become free: an attempt fails, and a connection ends.
    let why = ConnectFailure::Refused;
    node.tell(NetEvent::ConnectFailed { peer: called[0].0, why });
    for (peer, target) in &called[1..] {
        let Target::Address(address) = target else { panic!("no names here") };
        node.tell(NetEvent::Connected { peer: *peer, address: Some(*address) });
    }
    node.pump();
    node.tell(NetEvent::Closed { peer: called[1].0 });
    node.advance(Duration::from_secs(5));
    assert_eq!(node.connects, []);
    let again = tries(&mut node, refused);
    assert!(again.iter().map(|(_, target)| target).eq(&refused[..2]));
    assert!(node.peers.refuses_try(&refused[2]));
    // Others have their own places.
    let added = Target::Address(address(99));
    command(&mut node, NodeCommand::AddNode(added.clone()));
    node.advance(Duration::from_secs(1));
    assert_eq!(node.connects.len(), 1);
    assert_eq!(node.connects[0].1, added);
}
