//! Packets byte by byte, as RFC 6886 (section 3) and RFC 6887 (figures 2, 3, 9 and 10) have them.

use proptest::prelude::*;

use super::*;

fn request() -> MappingRequest {
    MappingRequest {
        nonce: *b"abcdefghijkl",
        client: Ipv4Addr::new(192, 168, 1, 7).into(),
        wanted: Ipv4Addr::UNSPECIFIED.into(),
        port: 8333,
        lifetime: 2_400,
    }
}

const PCP_REQUEST: &[u8] = b"\x02\x01\0\0\
    \0\0\x09\x60\
    \0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\xa8\x01\x07\
    abcdefghijkl\
    \x06\0\0\0\
    \x20\x8d\x20\x8d\
    \0\0\0\0\0\0\0\0\0\0\xff\xff\0\0\0\0";

/// Port 9333 of 9.8.7.6 for 1,800 s, in the router's second 5.
const PCP_ANSWER: &[u8; 60] = b"\x02\x81\0\0\
    \0\0\x07\x08\
    \0\0\0\x05\
    \0\0\0\0\0\0\0\0\0\0\0\0\
    abcdefghijkl\
    \x06\0\0\0\
    \x20\x8d\x24\x75\
    \0\0\0\0\0\0\0\0\0\0\xff\xff\x09\x08\x07\x06";

/// The same of NAT-PMP, without the address.
const NATPMP_ANSWER: &[u8; 16] = b"\0\x82\0\0\0\0\0\x05\x20\x8d\x24\x75\0\0\x07\x08";
const ADDRESS_ANSWER: &[u8; 12] = b"\0\x80\0\0\0\0\0\x05\x09\x08\x07\x06";
const ROUTER: Ipv4Addr = Ipv4Addr::new(9, 8, 7, 6);

fn mapping(protocol: MappingProtocol) -> Mapping {
    let external = "9.8.7.6:9333".parse().expect("an address");
    Mapping { protocol, external, lifetime: 1_800 }
}

/// The packet with another byte at a place.
fn with<const N: usize>(packet: &[u8; N], at: usize, byte: u8) -> [u8; N] {
    let mut other = *packet;
    other[at] = byte;
    other
}

#[test]
fn requests_are_as_the_protocols_have_them() {
    assert_eq!(request().pcp(), PCP_REQUEST);
    assert_eq!(request().natpmp(), *b"\0\x02\0\0\x20\x8d\x20\x8d\0\0\x09\x60");
    let address: IpAddr = "2a02::1".parse().expect("an address");
    let pinhole = MappingRequest { client: address, wanted: address, ..request() }.pcp();
    let bytes = *b"\x2a\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\x01";
    assert_eq!((&pinhole[8..24], &pinhole[44..]), (&bytes[..], &bytes[..]));
}

