//! The outer form of both versions: magic, then one map of key-value pairs for the transaction, one
//! for each input and one for each output.
//!
//! Here lengths are held against the bytes that are there, keys against their duplicates, and the
//! number of maps against the transaction, before a decoder of fields sees anything.

use std::collections::BTreeMap;

use bitcoin::consensus::Decodable;
use bitcoin::{Transaction, TxIn, TxOut};
use godwit_stream::{DataStream, SpanReader};

use super::error::{FormatError, PsbtMap};
use super::limits::{
    MAX_ALL_PAIRS, MAX_INPUTS, MAX_OUTPUTS, MAX_PAIRS, MAX_PSBT_BYTES, MAX_UNSIGNED_TX_BYTES,
};

/// `psbt` and the separator.
pub(super) const MAGIC: [u8; 5] = *b"psbt\xff";

/// Values by key; a key begins with its type.
pub(super) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys without data behind the type.
pub(super) mod global {
    pub(in super::super) const UNSIGNED_TX: u8 = 0x00;
    pub(in super::super) const TX_VERSION: u8 = 0x02;
    pub(in super::super) const FALLBACK_LOCK_TIME: u8 = 0x03;
    pub(in super::super) const INPUT_COUNT: u8 = 0x04;
    pub(in super::super) const OUTPUT_COUNT: u8 = 0x05;
    pub(in super::super) const TX_MODIFIABLE: u8 = 0x06;
    pub(in super::super) const VERSION: u8 = 0xfb;
}

/// All pairs of a PSBT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Maps {
    pub(super) global: Pairs,
    pub(super) inputs: Vec<Pairs>,
    pub(super) outputs: Vec<Pairs>,
}

impl Maps {
    /// Cuts the binary form into pairs, if it is not too long.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        if bytes.len() > MAX_PSBT_BYTES {
            return Err(FormatError::TooLong(bytes.len()));
        }
        Self::cut(bytes, Room { of_map: MAX_PAIRS, of_all: MAX_ALL_PAIRS })
    }

    fn cut(bytes: &[u8], mut room: Room) -> Result<Self, FormatError> {
        let mut reader = SpanReader::new(bytes);
        if reader.array().map_err(|_| FormatError::NoPsbt)? != MAGIC {
            return Err(FormatError::NoPsbt);
        }
        let global = read_map(&mut reader, PsbtMap::Global, &mut room)?;
        let (inputs, outputs) = counts(&global)?;
        let mut maps = Maps { global, inputs: Vec::new(), outputs: Vec::new() };
        for index in 0..inputs {
            maps.inputs.push(read_map(&mut reader, PsbtMap::Input(index), &mut room)?);
        }
        for index in 0..outputs {
            maps.outputs.push(read_map(&mut reader, PsbtMap::Output(index), &mut room)?);
        }
        match reader.remaining() {
            0 => Ok(maps),
            more => Err(FormatError::TrailingBytes(more)),
        }
    }

    /// As [`Maps::decode`], for what `bitcoin` wrote from fields that were read here. They may have grown
    /// since, by copies of others and by signatures, so that together they are too long for a file, or too
    /// many.
    pub(super) fn decode_own(bytes: &[u8]) -> Self {
        let room = Room { of_map: usize::MAX, of_all: usize::MAX };
        Self::cut(bytes, room).expect("fields within their limits are written as such")
    }

    /// The binary form. Keys are written in rising order.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = DataStream::new();
        out.write(&MAGIC);
        for pairs in std::iter::once(&self.global).chain(&self.inputs).chain(&self.outputs) {
            for bytes in pairs.iter().flat_map(|(key, value)| [key, value]) {
                out.write_compact_size(bytes.len() as u64);
                out.write(bytes);
            }
            out.write_u8(0);
        }
        out.as_slice().to_vec()
    }

    /// Each map with its name, in order.
    pub(super) fn named(&self) -> impl Iterator<Item = (PsbtMap, &Pairs)> {
        let inputs = self.inputs.iter().enumerate().map(|(i, map)| (PsbtMap::Input(i), map));
        let outputs = self.outputs.iter().enumerate().map(|(i, map)| (PsbtMap::Output(i), map));
        std::iter::once((PsbtMap::Global, &self.global)).chain(inputs).chain(outputs)
    }

    /// Where `other`, of as many maps, has a pair that this does not have, or the other way round.
    pub(super) fn first_difference(&self, other: &Self) -> Option<(PsbtMap, Vec<u8>)> {
        self.named().zip(other.named()).find_map(|((map, ours), (_, theirs))| {
            let differs = |(key, value): &(&Vec<u8>, &Vec<u8>), pairs: &Pairs| {
                !(pairs.get(*key) == Some(*value)
                    // A version that is not written is 0.
                    || (map == PsbtMap::Global && **key == [global::VERSION]))
            };
            let missing = theirs.iter().find(|pair| differs(pair, ours));
            let added = ours.iter().find(|pair| differs(pair, theirs));
            missing.or(added).map(|(key, _)| (map, key.clone()))
        })
    }
}

