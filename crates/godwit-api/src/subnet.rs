//! The addresses that may use the RPC server (`-rpcallowip`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

/// The text is no subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubnetError;

impl fmt::Display for SubnetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address, address/bits or address/mask")
    }
}

impl std::error::Error for SubnetError {}

impl Subnet {
    /// Those of this machine, which may always ask.
    pub(crate) const LOOPBACK: [Self; 2] = [
        Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), bits: 8 },
        Self { address: IpAddr::V6(Ipv6Addr::LOCALHOST), bits: 128 },
    ];

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        match (self.address, plain(address)) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                same(a.to_bits().into(), b.to_bits().into(), 96 + self.bits)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), self.bits),
            _ => false,
        }
    }
}

/// An IPv4 address that came through an IPv6 socket as itself.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn same(a: u128, b: u128, bits: u8) -> bool {
    bits == 0 || (a ^ b) >> (128 - u32::from(bits)) == 0
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        // As Core: bits and mask of an address that IPv6 only carries are those of IPv4.
        let address = plain(address.parse().map_err(|_| SubnetError)?);
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match mask {
            None => most,
            Some(mask) => match mask.parse::<u8>() {
                Ok(bits) if !mask.starts_with('+') => bits,
                _ => mask_bits(address, mask)?,
            },
        };
        if bits > most { Err(SubnetError) } else { Ok(Self { address, bits }) }
    }
}

/// The bits of a mask in the form of an address.
fn mask_bits(address: IpAddr, mask: &str) -> Result<u8, SubnetError> {
    let (ones, zeros, all) = match (address, mask.parse().map_err(|_| SubnetError)?) {
        (IpAddr::V4(_), IpAddr::V4(mask)) => {
            (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros(), 32)
        }
        (IpAddr::V6(_), IpAddr::V6(mask)) => {
            (mask.to_bits().leading_ones(), mask.to_bits().trailing_zeros(), 128)
        }
        _ => return Err(SubnetError),
    };
    if ones + zeros < all { Err(SubnetError) } else { Ok(ones as u8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_within_and_without() {
        let contains = |net: &str, address: &str| {
            net.parse::<Subnet>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.0"));
        assert!(contains("10.1.2.3", "10.1.2.3") && !contains("10.1.2.3", "10.1.2.2"));
        assert!(contains("10.1.0.0/255.255.0.0", "10.1.9.9"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "::2"));
        assert!(contains("127.0.0.1/8", "::ffff:127.0.0.5"));
        assert!(
            contains("::ffff:10.0.0.1", "10.0.0.1") && !contains("::ffff:10.0.0.1", "10.0.0.2")
        );
        assert!(
            contains("::ffff:10.0.0.1/8", "10.0.0.2") && !contains("::ffff:10.0.0.1/8", "11.0.0.1")
        );
        assert!(
            contains("2001:db8::/32", "2001:db8:1::") && !contains("2001:db8::/32", "2001:db9::")
        );
    }

    #[test]
    fn what_is_no_subnet_is_refused() {
        for text in [
            "",
            "a",
            "1.2.3",
            "1.2.3.4/33",
            "1.2.3.4/+24",
            "1.2.3.4/",
            "::/129",
            "::ffff:10.0.0.1/33",
            "::ffff:10.0.0.1/128",
            "::ffff:10.0.0.1/ffff::",
            "1.2.3.4/255.0.255.0",
            "::1/255.0.0.0",
        ] {
            assert_eq!(text.parse::<Subnet>(), Err(SubnetError), "{text}");
        }
    }
}
