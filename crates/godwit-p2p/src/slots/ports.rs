//! Ports of other services, to which a node could be lured to connect (Core `IsBadPort`,
//! `doc/p2p-bad-ports.md`).

/// In rising order, for a binary search.
const BAD_PORTS: [u16; 85] = [
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1719, 1720, 1723, 2049, 3306, 3389, 3659, 4045, 5060, 5061, 5432, 5900, 6000, 6566, 6665,
    6666, 6667, 6668, 6669, 6697, 10080, 27017,
];

/// Whether an automatic connection to this port is avoided.
pub(super) fn is_bad(port: u16) -> bool {
    BAD_PORTS.binary_search(&port).is_ok()
}
