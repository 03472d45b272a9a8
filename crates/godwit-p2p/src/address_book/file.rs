//! `peers.dat`: encodes and decodes the book. The format is in `docs/formats.md`.

use godwit_stream::{DataStream, SpanReader};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::entry::{Entry, Source};
use super::places::{BUCKET_SIZE, NEW_BUCKETS, Placing};
use super::{AddressBook, MAX_ENTRIES, MAX_REFERENCES};
use crate::asmap::AsmapVersion;
use crate::net_address::{AddressEntry, Host, NetAddress};
use crate::net_groups::NetGroups;
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
        out.write(self.placing.key());
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
        if let Some(AsmapVersion(version)) = self.groups().version() {
            out.write(&version);
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
    /// Where the file was written with another map of autonomous systems than that of `groups`, each
    /// address gets the place that it has now, if no other one has it: a new one a single place, by who
    /// told it first (Core `AddrManImpl::Unserialize`).
    ///
    /// # Errors
    ///
    /// When the content is not that of an undamaged book of this network and version.
    pub fn from_bytes(
        bytes: &[u8],
        magic: [u8; 4],
        seed: [u8; 32],
        groups: NetGroups,
    ) -> Result<Self, SavedFileError> {
        let mut reader = saved_file::open(bytes, magic)?;
        let version = groups.version();
        let placing = Placing::new(reader.array()?, groups);
        let mut book = Self::with_placing(placing, StdRng::from_seed(seed));
        book.read_entries(&mut reader)?;
        let buckets = read_buckets(&mut reader)?;
        let written_with = match reader.is_empty() {
            true => None,
            false => Some(AsmapVersion(reader.array()?)),
        };
        if !reader.is_empty() {
            return Err(SavedFileError::Inconsistent);
        }
        if written_with == version {
            restore_buckets(&mut book, &buckets)?;
        } else {
            find_places(&mut book);
        }
        forget_homeless(&mut book);
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
            let place = self.placing.tried_place(&address);
            if tried && self.tried.get(place).is_none() {
                self.tried.put(place, id, address.network());
            } else if tried {
                self.entries.get_mut(&id).expect("just inserted").tried = false;
            }
        }
        Ok(())
    }
}

fn restore_buckets(
    book: &mut AddressBook,
    buckets: &[(usize, usize)],
) -> Result<(), SavedFileError> {
    for &(rank, bucket) in buckets {
        let id = *book.order.get(rank).ok_or(SavedFileError::Inconsistent)?;
        let entry = &book.entries[&id];
        if bucket >= NEW_BUCKETS || entry.tried || entry.references == MAX_REFERENCES {
            return Err(SavedFileError::Inconsistent);
        }
        let place = book.placing.place_in_new_bucket(&entry.address, bucket);
        if book.new.get(place).is_some() {
            return Err(SavedFileError::Inconsistent);
        }
        book.occupy_new(id, place);
    }
    Ok(())
}

/// Puts each address without a place at the new one that it has by its source, unless that is taken:
/// also those whose tried place another one has now.
fn find_places(book: &mut AddressBook) {
    for id in book.order.clone() {
        let entry = &book.entries[&id];
        let place = book.placing.new_place(&entry.address, entry.source);
        if !entry.tried && book.new.get(place).is_none() {
            book.occupy_new(id, place);
        }
    }
}

fn forget_homeless(book: &mut AddressBook) {
    for id in book.order.clone() {
        let entry = &book.entries[&id];
        if !entry.tried && entry.references == 0 {
            book.forget(id);
        }
    }
}

/// Ranks of addresses, each with a bucket that it is in.
fn read_buckets(reader: &mut SpanReader<'_>) -> Result<Vec<(usize, usize)>, SavedFileError> {
    let count = reader.u32()?;
    if count as usize > NEW_BUCKETS * BUCKET_SIZE {
        return Err(SavedFileError::Inconsistent);
    }
    let mut buckets = Vec::new();
    for _ in 0..count {
        buckets.push((reader.u32()? as usize, reader.u16()?.into()));
    }
    Ok(buckets)
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
