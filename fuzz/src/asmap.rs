//! Files of `-asmap`: what is accepted tells a system, or none, of every address.

use godwit_p2p::{Asmap, Host, NetGroups};

use crate::input::Input;

/// Sixteen bytes of an address; then the file.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let address: [u8; 16] = std::array::from_fn(|_| input.u8());
    let Ok(map) = Asmap::new(input.rest().to_vec()) else { return };
    let systems = [[0; 16], [0xff; 16], address].map(|address| map.system_of(address));
    let groups = NetGroups::by_system(map);
    let found = groups.system_of(Host::from_legacy(address));
    // An address that stands for another one is looked up as that.
    let is_itself = Host::from_legacy(address).linked_ipv4().is_none();
    assert!(found.is_none() || !is_itself || found == systems[2]);
}

/// Everything is of 5, but the upper half of 6; the pattern before is that of IPv4.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let address = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4];
    let maps: [&[u8]; 3] = [&[0, 0x40, 0], CORE_FILE, &[1, 0, 0, 0x40, 0, 0, 0x50]];
    maps.iter().map(|map| [&address[..], map].concat()).collect()
}

/// Core `test/data/asmap.raw`.
const CORE_FILE: &[u8] = &[
    0xfb, 0x03, 0xec, 0x0f, 0xb0, 0x3f, 0xc0, 0xfe, 0x00, 0xfb, 0x03, 0xec, 0x0f, 0xb0, 0x3f, 0xc0,
    0xfe, 0x00, 0xfb, 0x03, 0xec, 0x0f, 0xb0, 0xff, 0xff, 0xfe, 0xff, 0xed, 0xb0, 0xff, 0xd4, 0x86,
    0xe6, 0x28, 0x29, 0x00, 0x00, 0x40, 0x00, 0x00, 0x40, 0x00, 0x40, 0x99, 0x01, 0x00, 0x80, 0x01,
    0x80, 0x04, 0x00, 0x00, 0x05, 0x00, 0x06, 0x00, 0x1c, 0xf0, 0x39,
];
