//! Spends of every form that can be claimed, described so that one property can be changed and the whole
//! signed afterwards.

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash, hash160, sha256};
use bitcoin::key::{Keypair, Secp256k1, UntweakedPublicKey};
use bitcoin::secp256k1::{All, Message, Scalar, SecretKey};
use bitcoin::sighash::{Annex, Prevouts, SighashCache, TapSighashType};
use bitcoin::taproot::{LeafVersion, TapNodeHash, TapTweakHash};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, OutPoint, Script, ScriptBuf, Sequence, TapLeafHash, Transaction, TxIn, TxOut, Txid,
    Witness,
};
use rand::Rng;
use rand::rngs::StdRng;

use crate::crowd::Patch;
use crate::sighash::segwit_message;
use crate::twin::{Output, owned};

/// The forms that are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Key,
    KeyHash,
    WitnessKeyHash,
    WrappedKeyHash,
    TaprootKey,
    TaprootLeaf,
    Multisig,
    ScriptHashMultisig,
    WitnessMultisig,
    WrappedMultisig,
    ScriptHashLockedKey,
    WitnessLockedKey,
    WrappedLockedKey,
}

impl Kind {
    pub(crate) const ALL: [Kind; 13] = [
        Kind::Key,
        Kind::KeyHash,
        Kind::WitnessKeyHash,
        Kind::WrappedKeyHash,
        Kind::TaprootKey,
        Kind::TaprootLeaf,
        Kind::Multisig,
        Kind::ScriptHashMultisig,
        Kind::WitnessMultisig,
        Kind::WrappedMultisig,
        Kind::ScriptHashLockedKey,
        Kind::WitnessLockedKey,
        Kind::WrappedLockedKey,
    ];

    pub(crate) fn is_multisig(self) -> bool {
        use Kind::{Multisig, ScriptHashMultisig, WitnessMultisig, WrappedMultisig};
        matches!(self, Multisig | ScriptHashMultisig | WitnessMultisig | WrappedMultisig)
    }

    pub(crate) fn is_taproot(self) -> bool {
        matches!(self, Kind::TaprootKey | Kind::TaprootLeaf)
    }

    /// A lock before a key.
    pub(crate) fn is_locked(self) -> bool {
        use Kind::{ScriptHashLockedKey, WitnessLockedKey, WrappedLockedKey};
        matches!(self, ScriptHashLockedKey | WitnessLockedKey | WrappedLockedKey)
    }

    pub(crate) fn is_v0(self) -> bool {
        matches!(self, Kind::WitnessKeyHash | Kind::WrappedKeyHash) || self.is_witness_script()
    }

    /// P2WSH, wrapped or not.
    pub(crate) fn is_witness_script(self) -> bool {
        use Kind::{WitnessLockedKey, WitnessMultisig, WrappedLockedKey, WrappedMultisig};
        matches!(self, WitnessMultisig | WrappedMultisig | WitnessLockedKey | WrappedLockedKey)
    }

    pub(crate) fn is_wrapped(self) -> bool {
        matches!(self, Kind::WrappedKeyHash | Kind::WrappedMultisig | Kind::WrappedLockedKey)
    }

    /// P2SH of a script that is no program.
    pub(crate) fn is_script_hash(self) -> bool {
        matches!(self, Kind::ScriptHashMultisig | Kind::ScriptHashLockedKey)
    }

