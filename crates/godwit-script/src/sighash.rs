//! The messages that signatures sign: legacy, BIP143, BIP341 with BIP342.
//!
//! A wrong message could make a wrong claim true, so the messages are compared with Core's vectors, and with
//! another implementation over real blocks and every hash type.

use godwit_primitives::OutputView;
use godwit_primitives::sha256::{Sha256, sha256, sha256d};
use godwit_stream::DataStream;

use crate::hashes::{TAGGED, finish};
use crate::spending_tx::{BLANK_INPUT, SpendingTx};

const ANYONE_CAN_PAY: u32 = 0x80;
const NONE: u32 = 2;
const SINGLE: u32 = 3;

/// The hash of a legacy signature for a single output that does not exist: the number 1, little-endian
/// (Core's `uint256::ONE`).
const ONE: [u8; 32] = {
    let mut one = [0; 32];
    one[0] = 1;
    one
};

/// What a hash type before taproot commits to. Its other bits are hashed but have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Commitment {
    anyone_can_pay: bool,
    outputs: Outputs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outputs {
    All,
    None,
    Single,
}

impl Commitment {
    /// Core's masks: `SIGHASH_ANYONECANPAY` and `0x1f`.
    fn of(hash_type: u32) -> Self {
        let outputs = match hash_type & 0x1f {
            NONE => Outputs::None,
            SINGLE => Outputs::Single,
            _ => Outputs::All,
        };
        Self { anyone_can_pay: hash_type & ANYONE_CAN_PAY != 0, outputs }
    }

    /// The number of possible commitments is small, and hash types that differ only in bits without meaning
    /// share one.
    fn index(self) -> usize {
        3 * usize::from(self.anyone_can_pay) + self.outputs as usize
    }
}

/// The legacy messages of one input. Signatures whose hash types commit to the same parts share all but the
/// last bytes, which bounds the cost of many signatures in a large transaction (Core's `SigHashCache`).
pub(crate) struct LegacyMessages<'s, 'a> {
    tx: &'s SpendingTx<'a>,
    input: usize,
    script_code: &'s [u8],
    states: [Option<Sha256>; 6],
}

impl<'s, 'a> LegacyMessages<'s, 'a> {
    /// `script_code` must contain neither OP_CODESEPARATOR nor any of the signatures.
    pub(crate) fn new(tx: &'s SpendingTx<'a>, input: usize, script_code: &'s [u8]) -> Self {
        Self { tx, input, script_code, states: Default::default() }
    }

    /// The message of a hash type; `None` if there is no such input.
    pub(crate) fn of(&mut self, hash_type: u32) -> Option<[u8; 32]> {
        let commitment = Commitment::of(hash_type);
        let single = commitment.outputs == Outputs::Single;
        // SignatureHash: nOut out of range.
        if single && self.input >= self.tx.view().output_count() {
            return Some(ONE);
        }
        let state = &mut self.states[commitment.index()];
        if state.is_none() {
            *state = Some(legacy_state(self.tx, self.input, self.script_code, commitment)?);
        }
        let mut hasher = state.clone()?;
        hasher.update(&hash_type.to_le_bytes());
        Some(hasher.finalize_double())
    }
}

