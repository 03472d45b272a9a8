//! `peers.dat`: encodes and decodes the book. The format is in `docs/formats.md`.

use godwit_stream::{DataStream, SpanReader};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::entry::{Entry, Source};
use super::places::{NEW_BUCKETS, PlaceKey};
use super::{AddressBook, MAX_ENTRIES, MAX_REFERENCES};
use crate::net_address::{AddressEntry, Host, NetAddress};
use crate::saved_file::{self, SavedFileError};

/// Kind of a source that is a node.
const SOURCE_HOST: u8 = 0;
/// Kind of a source that is a name.
const SOURCE_NAME: u8 = 1;

impl AddressBook {
    /// The content of `peers.dat` for the network with this magic. As in Core, it lacks collisions
    /// and the times of attempts.
    pub fn to_bytes(&self, magic: [u8; 4]) -> Vec<u8> {
        saved_file::seal(magic, |out| self.write(out))
    }

    fn write(&self, out: &mut DataStream) {
        out.write(self.key.bytes());
        out.write_u32(self.order.len() as u32);
        for id in &self.order {
            self.write_entry(&self.entries[id], out);
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
    ) -> Result<Self, SavedFileError> {
        let mut reader = saved_file::open(bytes, magic)?;
        let key = PlaceKey::new(reader.array()?);
        let mut book = Self::with_key(key, StdRng::from_seed(seed));
        book.read_entries(&mut reader)?;
        book.read_buckets(&mut reader)?;
        if !reader.is_empty() {
            return Err(SavedFileError::Inconsistent);
        }
        book.forget_homeless();
        Ok(book)
    }

    fn read_entries(&mut self, reader: &mut SpanReader<'_>) -> Result<(), SavedFileError> {
        let count = reader.u32()? as usize;
        if count > MAX_ENTRIES {
            return Err(SavedFileError::Inconsistent);
        }
        for _ in 0..count {
            let entry = read_entry(reader)?;
            if self.ids.contains_key(&entry.address) || !entry.address.is_routable() {
                return Err(SavedFileError::Inconsistent);
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

    fn read_buckets(&mut self, reader: &mut SpanReader<'_>) -> Result<(), SavedFileError> {
        let count = reader.u32()?;
        for _ in 0..count {
            let (rank, bucket) = (reader.u32()? as usize, reader.u16()?.into());
            let id = *self.order.get(rank).ok_or(SavedFileError::Inconsistent)?;
            let entry = &self.entries[&id];
            if bucket >= NEW_BUCKETS || entry.tried || entry.references == MAX_REFERENCES {
                return Err(SavedFileError::Inconsistent);
            }
            let place = self.key.place_in_new_bucket(&entry.address, bucket);
            if self.new.get(place).is_some() {
                return Err(SavedFileError::Inconsistent);
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

fn read_entry(reader: &mut SpanReader<'_>) -> Result<Entry, SavedFileError> {
    let inconsistent = SavedFileError::Inconsistent;
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

fn read_host(reader: &mut SpanReader<'_>) -> Result<Host, SavedFileError> {
    let address = NetAddress::decode_v2(reader).map_err(|_| SavedFileError::Inconsistent)?;
    address.map(|address| address.host).ok_or(SavedFileError::Inconsistent)
}
