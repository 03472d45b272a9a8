//! What peers announce and ask for by hash.

use std::fmt;

use godwit_primitives::BlockHash;
use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

/// What an [`Inventory`] names (Core `protocol.h`, `GetDataMsg`). Any number may arrive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InventoryKind(pub u32);

impl InventoryKind {
    /// Asks for the form with witness (BIP144).
    const WITNESS_FLAG: u32 = 1 << 30;

    /// A transaction by txid.
    pub const TX: Self = Self(1);
    /// A block; in `getdata`: without witness.
    pub const BLOCK: Self = Self(2);
    /// A block filtered by a bloom filter (BIP37); only in `getdata`.
    pub const FILTERED_BLOCK: Self = Self(3);
    /// A compact block (BIP152); only in `getdata`.
    pub const CMPCT_BLOCK: Self = Self(4);
    /// A transaction by wtxid (BIP339).
    pub const WTX: Self = Self(5);
    /// A transaction by txid, with witness; only in `getdata`.
    pub const WITNESS_TX: Self = Self(1 | Self::WITNESS_FLAG);
    /// A block with witness; only in `getdata`.
    pub const WITNESS_BLOCK: Self = Self(2 | Self::WITNESS_FLAG);

    /// Any form of a transaction (Core `IsGenTxMsg`).
    pub fn is_transaction(self) -> bool {
        matches!(self, Self::TX | Self::WTX | Self::WITNESS_TX)
    }

    /// Any form of a block (Core `IsGenBlkMsg`).
    pub fn is_block(self) -> bool {
        matches!(self, Self::BLOCK | Self::FILTERED_BLOCK | Self::CMPCT_BLOCK | Self::WITNESS_BLOCK)
    }
}

impl fmt::Debug for InventoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TX => f.write_str("TX"),
            Self::BLOCK => f.write_str("BLOCK"),
            Self::FILTERED_BLOCK => f.write_str("FILTERED_BLOCK"),
            Self::CMPCT_BLOCK => f.write_str("CMPCT_BLOCK"),
            Self::WTX => f.write_str("WTX"),
            Self::WITNESS_TX => f.write_str("WITNESS_TX"),
            Self::WITNESS_BLOCK => f.write_str("WITNESS_BLOCK"),
            Self(other) => write!(f, "{other:#x}"),
        }
    }
}

/// One thing by its hash. 36 bytes: kind, hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inventory {
    /// What the hash names.
    pub kind: InventoryKind,
    /// The hash, in the order in which it was hashed.
    pub hash: [u8; 32],
}

impl Inventory {
    /// Size on the wire, in bytes.
    pub const SIZE: usize = 36;

    /// A block, in the form that `kind` says.
    pub fn block(kind: InventoryKind, hash: BlockHash) -> Self {
        Self { kind, hash: hash.to_bytes() }
    }

    /// The hash of a block; meaningless when [`InventoryKind::is_block`] is false.
    pub fn block_hash(&self) -> BlockHash {
        BlockHash::from_bytes(self.hash)
    }
}

impl Encode for Inventory {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u32(self.kind.0);
        out.write(&self.hash);
    }
}

impl Decode for Inventory {
    const MIN_ENCODED_LEN: usize = Self::SIZE;

    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { kind: InventoryKind(reader.u32()?), hash: reader.array()? })
    }
}
