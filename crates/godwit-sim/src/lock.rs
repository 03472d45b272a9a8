//! The script types of the generated chain: locking scripts, and inputs that satisfy them.

use bitcoin::opcodes::all::*;
use bitcoin::opcodes::{OP_0, OP_TRUE};
use bitcoin::script::{Builder, PushBytesBuf};
use bitcoin::secp256k1::XOnlyPublicKey;
use bitcoin::taproot::{LeafVersion, TaprootBuilder, TaprootSpendInfo};
use bitcoin::{Amount, OutPoint, PublicKey, Script, ScriptBuf, TxOut};
use serde::{Deserialize, Serialize};

use crate::keys::KeyRing;

/// Keys that one coin may use; coin keys are numbered in steps of this.
pub const KEYS_PER_COIN: u64 = 3;
/// Bytes of padding in the witness script of [`Lock::LargeScript`].
const LARGE_SCRIPT_PADDING: usize = 3_000;
const PUSH_LIMIT: usize = 520;

/// How an output is locked, with what its spender has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lock {
    /// `<key> CHECKSIG`.
    P2pk,
    /// Pay to public key hash.
    P2pkh,
    /// 1-of-2 multisig in the output itself.
    BareMultisig,
    /// 2-of-3 multisig behind BIP16.
    P2shMultisig,
    /// P2WPKH nested in P2SH.
    P2shP2wpkh,
    /// Native segwit v0 key hash.
    P2wpkh,
    /// 2-of-3 multisig in a segwit v0 script.
    P2wshMultisig,
    /// Taproot, spent with the output key.
    P2trKey,
    /// Taproot, spent through one of two `<key> CHECKSIG` leaves.
    P2trScript,
    /// Taproot leaf with an envelope of that many content bytes.
    Inscription(u32),
    /// P2WSH that is locked until after this height (BIP65).
    Cltv(u32),
    /// P2SH that is locked for that many blocks (BIP112).
    Csv(u16),
    /// P2WSH with a script of about 3,000 bytes.
    LargeScript,
    /// `<nonce> DROP 1` in the output: anyone can spend it.
    Bare,
}

impl Lock {
    /// The name under which summaries count this type.
    pub fn name(self) -> &'static str {
        match self {
            Lock::P2pk => "p2pk",
            Lock::P2pkh => "p2pkh",
            Lock::BareMultisig => "bare-multisig",
            Lock::P2shMultisig => "p2sh-multisig",
            Lock::P2shP2wpkh => "p2sh-p2wpkh",
            Lock::P2wpkh => "p2wpkh",
            Lock::P2wshMultisig => "p2wsh-multisig",
            Lock::P2trKey => "p2tr-key",
            Lock::P2trScript => "p2tr-script",
            Lock::Inscription(_) => "inscription",
            Lock::Cltv(_) => "cltv",
            Lock::Csv(_) => "csv",
            Lock::LargeScript => "large-script",
            Lock::Bare => "bare",
        }
    }

    /// Upper bound of the weight that an input of this type adds to a transaction.
    pub fn input_weight(self) -> u64 {
        // 41 bytes: outpoint, empty script length, sequence; a signature has up to 73 bytes.
        let (script_sig, witness) = match self {
            Lock::P2pk | Lock::BareMultisig => (75, 1),
            Lock::P2pkh => (108, 1),
            Lock::P2shMultisig => (257, 1),
            Lock::P2shP2wpkh => (23, 109),
            Lock::P2wpkh => (0, 109),
            Lock::P2wshMultisig => (0, 256),
            Lock::P2trKey => (0, 67),
            Lock::P2trScript => (0, 169),
            Lock::Inscription(body) => (0, 200 + u64::from(body) + u64::from(body) / 100),
            Lock::Cltv(_) => (0, 118),
            Lock::Csv(_) => (114, 1),
            Lock::LargeScript => (0, 3_150),
            Lock::Bare => (0, 1),
        };
        4 * (41 + script_sig) + witness
    }

    /// Upper bound of the weight of an output of this type.
    pub fn output_weight(self) -> u64 {
        let script = match self {
            Lock::P2pk => 35,
            Lock::P2pkh => 25,
            Lock::BareMultisig => 71,
            Lock::P2shMultisig | Lock::P2shP2wpkh | Lock::Csv(_) => 23,
            Lock::P2wpkh => 22,
            Lock::Bare => 11,
            _ => 34,
        };
        4 * (9 + script)
    }

    /// Sigop cost that an output of this type adds (legacy counting, BIP141 scale).
    pub fn output_sigop_cost(self) -> u64 {
        match self {
            Lock::P2pk | Lock::P2pkh => 4,
            Lock::BareMultisig => 80,
            _ => 0,
        }
    }

    /// Sigop cost that spending this type adds.
    pub fn input_sigop_cost(self) -> u64 {
        match self {
            Lock::P2shMultisig => 12,
            Lock::Csv(_) => 4,
            Lock::P2wshMultisig => 3,
            Lock::P2shP2wpkh | Lock::P2wpkh | Lock::Cltv(_) | Lock::LargeScript => 1,
            _ => 0,
        }
    }

    /// Signatures that an input of this type carries: ECDSA, Schnorr.
    pub fn signatures(self) -> (u64, u64) {
        match self {
            Lock::P2shMultisig | Lock::P2wshMultisig => (2, 0),
            Lock::P2trKey | Lock::P2trScript | Lock::Inscription(_) => (0, 1),
            Lock::Bare => (0, 0),
            _ => (1, 0),
        }
    }

    /// Whether a signature needs all spent outputs of the transaction (BIP341).
    pub fn is_taproot(self) -> bool {
        matches!(self, Lock::P2trKey | Lock::P2trScript | Lock::Inscription(_))
    }
}

