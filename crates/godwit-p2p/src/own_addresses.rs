//! The addresses at which this node can be reached, and which of them is advertised to a peer (Core
//! `net.cpp`: `mapLocalHost`, `AddLocal`, `RemoveLocal`, `SeenLocal`, `GetLocal`; `netaddress.cpp`:
//! `GetReachabilityFrom`).

use std::collections::BTreeMap;

use log::info;

use crate::net_address::{AddressNetwork, Host, NetAddress};
use crate::target::Reachable;

/// Own addresses at most. A machine with many networks has tens of them.
const MAX_OWN_ADDRESSES: usize = 256;

/// How an own address was learnt, from the least to the most reliable source; the number is its first score
/// (Core `LOCAL_IF` to `LOCAL_MANUAL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum OwnAddressSource {
    /// An interface of this machine has it.
    Interface = 1,
    /// It is explicitly listened on (`-bind`).
    Bound = 2,
    /// A router forwards it.
    Mapped = 3,
    /// The operator named it (`-externalip`), or an onion service was made for it.
    Manual = 4,
}

/// An address at which this node can be called, with its score: the source's number, and one for each time
/// that it was learnt again or a peer said that it called there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    pub address: NetAddress,
    pub score: u32,
}

/// See the module's documentation. There is one address of each host, as in Core.
#[derive(Clone, Debug)]
pub struct OwnAddresses {
    by_host: BTreeMap<Host, Known>,
    discover: bool,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    port: u16,
    score: u32,
}

impl OwnAddresses {
    /// Without addresses. With `discover` they may come from all sources (`-discover`), otherwise only from
    /// the operator.
    pub fn new(discover: bool) -> Self {
        Self { by_host: BTreeMap::new(), discover }
    }

    /// Whether addresses are taken from other sources than the operator.
    pub fn discovers(&self) -> bool {
        self.discover
    }

    /// Adds an address, or raises the score of a host that is known; whether it is told to peers now. One
    /// that nobody can call is not taken, nor one of a network to which this node does not connect
    /// (`reachable`) unless the operator named it.
    pub fn add(
        &mut self,
        address: NetAddress,
        source: OwnAddressSource,
        reachable: Reachable,
    ) -> bool {
        let is_manual = source == OwnAddressSource::Manual;
        let is_wanted = is_manual || (self.discover && reachable.contains(address.network()));
        let has_room =
            self.by_host.len() < MAX_OWN_ADDRESSES || self.by_host.contains_key(&address.host);
        if !address.is_routable() || !is_wanted || !has_room {
            return false;
        }
        let score = source as u32;
        info!("AddLocal({address},{score})");
        match self.by_host.get_mut(&address.host) {
            None => {
                self.by_host.insert(address.host, Known { port: address.port, score });
            }
            Some(known) if score >= known.score => {
                *known = Known { port: address.port, score: score.saturating_add(1) };
            }
            Some(_) => {}
        }
        true
    }

    /// Forgets the address of this host, whatever its port; whether there was one.
    pub fn remove(&mut self, host: &Host) -> bool {
        let Some(known) = self.by_host.remove(host) else { return false };
        info!("RemoveLocal({})", NetAddress::new(*host, known.port));
        true
    }

    /// A peer that connected to this node says that it called there.
    pub(crate) fn note_seen(&mut self, address: &NetAddress) {
        if let Some(known) = self.by_host.get_mut(&address.host) {
            known.score = known.score.saturating_add(1);
        }
    }

    /// Whether it is this node's own host, to which no connection is opened.
    pub fn contains(&self, host: &Host) -> bool {
        self.by_host.contains_key(host)
    }

    /// All of them, by network and address.
    pub fn iter(&self) -> impl Iterator<Item = OwnAddress> {
        self.by_host.iter().map(|(&host, known)| OwnAddress {
            address: NetAddress::new(host, known.port),
            score: known.score,
        })
    }

    /// The one that a peer reaches best; of equally good ones that with the highest score. `partner` is the
    /// peer's host, `through` the network over which it is connected. An address of a network that hides its
    /// users is told in that network alone, and no other one is told there: otherwise it could be known that
    /// they belong to one node.
    pub(crate) fn best_for(
        &self,
        partner: Option<&Host>,
        through: AddressNetwork,
    ) -> Option<OwnAddress> {
        let may_be_told = |own: &OwnAddress| {
            let network = own.address.network();
            network == through || !(hides_users(network) || hides_users(through))
        };
        let rank = |own: &OwnAddress| (reachability(&own.address.host, partner), own.score);
        // Of equal ones the first.
        self.iter().filter(may_be_told).fold(None, |best, own| match best {
            Some(best) if rank(&own) <= rank(&best) => Some(best),
            _ => Some(own),
        })
    }
}

