//! The `version` message, the first of each side.

use godwit_stream::{DataStream, SpanReader};

use super::MessageError;
use crate::frame::sanitized;
use crate::net_address::NetAddress;
use crate::services::Services;

/// Longest user agent, in bytes (Core `MAX_SUBVERSION_LENGTH`).
pub(crate) const MAX_USER_AGENT: usize = 256;

/// Size of a [`VersionAddress`] on the wire, in bytes.
const VERSION_ADDRESS_SIZE: usize = 26;

/// What a node says about itself (Core `net_processing.cpp`, `NetMsgType::VERSION`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The version of the protocol that the sender speaks.
    pub version: i32,
    /// What the sender offers.
    pub services: Services,
    /// The sender's time, in seconds since 1970; a negative one is decoded as 0.
    pub timestamp: i64,
    /// The receiver as the sender sees it.
    pub receiver: VersionAddress,
    /// The sender; Core sends zeros.
    pub sender: VersionAddress,
    /// Detects a connection to oneself; 1 when absent.
    pub nonce: u64,
    /// Name and version of the software. What arrives is sanitised.
    pub user_agent: String,
    /// Height of the sender's chain; -1 when absent.
    pub start_height: i32,
    /// Whether the sender wants transactions announced (BIP37); true when absent.
    pub relay: bool,
}

/// An address in a [`Version`], in the form from before BIP155.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionAddress {
    /// What is offered there.
    pub services: Services,
    pub address: NetAddress,
}

impl VersionAddress {
    fn encode(&self, out: &mut DataStream) {
        out.write_u64(self.services.0);
        self.address.encode_v1(out);
    }

    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let services = Services(reader.u64()?);
        Ok(Self { services, address: NetAddress::decode_v1(reader)? })
    }
}

impl Version {
    pub(super) fn encode(&self, out: &mut DataStream) {
        out.write_i32(self.version);
        out.write_u64(self.services.0);
        out.write_i64(self.timestamp);
        self.receiver.encode(out);
        self.sender.encode(out);
        out.write_u64(self.nonce);
        out.write_compact_size(self.user_agent.len() as u64);
        out.write(self.user_agent.as_bytes());
        out.write_i32(self.start_height);
        out.write_u8(self.relay.into());
    }

    /// Any number of fields after `receiver` may be missing at the end.
    pub(super) fn decode(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let version = reader.i32()?;
        let services = Services(reader.u64()?);
        let timestamp = reader.i64()?.max(0);
        let receiver = VersionAddress::decode(reader)?;
        let (sender, nonce) = if reader.is_empty() {
            (VersionAddress::decode(&mut SpanReader::new(&[0; VERSION_ADDRESS_SIZE]))?, 1)
        } else {
            (VersionAddress::decode(reader)?, reader.u64()?)
        };
        let user_agent = if reader.is_empty() { String::new() } else { user_agent(reader)? };
        let start_height = if reader.is_empty() { -1 } else { reader.i32()? };
        let relay = reader.is_empty() || reader.u8()? != 0;
        Ok(Self {
            version,
            services,
            timestamp,
            receiver,
            sender,
            nonce,
            user_agent,
            start_height,
            relay,
        })
    }
}

fn user_agent(reader: &mut SpanReader<'_>) -> Result<String, MessageError> {
    let len = reader.compact_size()? as usize;
    if len > MAX_USER_AGENT {
        return Err(MessageError::UserAgentTooLong);
    }
    Ok(sanitized(reader.bytes(len)?))
}
