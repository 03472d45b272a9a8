//! The addresses at which this node can be reached, as far as they are known at start (Core `init.cpp`;
//! `Discover` and `CConnman::Bind` in `net.cpp`; `GetLocalAddresses` in `common/netif.cpp`).

use std::net::IpAddr;

use godwit_p2p::{
    Binding, Event, HeaderIndex, NetAddress, NodeCommand, Now, OwnAddressSource, Peers, Permissions,
};
use if_addrs::get_if_addrs;

use crate::options::Listening;

/// Tells the engine.
pub(super) fn tell(peers: &mut Peers, now: Now, index: &dyn HeaderIndex, listening: &Listening) {
    let found = if looks_at_interfaces(listening) { of_interfaces() } else { Vec::new() };
    for (address, source) in known_at_start(listening, &found) {
        let command = NodeCommand::AddOwnAddress(address, source);
        peers.handle(now, index, Event::Operator(command));
        let is_taken = peers.own_addresses().contains(&address.host);
        if source == OwnAddressSource::Manual && !is_taken {
            log::warn!("-externalip={address}: no peer is told of it, as none could call it");
        }
    }
}

/// The addresses of all interfaces lead here only if all of them are listened on.
fn looks_at_interfaces(listening: &Listening) -> bool {
    let bind = &listening.bind;
    let all = listening.everywhere || bind.iter().any(|one| one.address.ip().is_unspecified());
    listening.discover && all
}

/// In the order in which Core adds them. The engine takes of them what others can call.
fn known_at_start(
    listening: &Listening,
    interfaces: &[IpAddr],
) -> Vec<(NetAddress, OwnAddressSource)> {
    let port = listening.told_port;
    let named = listening.external.iter().map(|address| (*address, OwnAddressSource::Manual));
    let found = interfaces.iter().map(|ip| {
        let address = NetAddress::new((*ip).into(), port);
        (address, OwnAddressSource::Interface)
    });
    // Strangers are not sent to a socket for trusted peers.
    let is_told = |one: &&Binding| listening.on && !one.permissions.contains(Permissions::NO_BAN);
    let bound = listening.bind.iter().filter(is_told);
    let bound = bound.map(|one| (one.address.into(), OwnAddressSource::Bound));
    named.chain(found).chain(bound).collect()
}

/// The addresses of this machine's interfaces that are up, loopback aside.
fn of_interfaces() -> Vec<IpAddr> {
    match get_if_addrs() {
        Ok(all) => {
            let used = all.iter().filter(|one| one.is_oper_up() && !one.is_loopback());
            used.map(|one| one.ip()).collect()
        }
        Err(error) => {
            log::info!("The addresses of this machine's interfaces are not known: {error}");
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening(bind: &[&str]) -> Listening {
        Listening {
            on: true,
            everywhere: bind.is_empty(),
            onion: Vec::new(),
            bind: bind.iter().map(|text| text.parse().expect(text)).collect(),
            port: 8333,
            told_port: 7,
            external: Vec::new(),
            discover: true,
            natpmp: false,
        }
    }

    fn shown(known: &[(NetAddress, OwnAddressSource)]) -> Vec<(String, OwnAddressSource)> {
        known.iter().map(|(address, source)| (address.to_string(), *source)).collect()
    }

    #[test]
    fn interfaces_count_where_all_of_them_are_listened_on() {
        assert!(looks_at_interfaces(&listening(&[])));
        assert!(looks_at_interfaces(&listening(&["@1.2.3.4:1", "@0.0.0.0:1"])));
        assert!(looks_at_interfaces(&listening(&["noban@[::]:1"])));
        assert!(!looks_at_interfaces(&listening(&["@1.2.3.4:1"])));
        assert!(!looks_at_interfaces(&Listening { discover: false, ..listening(&[]) }));
        assert!(of_interfaces().iter().all(|ip| !ip.is_loopback()));
    }

    #[test]
    fn named_found_and_bound_addresses_are_known() {
        use OwnAddressSource::{Bound, Interface, Manual};
        let external = vec!["9.9.9.9:5".parse().expect("an address")];
        let bind = listening(&["@1.2.3.4:1", "noban@1.2.3.5:1", "2.2.2.2:1"]);
        let some = Listening { external, ..bind };
        let found = ["2a02::1".parse().expect("an address")];
        let named = ("9.9.9.9:5".to_owned(), Manual);
        let interface = ("[2a02::1]:7".to_owned(), Interface);
        let bound = ["1.2.3.4:1", "2.2.2.2:1"].map(|text| (text.to_owned(), Bound));
        let [first, second] = bound;
        let all = [named.clone(), interface.clone(), first, second];
        assert_eq!(shown(&known_at_start(&some, &found)), all);
        let deaf = Listening { on: false, ..some };
        assert_eq!(shown(&known_at_start(&deaf, &found)), [named, interface]);
    }
}
