//! Makes a claim about an input: conditions from which its validity follows. This module has the forms before
//! taproot.
//!
//! Each condition is a line of its own that ends in `None`, with the function of Core's
//! `script/interpreter.cpp` or the BIP that it comes from; `tools/mutate-native` removes each of them in turn
//! and checks that a test fails. The cheap ones come first, and nothing is hashed for a form that is not
//! taken. Lines that only bound work say so: what they turn away, a condition would turn away later.

use godwit_primitives::{InputView, ScriptFlags, WitnessView, sha256::sha256};
use godwit_verify::{Check, KeyBytes, parse_strict_der};

use crate::SpentOutput;
use crate::forms::{Form, Lock, MAX_KEYS, MultisigForm, key_hash_script, public_key};
use crate::hashes::hash160;
use crate::multisig::{Multisig, Signed};
use crate::pushes::{self, MAX_ELEMENT_SIZE, MAX_SCRIPT_SIZE, is_true, may_contain};
use crate::sighash::LegacyMessages;
use crate::spending_tx::SpendingTx;

/// What must hold for an input to be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// One signature.
    Signature(Check),
    /// A signature by the key of a taproot leaf, and that the output commits to the leaf.
    Leaf(Box<[Check; 2]>),
    /// Some signatures by some of several keys.
    Multisig(Box<Multisig>),
}

/// Bytes of outputs that are hashed for a legacy signature whatever they are: no more work than checking the
/// signature.
const OUTPUTS_HASHED: usize = 16 * 1024;
/// Average bytes of an output from which on the engine hashes outputs faster.
const LONG_OUTPUT: usize = 64;

// EvalScript's SCRIPT_ERR_SCRIPT_SIZE cannot occur in a script that is taken.
const _: () = {
    const LONGEST: usize = 2 + MAX_KEYS * 66 + 2 + 1;
    assert!(LONGEST <= MAX_SCRIPT_SIZE);
};

/// Lock times from here on are times, not heights (Core's `LOCKTIME_THRESHOLD`).
const LOCKTIME_THRESHOLD: u64 = 500_000_000;
/// Bit of a sequence (BIP68): the sequence locks nothing.
const SEQUENCE_DISABLED: u64 = 1 << 31;
/// Bit of a sequence: the lock counts units of 512 seconds, not blocks.
const SEQUENCE_IS_TIME: u64 = 1 << 22;
const SEQUENCE_MASK: u64 = 0xffff;

/// The input to make a claim for, with everything that decides about it.
pub(crate) struct Spend<'s, 'a> {
    pub(crate) tx: &'s SpendingTx<'a>,
    pub(crate) input: usize,
    pub(crate) script_sig: &'a [u8],
    pub(crate) witness: WitnessView<'a>,
    pub(crate) output: SpentOutput<'a>,
    pub(crate) flags: ScriptFlags,
}

/// An ECDSA signature with the hash type behind it.
struct Signature<'a> {
    bytes: &'a [u8],
    numbers: [u8; 64],
    hash_type: u32,
}

/// Makes a claim for an input. If the claim is proven, Core's `VerifyScript` accepts the input under these
/// flags. `None` says nothing about the input. [`ScriptFlags`] has only consensus flags; any policy flag
/// would need conditions of its own here.
pub fn claim(tx: &SpendingTx<'_>, input: usize, flags: ScriptFlags) -> Option<Claim> {
    // BIP141 is not defined without BIP16 (VerifyScript asserts it).
    if flags.contains(ScriptFlags::WITNESS) && !flags.contains(ScriptFlags::P2SH) {
        return None;
    }
    let InputView { script_sig, .. } = tx.input(input)?;
    let (witness, output) = (tx.witness(input)?, *tx.spent().get(input)?);
    let spend = Spend { tx, input, script_sig, witness, output, flags };
    match Form::of(output.script_pubkey)? {
        Form::Key(key) => spend.key(key),
        Form::KeyHash(hash) => spend.key_hash(hash),
        Form::ScriptHash(hash) => spend.script_hash(hash),
        Form::WitnessKeyHash(program) => {
            spend.bare_program()?;
            spend.witness_key_hash(program)
        }
        Form::WitnessScriptHash(program) => {
            spend.bare_program()?;
            spend.witness_script_hash(program)
        }
        Form::Taproot(program) => {
            spend.bare_program()?;
            spend.taproot(program)
        }
        Form::Multisig(form) => {
            let elements = spend.elements()?;
            spend.legacy_multisig(&elements, form, output.script_pubkey)
        }
        // Not taken as an output's own script: nobody makes such outputs.
        Form::LockedKey(..) => None,
    }
}

