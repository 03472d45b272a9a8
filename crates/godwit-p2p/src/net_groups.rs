//! Groups hosts that one operator can easily own (Core `netgroup.{h,cpp}`).
//!
//! By autonomous system if a map is given (`-asmap`): addresses with many prefixes are cheap to get within
//! one system, addresses in many systems are not. Without a map, and where it knows no system, by prefix.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::asmap::{Asmap, AsmapVersion};
use crate::net_address::{Host, NetGroup};

/// How hosts are grouped; by prefix unless there is a map.
#[derive(Clone, Debug, Default)]
pub struct NetGroups {
    map: Option<Arc<Asmap>>,
}

/// How well a map covers some hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapCoverage {
    pub(crate) hosts: usize,
    /// Different ones.
    pub(crate) systems: usize,
    /// Hosts of which the map knows no system.
    pub(crate) unmapped: usize,
}

impl NetGroups {
    /// By the systems of a map.
    pub fn by_system(map: Asmap) -> Self {
        Self { map: Some(Arc::new(map)) }
    }

    /// Which map they are by, if they are by one.
    pub fn version(&self) -> Option<AsmapVersion> {
        self.map.as_ref().map(|map| map.version())
    }

    /// The group of a host, as Core hashes it (`NetGroupManager::GetGroup`).
    pub(crate) fn of(&self, host: Host) -> NetGroup {
        match self.system_of(host) {
            Some(system) => NetGroup::of_system(system),
            None => host.prefix_group(),
        }
    }

    /// The system of a host; `None` without a map, where the map knows none, and for a host that is not
    /// reached over IP (Core `NetGroupManager::GetMappedAS`). An IPv6 address that stands for an IPv4
    /// address is looked up as that.
    pub fn system_of(&self, host: Host) -> Option<NonZeroU32> {
        let map = self.map.as_ref()?;
        let address = match (host.linked_ipv4(), host) {
            (Some(ipv4), _) => Host::Ipv4(ipv4).to_legacy(),
            (None, Host::Ipv6(bytes)) if host.is_routable() => bytes,
            _ => return None,
        };
        map.system_of(address)
    }

    /// Whether hosts are grouped by a map.
    pub(crate) fn are_by_system(&self) -> bool {
        self.map.is_some()
    }
}

/// Counts how well a map covers hosts (Core `ASMapHealthCheck`).
#[derive(Debug, Default)]
pub(crate) struct CoverageCount {
    hosts: usize,
    systems: BTreeSet<NonZeroU32>,
    unmapped: usize,
}

impl CoverageCount {
    pub(crate) fn add(&mut self, groups: &NetGroups, host: Host) {
        self.hosts += 1;
        match groups.system_of(host) {
            Some(system) => drop(self.systems.insert(system)),
            None => self.unmapped += 1,
        }
    }