    /// Without a witness.
    pub(crate) fn is_legacy(self) -> bool {
        !self.is_v0() && !self.is_taproot()
    }
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyForm {
    Compressed,
    Full,
    /// 65 bytes that begin with 06 or 07.
    Hybrid,
}

/// How r and s are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Strict,
    HighS,
    /// A zero too many before r.
    Padded,
    /// The length of the whole in two bytes.
    LongLength,
    /// A byte more behind s.
    Trailing,
    Empty,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// Of what may sign; taproot has the internal key first and the leaf's second.
    pub(crate) secrets: Vec<[u8; 32]>,
    pub(crate) key_forms: Vec<KeyForm>,
    /// Written before and after the keys of multisig.
    pub(crate) m: Vec<u8>,
    pub(crate) n: Vec<u8>,
    /// Which key each signature is by.
    pub(crate) signers: Vec<usize>,
    pub(crate) hash_types: Vec<u8>,
    pub(crate) encoding: Encoding,
    pub(crate) dummy: Vec<u8>,
    /// A push of what is demanded, the opcode that demands it, and what follows.
    pub(crate) lock: Vec<u8>,
    pub(crate) lock_opcode: u8,
    pub(crate) after_lock: Vec<u8>,
    pub(crate) version: u32,
    pub(crate) lock_time: u32,
    pub(crate) sequence: u32,
    pub(crate) value: i64,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) input: usize,
    /// The opcode of the scriptSig's last push, 0 for the shortest.
    pub(crate) push_opcode: u8,
    pub(crate) before_script_sig: Vec<u8>,
    pub(crate) after_script_sig: Vec<u8>,
    pub(crate) before_witness: Vec<Vec<u8>>,
    pub(crate) after_witness: Vec<Vec<u8>>,
    pub(crate) annex: Option<Vec<u8>>,
    pub(crate) before_leaf: Vec<u8>,
    /// Instead of the push of the leaf's key.
    pub(crate) leaf_key: Option<Vec<u8>>,
    pub(crate) leaf_opcode: u8,
    pub(crate) after_leaf: Vec<u8>,
    pub(crate) leaf_version: u8,
    pub(crate) depth: usize,
    pub(crate) after_control: Vec<u8>,
    pub(crate) flip_parity: bool,
    /// A 65th byte behind Schnorr signatures of the default hash type.
    pub(crate) explicit_default: bool,
    /// Opcodes behind the output's script, or the one that it hashes.
    pub(crate) after_script: Vec<u8>,
    /// A bit flipped in the program, or in the hash of P2PKH.
    pub(crate) flip_program: bool,
    /// A bit flipped in the hash of P2SH.
    pub(crate) flip_script_hash: bool,
    /// Of the executed script; that of P2WPKH is implied and has none.
    pub(crate) patches: Vec<Patch>,
}

/// A transaction, what it spends, and the input that the plan is about.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) tx: Transaction,
    pub(crate) spent: Vec<Output>,
    pub(crate) input: usize,
}

impl Case {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        serialize(&self.tx)
    }
}

impl Plan {
    /// A valid one.
    pub(crate) fn random(kind: Kind, rng: &mut StdRng) -> Plan {
        let keys = if kind.is_multisig() { rng.random_range(1..=5) } else { 2 };
        let required = if kind.is_multisig() { rng.random_range(1..=keys) } else { 1 };
        let mut signers: Vec<usize> = (0..keys).collect();
        while signers.len() > required {
            signers.remove(rng.random_range(0..signers.len()));
        }
        if !kind.is_multisig() {
            signers = vec![usize::from(kind == Kind::TaprootLeaf)];
        }
        let key_form = |rng: &mut StdRng| match rng.random_range(0..4) {
            // A redeem script has at most 520 bytes.
            0 if kind != Kind::ScriptHashMultisig => KeyForm::Full,
            _ => KeyForm::Compressed,
        };
        let inputs = rng.random_range(1..=4);
        let (lock, lock_opcode, lock_time, sequence) = lock(rng);
        let types: &[u8] = if kind.is_taproot() { &[0, 1, 0x81, 2, 3] } else { &[1, 0x81, 2, 3] };
        let hash_type = |rng: &mut StdRng| types[rng.random_range(0..types.len())];
        Plan {
            kind,
            secrets: (0..keys).map(|_| rng.random()).collect(),
            key_forms: (0..keys).map(|_| key_form(rng)).collect(),
            m: number(required),
            n: number(keys),
            hash_types: signers.iter().map(|_| hash_type(rng)).collect(),
            signers,
            encoding: Encoding::Strict,
            dummy: Vec::new(),
            lock,
            lock_opcode,
            after_lock: vec![0x75],
            version: if kind.is_locked() { rng.random_range(2..=u32::MAX) } else { rng.random() },
            lock_time,
            sequence,
            value: rng.random_range(0..1 << 50),
            inputs,
            outputs: inputs + rng.random_range(0..3),
            input: rng.random_range(0..inputs),
            push_opcode: 0,
            before_script_sig: Vec::new(),
            after_script_sig: Vec::new(),
            before_witness: Vec::new(),
            after_witness: Vec::new(),
            annex: None,
            before_leaf: Vec::new(),
            leaf_key: None,
            leaf_opcode: 0xac,
            after_leaf: Vec::new(),
            leaf_version: 0xc0,
            depth: rng.random_range(0..4),
            after_control: Vec::new(),
            flip_parity: false,
            explicit_default: false,
            after_script: Vec::new(),
            flip_program: false,
            flip_script_hash: false,
            patches: Vec::new(),
        }
    }

