//! The routers to ask and our address towards each: the default gateways, as Linux lists its routes (Core
//! `QueryDefaultGateway` and `GetLocalAddresses` in `common/netif.cpp`).

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use godwit_p2p::{Host, PORT_MAPPING_PORT};
use if_addrs::get_if_addrs;

/// Bytes of a list of routes that are read (Core `NETLINK_MAX_RESPONSE_SIZE`). Only a router of a large
/// network has more, and it needs nobody's port.
const MAX_LIST: u64 = 1 << 20;

/// The route is in use, and leads through a gateway (`linux/route.h`).
const UP: u32 = 1;
const GATEWAY: u32 = 2;

/// A router, and the address of this machine that it is to forward to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) gateway: SocketAddr,
    /// The unspecified one: that from which the gateway is reached.
    pub(super) own: IpAddr,
}

/// The routes of this machine.
pub(super) fn default_routes() -> Vec<Route> {
    let interfaces = get_if_addrs().unwrap_or_default();
    let used = interfaces.iter().filter(|one| one.is_oper_up() && !one.is_loopback());
    let own: Vec<IpAddr> = used.map(|one| one.ip()).collect();
    let index = |name: &str| interfaces.iter().find(|one| one.name == name)?.index;
    routes(&list("/proc/net/route"), &list("/proc/net/ipv6_route"), &own, index)
}

/// One over IPv4, and one over IPv6 for each address of ours that others can reach. `index`: of an interface.
fn routes(
    ipv4: &str,
    ipv6: &str,
    own: &[IpAddr],
    index: impl Fn(&str) -> Option<u32>,
) -> Vec<Route> {
    let ipv4 = ipv4_gateway(ipv4).map(|gateway| Route {
        gateway: SocketAddrV4::new(gateway, PORT_MAPPING_PORT).into(),
        own: Ipv4Addr::UNSPECIFIED.into(),
    });
    let mut routes: Vec<Route> = ipv4.into_iter().collect();
    if let Some((gateway, name)) = ipv6_gateway(ipv6) {
        let scope = index(name).unwrap_or(0);
        let gateway = SocketAddrV6::new(gateway, PORT_MAPPING_PORT, 0, scope).into();
        let own = own.iter().filter(|ip| ip.is_ipv6() && is_routable(**ip));
        routes.extend(own.map(|own| Route { gateway, own: *own }));
    }
    routes
}

fn is_routable(ip: IpAddr) -> bool {
    Host::from(ip).is_routable()
}

