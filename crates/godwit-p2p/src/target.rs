//! Targets of outgoing connections.

use crate::net_address::{AddressNetwork, NetAddress};

/// The networks that an address in the book can have.
const NETWORKS: [AddressNetwork; 5] = [
    AddressNetwork::Ipv4,
    AddressNetwork::Ipv6,
    AddressNetwork::Onion,
    AddressNetwork::I2p,
    AddressNetwork::Cjdns,
];

/// Networks to which connections can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reachable {
    pub ipv4: bool,
    pub ipv6: bool,
    /// Tor, through a proxy.
    pub onion: bool,
    /// The driver does not support it yet.
    pub i2p: bool,
    pub cjdns: bool,
}

impl Reachable {
    /// IPv4 and IPv6, which need no proxy.
    pub const CLEARNET: Self =
        Self { ipv4: true, ipv6: true, onion: false, i2p: false, cjdns: false };

    /// Whether the network is among these.
    pub fn contains(self, network: AddressNetwork) -> bool {
        match network {
            AddressNetwork::Unroutable => false,
            AddressNetwork::Ipv4 => self.ipv4,
            AddressNetwork::Ipv6 => self.ipv6,
            AddressNetwork::Onion => self.onion,
            AddressNetwork::I2p => self.i2p,
            AddressNetwork::Cjdns => self.cjdns,
        }
    }

    pub fn networks(self) -> impl Iterator<Item = AddressNetwork> {
        NETWORKS.into_iter().filter(move |&network| self.contains(network))
    }
}

impl FromIterator<AddressNetwork> for Reachable {
    fn from_iter<I: IntoIterator<Item = AddressNetwork>>(networks: I) -> Self {
        let networks: Vec<_> = networks.into_iter().collect();
        let has = |network| networks.contains(&network);
        Self {
            ipv4: has(AddressNetwork::Ipv4),
            ipv6: has(AddressNetwork::Ipv6),
            onion: has(AddressNetwork::Onion),
            i2p: has(AddressNetwork::I2p),
            cjdns: has(AddressNetwork::Cjdns),
        }
    }
}

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Address(NetAddress),
    /// A host name, which is resolved (the engine asks for it) or passed to the proxy.
    Name {
        host: String,
        port: u16,
    },
}
