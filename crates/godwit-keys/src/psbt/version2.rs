//! The fields that only version 2 has (BIP370), and the way to version 0 and back.

use bitcoin::absolute::LOCK_TIME_THRESHOLD;
use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use bitcoin::{
    Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness, absolute,
    transaction,
};

use super::error::{FormatError, PsbtMap};
use super::limits::MAX_UNSIGNED_TX_BYTES;
use super::pairs::{Maps, Pairs, global};
use super::sighash::Sighash;

const INPUT_PREVIOUS_TXID: u8 = 0x0e;
const INPUT_OUTPUT_INDEX: u8 = 0x0f;
const INPUT_SEQUENCE: u8 = 0x10;
const INPUT_REQUIRED_TIME: u8 = 0x11;
const INPUT_REQUIRED_HEIGHT: u8 = 0x12;
const OUTPUT_AMOUNT: u8 = 0x03;
const OUTPUT_SCRIPT: u8 = 0x04;

const GLOBAL_KEYS: [u8; 5] = [
    global::TX_VERSION,
    global::FALLBACK_LOCK_TIME,
    global::INPUT_COUNT,
    global::OUTPUT_COUNT,
    global::TX_MODIFIABLE,
];
const INPUT_KEYS: [u8; 5] = [
    INPUT_PREVIOUS_TXID,
    INPUT_OUTPUT_INDEX,
    INPUT_SEQUENCE,
    INPUT_REQUIRED_TIME,
    INPUT_REQUIRED_HEIGHT,
];
const OUTPUT_KEYS: [u8; 2] = [OUTPUT_AMOUNT, OUTPUT_SCRIPT];

/// `PSBT_GLOBAL_TX_MODIFIABLE`: inputs may be added or removed.
const INPUTS_MODIFIABLE: u8 = 1;
/// Outputs may be added or removed.
const OUTPUTS_MODIFIABLE: u8 = 2;
/// A signature commits to the output beside its input.
const HAS_SIGHASH_SINGLE: u8 = 4;

/// What version 2 says beyond the transaction that its fields amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version2 {
    /// Lock time where no input requires one.
    fallback_lock_time: Option<u32>,
    modifiable: Option<u8>,
    inputs: Vec<InputLocks>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct InputLocks {
    /// Whether the sequence is written; it is the final one else.
    has_sequence: bool,
    required_time: Option<u32>,
    required_height: Option<u32>,
}

/// Takes the fields of version 2 out of a PSBT's pairs; what is left, with the transaction that they
/// amount to, is a PSBT of version 0.
pub(super) fn split(mut maps: Maps) -> Result<(Maps, Option<Version2>), FormatError> {
    let version = take_u32(&mut maps.global, PsbtMap::Global, global::VERSION)?.unwrap_or(0);
    match version {
        0 => {
            forbid(&maps)?;
            Ok((maps, None))
        }
        2 => {
            if maps.global.contains_key(&[global::UNSIGNED_TX][..]) {
                return Err(FormatError::NotInVersion {
                    map: PsbtMap::Global,
                    key: global::UNSIGNED_TX,
                    version,
                });
            }
            let (transaction, version2) = take(&mut maps)?;
            let bytes = without_witness(&transaction);
            if bytes.len() > MAX_UNSIGNED_TX_BYTES {
                return Err(FormatError::TransactionTooLong(bytes.len()));
            }
            maps.global.insert(vec![global::UNSIGNED_TX], bytes);
            Ok((maps, Some(version2)))
        }
        other => Err(FormatError::UnknownVersion(other)),
    }
}

/// Version 0 has none of the keys.
fn forbid(maps: &Maps) -> Result<(), FormatError> {
    for (map, pairs) in maps.named() {
        let found = pairs.keys().find(|key| keys_of(map).contains(&key[0]));
        if let Some(key) = found {
            return Err(FormatError::NotInVersion { map, key: key[0], version: 0 });
        }
    }
    Ok(())
}

fn keys_of(map: PsbtMap) -> &'static [u8] {
    match map {
        PsbtMap::Global => &GLOBAL_KEYS,
        PsbtMap::Input(_) => &INPUT_KEYS,
        PsbtMap::Output(_) => &OUTPUT_KEYS,
    }
}