/// Networks in which nobody learns where a node is (Core `IsPrivacyNet`).
fn hides_users(network: AddressNetwork) -> bool {
    matches!(network, AddressNetwork::Onion | AddressNetwork::I2p)
}

/// How well an address can be called from where a peer is, the worst first (Core `GetReachabilityFrom`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reachability {
    Unreachable,
    Default,
    Teredo,
    Ipv6Weak,
    Ipv4,
    Ipv6Strong,
    Private,
}

/// A network, with Teredo as one of its own: IPv6 through IPv4.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    Teredo,
    Network(AddressNetwork),
}

fn reached(host: &Host) -> Reached {
    if host.is_teredo() { Reached::Teredo } else { Reached::Network(host.network()) }
}

/// `partner` is unknown where a proxy resolved its name.
fn reachability(own: &Host, partner: Option<&Host>) -> Reachability {
    use AddressNetwork::{Cjdns, I2p, Ipv4, Ipv6, Onion, Unroutable};
    use Reached::{Network, Teredo};
    if !own.is_routable() {
        return Reachability::Unreachable;
    }
    let theirs = partner.map_or(Network(Unroutable), reached);
    match (theirs, reached(own)) {
        (Network(Onion), Network(Onion))
        | (Network(I2p), Network(I2p))
        | (Network(Cjdns), Network(Cjdns))
        | (Network(Unroutable), Network(Onion)) => Reachability::Private,
        (Network(I2p | Cjdns), _) => Reachability::Default,
        (_, Network(Ipv4)) => Reachability::Ipv4,
        (Network(Ipv6), Network(Ipv6)) if !own.is_tunnelled() => Reachability::Ipv6Strong,
        (Network(Ipv6 | Unroutable) | Teredo, Network(Ipv6)) => Reachability::Ipv6Weak,
        (Network(Ipv6 | Unroutable) | Teredo, Teredo) => Reachability::Teredo,
        _ => Reachability::Default,
    }
}

#[cfg(test)]
mod tests {
    use super::OwnAddressSource::{Bound, Interface, Manual, Mapped};
    use super::*;

    const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    const I2P: &str = "udhdrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v4jna.b32.i2p";
    const TEREDO: &str = "2001::1";
    const SIX_TO_FOUR: &str = "2002:102:304::1";

    fn host(text: &str) -> Host {
        text.parse().expect(text)
    }

    fn address(text: &str, port: u16) -> NetAddress {
        NetAddress::new(host(text), port)
    }

    fn discovering() -> OwnAddresses {
        OwnAddresses::new(true)
    }

    fn scores(own: &OwnAddresses) -> Vec<(String, u32)> {
        own.iter().map(|own| (own.address.to_string(), own.score)).collect()
    }

    #[test]
    fn a_better_or_equal_source_raises_the_score_and_changes_the_port() {
        let mut own = discovering();
        assert!(own.add(address("1.2.3.4", 1), Bound, Reachable::CLEARNET));
        assert!(
            own.add(address("1.2.3.4", 2), Interface, Reachable::CLEARNET),
            "it is known all the same"
        );
        assert_eq!(scores(&own), [("1.2.3.4:1".to_owned(), 2)]);
        assert!(own.add(address("1.2.3.4", 3), Bound, Reachable::CLEARNET));
        assert_eq!(scores(&own), [("1.2.3.4:3".to_owned(), 3)]);
        assert!(own.add(address("1.2.3.4", 4), Mapped, Reachable::CLEARNET));
        assert_eq!(scores(&own), [("1.2.3.4:4".to_owned(), 4)]);
        own.note_seen(&address("1.2.3.4", 9));
        own.note_seen(&address("1.2.3.5", 9));
        assert_eq!(scores(&own), [("1.2.3.4:4".to_owned(), 5)]);
        assert!(own.contains(&host("1.2.3.4")) && !own.contains(&host("1.2.3.5")));
        assert!(own.remove(&host("1.2.3.4")) && !own.remove(&host("1.2.3.4")));
        assert_eq!(scores(&own), []);
    }

    #[test]
    fn what_nobody_can_call_or_was_not_to_be_discovered_is_not_taken() {
        let mut own = discovering();
        for text in ["10.0.0.1", "127.0.0.1", "fe80::1", "fc00::1", "::"] {
            assert!(!own.add(address(text, 1), Manual, Reachable::CLEARNET), "{text}");
        }
        assert!(
            !own.add(address(ONION, 1), Mapped, Reachable::CLEARNET),
            "its network is not reached"
        );
        let with_onion = Reachable { onion: true, ..Reachable::CLEARNET };
        assert!(own.add(address(ONION, 1), Mapped, with_onion) && own.remove(&host(ONION)));
        assert!(
            own.add(address(ONION, 1), Manual, Reachable::CLEARNET),
            "the operator knows better"
        );
        let mut named = OwnAddresses::new(false);
        for source in [Interface, Bound, Mapped] {
            assert!(!named.add(address("1.2.3.4", 1), source, Reachable::CLEARNET), "{source:?}");
        }
        assert!(named.add(address("1.2.3.4", 1), Manual, Reachable::CLEARNET));
    }

