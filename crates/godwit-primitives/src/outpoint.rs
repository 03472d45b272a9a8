//! The name of a coin: transaction and output number.

use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use crate::Txid;

/// A transaction output by the transaction that creates it and its position there; 36 bytes on the
/// wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutPoint {
    /// The creating transaction.
    pub txid: Txid,
    /// Position among its outputs.
    pub vout: u32,
}

impl OutPoint {
    /// What the single input of a coinbase names.
    pub const NULL: Self = Self { txid: Txid::ZERO, vout: u32::MAX };

    /// Size on the wire, in bytes.
    pub const SIZE: usize = 36;

    /// Whether this is the outpoint of a coinbase input.
    pub fn is_null(&self) -> bool {
        *self == Self::NULL
    }

    /// The 36 bytes of the wire: txid, then vout little-endian.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..32].copy_from_slice(self.txid.as_bytes());
        bytes[32..].copy_from_slice(&self.vout.to_le_bytes());
        bytes
    }
}

impl Encode for OutPoint {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write(&self.to_bytes());
    }
}

impl Decode for OutPoint {
    #[inline]
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { txid: Txid::decode(reader)?, vout: reader.u32()? })
    }
}