fn take(maps: &mut Maps) -> Result<(Transaction, Version2), FormatError> {
    let map = PsbtMap::Global;
    let required = |key| FormatError::Missing { map, key };
    let version =
        take_u32(&mut maps.global, map, global::TX_VERSION)?.ok_or(required(global::TX_VERSION))?;
    let fallback_lock_time = take_u32(&mut maps.global, map, global::FALLBACK_LOCK_TIME)?;
    let modifiable = take_array::<1>(&mut maps.global, map, global::TX_MODIFIABLE)?;
    for key in [global::INPUT_COUNT, global::OUTPUT_COUNT] {
        maps.global.remove(&[key][..]).ok_or(required(key))?;
    }
    let mut version2 = Version2 {
        fallback_lock_time,
        modifiable: modifiable.map(|[flags]| flags),
        inputs: Vec::with_capacity(maps.inputs.len()),
    };
    let mut input = Vec::with_capacity(maps.inputs.len());
    for (index, pairs) in maps.inputs.iter_mut().enumerate() {
        let (tx_in, locks) = take_input(pairs, PsbtMap::Input(index))?;
        input.push(tx_in);
        version2.inputs.push(locks);
    }
    let mut output = Vec::with_capacity(maps.outputs.len());
    for (index, pairs) in maps.outputs.iter_mut().enumerate() {
        output.push(take_output(pairs, PsbtMap::Output(index))?);
    }
    // What is left of these types has data behind the type.
    for (map, pairs) in maps.named() {
        if let Some(key) = pairs.keys().find(|key| keys_of(map).contains(&key[0])) {
            return Err(FormatError::InvalidKey { map, key: key.clone() });
        }
    }
    let transaction = Transaction {
        version: transaction::Version(version as i32),
        lock_time: absolute::LockTime::from_consensus(version2.lock_time()?),
        input,
        output,
    };
    Ok((transaction, version2))
}

fn take_input(pairs: &mut Pairs, map: PsbtMap) -> Result<(TxIn, InputLocks), FormatError> {
    let required = |key| FormatError::Missing { map, key };
    let txid = take_array(pairs, map, INPUT_PREVIOUS_TXID)?;
    let txid = txid.ok_or(required(INPUT_PREVIOUS_TXID))?;
    let vout = take_u32(pairs, map, INPUT_OUTPUT_INDEX)?;
    let vout = vout.ok_or(required(INPUT_OUTPUT_INDEX))?;
    let sequence = take_u32(pairs, map, INPUT_SEQUENCE)?;
    let required_time = take_u32(pairs, map, INPUT_REQUIRED_TIME)?;
    let required_height = take_u32(pairs, map, INPUT_REQUIRED_HEIGHT)?;
    if required_time.is_some_and(|time| time < LOCK_TIME_THRESHOLD) {
        return Err(FormatError::InvalidValue { map, key: INPUT_REQUIRED_TIME });
    }
    if required_height.is_some_and(|height| height == 0 || height >= LOCK_TIME_THRESHOLD) {
        return Err(FormatError::InvalidValue { map, key: INPUT_REQUIRED_HEIGHT });
    }
    let tx_in = TxIn {
        previous_output: OutPoint { txid: Txid::from_byte_array(txid), vout },
        script_sig: ScriptBuf::new(),
        sequence: sequence.map_or(Sequence::MAX, Sequence),
        witness: Witness::new(),
    };
    let locks = InputLocks { has_sequence: sequence.is_some(), required_time, required_height };
    Ok((tx_in, locks))
}

fn take_output(pairs: &mut Pairs, map: PsbtMap) -> Result<TxOut, FormatError> {
    let required = |key| FormatError::Missing { map, key };
    let amount = take_array(pairs, map, OUTPUT_AMOUNT)?.ok_or(required(OUTPUT_AMOUNT))?;
    let script = pairs.remove(&[OUTPUT_SCRIPT][..]).ok_or(required(OUTPUT_SCRIPT))?;
    Ok(TxOut {
        value: Amount::from_sat(u64::from_le_bytes(amount)),
        script_pubkey: ScriptBuf::from_bytes(script),
    })
}

fn take_array<const N: usize>(
    pairs: &mut Pairs,
    map: PsbtMap,
    key: u8,
) -> Result<Option<[u8; N]>, FormatError> {
    let value = pairs.remove(&[key][..]).map(<[u8; N]>::try_from).transpose();
    value.map_err(|_| FormatError::InvalidValue { map, key })
}

fn take_u32(pairs: &mut Pairs, map: PsbtMap, key: u8) -> Result<Option<u32>, FormatError> {
    Ok(take_array(pairs, map, key)?.map(u32::from_le_bytes))
}

/// The form without witnesses also where there are no inputs.
fn without_witness(transaction: &Transaction) -> Vec<u8> {
    let mut bytes = encode::serialize(&transaction.version);
    bytes.extend(encode::serialize(&transaction.input));
    bytes.extend(encode::serialize(&transaction.output));
    bytes.extend(encode::serialize(&transaction.lock_time));
    bytes
}