    /// Builds and signs it.
    pub(crate) fn build(&self, secp: &Secp256k1<All>) -> Case {
        let (output, tree) = self.output(secp);
        let other = |other: usize| TxOut {
            value: Amount::from_sat(1000 + other as u64),
            script_pubkey: vec![0x51; other + 1].into(),
        };
        let mut spent: Vec<TxOut> = (0..self.inputs).map(other).collect();
        spent[self.input] =
            TxOut { value: Amount::from_sat(self.value as u64), script_pubkey: output.into() };
        let mut tx = self.unsigned();
        self.unlock(secp, &mut tx, &spent, &tree);
        Case { tx, spent: owned(spent), input: self.input }
    }

    /// Signs the plan's input.
    pub(crate) fn unlock(
        &self,
        secp: &Secp256k1<All>,
        tx: &mut Transaction,
        spent: &[TxOut],
        tree: &Tree,
    ) {
        let (script_sig, witness) = match self.kind.is_taproot() {
            true => (Vec::new(), self.sign_taproot(secp, tx, spent, tree)),
            false => self.sign(secp, tx),
        };
        let own = &mut tx.input[self.input];
        own.script_sig =
            [&self.before_script_sig[..], &script_sig, &self.after_script_sig].concat().into();
        let witness = [&self.before_witness[..], &witness, &self.after_witness].concat();
        own.witness = Witness::from_slice(&witness);
    }

    pub(crate) fn unsigned(&self) -> Transaction {
        let id = self.secrets[0];
        let input = |vout: usize| TxIn {
            previous_output: OutPoint { txid: Txid::from_byte_array(id), vout: vout as u32 },
            sequence: Sequence(match vout == self.input {
                true => self.sequence,
                false => u32::from_le_bytes([id[0], id[1], vout as u8, 0xff]),
            }),
            ..TxIn::default()
        };
        let output = |at: usize| TxOut {
            value: Amount::from_sat(at as u64 * 77),
            script_pubkey: vec![0x6a; at * 3].into(),
        };
        Transaction {
            version: Version(self.version as i32),
            lock_time: LockTime::from_consensus(self.lock_time),
            input: (0..self.inputs).map(input).collect(),
            output: (0..self.outputs).map(output).collect(),
        }
    }

    fn secret(&self, at: usize) -> SecretKey {
        SecretKey::from_slice(&self.secrets[at]).expect("in range")
    }

    fn key(&self, secp: &Secp256k1<All>, at: usize) -> Vec<u8> {
        let key = self.secret(at).public_key(secp);
        let mut full = key.serialize_uncompressed();
        match self.key_forms[at] {
            KeyForm::Compressed => key.serialize().to_vec(),
            KeyForm::Full => full.to_vec(),
            KeyForm::Hybrid => {
                full[0] = 6 + (full[64] & 1);
                full.to_vec()
            }
        }
    }

    fn signer(&self) -> usize {
        self.signers[0]
    }

