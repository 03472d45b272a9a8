//! `peers.dat`: encodes and decodes the book. The format is in `docs/formats.md`.

use std::fmt;

use godwit_primitives::sha256::sha256d;
use godwit_stream::{DataStream, DecodeError, SpanReader};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::entry::{Entry, Source};
use super::places::{NEW_BUCKETS, PlaceKey};
use super::{AddressBook, MAX_ENTRIES, MAX_REFERENCES};
use crate::net_address::{AddressEntry, Host, NetAddress};

/// Version of the format. A reader refuses all others.
const VERSION: u32 = 1;
/// Bytes of the checksum at the end.
const CHECKSUM_SIZE: usize = 32;
/// Kind of a source that is a node.
const SOURCE_HOST: u8 = 0;
/// Kind of a source that is a name.
const SOURCE_NAME: u8 = 1;

/// Why a file is no address book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBookError {
    /// It was written by another version of the software.
    UnknownVersion(u32),
    /// It belongs to another network.
    WrongMagic([u8; 4]),
    /// It is damaged: shorter than it must be, or its checksum does not match.
    Damaged,
    /// Its checksum matches but its content makes no sense.
    Inconsistent,
}

impl fmt::Display for AddressBookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion(version) => {
                write!(f, "version {version} of the address book is not known, only {VERSION}")
            }
            Self::WrongMagic([a, b, c, d]) => {
                write!(f, "address book of another network (magic {a:02x}{b:02x}{c:02x}{d:02x})")
            }
            Self::Damaged => f.write_str("address book is damaged (wrong checksum)"),
            Self::Inconsistent => f.write_str("address book is inconsistent"),
        }
    }
}

impl std::error::Error for AddressBookError {}

/// The checksum has matched, so only a defect of the writer explains bytes that do not decode.
impl From<DecodeError> for AddressBookError {
    fn from(_: DecodeError) -> Self {
        Self::Inconsistent
    }
}

impl AddressBook {
    /// The content of `peers.dat` for the network with this magic. As in Core, it lacks collisions
    /// and the times of attempts.
    pub fn to_bytes(&self, magic: [u8; 4]) -> Vec<u8> {
        let mut out = DataStream::new();
        out.write_u32(VERSION);
        out.write(&magic);
        out.write(self.key.bytes());
        out.write_u32(self.order.len() as u32);
        for id in &self.order {
            self.write_entry(&self.entries[id], &mut out);
        }
        let mut buckets: Vec<(u32, u16)> = Vec::new();
        for (place, slot) in self.new.held() {
            buckets.push((self.entries[&slot.id].rank as u32, place.bucket as u16));
        }
        out.write_u32(buckets.len() as u32);
        for (rank, bucket) in buckets {
            out.write_u32(rank);
            out.write_u16(bucket);
        }
        out.write(&sha256d(out.as_slice()));
        out.as_slice().to_vec()
    }

    fn write_entry(&self, entry: &Entry, out: &mut DataStream) {
        let (time, services, address) = (entry.time, entry.services, entry.address);
        AddressEntry { time, services, address }.encode_v2(out);
        match entry.source {
            Source::Host(host) => {
                out.write_u8(SOURCE_HOST);
                NetAddress::new(host, 0).encode_v2(out);
            }
            Source::Name(hash) => {
                out.write_u8(SOURCE_NAME);
                out.write(&hash);
            }
        }
        out.write_i64(entry.last_success);
        out.write_u32(entry.attempts);
        out.write_u8(entry.tried.into());
    }