/// Empty where it cannot be read: then there is no route.
fn list(path: &str) -> String {
    let mut bytes = Vec::new();
    if let Err(error) =
        File::open(path).and_then(|file| file.take(MAX_LIST).read_to_end(&mut bytes))
    {
        log::debug!("portmap: {path} cannot be read: {error}");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The gateway of `/proc/net/route` with the lowest metric: interface, destination, gateway, flags, two
/// counts, metric, mask. Addresses are numbers as they lie in memory.
fn ipv4_gateway(list: &str) -> Option<Ipv4Addr> {
    let gateway = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (destination, gateway, flags, mask) = (hex(1)?, hex(2)?, hex(3)?, hex(7)?);
        let metric: u32 = fields.get(6)?.parse().ok()?;
        let is_default = destination == 0 && mask == 0 && gateway != 0;
        let leads = flags & (UP | GATEWAY) == UP | GATEWAY;
        (is_default && leads).then(|| (metric, Ipv4Addr::from(gateway.to_ne_bytes())))
    };
    list.lines().filter_map(gateway).min_by_key(|(metric, _)| *metric).map(|(_, gateway)| gateway)
}

/// The gateway of `/proc/net/ipv6_route` with the lowest metric, and its interface: destination, its length,
/// source, its length, gateway, metric, two counts, flags, interface. All numbers are hexadecimal.
fn ipv6_gateway(list: &str) -> Option<(Ipv6Addr, &str)> {
    let gateway = |line| -> Option<(u32, Ipv6Addr, &str)> {
        let fields: Vec<&str> = str::split_ascii_whitespace(line).collect();
        let address = |at: usize| u128::from_str_radix(fields.get(at)?, 16).ok();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (destination, len, gateway) = (address(0)?, number(1)?, address(4)?);
        let (metric, flags) = (number(5)?, number(8)?);
        let is_default = destination == 0 && len == 0 && gateway != 0;
        let leads = flags & (UP | GATEWAY) == UP | GATEWAY;
        let name = *fields.get(9)?;
        (is_default && leads).then(|| (metric, Ipv6Addr::from_bits(gateway), name))
    };
    let gateways = list.lines().filter_map(gateway);
    gateways.min_by_key(|(metric, ..)| *metric).map(|(_, gateway, name)| (gateway, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a machine with two ways out and a network of its own writes it (little-endian, as x86-64).
    const IPV4: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0
eth0\t00000000\tFE0AA8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0
eth0\t0000000A\t0101A8C0\t0003\t0\t0\t1\t000000FF\t0\t0\t0
";

    const IPV6: &str = "\
20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe80000000000000000000000000000a 00000400 00000001 00000000 00000003    wlan0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000064 00000001 00000000 00450003     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_default_gateway_with_the_lowest_metric_is_asked() {
        assert_eq!(ipv4_gateway(IPV4), Some(Ipv4Addr::new(192, 168, 10, 254)));
        let gateway = "fe80::1".parse().expect("an address");
        assert_eq!(ipv6_gateway(IPV6), Some((gateway, "eth0")));
    }

    #[test]
    fn other_routes_and_damaged_lines_are_passed_over() {
        let without = |list: &str, lines: &[usize]| -> String {
            let kept = list.lines().enumerate().filter(|(at, _)| !lines.contains(at));
            kept.map(|(_, line)| format!("{line}\n")).collect()
        };
        assert_eq!(ipv4_gateway(&without(IPV4, &[1, 2])), None);
        assert_eq!(ipv6_gateway(&without(IPV6, &[1, 2])), None);
        assert_eq!([ipv4_gateway(""), ipv4_gateway("eth0 00000000\n")], [None; 2]);
        assert_eq!([ipv6_gateway(""), ipv6_gateway("0 0 0\n")], [None; 2]);
        // One that is down, and one that leads through nobody.
        for flags in ["0002", "0001"] {
            assert_eq!(ipv4_gateway(&IPV4.replace("0003", flags)), None, "{flags}");
        }
        assert_eq!(ipv4_gateway(&IPV4.replace("0101A8C0", "x").replace("FE0AA8C0", "x")), None);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn each_address_that_others_reach_has_a_route_over_ipv6_and_ipv4_has_one() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let own = ["192.168.10.7", "fe80::7", "fd00::7", "2a01::7", "2a02::7"].map(ip);
        let index = |name: &str| (name == "eth0").then_some(3);
        let shown = |routes: Vec<Route>| -> Vec<String> {
            routes.iter().map(|route| format!("{} {}", route.gateway, route.own)).collect()
        };
        let [ipv4, first, second] =
            ["192.168.10.254:5351 0.0.0.0", "[fe80::1%3]:5351 2a01::7", "[fe80::1%3]:5351 2a02::7"];
        assert_eq!(shown(routes(IPV4, IPV6, &own, index)), [ipv4, first, second]);
        assert_eq!(shown(routes(IPV4, "", &own, index)), [ipv4]);
        assert_eq!(shown(routes("", IPV6, &own[..3], index)), [""; 0]);
        let unknown = shown(routes("", IPV6, &own[3..4], |_| None));
        assert_eq!(unknown, ["[fe80::1]:5351 2a01::7"]);
    }

    #[test]
    fn this_machine_can_be_asked_for_its_routes() {
        let (asked, list) = (default_routes(), list("/proc/net/route"));
        let over_ipv4 = asked.iter().find(|route| route.gateway.is_ipv4());
        let gateway = over_ipv4.map(|route| route.gateway.ip());
        assert_eq!(gateway, ipv4_gateway(&list).map(IpAddr::from));
    }
}