    /// The script that is executed, before taproot: what signatures sign.
    fn script(&self, secp: &Secp256k1<All>) -> Vec<u8> {
        let mut script = match self.kind {
            Kind::Key => [push(&self.key(secp, self.signer())), vec![0xac]].concat(),
            _ if self.kind.is_locked() => {
                let key = push(&self.key(secp, self.signer()));
                [&self.lock[..], &[self.lock_opcode], &self.after_lock, &key, &[0xac]].concat()
            }
            _ if self.kind.is_multisig() => {
                let keys = (0..self.secrets.len()).flat_map(|at| push(&self.key(secp, at)));
                [&self.m[..], &keys.collect::<Vec<_>>(), &self.n, &[0xae]].concat()
            }
            _ => {
                let mut hash = hash160::Hash::hash(&self.key(secp, self.signer())).to_byte_array();
                hash[7] ^= u8::from(self.flip_program);
                [&[0x76, 0xa9, 20][..], &hash, &[0x88, 0xac]].concat()
            }
        };
        script.extend(&self.after_script);
        self.patches.iter().for_each(|patch| patch.apply(&mut script));
        script
    }

    /// The script of the output, and for taproot script, control block and hash of the leaf.
    pub(crate) fn output(&self, secp: &Secp256k1<All>) -> (Vec<u8>, Tree) {
        if self.kind.is_taproot() {
            return self.taproot_output(secp);
        }
        let script = self.script(secp);
        let output = match self.kind {
            Kind::WitnessKeyHash => [&[0, 20][..], &script[3..23]].concat(),
            _ if self.kind.is_wrapped() => self.script_hash(&self.redeem_script(&script)),
            _ if self.kind.is_witness_script() => self.witness_program(&script),
            _ if self.kind.is_script_hash() => self.script_hash(&script),
            _ => script,
        };
        (output, Tree::default())
    }

    fn witness_program(&self, script: &[u8]) -> Vec<u8> {
        let mut hash = sha256::Hash::hash(script).to_byte_array();
        hash[5] ^= u8::from(self.flip_program);
        [&[0, 32][..], &hash].concat()
    }

    /// The program that is wrapped.
    fn redeem_script(&self, script: &[u8]) -> Vec<u8> {
        match self.kind {
            Kind::WrappedKeyHash => [&[0, 20][..], &script[3..23]].concat(),
            _ => self.witness_program(script),
        }
    }

    fn script_hash(&self, script: &[u8]) -> Vec<u8> {
        let mut hash = hash160::Hash::hash(script).to_byte_array();
        hash[7] ^= u8::from(self.flip_script_hash);
        [&[0xa9, 20][..], &hash, &[0x87]].concat()
    }

    fn taproot_output(&self, secp: &Secp256k1<All>) -> (Vec<u8>, Tree) {
        let x_only = |at: usize| -> UntweakedPublicKey {
            self.secret(at).public_key(secp).x_only_public_key().0
        };
        let internal = x_only(0);
        let mut tree = Tree::default();
        let mut program = internal.serialize();
        if self.kind == Kind::TaprootLeaf {
            let key = self.leaf_key.clone().unwrap_or_else(|| push(&x_only(1).serialize()));
            tree.script =
                [&self.before_leaf[..], &key, &[self.leaf_opcode], &self.after_leaf].concat();
            self.patches.iter().for_each(|patch| patch.apply(&mut tree.script));
            let version = LeafVersion::from_consensus(self.leaf_version).expect("a leaf version");
            tree.hash = TapLeafHash::from_script(Script::from_bytes(&tree.script), version);
            let mut root = TapNodeHash::from(tree.hash);
            let mut path = Vec::new();
            for level in 0..self.depth {
                let sibling = sha256::Hash::hash(&[level as u8, self.secrets[0][0]]);
                path.extend(sibling.to_byte_array());
                let sibling = TapNodeHash::from_byte_array(sibling.to_byte_array());
                root = TapNodeHash::from_node_hashes(root, sibling);
            }
            let tweak = TapTweakHash::from_key_and_tweak(internal, Some(root)).to_scalar();
            let (output, parity) = tweaked(secp, internal, tweak);
            program = output.serialize();
            let first = self.leaf_version | (parity ^ u8::from(self.flip_parity));
            tree.control =
                [&[first][..], &internal.serialize(), &path, &self.after_control].concat();
        }
        program[9] ^= u8::from(self.flip_program);
        ([&[0x51, 32][..], &program].concat(), tree)
    }