    #[test]
    fn there_are_so_many_and_no_more() {
        let mut own = discovering();
        let nth = |n: usize| NetAddress::new(Host::Ipv4([9, 9, (n >> 8) as u8, n as u8]), 1);
        assert!((0..MAX_OWN_ADDRESSES).all(|n| own.add(nth(n), Interface, Reachable::CLEARNET)));
        assert!(
            !own.add(nth(MAX_OWN_ADDRESSES), Interface, Reachable::CLEARNET)
                && own.add(nth(0), Interface, Reachable::CLEARNET)
        );
        assert_eq!(own.iter().count(), MAX_OWN_ADDRESSES);
    }

    /// Core `netaddress.cpp`, `GetReachabilityFrom`, line by line: what a peer on the left thinks of each.
    #[test]
    fn reachability_is_that_of_core() {
        use Reachability::{Default, Ipv4, Ipv6Strong, Ipv6Weak, Private, Teredo, Unreachable};
        let own = ["1.2.3.4", "2a02::1", SIX_TO_FOUR, TEREDO, ONION, I2P, "10.0.0.1"];
        for (partner, expected) in [
            (Some("9.9.9.9"), [Ipv4, Default, Default, Default, Default, Default]),
            (Some("2a02::2"), [Ipv4, Ipv6Strong, Ipv6Weak, Teredo, Default, Default]),
            (Some(SIX_TO_FOUR), [Ipv4, Ipv6Strong, Ipv6Weak, Teredo, Default, Default]),
            (Some(TEREDO), [Ipv4, Ipv6Weak, Ipv6Weak, Teredo, Default, Default]),
            (Some(ONION), [Ipv4, Default, Default, Default, Private, Default]),
            (Some(I2P), [Default, Default, Default, Default, Default, Private]),
            (Some("10.0.0.2"), [Ipv4, Ipv6Weak, Ipv6Weak, Teredo, Private, Default]),
            (None, [Ipv4, Ipv6Weak, Ipv6Weak, Teredo, Private, Default]),
        ] {
            let partner_host = partner.map(host);
            let found = own.map(|own| reachability(&host(own), partner_host.as_ref()));
            assert_eq!(found[..6], expected, "{partner:?}");
            assert_eq!(found[6], Unreachable);
        }
        let cjdns = |n| Host::Cjdns([0xfc, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(reachability(&cjdns(1), Some(&cjdns(2))), Private);
        assert_eq!(reachability(&host("1.2.3.4"), Some(&cjdns(2))), Default);
        assert_eq!(reachability(&cjdns(1), Some(&host("9.9.9.9"))), Default);
    }

    #[test]
    fn a_peer_is_told_the_address_that_it_reaches_best_and_of_those_the_surest() {
        let mut own = OwnAddresses::new(true);
        let best = |own: &OwnAddresses, partner: &str| {
            let partner = host(partner);
            let best = own.best_for(Some(&partner), partner.network_class());
            best.map(|own| own.address.to_string())
        };
        assert_eq!(best(&own, "9.9.9.9"), None);
        own.add(address("1.2.3.4", 1), Interface, Reachable::CLEARNET);
        own.add(address("1.2.3.5", 1), Interface, Reachable::CLEARNET);
        own.add(address("2a02::1", 1), Manual, Reachable::CLEARNET);
        assert_eq!(best(&own, "9.9.9.9").as_deref(), Some("1.2.3.4:1"), "the first of equal ones");
        own.note_seen(&address("1.2.3.5", 1));
        assert_eq!(best(&own, "9.9.9.9").as_deref(), Some("1.2.3.5:1"));
        assert_eq!(best(&own, "2a02::9").as_deref(), Some("[2a02::1]:1"));
        assert_eq!(best(&own, ONION), None, "not where it would tell who we are");
        own.add(address(ONION, 1), Manual, Reachable::CLEARNET);
        assert_eq!(best(&own, ONION), Some(format!("{ONION}:1")));
        assert_eq!(best(&own, "9.9.9.9").as_deref(), Some("1.2.3.5:1"), "nor the other way");
        // A peer that came through our onion service seems to be on this machine.
        let through_onion = own.best_for(Some(&host("127.0.0.1")), AddressNetwork::Onion);
        assert_eq!(through_onion.map(|own| own.address), Some(address(ONION, 1)));
        let local = own.best_for(Some(&host("127.0.0.1")), AddressNetwork::Unroutable);
        assert_eq!(local.map(|own| own.address), Some(address("1.2.3.5", 1)));
    }
}
