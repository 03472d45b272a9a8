//! Reasons for which a router forwards nothing.

use std::fmt;

use super::MappingProtocol;

/// What a router says instead of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MappingRefusal {
    /// It does not know PCP, but may know NAT-PMP.
    OnlyNatPmp,
    /// It refuses, with a code of this protocol.
    Code(MappingProtocol, u16),
    /// It says that it forwards port 0.
    NoPort,
}

/// By code (RFC 6886, section 3.5).
const NATPMP_CODES: [&str; 6] = [
    "SUCCESS",
    "UNSUPP_VERSION",
    "NOT_AUTHORIZED",
    "NETWORK_FAILURE",
    "NO_RESOURCES",
    "UNSUPP_OPCODE",
];

/// By code (RFC 6887, section 7.4).
const PCP_CODES: [&str; 14] = [
    "SUCCESS",
    "UNSUPP_VERSION",
    "NOT_AUTHORIZED",
    "MALFORMED_REQUEST",
    "UNSUPP_OPCODE",
    "UNSUPP_OPTION",
    "MALFORMED_OPTION",
    "NETWORK_FAILURE",
    "NO_RESOURCES",
    "UNSUPP_PROTOCOL",
    "USER_EX_QUOTA",
    "CANNOT_PROVIDE_EXTERNAL",
    "ADDRESS_MISMATCH",
    "EXCESSIVE_REMOTE_PEERS",
];

impl MappingRefusal {
    fn name(self) -> &'static str {
        let name = match self {
            Self::Code(MappingProtocol::NatPmp, code) => NATPMP_CODES.get(usize::from(code)),
            Self::Code(MappingProtocol::Pcp, code) => PCP_CODES.get(usize::from(code)),
            Self::OnlyNatPmp | Self::NoPort => None,
        };
        name.unwrap_or(&"(unknown)")
    }

    /// The router has no room, which usually means that another machine has the port.
    pub fn is_lack_of_resources(self) -> bool {
        self.name() == "NO_RESOURCES"
    }
}

impl fmt::Display for MappingRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyNatPmp => f.write_str("it does not know PCP"),
            Self::Code(protocol, code) => write!(f, "{protocol} {} (code {code})", self.name()),
            Self::NoPort => f.write_str("it forwards port 0"),
        }
    }
}

impl std::error::Error for MappingRefusal {}