    /// scriptSig and witness before taproot.
    fn sign(&self, secp: &Secp256k1<All>, tx: &Transaction) -> (Vec<u8>, Vec<Vec<u8>>) {
        let script = self.script(secp);
        let mut cache = SighashCache::new(tx);
        let signatures = self.signers.iter().zip(&self.hash_types).map(|(signer, hash_type)| {
            let hash_type = u32::from(*hash_type);
            let message = match self.kind.is_v0() {
                true => segwit_message(&mut cache, self.input, &script, self.value, hash_type),
                false => {
                    let script = Script::from_bytes(&script);
                    let legacy = cache.legacy_signature_hash(self.input, script, hash_type);
                    legacy.expect("input exists").to_byte_array()
                }
            };
            let signature = secp.sign_ecdsa(&Message::from_digest(message), &self.secret(*signer));
            encode(&signature.serialize_compact(), self.encoding, hash_type as u8)
        });
        let mut elements: Vec<Vec<u8>> = signatures.collect();
        if self.kind.is_multisig() {
            elements.insert(0, self.dummy.clone());
        } else if self.kind != Kind::Key && !self.kind.is_locked() {
            elements.push(self.key(secp, self.signer()));
        }
        let redeem = match self.kind {
            _ if self.kind.is_wrapped() => vec![self.redeem_script(&script)],
            _ if self.kind.is_script_hash() => vec![script.clone()],
            _ => Vec::new(),
        };
        if self.kind.is_witness_script() {
            elements.push(script);
        }
        match self.kind.is_v0() {
            true => (self.pushes(&redeem), elements),
            false => (self.pushes(&[elements, redeem].concat()), Vec::new()),
        }
    }

    fn pushes(&self, elements: &[Vec<u8>]) -> Vec<u8> {
        let Some((last, others)) = elements.split_last() else { return Vec::new() };
        let mut script: Vec<u8> = others.iter().flat_map(|element| push(element)).collect();
        script.extend(match self.push_opcode {
            0 => push(last),
            opcode => push_with(opcode, last),
        });
        script
    }

    fn sign_taproot(
        &self,
        secp: &Secp256k1<All>,
        tx: &Transaction,
        spent: &[TxOut],
        tree: &Tree,
    ) -> Vec<Vec<u8>> {
        let leaf = self.kind == Kind::TaprootLeaf;
        let hash_type = TapSighashType::from_consensus_u8(self.hash_types[0]);
        let annex = self.annex.as_deref().and_then(|annex| Annex::new(annex).ok());
        let message = hash_type.ok().and_then(|hash_type| {
            let leaf = leaf.then_some((tree.hash, 0xffff_ffff));
            let mut cache = SighashCache::new(tx);
            let prevouts = Prevouts::All(spent);
            cache.taproot_signature_hash(self.input, &prevouts, annex, leaf, hash_type).ok()
        });
        // What cannot be signed is signed anyhow.
        let message = message.map_or([7; 32], |message| message.to_byte_array());
        let keypair = Keypair::from_secret_key(secp, &self.secret(self.signer()));
        let signature = secp.sign_schnorr_no_aux_rand(&Message::from_digest(message), &keypair);
        let mut signature = signature.serialize().to_vec();
        if self.hash_types[0] != 0 || self.explicit_default {
            signature.push(self.hash_types[0]);
        }
        if self.encoding == Encoding::Empty {
            signature.clear();
        }
        let mut items = vec![signature];
        if leaf {
            items.extend([tree.script.clone(), tree.control.clone()]);
        }
        items.extend(self.annex.clone());
        items
    }
}