/// A spendable output of the generator, with the number of its first key.
#[derive(Clone, Debug)]
pub struct Coin {
    /// Where the output is.
    pub outpoint: OutPoint,
    /// Satoshi.
    pub value: u64,
    /// Height of the block that creates it.
    pub height: u32,
    pub lock: Lock,
    /// Number of its first key in the owner's ring.
    pub key: u64,
    /// The locking script.
    pub script_pubkey: ScriptBuf,
    /// What the script commits to and the spender shows, see [`Locking`].
    pub revealed: ScriptBuf,
}

/// A locking script with what it hides.
#[derive(Clone, Debug)]
pub struct Locking {
    /// The output's script.
    pub script_pubkey: ScriptBuf,
    /// Public key of a key hash, redeem script of P2SH, witness script of P2WSH; otherwise empty.
    /// Kept with the coin, as making a public key costs as much as a signature.
    pub revealed: ScriptBuf,
}

impl Coin {
    /// The output as signatures commit to it.
    pub fn tx_out(&self) -> TxOut {
        TxOut { value: Amount::from_sat(self.value), script_pubkey: self.script_pubkey.clone() }
    }
}

/// The output script of a lock under a key.
pub fn script_pubkey(keys: &KeyRing, lock: Lock, key: u64) -> ScriptBuf {
    locking(keys, lock, key).script_pubkey
}

/// The output script of a lock under a key, and what it commits to.
pub fn locking(keys: &KeyRing, lock: Lock, key: u64) -> Locking {
    let public = || full_key(keys, key);
    let open = |script_pubkey| Locking { script_pubkey, revealed: ScriptBuf::new() };
    let key_hash = |public: PublicKey, script_pubkey| Locking {
        script_pubkey,
        revealed: ScriptBuf::from_bytes(public.to_bytes()),
    };
    match lock {
        Lock::P2pk => open(ScriptBuf::new_p2pk(&public())),
        Lock::BareMultisig => open(multisig(keys, key, 1, 2)),
        Lock::P2pkh => {
            let public = public();
            key_hash(public, ScriptBuf::new_p2pkh(&public.pubkey_hash()))
        }
        Lock::P2wpkh => {
            let public = public();
            key_hash(public, key_hash_program(&public))
        }
        Lock::P2shP2wpkh => {
            let public = public();
            key_hash(public, key_hash_program(&public).to_p2sh())
        }
        Lock::P2shMultisig | Lock::Csv(_) => {
            let revealed = hidden_script(keys, lock, key);
            Locking { script_pubkey: revealed.to_p2sh(), revealed }
        }
        Lock::P2wshMultisig | Lock::Cltv(_) | Lock::LargeScript => {
            let revealed = hidden_script(keys, lock, key);
            Locking { script_pubkey: revealed.to_p2wsh(), revealed }
        }
        Lock::P2trKey => open(ScriptBuf::new_p2tr(keys.secp(), keys.x_only(key), None)),
        Lock::P2trScript | Lock::Inscription(_) => {
            open(ScriptBuf::new_p2tr_tweaked(taproot_tree(keys, lock, key).output_key()))
        }
        Lock::Bare => open(
            Builder::new()
                .push_slice(nonce(keys, key))
                .push_opcode(OP_DROP)
                .push_opcode(OP_TRUE)
                .into_script(),
        ),
    }
}

/// The witness program of a key hash: the output of P2WPKH, the redeem script of the nested form.
pub fn key_hash_program(public: &PublicKey) -> ScriptBuf {
    ScriptBuf::new_p2wpkh(&public.wpubkey_hash().expect("the key is compressed"))
}