impl Spend<'_, '_> {
    fn key(&self, key: KeyBytes) -> Option<Claim> {
        let [signature] = self.elements()?[..] else { return None };
        self.legacy_signature(key, signature, self.output.script_pubkey)
    }

    fn key_hash(&self, hash: &[u8; 20]) -> Option<Claim> {
        let [signature, key_bytes] = self.elements()?[..] else { return None };
        let key = public_key(key_bytes)?;
        // EvalScript: OP_EQUALVERIFY.
        if hash160(key_bytes) != *hash {
            return None;
        }
        self.legacy_signature(key, signature, self.output.script_pubkey)
    }

    fn script_hash(&self, hash: &[u8; 20]) -> Option<Claim> {
        // BIP16; without it only the hash counts.
        if !self.flags.contains(ScriptFlags::P2SH) {
            return None;
        }
        // BIP141: the scriptSig of a wrapped program is one push of it, by the shortest opcode.
        if let [len @ (22 | 34), redeem @ ..] = self.script_sig
            && usize::from(*len) == redeem.len()
        {
            return self.wrapped_program(redeem, hash);
        }
        let elements = self.elements()?;
        let (redeem, elements) = elements.split_last()?;
        match Form::of(redeem)? {
            Form::Multisig(form) => {
                has_hash(redeem, hash)?;
                self.legacy_multisig(elements, form, redeem)
            }
            Form::LockedKey(lock, key) => {
                let [signature] = elements else { return None };
                self.unlocks(lock)?;
                has_hash(redeem, hash)?;
                self.legacy_signature(key, signature, redeem)
            }
            _ => None,
        }
    }

    fn wrapped_program(&self, redeem: &[u8], hash: &[u8; 20]) -> Option<Claim> {
        has_hash(redeem, hash)?;
        match Form::of(redeem)? {
            Form::WitnessKeyHash(program) => self.witness_key_hash(program),
            Form::WitnessScriptHash(program) => self.witness_script_hash(program),
            // BIP341: a wrapped version 1 is not taproot.
            _ => None,
        }
    }

    /// BIP141: the scriptSig of a program that is not wrapped is empty (SCRIPT_ERR_WITNESS_MALLEATED).
    fn bare_program(&self) -> Option<()> {
        self.script_sig.is_empty().then_some(())
    }

    /// The conditions of every program.
    pub(crate) fn program(&self, program: &[u8], rules: ScriptFlags) -> Option<()> {
        // VerifyScript, VerifyWitnessProgram: without the rules of its version anyone may spend a program.
        if !self.flags.contains(rules) {
            return None;
        }
        // VerifyScript: the script itself leaves the program (SCRIPT_ERR_EVAL_FALSE).
        if !is_true(program) {
            return None;
        }
        Some(())
    }

    fn witness_key_hash(&self, program: &[u8; 20]) -> Option<Claim> {
        self.program(program, ScriptFlags::WITNESS)?;
        self.value_in_range()?;
        // VerifyWitnessProgram: two items. What they may be leaves neither above 520 bytes.
        if self.witness.len() != 2 {
            return None;
        }
        let (signature, key_bytes) = (self.witness.item(0)?, self.witness.item(1)?);
        let signature = Signature::parse(signature)?;
        let key = public_key(key_bytes)?;
        // EvalScript: OP_EQUALVERIFY.
        if hash160(key_bytes) != *program {
            return None;
        }
        let script_code = key_hash_script(program);
        let message = self.tx.segwit_message(self.input, &script_code, signature.hash_type)?;
        Some(signature.by(key, message))
    }