/// What a leaf's spend shows of the tree.
pub(crate) struct Tree {
    script: Vec<u8>,
    control: Vec<u8>,
    hash: TapLeafHash,
}

impl Default for Tree {
    fn default() -> Self {
        let hash = TapLeafHash::from_byte_array([0; 32]);
        Tree { script: Vec::new(), control: Vec::new(), hash }
    }
}

fn tweaked(
    secp: &Secp256k1<All>,
    internal: UntweakedPublicKey,
    tweak: Scalar,
) -> (UntweakedPublicKey, u8) {
    let (output, parity) = internal.add_tweak(secp, &tweak).expect("not infinity");
    (output, parity.to_u8())
}

/// A lock that holds: the push, the opcode, the transaction's lock time and the input's sequence.
fn lock(rng: &mut StdRng) -> (Vec<u8>, u8, u32, u32) {
    let by_time = rng.random();
    match rng.random() {
        true => {
            let (least, most) = if by_time { (500_000_000, u32::MAX) } else { (0, 499_999_999) };
            let lock_time = rng.random_range(least..=most);
            let demanded = rng.random_range(least..=lock_time);
            (script_number(demanded.into()), 0xb1, lock_time, rng.random_range(0..u32::MAX))
        }
        false => {
            let blocks = rng.random_range(0..=0xffff);
            let demanded = rng.random_range(0..=blocks) | u32::from(by_time) << 22;
            // Bits that count for nothing.
            let sequence = blocks | u32::from(by_time) << 22 | rng.random::<u32>() & 0x7fbf_0000;
            (script_number(demanded.into()), 0xb2, rng.random(), sequence)
        }
    }
}

/// The shortest push of a number, negative ones included.
pub(crate) fn script_number(number: i64) -> Vec<u8> {
    bitcoin::script::Builder::new().push_int(number).into_bytes()
}

/// A number as a script pushes it.
pub(crate) fn number(n: usize) -> Vec<u8> {
    match n {
        0 => vec![0],
        1..=16 => vec![0x50 + n as u8],
        _ => vec![1, n as u8],
    }
}

/// The shortest push.
pub(crate) fn push(data: &[u8]) -> Vec<u8> {
    let mut script = ScriptBuf::new();
    script.push_slice(<&bitcoin::script::PushBytes>::try_from(data).expect("short"));
    script.into_bytes()
}

/// A push by OP_PUSHDATA1, 2 or 4.
pub(crate) fn push_with(opcode: u8, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_le_bytes();
    let len = &len[..[1, 2, 4][usize::from(opcode - 0x4c)]];
    [&[opcode], len, data].concat()
}

fn encode(signature: &[u8; 64], encoding: Encoding, hash_type: u8) -> Vec<u8> {
    let (r, s) = signature.split_at(32);
    let s = match encoding {
        Encoding::HighS => {
            SecretKey::from_slice(s).expect("in range").negate().secret_bytes().to_vec()
        }
        _ => s.to_vec(),
    };
    let integer = |digits: &[u8], zeros: usize| {
        let digits: Vec<u8> = digits.iter().copied().skip_while(|digit| *digit == 0).collect();
        let sign = usize::from(digits[0] >= 0x80);
        let content = [vec![0; sign + zeros], digits].concat();
        [vec![2, content.len() as u8], content].concat()
    };
    let padding = usize::from(encoding == Encoding::Padded);
    let mut content = [integer(r, padding), integer(&s, 0)].concat();
    let head = match encoding {
        Encoding::LongLength => vec![0x30, 0x81, content.len() as u8],
        _ => vec![0x30, content.len() as u8],
    };
    match encoding {
        Encoding::Empty => return Vec::new(),
        Encoding::Trailing => content.push(0),
        _ => {}
    }
    [head, content, vec![hash_type]].concat()
}