/// Hashes the transaction without other inputs' scripts, with the parts that the signature leaves open
/// blanked (Core's `CTransactionSignatureSerializer`), and without the hash type at its end.
fn legacy_state(
    tx: &SpendingTx<'_>,
    input: usize,
    script_code: &[u8],
    commitment: Commitment,
) -> Option<Sha256> {
    let own = tx.input(input)?;
    let at = BLANK_INPUT * input;
    let mut bytes = DataStream::new();
    let (mut hasher, after) = match commitment {
        Commitment { anyone_can_pay: true, .. } => {
            bytes.write_u32(tx.view().version());
            bytes.write_compact_size(1);
            (Sha256::new(), &[][..])
        }
        Commitment { outputs: Outputs::All, .. } => {
            (tx.begun_at(input)?, tx.blank_inputs(false).get(at + BLANK_INPUT..)?)
        }
        Commitment { .. } => {
            let others = tx.blank_inputs(true);
            bytes.write_u32(tx.view().version());
            bytes.write_compact_size(tx.input_count() as u64);
            bytes.write(others.get(..at)?);
            (Sha256::new(), others.get(at + BLANK_INPUT..)?)
        }
    };
    bytes.put(&own.prevout);
    bytes.write_compact_size(script_code.len() as u64);
    bytes.write(script_code);
    bytes.write_u32(own.sequence);
    take(&mut hasher, &mut bytes);
    hasher.update(after);
    hash_outputs(tx, input, commitment.outputs, &mut hasher, &mut bytes)?;
    bytes.write_u32(tx.view().lock_time());
    take(&mut hasher, &mut bytes);
    Some(hasher)
}

/// Hashes all outputs, none, or those up to the input's own, with all before it blanked.
fn hash_outputs(
    tx: &SpendingTx<'_>,
    input: usize,
    outputs: Outputs,
    hasher: &mut Sha256,
    bytes: &mut DataStream,
) -> Option<()> {
    /// Many blank outputs: a value of -1 and an empty script.
    const BLANKS: [u8; 9 * 64] = {
        let mut blanks = [0xff; 9 * 64];
        let mut at = 8;
        while at < blanks.len() {
            blanks[at] = 0;
            at += 9;
        }
        blanks
    };
    match outputs {
        Outputs::All => {
            bytes.write_compact_size(tx.view().output_count() as u64);
            take(hasher, bytes);
            hasher.update(tx.view().output_bytes());
        }
        Outputs::None => bytes.write_compact_size(0),
        Outputs::Single => {
            bytes.write_compact_size(input as u64 + 1);
            take(hasher, bytes);
            for from in (0..input).step_by(64) {
                hasher.update(&BLANKS[..9 * (input - from).min(64)]);
            }
            write_output(bytes, tx.output(input)?);
        }
    }
    Some(())
}

/// Moves the gathered bytes into the hash.
fn take(hasher: &mut Sha256, bytes: &mut DataStream) {
    hasher.update(bytes.as_slice());
    bytes.clear();
}

fn write_output(bytes: &mut DataStream, output: OutputView<'_>) {
    bytes.write_i64(output.value);
    bytes.write_compact_size(output.script_pubkey.len() as u64);
    bytes.write(output.script_pubkey);
}

/// The leaf that a tapscript signature commits to.
pub(crate) type LeafHash = [u8; 32];

