//! Decides whether a connection is direct or goes through a proxy.

use std::net::SocketAddr;

use godwit_p2p::{AddressNetwork, Credentials, NetAddress, Socks5, Target};

/// Proxies to other networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// To routable IPv4 and IPv6 addresses and to names (`-proxy`).
    pub clearnet: Option<SocketAddr>,
    /// To onion addresses (`-onion`).
    pub onion: Option<SocketAddr>,
}

/// The first hop and what is to be said there.
pub(super) struct Route {
    pub(super) first_hop: SocketAddr,
    pub(super) proxy: Option<Socks5>,
    /// The other end, where it is known by address.
    pub(super) address: Option<NetAddress>,
}

/// `None` where no way leads. `session` and `counter` give each connection credentials of its own, by
/// which Tor keeps their circuits apart.
pub(super) fn route(
    target: &Target,
    proxies: &Proxies,
    session: [u8; 8],
    counter: u64,
) -> Option<Route> {
    let (host, port, address, proxy) = match target {
        Target::Address(address) => {
            let proxy = match address.network() {
                AddressNetwork::Onion => proxies.onion,
                // A proxy leads to other machines and networks than ours, where such an address is nobody
                // or somebody else (Core: `NET_UNROUTABLE` has no proxy).
                AddressNetwork::Unroutable => None,
                // To a proxy it would be a name to be looked up, which tells others of it and leads nowhere
                // (Core: `-proxy` is none for `NET_I2P`).
                AddressNetwork::I2p => None,
                _ => proxies.clearnet,
            };
            if proxy.is_none() {
                let first_hop = address.to_socket()?;
                return Some(Route { first_hop, proxy: None, address: Some(*address) });
            }
            (host_text(address), address.port, Some(*address), proxy?)
        }
        Target::Name { host, port } => (host.clone(), *port, None, proxies.clearnet?),
    };
    let credentials = Credentials::isolated(session, counter);
    let handshake = Socks5::new(&host, port, Some(credentials)).ok()?;
    Some(Route { first_hop: proxy, proxy: Some(handshake), address })
}

/// The host alone, as a proxy takes it.
fn host_text(address: &NetAddress) -> String {
    match address.host.to_ip() {
        Some(ip) => ip.to_string(),
        None => {
            let text = address.to_string();
            text.rsplit_once(':').map_or(text.clone(), |(host, _)| host.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_p2p::Host;

    use super::*;

    const STRAIGHT: Proxies = Proxies { clearnet: None, onion: None };

    fn proxies() -> Proxies {
        Proxies {
            clearnet: Some("127.0.0.1:9050".parse().expect("an address")),
            onion: Some("127.0.0.2:9050".parse().expect("an address")),
        }
    }

    fn first_hop(target: &Target, proxies: &Proxies) -> Option<(String, bool)> {
        let route = route(target, proxies, [7; 8], 1)?;
        Some((route.first_hop.to_string(), route.proxy.is_some()))
    }

    #[test]
    fn each_network_has_its_way() {
        let ip = Target::Address("1.2.3.4:8333".parse().expect("an address"));
        let onion = NetAddress::new(Host::OnionV3([5; 32]), 8333);
        let onion = Target::Address(onion);
        let name = Target::Name { host: "seed.example".into(), port: 1 };
        assert_eq!(first_hop(&ip, &STRAIGHT), Some(("1.2.3.4:8333".into(), false)));
        assert_eq!(first_hop(&onion, &STRAIGHT), None);
        assert_eq!(first_hop(&name, &STRAIGHT), None);
        let both = proxies();
        assert_eq!(first_hop(&ip, &both), Some(("127.0.0.1:9050".into(), true)));
        assert_eq!(first_hop(&onion, &both), Some(("127.0.0.2:9050".into(), true)));
        assert_eq!(first_hop(&name, &both), Some(("127.0.0.1:9050".into(), true)));
        let only_onion = Proxies { clearnet: None, ..both };
        assert_eq!(first_hop(&ip, &only_onion), Some(("1.2.3.4:8333".into(), false)));
        let i2p = Target::Address(NetAddress::new(Host::I2p([5; 32]), 0));
        assert_eq!([STRAIGHT, both].map(|proxies| first_hop(&i2p, &proxies)), [None, None]);
    }

    #[test]
    fn only_what_is_routable_is_called_through_the_proxy() {
        let both = proxies();
        let goes = |text: &str| {
            let address = text.parse().unwrap_or_else(|_| panic!("{text} is an address"));
            first_hop(&Target::Address(address), &both)
        };
        let near = ["192.168.1.20:8333", "127.0.0.1:8333", "10.1.2.3:8333", "172.16.0.1:8333"];
        for straight in near.into_iter().chain(["[fd00::1]:8333", "[fe80::1]:8333", "[::1]:8333"]) {
            assert_eq!(goes(straight), Some((straight.into(), false)));
        }
        for far in ["192.169.1.20:8333", "11.1.2.3:8333", "172.32.0.1:8333", "[2a00::1]:8333"] {
            assert_eq!(goes(far), Some(("127.0.0.1:9050".into(), true)), "{far}");
        }
        let onion = NetAddress::new(Host::OnionV3([5; 32]), 8333).to_string();
        assert_eq!(goes(&onion), Some(("127.0.0.2:9050".into(), true)));
        // A name is the proxy's to resolve, whatever it stands for.
        let name = Target::Name { host: "localhost".into(), port: 8333 };
        assert_eq!(first_hop(&name, &both), Some(("127.0.0.1:9050".into(), true)));
    }

    #[test]
    fn hosts_are_written_without_port_and_brackets() {
        let v6 = "[2001:db8::1]:8333".parse().expect("an address");
        assert_eq!(host_text(&v6), "2001:db8::1");
        let onion = host_text(&NetAddress::new(Host::OnionV3([5; 32]), 8333));
        assert!(onion.ends_with(".onion") && onion.len() == 62, "{onion}");
    }
}
