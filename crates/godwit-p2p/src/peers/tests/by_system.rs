//! Autonomous systems of peers.

use std::num::NonZeroU32;

use super::harness::{Harness, address, config};
use crate::asmap::tests::map_of;
use crate::{AddressBook, Entrance, Host, NetAddress, NetGroups, Peers};

#[test]
fn the_operator_sees_the_system_of_a_peer() {
    let mut node = Harness::new(config());
    let groups = NetGroups::by_system(map_of(&[("::ffff:99.1.0.0", 112, 77), ("::", 1, 9)]));
    let book = AddressBook::with_groups([3; 32], groups);
    node.peers = Peers::new(config(), book, node.now, &node.index);
    let tor = NetAddress::new(Host::Ipv4([127, 0, 0, 1]), 5);
    node.accept(address(1)).expect("a slot");
    node.accept_at(tor, Entrance::Onion).expect("a slot");
    let systems: Vec<_> = node.peers.infos().iter().map(|peer| peer.system).collect();
    assert_eq!(systems, [NonZeroU32::new(77), None]);

    let mut without = Harness::new(config());
    without.accept(address(1)).expect("a slot");
    assert_eq!(without.peers.infos()[0].system, None);
}
