//! Claims of taproot inputs: spent by the output's key, or by a leaf whose script is one key (BIP341,
//! BIP342).

use godwit_primitives::ScriptFlags;
use godwit_stream::DataStream;
use godwit_verify::Check;

use crate::claim::{Claim, Spend};
use crate::forms::leaf_key;
use crate::hashes::{TAGGED, finish};
use crate::sighash::LeafHash;

const ANNEX_TAG: u8 = 0x50;
const LEAF_MASK: u8 = 0xfe;
const LEAF_TAPSCRIPT: u8 = 0xc0;
const CONTROL_BASE: usize = 33;
const CONTROL_NODE: usize = 32;
const MAX_DEPTH: usize = 128;

// EvalChecksigTapscript: the budget is the witness's size plus 50, and one signature takes 50 of it. A leaf
// that is taken has one signature.
const _: () = {
    const VALIDATION_WEIGHT_OFFSET: usize = 50;
    const VALIDATION_WEIGHT_PER_SIGOP_PASSED: usize = 50;
    assert!(VALIDATION_WEIGHT_OFFSET >= VALIDATION_WEIGHT_PER_SIGOP_PASSED);
};

/// A Schnorr signature in a witness, with its hash type.
struct Signature {
    numbers: [u8; 64],
    hash_type: u8,
}

/// The parts of a control block.
struct Control<'a> {
    odd: bool,
    internal_key: &'a [u8; 32],
    /// From the leaf's sibling to the child of the root.
    path: &'a [[u8; 32]],
}

impl Spend<'_, '_> {
    pub(crate) fn taproot(&self, program: &[u8; 32]) -> Option<Claim> {
        self.program(program, ScriptFlags::WITNESS | ScriptFlags::TAPROOT)?;
        // Signature, script, control block and annex.
        let mut items = [&[][..]; 4];
        let count = self.witness.len();
        for (to, item) in items.get_mut(..count)?.iter_mut().zip(self.witness.items()) {
            *to = item;
        }
        // VerifyWitnessProgram: the last of at least two items is an annex if it says so.
        let (stack, annex) = match &items[..count] {
            [stack @ .., annex @ [ANNEX_TAG, ..]] if !stack.is_empty() => (stack, Some(*annex)),
            stack => (stack, None),
        };
        match stack {
            [signature] => self.by_key(program, signature, annex),
            [signature, script, control] => {
                self.by_leaf(program, signature, script, control, annex)
            }
            _ => None,
        }
    }

    fn by_key(&self, key: &[u8; 32], signature: &[u8], annex: Option<&[u8]>) -> Option<Claim> {
        let Signature { numbers: signature, hash_type } = Signature::parse(signature)?;
        let message = self.tx.taproot_message(self.input, hash_type, annex, None)?;
        Some(Claim::Signature(Check::Schnorr { key: *key, signature, message }))
    }

    /// ExecuteWitnessScript: the signature is the only element before the script, and the script leaves
    /// nothing but true. No element can be longer than 520 bytes.
    fn by_leaf(
        &self,
        output_key: &[u8; 32],
        signature: &[u8],
        script: &[u8],
        control: &[u8],
        annex: Option<&[u8]>,
    ) -> Option<Claim> {
        let Signature { numbers: signature, hash_type } = Signature::parse(signature)?;
        let control = Control::parse(control)?;
        let key = leaf_key(script)?;
        let leaf = leaf_hash(script);
        let message = self.tx.taproot_message(self.input, hash_type, annex, Some(&leaf))?;
        Some(Claim::Leaf(Box::new([
            Check::Schnorr { key: *key, signature, message },
            Check::Commitment {
                internal_key: *control.internal_key,
                tweak: control.tweak(leaf),
                output_key: *output_key,
                odd: control.odd,
            },
        ])))
    }
}

impl Signature {
    /// CheckSchnorrSignature: 64 bytes, or 65 with a hash type other than the default. Whether the hash type
    /// is a defined one is checked where the message is hashed.
    fn parse(bytes: &[u8]) -> Option<Signature> {
        let (numbers, hash_type) = match bytes.split_first_chunk()? {
            (numbers, []) => (numbers, 0),
            (_, [0]) => return None,
            (numbers, [hash_type]) => (numbers, *hash_type),
            _ => return None,
        };
        Some(Signature { numbers: *numbers, hash_type })
    }
}

impl<'a> Control<'a> {
    fn parse(control: &'a [u8]) -> Option<Control<'a>> {
        let (base, path) = control.split_first_chunk::<CONTROL_BASE>()?;
        let (path, rest) = path.as_chunks::<CONTROL_NODE>();
        // VerifyWitnessProgram: SCRIPT_ERR_TAPROOT_WRONG_CONTROL_SIZE.
        if !rest.is_empty() {
            return None;
        }
        // VerifyWitnessProgram: SCRIPT_ERR_TAPROOT_WRONG_CONTROL_SIZE.
        if path.len() > MAX_DEPTH {
            return None;
        }
        let (first, internal_key) = base.split_first()?;
        // BIP342: other leaf versions are not tapscript.
        if first & LEAF_MASK != LEAF_TAPSCRIPT {
            return None;
        }
        Some(Control { odd: first & 1 == 1, internal_key: internal_key.try_into().ok()?, path })
    }

    /// The tweak of the internal key (Core's `ComputeTaprootMerkleRoot` and `ComputeTapTweakHash`).
    fn tweak(&self, leaf: LeafHash) -> [u8; 32] {
        let root = self.path.iter().fold(leaf, |hash, node| match hash < *node {
            true => finish(&TAGGED.branch, &[&hash, node]),
            false => finish(&TAGGED.branch, &[node, &hash]),
        });
        finish(&TAGGED.tweak, &[self.internal_key, &root])
    }
}

/// Core's `ComputeTapleafHash`.
fn leaf_hash(script: &[u8]) -> LeafHash {
    let mut head = DataStream::with_capacity(10);
    head.write_u8(LEAF_TAPSCRIPT);
    head.write_compact_size(script.len() as u64);
    finish(&TAGGED.leaf, &[head.as_slice(), script])
}