/// The script behind a P2SH or P2WSH output.
fn hidden_script(keys: &KeyRing, lock: Lock, key: u64) -> ScriptBuf {
    match lock {
        Lock::Csv(blocks) => {
            let builder = Builder::new().push_int(i64::from(blocks)).push_opcode(OP_CSV);
            drop_then_checksig(builder, keys, key)
        }
        Lock::Cltv(height) => {
            let builder = Builder::new().push_int(i64::from(height)).push_opcode(OP_CLTV);
            drop_then_checksig(builder, keys, key)
        }
        Lock::LargeScript => large_script(keys, key),
        _ => multisig(keys, key, 2, 3),
    }
}

/// The leaf that a taproot script path runs.
pub fn leaf_script(keys: &KeyRing, lock: Lock, key: u64) -> ScriptBuf {
    let builder = Builder::new().push_x_only_key(&keys.x_only(key)).push_opcode(OP_CHECKSIG);
    match lock {
        Lock::Inscription(body) => envelope(builder, &content(keys, key, body as usize)),
        _ => builder.into_script(),
    }
}

/// The script tree of a taproot output with a script path.
pub fn taproot_tree(keys: &KeyRing, lock: Lock, key: u64) -> TaprootSpendInfo {
    let internal: XOnlyPublicKey = keys.x_only(key + 1);
    let leaf = leaf_script(keys, lock, key);
    let tree = if lock == Lock::P2trScript {
        let other = Builder::new().push_slice(nonce(keys, key)).push_opcode(OP_EQUAL).into_script();
        TaprootBuilder::new().add_leaf(1, leaf).and_then(|tree| tree.add_leaf(1, other))
    } else {
        TaprootBuilder::new().add_leaf(0, leaf)
    };
    tree.expect("the depths form a tree")
        .finalize(keys.secp(), internal)
        .expect("the tree is complete")
}

/// The control block's key for looking up `leaf` in its tree.
pub fn leaf_of(leaf: &Script) -> (ScriptBuf, LeafVersion) {
    (leaf.to_owned(), LeafVersion::TapScript)
}

fn multisig(keys: &KeyRing, key: u64, required: i64, total: u64) -> ScriptBuf {
    (0..total)
        .fold(Builder::new().push_int(required), |builder, i| {
            builder.push_key(&full_key(keys, key + i))
        })
        .push_int(total as i64)
        .push_opcode(OP_CHECKMULTISIG)
        .into_script()
}

fn drop_then_checksig(builder: Builder, keys: &KeyRing, key: u64) -> ScriptBuf {
    builder
        .push_opcode(OP_DROP)
        .push_key(&full_key(keys, key))
        .push_opcode(OP_CHECKSIG)
        .into_script()
}

fn large_script(keys: &KeyRing, key: u64) -> ScriptBuf {
    content(keys, key, LARGE_SCRIPT_PADDING)
        .chunks(PUSH_LIMIT)
        .fold(Builder::new(), |builder, chunk| {
            builder.push_slice(push_bytes(chunk)).push_opcode(OP_DROP)
        })
        .push_key(&full_key(keys, key))
        .push_opcode(OP_CHECKSIG)
        .into_script()
}

/// `FALSE IF "ord" 1 <type> 0 <content> ENDIF`: how inscriptions carry data since 2023.
fn envelope(builder: Builder, body: &[u8]) -> ScriptBuf {
    let builder = builder
        .push_opcode(OP_0)
        .push_opcode(OP_IF)
        .push_slice(b"ord")
        .push_int(1)
        .push_slice(b"image/png")
        .push_opcode(OP_0);
    body.chunks(PUSH_LIMIT)
        .fold(builder, |builder, chunk| builder.push_slice(push_bytes(chunk)))
        .push_opcode(OP_ENDIF)
        .into_script()
}

fn push_bytes(chunk: &[u8]) -> PushBytesBuf {
    PushBytesBuf::try_from(chunk.to_vec()).expect("a chunk of 520 bytes is below 4 GiB")
}

/// Bytes that do not compress and that the spender can make again from the key number.
fn content(keys: &KeyRing, key: u64, length: usize) -> Vec<u8> {
    let start = keys.bytes(b"content", key);
    let seed = u64::from_le_bytes(start[..8].try_into().expect("eight bytes"));
    let mut body = vec![0; length];
    crate::rng::Rng::new(seed).fill(&mut body);
    body
}

fn nonce(keys: &KeyRing, key: u64) -> [u8; 8] {
    keys.bytes(b"nonce", key)[..8].try_into().expect("eight bytes")
}

fn full_key(keys: &KeyRing, key: u64) -> PublicKey {
    PublicKey::new(keys.public(key))
}