    fn witness_script_hash(&self, program: &[u8; 32]) -> Option<Claim> {
        self.program(program, ScriptFlags::WITNESS)?;
        self.value_in_range()?;
        let before = self.witness.len().checked_sub(1)?;
        // Only bounds work: no form has this many items.
        if before > MAX_KEYS + 1 {
            return None;
        }
        let script = self.witness.item(before)?;
        let form = match Form::of(script)? {
            Form::Multisig(form) => form,
            Form::LockedKey(lock, key) => return self.witness_locked_key(program, lock, key),
            _ => return None,
        };
        let elements: Vec<&[u8]> = self.witness.items().take(before).collect();
        // ExecuteWitnessScript: SCRIPT_ERR_PUSH_SIZE.
        if elements.iter().any(|element| element.len() > MAX_ELEMENT_SIZE) {
            return None;
        }
        let signatures = self.multisig_signatures(&elements, form.required)?;
        // VerifyWitnessProgram: SCRIPT_ERR_WITNESS_PROGRAM_MISMATCH.
        if sha256(script) != *program {
            return None;
        }
        let mut messages: Vec<(u32, [u8; 32])> = Vec::with_capacity(1);
        claim_multisig(signatures, form, |hash_type| {
            if let Some((_, message)) = messages.iter().find(|(of, _)| *of == hash_type) {
                return Some(*message);
            }
            let message = self.tx.segwit_message(self.input, script, hash_type)?;
            messages.push((hash_type, message));
            Some(message)
        })
    }

    /// P2WSH, once version 0 and the form of the last item are known.
    fn witness_locked_key(&self, program: &[u8; 32], lock: Lock, key: KeyBytes) -> Option<Claim> {
        // EvalScript takes one element; ExecuteWitnessScript: SCRIPT_ERR_CLEANSTACK.
        if self.witness.len() != 2 {
            return None;
        }
        let (signature, script) = (self.witness.item(0)?, self.witness.item(1)?);
        let signature = Signature::parse(signature)?;
        self.unlocks(lock)?;
        // VerifyWitnessProgram: SCRIPT_ERR_WITNESS_PROGRAM_MISMATCH.
        if sha256(script) != *program {
            return None;
        }
        let message = self.tx.segwit_message(self.input, script, signature.hash_type)?;
        Some(signature.by(key, message))
    }

    fn unlocks(&self, lock: Lock) -> Option<()> {
        let sequence = u64::from(self.tx.input(self.input)?.sequence);
        match lock {
            Lock::Time(least) => {
                let lock_time = u64::from(self.tx.view().lock_time());
                // EvalScript: without the rule the opcode does nothing.
                if !self.flags.contains(ScriptFlags::CHECKLOCKTIMEVERIFY) {
                    return None;
                }
                // CheckLockTime: both are heights, or both are times.
                if (least < LOCKTIME_THRESHOLD) != (lock_time < LOCKTIME_THRESHOLD) {
                    return None;
                }
                // CheckLockTime.
                if least > lock_time {
                    return None;
                }
                // CheckLockTime: a final input disables the lock time.
                if sequence == u64::from(u32::MAX) {
                    return None;
                }
            }
            Lock::Sequence(least) => {
                // EvalScript: without the rule the opcode does nothing.
                if !self.flags.contains(ScriptFlags::CHECKSEQUENCEVERIFY) {
                    return None;
                }
                // EvalScript: with this bit the opcode does nothing.
                if least & SEQUENCE_DISABLED != 0 {
                    return None;
                }
                // CheckSequence: BIP68 applies from version 2 on.
                if self.tx.view().version() < 2 {
                    return None;
                }
                // CheckSequence.
                if sequence & SEQUENCE_DISABLED != 0 {
                    return None;
                }
                // CheckSequence: both count blocks, or both count time.
                if least & SEQUENCE_IS_TIME != sequence & SEQUENCE_IS_TIME {
                    return None;
                }
                // CheckSequence.
                if least & SEQUENCE_MASK > sequence & SEQUENCE_MASK {
                    return None;
                }
            }
        }
        Some(())
    }

    /// CheckECDSASignature: version 0 signs the value, and refuses a negative one.
    fn value_in_range(&self) -> Option<()> {
        (self.output.value >= 0).then_some(())
    }