    /// A book from the content of `peers.dat`, its secret key included; further randomness comes
    /// from `seed`. Addresses that have lost their place (because the rules of groups have changed)
    /// are left out.
    ///
    /// # Errors
    ///
    /// When the content is not that of an undamaged book of this network and version.
    pub fn from_bytes(
        bytes: &[u8],
        magic: [u8; 4],
        seed: [u8; 32],
    ) -> Result<Self, AddressBookError> {
        let mut reader = SpanReader::new(bytes);
        let damaged = |_: DecodeError| AddressBookError::Damaged;
        let version = reader.u32().map_err(damaged)?;
        if version != VERSION {
            return Err(AddressBookError::UnknownVersion(version));
        }
        let (content, checksum) =
            bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(AddressBookError::Damaged)?;
        if sha256d(content) != *checksum {
            return Err(AddressBookError::Damaged);
        }
        let mut reader = SpanReader::new(content);
        reader.skip(size_of::<u32>())?;
        let found = reader.array()?;
        if found != magic {
            return Err(AddressBookError::WrongMagic(found));
        }
        let key = PlaceKey::new(reader.array()?);
        let mut book = Self::with_key(key, StdRng::from_seed(seed));
        book.read_entries(&mut reader)?;
        book.read_buckets(&mut reader)?;
        if !reader.is_empty() {
            return Err(AddressBookError::Inconsistent);
        }
        book.forget_homeless();
        Ok(book)
    }

    fn read_entries(&mut self, reader: &mut SpanReader<'_>) -> Result<(), AddressBookError> {
        let count = reader.u32()? as usize;
        if count > MAX_ENTRIES {
            return Err(AddressBookError::Inconsistent);
        }
        for _ in 0..count {
            let entry = read_entry(reader)?;
            if self.ids.contains_key(&entry.address) || !entry.address.is_routable() {
                return Err(AddressBookError::Inconsistent);
            }
            let (address, tried) = (entry.address, entry.tried);
            let id = self.insert(entry);
            let place = self.key.tried_place(&address);
            if tried && self.tried.get(place).is_none() {
                self.tried.put(place, id, address.network());
            } else if tried {
                self.entries.get_mut(&id).expect("just inserted").tried = false;
            }
        }
        Ok(())
    }

    fn read_buckets(&mut self, reader: &mut SpanReader<'_>) -> Result<(), AddressBookError> {
        let count = reader.u32()?;
        for _ in 0..count {
            let (rank, bucket) = (reader.u32()? as usize, reader.u16()?.into());
            let id = *self.order.get(rank).ok_or(AddressBookError::Inconsistent)?;
            let entry = &self.entries[&id];
            if bucket >= NEW_BUCKETS || entry.tried || entry.references == MAX_REFERENCES {
                return Err(AddressBookError::Inconsistent);
            }
            let place = self.key.place_in_new_bucket(&entry.address, bucket);
            if self.new.get(place).is_some() {
                return Err(AddressBookError::Inconsistent);
            }
            self.occupy_new(id, place);
        }
        Ok(())
    }

    fn forget_homeless(&mut self) {
        for id in self.order.clone() {
            let entry = &self.entries[&id];
            if !entry.tried && entry.references == 0 {
                self.forget(id);
            }
        }
    }
}

fn read_entry(reader: &mut SpanReader<'_>) -> Result<Entry, AddressBookError> {
    let inconsistent = AddressBookError::Inconsistent;
    let told = AddressEntry::decode_v2(reader).map_err(|_| inconsistent)?.ok_or(inconsistent)?;
    let source = match reader.u8()? {
        SOURCE_HOST => Source::Host(read_host(reader)?),
        SOURCE_NAME => Source::Name(reader.array()?),
        _ => return Err(inconsistent),
    };
    let (last_success, attempts, tried) = (reader.i64()?, reader.u32()?, reader.u8()?);
    if last_success < 0 || tried > 1 {
        return Err(inconsistent);
    }
    let tried = tried == 1;
    Ok(Entry { last_success, attempts, tried, ..Entry::new(&told, source, 0) })
}

fn read_host(reader: &mut SpanReader<'_>) -> Result<Host, AddressBookError> {
    let address = NetAddress::decode_v2(reader).map_err(|_| AddressBookError::Inconsistent)?;
    address.map(|address| address.host).ok_or(AddressBookError::Inconsistent)
}