/// How many pairs may come.
struct Room {
    /// Of one map.
    of_map: usize,
    /// Of all that are still to be read.
    of_all: usize,
}

/// Pairs are counted as they come: many small ones take far more memory than bytes.
fn read_map(
    reader: &mut SpanReader<'_>,
    map: PsbtMap,
    room: &mut Room,
) -> Result<Pairs, FormatError> {
    let mut pairs = Pairs::new();
    loop {
        let key = read_bytes(reader, map)?;
        if key.is_empty() {
            return Ok(pairs);
        }
        // The type is a compact size, of which all that are known take one byte.
        let kind = SpanReader::new(key).compact_size();
        kind.map_err(|error| FormatError::Pair { map, error })?;
        if pairs.len() == room.of_map || room.of_all == 0 {
            return Err(FormatError::TooManyPairs(map));
        }
        room.of_all -= 1;
        let value = read_bytes(reader, map)?;
        if pairs.insert(key.to_vec(), value.to_vec()).is_some() {
            return Err(FormatError::DuplicateKey { map, key: key.to_vec() });
        }
    }
}

fn read_bytes<'a>(reader: &mut SpanReader<'a>, map: PsbtMap) -> Result<&'a [u8], FormatError> {
    let bytes = reader.compact_size().and_then(|len| reader.bytes(len as usize));
    bytes.map_err(|error| FormatError::Pair { map, error })
}

/// How many inputs and outputs follow.
fn counts(pairs: &Pairs) -> Result<(usize, usize), FormatError> {
    let (inputs, outputs) = match pairs.get(&[global::UNSIGNED_TX][..]) {
        Some(bytes) => {
            let transaction = unsigned_transaction(bytes)?;
            (transaction.input.len(), transaction.output.len())
        }
        None => (count(pairs, global::INPUT_COUNT)?, count(pairs, global::OUTPUT_COUNT)?),
    };
    if inputs > MAX_INPUTS {
        return Err(FormatError::TooManyInputs(inputs));
    }
    if outputs > MAX_OUTPUTS {
        return Err(FormatError::TooManyOutputs(outputs));
    }
    Ok((inputs, outputs))
}

fn count(pairs: &Pairs, key: u8) -> Result<usize, FormatError> {
    let missing = FormatError::Missing { map: PsbtMap::Global, key };
    // Without a version there should have been a transaction.
    if !pairs.contains_key(&[global::VERSION][..]) {
        return Err(FormatError::Missing { map: PsbtMap::Global, key: global::UNSIGNED_TX });
    }
    let value = pairs.get(&[key][..]).ok_or(missing)?;
    let mut reader = SpanReader::new(value);
    let invalid = FormatError::InvalidValue { map: PsbtMap::Global, key };
    match (reader.compact_size(), reader.is_empty()) {
        (Ok(count), true) => Ok(count as usize),
        _ => Err(invalid),
    }
}

/// A transaction in the form without witnesses, whatever its first bytes look like: one without
/// inputs must not be taken for one with witnesses.
pub(super) fn unsigned_transaction(bytes: &[u8]) -> Result<Transaction, FormatError> {
    if bytes.len() > MAX_UNSIGNED_TX_BYTES {
        return Err(FormatError::TransactionTooLong(bytes.len()));
    }
    let invalid = || FormatError::InvalidValue { map: PsbtMap::Global, key: global::UNSIGNED_TX };
    let mut rest = bytes;
    let transaction = Transaction {
        version: Decodable::consensus_decode(&mut rest).map_err(|_| invalid())?,
        input: Vec::<TxIn>::consensus_decode(&mut rest).map_err(|_| invalid())?,
        output: Vec::<TxOut>::consensus_decode(&mut rest).map_err(|_| invalid())?,
        lock_time: Decodable::consensus_decode(&mut rest).map_err(|_| invalid())?,
    };
    if rest.is_empty() { Ok(transaction) } else { Err(invalid()) }
}