    pub(crate) fn total(&self) -> MapCoverage {
        let Self { hosts, ref systems, unmapped } = *self;
        MapCoverage { hosts, systems: systems.len(), unmapped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asmap::tests::{core_map, map_of};

    fn host(text: &str) -> Host {
        Host::from(text.parse::<std::net::IpAddr>().expect(text))
    }

    fn number(system: Option<NonZeroU32>) -> u32 {
        system.map_or(0, NonZeroU32::get)
    }

    /// Core `netbase_tests.cpp`, `asmap_test_vectors`.
    #[test]
    fn core_asmap_test_vectors() {
        let groups = NetGroups::by_system(core_map());
        for (text, system) in [
            ("0:1559:183:3728:224c:65a5:62e6:e991", 961_340),
            ("d0:d493:faa0:8609:e927:8b75:293c:f5a4", 961_340),
            ("2a0:26f:8b2c:2ee7:c7d1:3b24:4705:3f7f", 693_761),
            ("a77:7cd4:4be5:a449:89f2:3212:78c6:ee38", 0),
            ("1336:1ad6:2f26:4fe3:d809:7321:6e0d:4615", 672_176),
            ("1d56:abd0:a52f:a8d5:d5a7:a610:581d:d792", 499_880),
            ("378e:7290:54e5:bd36:4760:971c:e9b9:570d", 0),
            ("406c:820b:272a:c045:b74e:fc0a:9ef2:cecc", 248_495),
            ("46c2:ae07:9d08:2d56:d473:2bc7:57e3:20ac", 248_495),
            ("50d2:3db6:52fa:2e7:12ec:5bc4:1bd1:49f9", 124_471),
            ("53e1:1812:ffa:dccf:f9f2:64be:75fa:795", 539_993),
            ("544d:eeba:3990:35d1:ad66:f9a3:576d:8617", 374_443),
            ("6a53:40dc:8f1d:3ffa:efeb:3aa3:df88:b94b", 435_070),
            ("87aa:d1c9:9edb:91e7:aab1:9eb9:baa0:de18", 244_121),
            ("9f00:48fa:88e3:4b67:a6f3:e6d2:5cc1:5be2", 862_116),
            ("c49f:9cc6:86ad:ba08:4580:315e:dbd1:8a62", 969_411),
            ("dff5:8021:61d:b17d:406d:7888:fdac:4a20", 969_411),
            ("e888:6791:2960:d723:bcfd:47e1:2d8c:599f", 824_019),
            ("ffff:d499:8c4b:4941:bc81:d5b9:b51e:85a8", 824_019),
        ] {
            assert_eq!(number(groups.system_of(host(text))), system, "{text}");
        }
    }

    /// 1.2.0.0/16 is of 5, 2a02::/16 of 5 too, and what is behind 64:ff9b:: and 2002:: of 9, were it looked
    /// up as it is.
    fn map() -> NetGroups {
        NetGroups::by_system(map_of(&[
            ("::ffff:1.2.0.0", 112, 5),
            ("2a02::", 16, 5),
            ("64::", 16, 9),
            ("2002::", 16, 9),
            ("2001::", 16, 9),
            ("::ffff:127.0.0.0", 104, 9),
            ("::ffff:10.0.0.0", 104, 9),
            ("fc00::", 8, 9),
        ]))
    }

    #[test]
    fn an_address_that_stands_for_another_one_is_looked_up_as_that() {
        let groups = map();
        for text in [
            "1.2.3.4",
            "2a02::1",
            "64:ff9b::102:304",
            "::ffff:0:102:304",
            "2002:102:304::1",
            "2001:0:9999:9999:9999:9999:fefd:fcfb",
        ] {
            assert_eq!(number(groups.system_of(host(text))), 5, "{text}");
            assert_eq!(groups.of(host(text)).as_bytes(), [2, 5, 0, 0, 0], "{text}");
        }
        assert_eq!(number(groups.system_of(host("2001:470::1"))), 9, "Teredo is 2001::/32");
    }

    #[test]
    fn what_has_no_system_is_grouped_by_prefix() {
        let groups = map();
        let cjdns = Host::Cjdns([0xfc; 16]);
        let others = [Host::OnionV3([1; 32]), Host::I2p([1; 32]), cjdns];
        let unroutable = ["127.0.0.1", "10.0.0.1", "fc00::1", "::1"].map(host);
        let unknown = ["8.8.8.8", "2400::1"].map(host);
        for host in others.into_iter().chain(unroutable).chain(unknown) {
            assert_eq!(groups.system_of(host), None, "{host:?}");
            assert_eq!(groups.of(host), host.prefix_group(), "{host:?}");
        }
        let without = NetGroups::default();
        assert_eq!(without.system_of(host("1.2.3.4")), None);
        assert_eq!(without.of(host("1.2.3.4")), host("1.2.3.4").prefix_group());
        assert_eq!(without.version(), None);
    }

    #[test]
    fn coverage_counts_systems_and_hosts_without_one() {
        let mut count = CoverageCount::default();
        for text in ["1.2.3.4", "1.2.4.5", "2a02::1", "2001:470::1", "8.8.8.8"] {
            count.add(&map(), host(text));
        }
        assert_eq!(count.total(), MapCoverage { hosts: 5, systems: 2, unmapped: 1 });
    }
}
