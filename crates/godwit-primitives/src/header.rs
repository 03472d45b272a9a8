//! The 80-byte block header.

use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use crate::sha256::sha256d;
use crate::{BlockHash, MerkleRoot};

/// Size of a header on the wire, in bytes.
pub const HEADER_SIZE: usize = 80;

/// A block header. Integers are little-endian on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Version; signed, and compared as such by the version rules.
    pub version: i32,
    /// The block before.
    pub prev_blockhash: BlockHash,
    /// Root over the txids.
    pub merkle_root: MerkleRoot,
    /// Seconds since 1970, as the miner says.
    pub time: u32,
    /// The target in compact form.
    pub bits: u32,
    /// What the miner varied.
    pub nonce: u32,
}

impl BlockHeader {
    /// The 80 bytes of the wire.
    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..36].copy_from_slice(self.prev_blockhash.as_bytes());
        bytes[36..68].copy_from_slice(self.merkle_root.as_bytes());
        bytes[68..72].copy_from_slice(&self.time.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.bits.to_le_bytes());
        bytes[76..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// Double SHA-256 of the header.
    pub fn block_hash(&self) -> BlockHash {
        BlockHash::from_bytes(sha256d(&self.to_bytes()))
    }
}

impl Encode for BlockHeader {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write(&self.to_bytes());
    }
}

impl Decode for BlockHeader {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            version: reader.i32()?,
            prev_blockhash: BlockHash::decode(reader)?,
            merkle_root: MerkleRoot::decode(reader)?,
            time: reader.u32()?,
            bits: reader.u32()?,
            nonce: reader.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn genesis_header_hashes_to_its_name_and_round_trips() {
        let genesis = BlockHeader {
            version: 1,
            prev_blockhash: BlockHash::ZERO,
            merkle_root: "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
                .parse()
                .unwrap(),
            time: 1_231_006_505,
            bits: 0x1d00_ffff,
            nonce: 2_083_236_893,
        };
        assert_eq!(
            genesis.block_hash().to_string(),
            "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
        );
        let bytes = genesis.to_bytes();
        assert_eq!(BlockHeader::decode(&mut SpanReader::new(&bytes)), Ok(genesis));
        assert_eq!(
            BlockHeader::decode(&mut SpanReader::new(&bytes[..79])),
            Err(DecodeError::UnexpectedEnd)
        );
    }
}