#[test]
fn a_mapping_of_pcp_is_read() {
    let read = |packet: &[u8]| request().pcp_answer(packet);
    assert_eq!(read(PCP_ANSWER), Some(Ok(mapping(MappingProtocol::Pcp))));
    // Options follow.
    assert_eq!(read(&[&PCP_ANSWER[..], &[0; 40]].concat()), read(PCP_ANSWER));
    let mut pinhole = *PCP_ANSWER;
    pinhole[44..].copy_from_slice(b"\x2a\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
    let told = read(&pinhole).expect("an answer").expect("a mapping");
    assert_eq!(told.external.to_string(), "[2a02::1]:9333");
}

#[test]
fn what_is_no_answer_of_pcp_is_passed_over() {
    let read = |packet: &[u8]| request().pcp_answer(packet);
    assert_eq!(read(&PCP_ANSWER[..59]), None);
    assert_eq!(read(&[]), None);
    // Version, operation, each end of the nonce, protocol, and both bytes of our port.
    for at in [0, 1, 24, 35, 36, 40, 41] {
        assert_eq!(read(&with(PCP_ANSWER, at, PCP_ANSWER[at] ^ 1)), None, "{at}");
    }
    assert_eq!(read(PCP_REQUEST), None, "our own");
}

#[test]
fn a_router_that_knows_natpmp_alone_is_recognised() {
    let read = |packet: &[u8]| request().pcp_answer(packet);
    let only = *b"\0\x81\0\x01\0\0\0\x05";
    assert_eq!(read(&only), Some(Err(MappingRefusal::OnlyNatPmp)));
    assert_eq!(read(&with(&only, 0, 1)), None);
    assert_eq!(read(&with(&only, 3, 2)), None);
    assert_eq!(read(&only[..7]), None);
    assert_eq!(read(&[&only[..], &[0]].concat()), None);
}

#[test]
fn refusals_are_named() {
    let pcp = |code| request().pcp_answer(&with(PCP_ANSWER, 3, code));
    let natpmp = |code| request().natpmp_answer(ROUTER, &with(NATPMP_ANSWER, 3, code));
    let said = |answer: Option<Result<Mapping, MappingRefusal>>| {
        let refusal = answer.expect("an answer").expect_err("a refusal");
        (refusal.to_string(), refusal.is_lack_of_resources())
    };
    assert_eq!(said(pcp(2)), ("pcp NOT_AUTHORIZED (code 2)".to_owned(), false));
    assert_eq!(said(pcp(8)), ("pcp NO_RESOURCES (code 8)".to_owned(), true));
    assert_eq!(said(pcp(4)), ("pcp UNSUPP_OPCODE (code 4)".to_owned(), false));
    assert_eq!(said(pcp(13)), ("pcp EXCESSIVE_REMOTE_PEERS (code 13)".to_owned(), false));
    assert_eq!(said(pcp(14)), ("pcp (unknown) (code 14)".to_owned(), false));
    assert_eq!(said(natpmp(4)), ("natpmp NO_RESOURCES (code 4)".to_owned(), true));
    assert_eq!(said(natpmp(6)), ("natpmp (unknown) (code 6)".to_owned(), false));
    let high = request().natpmp_answer(ROUTER, &with(NATPMP_ANSWER, 2, 1));
    assert_eq!(said(high), ("natpmp (unknown) (code 256)".to_owned(), false));
    // Of PCP only the fourth byte is the code.
    assert_eq!(request().pcp_answer(&with(PCP_ANSWER, 2, 9)), request().pcp_answer(PCP_ANSWER));
    let mut no_port = *NATPMP_ANSWER;
    no_port[10..12].fill(0);
    assert_eq!(request().natpmp_answer(ROUTER, &no_port), Some(Err(MappingRefusal::NoPort)));
    let mut no_port = *PCP_ANSWER;
    no_port[42..44].fill(0);
    assert_eq!(request().pcp_answer(&no_port), Some(Err(MappingRefusal::NoPort)));
}

#[test]
fn a_mapping_of_natpmp_is_read_and_nothing_else() {
    let read = |packet: &[u8]| request().natpmp_answer(ROUTER, packet);
    assert_eq!(read(NATPMP_ANSWER), Some(Ok(mapping(MappingProtocol::NatPmp))));
    assert_eq!(read(&NATPMP_ANSWER[..15]), None);
    for at in [0, 1, 8, 9] {
        assert_eq!(read(&with(NATPMP_ANSWER, at, NATPMP_ANSWER[at] ^ 1)), None, "{at}");
    }
    assert_eq!(natpmp_address(ADDRESS_ANSWER), Some(Ok(ROUTER)));
    assert_eq!(natpmp_address(&ADDRESS_ANSWER[..11]), None);
    for at in [0, 1] {
        assert_eq!(natpmp_address(&with(ADDRESS_ANSWER, at, 2)), None, "{at}");
    }
    let refused = MappingRefusal::Code(MappingProtocol::NatPmp, 3);
    assert_eq!(natpmp_address(&with(ADDRESS_ANSWER, 3, 3)), Some(Err(refused)));
}

proptest! {
    /// Whatever comes, nothing panics, and a mapping has a port.
    #[test]
    fn any_packet_can_be_read(
        mut packet in prop::collection::vec(any::<u8>(), 0..80),
        head in 0..4_usize,
    ) {
        let heads: [&[u8]; 4] = [&[], &PCP_ANSWER[..40], &NATPMP_ANSWER[..10], &ADDRESS_ANSWER[..2]];
        let len = heads[head].len().min(packet.len());
        packet[..len].copy_from_slice(&heads[head][..len]);
        let answers =
            [request().pcp_answer(&packet), request().natpmp_answer(ROUTER, &packet)];
        for mapping in answers.into_iter().flatten().flatten() {
            prop_assert_ne!(mapping.external.port, 0);
        }
        natpmp_address(&packet);
    }
}