impl SpendingTx<'_> {
    /// The message of a legacy signature. `script_code` must not contain OP_CODESEPARATOR or the signature,
    /// which Core leaves out. `None` if there is no such input.
    pub fn legacy_message(
        &self,
        input: usize,
        script_code: &[u8],
        hash_type: u32,
    ) -> Option<[u8; 32]> {
        LegacyMessages::new(self, input, script_code).of(hash_type)
    }

    /// The message of a signature under version 0 of witness programs (BIP143). `None` if there is no such
    /// input.
    pub fn segwit_message(
        &self,
        input: usize,
        script_code: &[u8],
        hash_type: u32,
    ) -> Option<[u8; 32]> {
        let Commitment { anyone_can_pay, outputs } = Commitment::of(hash_type);
        let (own, spent) = (self.input(input)?, self.spent().get(input)?);
        let parts = self.doubled_part_hashes();
        let mut prevouts = [0; 32];
        let mut sequences = [0; 32];
        if !anyone_can_pay {
            prevouts = parts.prevouts;
        }
        if !anyone_can_pay && outputs == Outputs::All {
            sequences = parts.sequences;
        }
        let outputs = match (outputs, self.output_if(outputs, input)) {
            (Outputs::All, _) => parts.outputs,
            (Outputs::Single, Some(output)) => {
                let mut bytes = DataStream::new();
                write_output(&mut bytes, output);
                sha256d(bytes.as_slice())
            }
            // For none, and for the single one that does not exist.
            _ => [0; 32],
        };
        let mut bytes = DataStream::with_capacity(192 + script_code.len());
        bytes.write_u32(self.view().version());
        bytes.write(&prevouts);
        bytes.write(&sequences);
        bytes.put(&own.prevout);
        bytes.write_compact_size(script_code.len() as u64);
        bytes.write(script_code);
        bytes.write_i64(spent.value);
        bytes.write_u32(own.sequence);
        bytes.write(&outputs);
        bytes.write_u32(self.view().lock_time());
        bytes.write_u32(hash_type);
        Some(sha256d(bytes.as_slice()))
    }

    fn output_if(&self, outputs: Outputs, input: usize) -> Option<OutputView<'_>> {
        if outputs == Outputs::Single { self.output(input) } else { None }
    }

    /// The message of a Schnorr signature: by the key of the output, or by that of a tapscript leaf,
    /// executed without OP_CODESEPARATOR (BIP341, BIP342). `hash_type` is 0 for a signature of 64 bytes;
    /// `annex` begins with 0x50. `None` for a hash type that is not defined, a single output that does
    /// not exist, and if there is no such input.
    pub fn taproot_message(
        &self,
        input: usize,
        hash_type: u8,
        annex: Option<&[u8]>,
        leaf: Option<&LeafHash>,
    ) -> Option<[u8; 32]> {
        // SignatureHashSchnorr: hash_type.
        if !matches!(hash_type, 0..=3 | 0x81..=0x83) {
            return None;
        }
        let anyone_can_pay = hash_type & 0x80 != 0;
        let outputs = u32::from(hash_type & 3);
        let (own, spent) = (self.input(input)?, self.spent().get(input)?);
        let mut bytes = DataStream::with_capacity(256);
        // Epoch.
        bytes.write_u8(0);
        bytes.write_u8(hash_type);
        bytes.write_u32(self.view().version());
        bytes.write_u32(self.view().lock_time());
        if !anyone_can_pay {
            let (parts, spent) = (self.part_hashes(), self.spent_hashes());
            bytes.write(&parts.prevouts);
            bytes.write(&spent.values);
            bytes.write(&spent.scripts);
            bytes.write(&parts.sequences);
        }
        if outputs != NONE && outputs != SINGLE {
            bytes.write(&self.part_hashes().outputs);
        }
        bytes.write_u8(2 * u8::from(leaf.is_some()) + u8::from(annex.is_some()));
        if anyone_can_pay {
            bytes.put(&own.prevout);
            bytes.write_i64(spent.value);
            bytes.write_compact_size(spent.script_pubkey.len() as u64);
            bytes.write(spent.script_pubkey);
            bytes.write_u32(own.sequence);
        } else {
            bytes.write_u32(u32::try_from(input).ok()?);
        }
        if let Some(annex) = annex {
            bytes.write(&annex_hash(annex));
        }
        if outputs == SINGLE {
            // SignatureHashSchnorr: in_pos >= tx_to.vout.size().
            let output = self.output(input)?;
            let mut single = DataStream::new();
            write_output(&mut single, output);
            bytes.write(&sha256(single.as_slice()));
        }
        if let Some(leaf) = leaf {
            bytes.write(leaf);
            // Key version of keys of 32 bytes; no OP_CODESEPARATOR was executed.
            bytes.write_u8(0);
            bytes.write_u32(0xffff_ffff);
        }
        Some(finish(&TAGGED.sighash, &[bytes.as_slice()]))
    }
}

fn annex_hash(annex: &[u8]) -> [u8; 32] {
    let mut bytes = DataStream::with_capacity(annex.len() + 9);
    bytes.write_compact_size(annex.len() as u64);
    bytes.write(annex);
    sha256(bytes.as_slice())
}