impl Version2 {
    /// The additions that say the same as a transaction, and that it may be changed.
    #[cfg(test)]
    pub(super) fn of(transaction: &Transaction) -> Self {
        let written = InputLocks { has_sequence: true, ..InputLocks::default() };
        Version2 {
            fallback_lock_time: Some(transaction.lock_time.to_consensus_u32()),
            modifiable: Some(INPUTS_MODIFIABLE | OUTPUTS_MODIFIABLE),
            inputs: vec![written; transaction.input.len()],
        }
    }

    /// BIP370's rule: a kind of lock that every input with a requirement accepts, heights first.
    fn lock_time(&self) -> Result<u32, FormatError> {
        let requiring =
            || self.inputs.iter().filter(|i| i.required_time.or(i.required_height).is_some());
        if requiring().next().is_none() {
            return Ok(self.fallback_lock_time.unwrap_or(0));
        }
        let highest = |of: fn(&InputLocks) -> Option<u32>| {
            requiring().map(of).try_fold(0, |most, lock| Some(most.max(lock?)))
        };
        highest(|input| input.required_height)
            .or_else(|| highest(|input| input.required_time))
            .ok_or(FormatError::ConflictingLocks)
    }

    /// The way back from version 0.
    pub(super) fn join(&self, mut maps: Maps, transaction: &Transaction) -> Maps {
        maps.global.remove(&[global::UNSIGNED_TX][..]);
        let version = transaction.version.0.to_le_bytes();
        put(&mut maps.global, global::TX_VERSION, Some(version));
        let fallback = self.fallback_lock_time.map(u32::to_le_bytes);
        put(&mut maps.global, global::FALLBACK_LOCK_TIME, fallback);
        let count = |count: usize| Some(encode::serialize(&encode::VarInt::from(count)));
        put(&mut maps.global, global::INPUT_COUNT, count(maps.inputs.len()));
        put(&mut maps.global, global::OUTPUT_COUNT, count(maps.outputs.len()));
        put(&mut maps.global, global::TX_MODIFIABLE, self.modifiable.map(|flags| [flags]));
        put(&mut maps.global, global::VERSION, Some(2u32.to_le_bytes()));
        for ((pairs, locks), tx_in) in
            maps.inputs.iter_mut().zip(&self.inputs).zip(&transaction.input)
        {
            let OutPoint { txid, vout } = tx_in.previous_output;
            put(pairs, INPUT_PREVIOUS_TXID, Some(txid.to_byte_array()));
            put(pairs, INPUT_OUTPUT_INDEX, Some(vout.to_le_bytes()));
            let sequence = locks.has_sequence.then(|| tx_in.sequence.0.to_le_bytes());
            put(pairs, INPUT_SEQUENCE, sequence);
            put(pairs, INPUT_REQUIRED_TIME, locks.required_time.map(u32::to_le_bytes));
            put(pairs, INPUT_REQUIRED_HEIGHT, locks.required_height.map(u32::to_le_bytes));
        }
        for (pairs, output) in maps.outputs.iter_mut().zip(&transaction.output) {
            put(pairs, OUTPUT_AMOUNT, Some(output.value.to_sat().to_le_bytes()));
            put(pairs, OUTPUT_SCRIPT, Some(output.script_pubkey.as_bytes()));
        }
        maps
    }

    /// The flags of what may be changed.
    #[cfg(test)]
    pub(super) fn modifiable(&self) -> Option<u8> {
        self.modifiable
    }

    /// Clears the flags of what a signature of this kind forbids to change (BIP370, signer).
    pub(super) fn note_signature(&mut self, sighash: Sighash) {
        let Some(flags) = &mut self.modifiable else { return };
        if !sighash.anyone_can_pay() {
            *flags &= !INPUTS_MODIFIABLE;
        }
        if !sighash.none() {
            *flags &= !OUTPUTS_MODIFIABLE;
        }
        if sighash.single() {
            *flags |= HAS_SIGHASH_SINGLE;
        }
    }
}

/// Joins the flags of two copies: what either forbids is forbidden (Core's `Merge`).
pub(super) fn combined_modifiable(one: u8, other: u8) -> u8 {
    (one & other) | ((one | other) & HAS_SIGHASH_SINGLE)
}

fn put<T: AsRef<[u8]>>(pairs: &mut Pairs, key: u8, value: Option<T>) {
    if let Some(value) = value {
        pairs.insert(vec![key], value.as_ref().to_vec());
    }
}
