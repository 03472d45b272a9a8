//! Anchors: the addresses of block-relay peers, which are called first at the next start, so that a
//! restart is no chance to surround this node with other peers.
//!
//! Source: Core `net.cpp` (`MAX_BLOCK_RELAY_ONLY_ANCHORS`, `ThreadOpenConnections`), `addrdb.cpp`
//! (`ReadAnchors`). The format of `anchors.dat` is in `docs/formats.md`.

use crate::net_address::AddressEntry;
use crate::saved_file::{self, SavedFileError};

/// Most anchors (Core `MAX_BLOCK_RELAY_ONLY_ANCHORS`).
pub const MAX_ANCHORS: usize = 2;

/// At most [`MAX_ANCHORS`] addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchors(Vec<AddressEntry>);

impl Anchors {
    /// The first [`MAX_ANCHORS`] of these.
    pub fn new(entries: impl IntoIterator<Item = AddressEntry>) -> Self {
        Self(entries.into_iter().take(MAX_ANCHORS).collect())
    }

    /// In the order in which they are to be called.
    pub fn entries(&self) -> &[AddressEntry] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The content of `anchors.dat` for the network with this magic.
    pub fn to_bytes(&self, magic: [u8; 4]) -> Vec<u8> {
        saved_file::seal(magic, |out| {
            out.write_u8(self.0.len() as u8);
            for entry in &self.0 {
                entry.encode_v2(out);
            }
        })
    }

    /// Anchors from the content of `anchors.dat`.
    ///
    /// # Errors
    ///
    /// When the content is not that of an undamaged file of this network and version.
    pub fn from_bytes(bytes: &[u8], magic: [u8; 4]) -> Result<Self, SavedFileError> {
        let mut reader = saved_file::open(bytes, magic)?;
        let count = usize::from(reader.u8()?);
        if count > MAX_ANCHORS {
            return Err(SavedFileError::Inconsistent);
        }
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let entry = AddressEntry::decode_v2(&mut reader);
            entries.push(entry.ok().flatten().ok_or(SavedFileError::Inconsistent)?);
        }
        match reader.is_empty() {
            true => Ok(Self(entries)),
            false => Err(SavedFileError::Inconsistent),
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::sha256::sha256d;

    use super::*;
    use crate::{Host, NetAddress, Services};

    const MAGIC: [u8; 4] = [1, 2, 3, 4];

    fn entry(n: u8) -> AddressEntry {
        let address = match n % 2 {
            0 => NetAddress::new(Host::Ipv4([50, n, 1, 1]), 8_333),
            _ => NetAddress::new(Host::OnionV3([n; 32]), 8_334),
        };
        AddressEntry { time: 1_700_000_000, services: Services::NETWORK, address }
    }

    #[test]
    fn anchors_are_read_back() {
        for count in 0..=MAX_ANCHORS as u8 {
            let anchors = Anchors::new((0..count).map(entry));
            assert_eq!(Anchors::from_bytes(&anchors.to_bytes(MAGIC), MAGIC), Ok(anchors));
        }
        assert_eq!(Anchors::new((0..5).map(entry)).entries(), [entry(0), entry(1)]);
    }

    #[test]
    fn damaged_and_foreign_files_are_refused() {
        let bytes = Anchors::new((0..2).map(entry)).to_bytes(MAGIC);
        for length in 0..bytes.len() {
            assert!(Anchors::from_bytes(&bytes[..length], MAGIC).is_err(), "{length} bytes");
        }
        for (place, bit) in (0..bytes.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut bytes = bytes.clone();
            bytes[place] ^= 1 << bit;
            assert!(Anchors::from_bytes(&bytes, MAGIC).is_err(), "bit {bit} of byte {place}");
        }
        assert_eq!(Anchors::from_bytes(&bytes, [0; 4]), Err(SavedFileError::WrongMagic(MAGIC)));
        let resealed = |change: fn(&mut Vec<u8>)| {
            let mut content = bytes[..bytes.len() - 32].to_vec();
            change(&mut content);
            let checksum = sha256d(&content);
            Anchors::from_bytes(&[&content[..], &checksum].concat(), MAGIC)
        };
        assert_eq!(resealed(|content| content[0] = 2), Err(SavedFileError::UnknownVersion(2)));
        let changes: [fn(&mut Vec<u8>); 2] = [|content| content[8] = 3, |content| content.push(0)];
        for change in changes {
            assert_eq!(resealed(change), Err(SavedFileError::Inconsistent));
        }
        assert!(resealed(|_| {}).is_ok());
    }
}
