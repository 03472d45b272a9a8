use godwit_stream::{DataStream, DecodeError, SpanReader};
use proptest::prelude::*;

use super::*;
use crate::MessageError;

fn host(text: &str) -> Host {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn unhex(text: &str) -> Vec<u8> {
    hex::decode(text.replace(' ', "")).expect("the test writes hexadecimal")
}

const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
const I2P: &str = "udhdrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v4jna.b32.i2p";

/// Core `net_tests.cpp`, `cnetaddr_basic`.
#[test]
fn core_basic() {
    for (text, valid) in [
        ("0.0.0.0", false),
        ("255.255.255.255", false),
        ("12.34.56.78", true),
        ("::", false),
        ("1122:3344:5566:7788:9900:aabb:ccdd:eeff", true),
        (ONION, true),
        (I2P, true),
    ] {
        assert_eq!(host(text).to_string(), text);
        assert_eq!(host(text).is_valid(), valid, "{text}");
        assert_eq!(host(text).is_v1_compatible(), !text.ends_with('p') && !text.ends_with('n'));
    }
    let i2p = "UDHDrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v4jna.b32.I2P";
    assert_eq!(host(i2p).to_string(), I2P);
    for bad in [
        "6hzph5hv6337r6p2.onion",
        "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscsad.onion",
        "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscrye.onion",
        "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd\0wtf.onion",
        "mfrggzak.onion",
        "mf*g zak.onion",
        "udhdrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v4jn=.b32.i2p",
        "udhdrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v4jna=.b32.i2p",
        "udhdrtrcetjm5sxzskjyr5ztpeszydbh4dpl3pl4utgqqw2v\0wtf.b32.i2p",
        "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscsad.b32.i2p",
        "tp*szydbh4dp.b32.i2p",
        "totally bogus",
        "",
        "é.b32.i2p",
        "257.0.0.1",
    ] {
        assert_eq!(bad.parse::<Host>(), Err(AddressParseError), "{bad:?}");
    }
}

/// Core `net_tests.cpp`, `cnetaddr_tostring_canonical_ipv6`.
#[test]
fn core_canonical_ipv6() {
    for (text, canonical) in [
        ("0000:0000:0000:0000:0000:0000:0000:0000", "::"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:0:0:1:0:0:0:1", "2001:0:0:1::1"),
        ("2001:0db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:db8:85a3::8a2e:370:7334"),
        ("2001:0db8::0001:0000", "2001:db8::1:0"),
        ("2001:db8:0000:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("2001:db8:0:0:1::1", "2001:db8::1:0:0:1"),
        ("2001:db8::0:1:0:0:1", "2001:db8::1:0:0:1"),
        ("2001:DB8::1", "2001:db8::1"),
        ("2001:db8::1:1:1:1:1", "2001:db8:0:1:1:1:1:1"),
        ("2001:db8:aaaa:bbbb:cccc:dddd::1", "2001:db8:aaaa:bbbb:cccc:dddd:0:1"),
        ("2001:db8:aaaa:bbbb:cccc:dddd:eeee:AaAa", "2001:db8:aaaa:bbbb:cccc:dddd:eeee:aaaa"),
        // Not as IPv4, which RFC 5952 would allow.
        ("::0102:0304", "::102:304"),
        ("::ffff:0:0102:0304", "::ffff:0:102:304"),
        ("64:ff9b::1.2.3.4", "64:ff9b::102:304"),
        ("::FFFF:0102:0304", "1.2.3.4"),
    ] {
        assert_eq!(host(text).to_string(), canonical);
    }
}

/// Core `netbase_tests.cpp`, `netbase_lookupnumeric` and `netbase_splithost`.
#[test]
fn core_host_and_port() {
    let parsed = |text: &str| NetAddress::parse(text, 65535).map(|address| address.to_string());
    for (text, expected) in [
        ("127.0.0.1", "127.0.0.1:65535"),
        ("127.0.0.1:8333", "127.0.0.1:8333"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("::ffff:127.0.0.1", "127.0.0.1:65535"),
        ("::", "[::]:65535"),
        ("[::]:8333", "[::]:8333"),
        ("[127.0.0.1]", "127.0.0.1:65535"),
        ("[fd6c:88c0:8724:1:2:3:4:5]", "[fd6c:88c0:8724:1:2:3:4:5]:65535"),
        ("::8333", "[::8333]:65535"),
        ("[::]", "[::]:65535"),
    ] {
        assert_eq!(parsed(text).as_deref(), Ok(expected));
    }
    for bad in [
        ":::",
        ":",
        "",
        "[]:8333",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:+1",
        "127.0.0.1:1/2",
        "127.0.0.1:1E2",
        "[]:-1",
        "[::]:70001",
        "www.bitcoincore.org:80",
        "[::",
    ] {
        assert_eq!(parsed(bad), Err(AddressParseError), "{bad}");
    }
    assert_eq!("1.2.3.4".parse::<NetAddress>(), Err(AddressParseError), "no port");
    let onion = format!("{ONION}:8333");
    assert_eq!(onion.parse::<NetAddress>().expect("an address").to_string(), onion);
    // An internal name is not the address of a host.
    assert!(!host("fd6b:88c0:8724:1:2:3:4:5").is_valid());
}

fn encoded(encode: impl Fn(&NetAddress, &mut DataStream), host: Host) -> String {
    let mut out = DataStream::new();
    encode(&NetAddress::new(host, 0x1234), &mut out);
    let bytes = hex::encode(out.as_slice());
    bytes.strip_suffix("1234").expect("the port is last").to_owned()
}

/// Core `net_tests.cpp`, `cnetaddr_serialize_v1` and `cnetaddr_serialize_v2`.
#[test]
fn core_serialize() {
    let onion = "kpgvmscirrdqpekbqjsvw5teanhatztpp2gl6eee4zkowvwfxwenqaid.onion";
    for (text, v1, v2) in [
        ("::", "00000000000000000000000000000000", "021000000000000000000000000000000000"),
        ("1.2.3.4", "00000000000000000000ffff01020304", "010401020304"),
        (
            "1a1b:2a2b:3a3b:4a4b:5a5b:6a6b:7a7b:8a8b",
            "1a1b2a2b3a3b4a4b5a5b6a6b7a7b8a8b",
            "02101a1b2a2b3a3b4a4b5a5b6a6b7a7b8a8b",
        ),
        (
            onion,
            "00000000000000000000000000000000",
            "042053cd5648488c4707914182655b7664034e09e66f7e8cbf1084e654eb56c5bd88",
        ),
    ] {
        assert_eq!(encoded(NetAddress::encode_v1, host(text)), v1);
        assert_eq!(encoded(NetAddress::encode_v2, host(text)), v2);
    }
}

/// Core `net_tests.cpp`, `cnetaddr_unserialize_v2`; two bytes of port follow here.
#[test]
fn core_unserialize_v2() {
    let decoded = |text: &str| {
        let bytes = [unhex(text), vec![0x20, 0x8d]].concat();
        let mut reader = SpanReader::new(&bytes);
        let address = NetAddress::decode_v2(&mut reader)?;
        assert!(reader.is_empty(), "{text}");
        Ok(address.map(|address| {
            assert_eq!(address.port, 8333);
            (address.host.to_string(), address.is_valid())
        }))
    };
    for (text, expected, valid) in [
        ("01 04 01020304", "1.2.3.4", true),
        ("02 10 0102030405060708090a0b0c0d0e0f10", "102:304:506:708:90a:b0c:d0e:f10", true),
        (
            "02 10 fd6b88c08724ca978112ca1bbdcafac2",
            "fd6b:88c0:8724:ca97:8112:ca1b:bdca:fac2",
            false,
        ),
        ("04 20 79bcc625184b05194975c28b66b66b0469f7f6556fb1ac3189a79b40dda32f1f", ONION, true),
        (
            "05 20 a2894dabaec08c0051a481a6dac88b64f98232ae42d4b6fd2fa81952dfe36a87",
            "ukeu3k5oycgaauneqgtnvselmt4yemvoilkln7jpvamvfx7dnkdq.b32.i2p",
            true,
        ),
        ("06 10 fc000001000200030004000500060007", "fc00:1:2:3:4:5:6:7", true),
        ("06 10 aa000001000200030004000500060007", "aa00:1:2:3:4:5:6:7", false),
    ] {
        assert_eq!(decoded(text), Ok(Some((expected.to_owned(), valid))));
    }
    for dropped in [
        "02 10 00000000000000000000ffff01020304",
        "02 10 fd87d87eeb430102030405060708090a",
        "03 0a f1f2f3f4f5f6f7f8f9fa",
        "aa 04 01020304",
        "aa 00",
    ] {
        assert_eq!(decoded(dropped), Ok(None), "{dropped}");
    }
    for (text, network, length) in [
        ("01 05 01020304", 1, 5),
        ("01 fd0102 01020304", 1, 513),
        ("02 04 00", 2, 4),
        ("04 00 00", 4, 0),
        ("05 03 00", 5, 3),
        ("06 01 00", 6, 1),
        ("aa fe00000002 01020304050607", 0xaa, 0x0200_0000),
        ("aa fd0102", 0xaa, 513),
    ] {
        assert_eq!(decoded(text), Err(MessageError::AddressLength { network, length }), "{text}");
    }
    let short = NetAddress::decode_v2(&mut SpanReader::new(&unhex("01 04 0102")));
    assert_eq!(short, Err(DecodeError::UnexpectedEnd.into()));
    let longest = [unhex("aa fd0002"), vec![7; 512]].concat();
    assert_eq!(decoded(&hex::encode(&longest)), Ok(None));
}

#[test]
fn the_form_from_before_bip155_holds_ipv4_and_ipv6() {
    let decoded = |text: &str| {
        let bytes = [unhex(text), vec![0x20, 0x8d]].concat();
        NetAddress::decode_v1(&mut SpanReader::new(&bytes)).map(|address| address.to_string())
    };
    let expected = [
        ("00000000000000000000ffff01020304", "1.2.3.4:8333"),
        ("00000000000000000000000000000001", "[::1]:8333"),
        ("fd87d87eeb430102030405060708090a", "[::]:8333"),
    ];
    for (text, address) in expected {
        assert_eq!(decoded(text).as_deref(), Ok(address));
    }
    assert_eq!(decoded("00"), Err(DecodeError::UnexpectedEnd));
}

/// Core `netbase_tests.cpp`, `netbase_properties` and `netbase_networks`.
#[test]
fn core_properties() {
    use AddressNetwork::*;
    for (text, network) in [
        ("127.0.0.1", Unroutable),
        ("0.0.0.1", Unroutable),
        ("::1", Unroutable),
        ("10.0.0.1", Unroutable),
        ("192.168.1.1", Unroutable),
        ("172.31.255.255", Unroutable),
        ("198.18.0.0", Unroutable),
        ("198.19.255.255", Unroutable),
        ("169.254.1.1", Unroutable),
        ("100.64.0.0", Unroutable),
        ("100.127.255.255", Unroutable),
        ("192.0.2.1", Unroutable),
        ("198.51.100.1", Unroutable),
        ("203.0.113.1", Unroutable),
        ("2001:0DB8::", Unroutable),
        ("FC00::", Unroutable),
        ("fdff::1", Unroutable),
        ("2001:10::", Unroutable),
        ("2001:1f:ffff::", Unroutable),
        ("2001:20::", Unroutable),
        ("FE80::", Unroutable),
        ("fe80::1", Unroutable),
        ("8.8.8.8", Ipv4),
        ("172.15.255.255", Ipv4),
        ("172.32.0.0", Ipv4),
        ("198.17.255.255", Ipv4),
        ("198.20.0.0", Ipv4),
        ("100.63.255.255", Ipv4),
        ("100.128.0.0", Ipv4),
        ("192.0.3.1", Ipv4),
        ("2001::8888", Ipv6),
        ("2002::1", Ipv6),
        ("2001::2", Ipv6),
        ("64:FF9B::", Ipv6),
        ("2001:f::", Ipv6),
        ("2001:30::", Ipv6),
        ("fe80:0:0:1::", Ipv6),
        ("fe00::", Ipv6),
        (ONION, Onion),
        (I2P, I2p),
    ] {
        assert_eq!(host(text).network(), network, "{text}");
        assert_eq!(host(text).is_routable(), network != Unroutable);
    }
    assert!(host("127.0.0.1").is_local() && host("::1").is_local() && host("0.1.2.3").is_local());
    assert!(!host("128.0.0.1").is_local() && !host("::2").is_local());
    assert_eq!(Host::Cjdns([0xfc; 16]).network(), Cjdns);
    assert_eq!(Host::Cjdns([0xfd; 16]).network(), Unroutable);
}

/// Core `netbase_tests.cpp`, `netbase_getgroup`; the last ones from `netgroup.cpp`.
#[test]
fn core_groups() {
    let ipv4 = [1, 1, 2];
    for (text, group) in [
        ("127.0.0.1", &[0][..]),
        ("10.0.0.1", &[0]),
        ("169.254.1.1", &[0]),
        ("1.2.3.4", &ipv4),
        ("::FFFF:0:102:304", &ipv4),
        ("64:FF9B::102:304", &ipv4),
        ("2002:102:304:9999:9999:9999:9999:9999", &ipv4),
        ("2001:0:9999:9999:9999:9999:FEFD:FCFB", &ipv4),
        ("2001:470:abcd:9999:9999:9999:9999:9999", &[2, 32, 1, 4, 112, 175]),
        ("2001:2001:9999:9999:9999:9999:9999:9999", &[2, 32, 1, 32, 1]),
        (ONION, &[3, 0x7f]),
        (I2P, &[4, 0xaf]),
    ] {
        assert_eq!(host(text).prefix_group().as_bytes(), group, "{text}");
    }
    let cjdns = Host::Cjdns([0xfc, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(cjdns.prefix_group().as_bytes(), [5, 0xfc, 0x1f]);
    assert_eq!(
        host("64:FF9B::a00:1").prefix_group().as_bytes(),
        [1, 10, 0],
        "as Core: not looked into"
    );
}

#[test]
fn keys_hold_address_and_port() {
    let key = |host| hex::encode(NetAddress::new(host, 8333).key());
    assert_eq!(key(host("1.2.3.4")), "00000000000000000000ffff01020304208d");
    assert_eq!(key(host("::1")), "00000000000000000000000000000001208d");
    assert_eq!(key(Host::I2p([7; 32])), format!("{}208d", "07".repeat(32)));
    assert_eq!(key(Host::Cjdns([0xfc; 16])), format!("{}208d", "fc".repeat(16)));
}

fn any_host() -> impl Strategy<Value = Host> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(Host::Ipv4),
        any::<[u8; 16]>().prop_map(Host::from_legacy),
        any::<[u8; 32]>().prop_map(Host::OnionV3),
        any::<[u8; 32]>().prop_map(Host::I2p),
        any::<[u8; 16]>().prop_map(Host::Cjdns),
    ]
}

pub(crate) fn any_address() -> impl Strategy<Value = NetAddress> {
    (any_host(), any::<u16>()).prop_map(|(host, port)| NetAddress { host, port })
}

proptest! {
    #[test]
    fn text_round_trips(address in any_address()) {
        let back: NetAddress = address.to_string().parse().expect("its own text");
        match address.host {
            Host::Cjdns(bytes) => prop_assert_eq!(back.host, Host::from_legacy(bytes)),
            host => prop_assert_eq!(back.host, host),
        }
        prop_assert_eq!(back.port, address.port);
    }

    #[test]
    fn the_wire_form_of_bip155_round_trips(address in any_address()) {
        let mut out = DataStream::new();
        address.encode_v2(&mut out);
        let back = NetAddress::decode_v2(&mut SpanReader::new(out.as_slice()));
        prop_assert_eq!(back, Ok(Some(address)));
        for end in 0..out.len() {
            let cut = NetAddress::decode_v2(&mut SpanReader::new(&out.as_slice()[..end]));
            prop_assert_eq!(cut, Err(DecodeError::UnexpectedEnd.into()));
        }
    }

    #[test]
    fn any_text_is_survived(text: String) {
        if let Ok(address) = text.parse::<NetAddress>() {
            prop_assert!(address.to_string().parse::<NetAddress>().is_ok());
        }
    }

    #[test]
    fn what_sockets_take_comes_back(bytes: [u8; 16], port: u16) {
        let address = NetAddress::new(Host::from_legacy(bytes), port);
        let socket = address.to_socket().expect("an IP address");
        prop_assert_eq!(NetAddress::from(socket), address);
    }

    #[test]
    fn group_and_network_never_panic(host in any_host()) {
        prop_assert!(host.prefix_group().as_bytes()[0] == host.network_class() as u8);
    }
}