    /// The elements that the scriptSig of an output without a program pushes.
    fn elements(&self) -> Option<Vec<&[u8]>> {
        // VerifyScript: SCRIPT_ERR_WITNESS_UNEXPECTED.
        if !self.witness.is_empty() {
            return None;
        }
        if self.outputs_are_long() {
            return None;
        }
        pushes::elements(self.script_sig)
    }

    fn legacy_signature(
        &self,
        key: KeyBytes,
        signature: &[u8],
        script_code: &[u8],
    ) -> Option<Claim> {
        let signature = Signature::parse(signature)?;
        // EvalChecksigPreTapscript: FindAndDelete.
        if may_contain(script_code, signature.bytes) {
            return None;
        }
        let message = self.tx.legacy_message(self.input, script_code, signature.hash_type)?;
        Some(signature.by(key, message))
    }

    /// Whether the engine hashes a legacy message faster. The engine hashes inputs and short outputs in small
    /// pieces, one at a time, and all of them for each signature. A few long outputs it hashes at once,
    /// faster than the code here on processors without instructions for SHA-256.
    fn outputs_are_long(&self) -> bool {
        let view = self.tx.view();
        let bytes = view.output_bytes().len();
        bytes > OUTPUTS_HASHED && bytes > LONG_OUTPUT * view.output_count()
    }

    fn legacy_multisig(
        &self,
        elements: &[&[u8]],
        form: MultisigForm,
        script_code: &[u8],
    ) -> Option<Claim> {
        let signatures = self.multisig_signatures(elements, form.required)?;
        // EvalScript, OP_CHECKMULTISIG: FindAndDelete of each.
        if signatures.iter().any(|signature| may_contain(script_code, signature.bytes)) {
            return None;
        }
        let mut messages = LegacyMessages::new(self.tx, self.input, script_code);
        claim_multisig(signatures, form, |hash_type| messages.of(hash_type))
    }

    /// The signatures among the elements that OP_CHECKMULTISIG takes: one element too many, and one for each
    /// signature.
    fn multisig_signatures<'e>(
        &self,
        elements: &[&'e [u8]],
        required: usize,
    ) -> Option<Vec<Signature<'e>>> {
        let (dummy, signatures) = elements.split_first()?;
        // EvalScript takes as many; ExecuteWitnessScript: SCRIPT_ERR_CLEANSTACK.
        if signatures.len() != required {
            return None;
        }
        // BIP147 (SCRIPT_ERR_SIG_NULLDUMMY).
        if self.flags.contains(ScriptFlags::NULLDUMMY) && !dummy.is_empty() {
            return None;
        }
        signatures.iter().map(|signature| Signature::parse(signature)).collect()
    }
}

/// EvalScript: OP_EQUAL of BIP16's outputs.
fn has_hash(redeem: &[u8], hash: &[u8; 20]) -> Option<()> {
    (hash160(redeem) == *hash).then_some(())
}

fn claim_multisig(
    signatures: Vec<Signature<'_>>,
    form: MultisigForm,
    mut message: impl FnMut(u32) -> Option<[u8; 32]>,
) -> Option<Claim> {
    let signed = signatures.into_iter().map(|signature| {
        let message = message(signature.hash_type)?;
        Some(Signed { signature: signature.numbers, message })
    });
    let multisig = Multisig::new(signed.collect::<Option<_>>()?, form.keys);
    Some(Claim::Multisig(Box::new(multisig)))
}

impl<'a> Signature<'a> {
    /// BIP66, under any flags: Core's older parser agrees about strict DER, and an empty signature is not a
    /// signature.
    fn parse(bytes: &'a [u8]) -> Option<Signature<'a>> {
        let (hash_type, der) = bytes.split_last()?;
        let numbers = parse_strict_der(der)?;
        Some(Signature { bytes, numbers, hash_type: u32::from(*hash_type) })
    }

    fn by(self, key: KeyBytes, message: [u8; 32]) -> Claim {
        Claim::Signature(Check::Ecdsa { key, signature: self.numbers, message })
    }
}
