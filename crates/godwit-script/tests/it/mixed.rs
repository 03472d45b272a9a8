//! Transactions whose inputs need different precomputed data, signed here, against the naive twin
//! under every combination of flags.

use std::ops::Range;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::key::{Keypair, Secp256k1, TapTweak};
use bitcoin::secp256k1::{All, Message, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, CompressedPublicKey, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid,
    Witness,
};
use godwit_primitives::ScriptFlags;
use godwit_script::ScriptError;

use crate::asm::flag_combinations;
use crate::twin::{Output, Pair, owned, prepare};

/// A kind of input.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    PayToKeyHash,
    PayToWitnessKeyHash,
    WrappedWitnessKeyHash,
    PayToWitnessScript,
    TaprootKey,
    /// Signs this input alone, so that the engine reads its spent output and no other.
    TaprootKeyAnyoneCanPay,
    /// A key that is not on the curve, spent without a witness: BIP341 alone forbids it.
    TaprootUnspendable,
    /// BIP341 leaves wrapped version 1 programs to anyone.
    WrappedTaproot,
    /// 34 bytes after OP_1 as a taproot output has, but no witness program: Core's precomputation
    /// takes it for one (interpreter.cpp, PrecomputedTransactionData::Init).
    TaprootLookalike,
    /// Version 2.
    UnknownProgram,
    PayToAnchor,
    /// No script; the scriptSig leaves true.
    Empty,
    /// The longest script that lies in the engine's vector of spent outputs.
    PushOf35,
    /// The shortest that is blank in the data of taproot inputs.
    PushOf36,
    PushOf75,
    /// A script of so many bytes that only pushes.
    PushesOf(usize),
}

const KINDS: [Kind; 15] = [
    Kind::PayToKeyHash,
    Kind::PayToWitnessKeyHash,
    Kind::WrappedWitnessKeyHash,
    Kind::PayToWitnessScript,
    Kind::TaprootKey,
    Kind::TaprootKeyAnyoneCanPay,
    Kind::TaprootUnspendable,
    Kind::WrappedTaproot,
    Kind::TaprootLookalike,
    Kind::UnknownProgram,
    Kind::PayToAnchor,
    Kind::Empty,
    Kind::PushOf35,
    Kind::PushOf36,
    Kind::PushOf75,
];

#[test]
fn every_mix_is_judged_as_by_the_twin() {
    let signer = Signer::new();
    let without_taproot: Vec<Kind> =
        KINDS.iter().copied().filter(|kind| !kind.is_taproot()).collect();
    let taproot: Vec<Kind> = KINDS.iter().copied().filter(|kind| kind.is_taproot()).collect();
    let pairs = KINDS.iter().flat_map(|first| KINDS.iter().map(|second| vec![*first, *second]));
    let singles = KINDS.iter().map(|kind| vec![*kind]);
    let mixes = [KINDS.to_vec(), without_taproot, taproot].into_iter().chain(singles).chain(pairs);
    for kinds in mixes {
        let (tx, spent) = signer.spend(&kinds);
        let pair = Pair::new(&tx, &spent);
        for flags in flag_combinations() {
            for (input, kind) in kinds.iter().enumerate() {
                let accepted = pair.accepts(input, flags);
                assert_eq!(accepted, kind.is_valid(flags), "{kind:?} of {kinds:?}, {flags:?}");
            }
        }
    }
}

/// A taproot signature commits to every spent output, also those that other inputs spend.
#[test]
fn taproot_inputs_see_every_spent_output() {
    let signer = Signer::new();
    let kinds = [Kind::TaprootKey, Kind::TaprootKeyAnyoneCanPay, Kind::PayToKeyHash];
    let (tx, mut spent) = signer.spend(&kinds);
    spent[2].value += 1;
    let pair = Pair::new(&tx, &spent);
    let verdicts = [0, 1, 2].map(|input| pair.accepts(input, ScriptFlags::ALL));
    assert_eq!(verdicts, [false, true, true]);
}

/// The engine is not shown scripts of more than 36 bytes, and the signature commits to them.
#[test]
fn taproot_inputs_see_long_spent_scripts() {
    let signer = Signer::new();
    // On both sides of where the length of a length changes, and the longest that can be spent.
    let lengths = [252, 253, 254, 10_000].map(Kind::PushesOf);
    let short = [Kind::Empty, Kind::PushOf35, Kind::PushOf36, Kind::PushOf75];
    let kinds = [&short[..], &lengths].concat();
    for &kind in &kinds {
        let signed = [Kind::TaprootKey, Kind::TaprootKeyAnyoneCanPay, kind, Kind::PayToKeyHash];
        let (tx, spent) = signer.spend(&signed);
        for &other in &kinds {
            let mut spent = spent.clone();
            spent[2].script_pubkey = signer.script_pubkey(other).into_bytes();
            let pair = Pair::new(&tx, &spent);
            let verdicts = [0, 1, 3].map(|input| pair.accepts(input, ScriptFlags::ALL));
            assert_eq!(verdicts, [kind == other, true, true], "{kind:?}, {other:?}");
        }
        let mut spent = spent;
        if let Some(last) = spent[2].script_pubkey.last_mut() {
            *last ^= 1;
            let pair = Pair::new(&tx, &spent);
            let verdicts = [0, 1, 2].map(|input| pair.accepts(input, ScriptFlags::ALL));
            assert_eq!(verdicts, [false, true, true], "{kind:?}");
        }
    }
}

#[test]
fn ranges_name_their_first_failure() {
    let signer = Signer::new();
    let good = Kind::PayToWitnessKeyHash;
    let bad = Kind::TaprootUnspendable;
    let (tx, spent) = signer.spend(&[good, bad, good, bad, good]);
    let prepared = prepare(&tx, &spent).expect("well-formed");
    assert_eq!(prepared.input_count(), 5);
    for start in 0..=5 {
        for end in start..=5 {
            let range = Range { start, end };
            let failed = range.clone().find(|input| input % 2 == 1);
            let expected = failed.map_or(Ok(()), |input| Err(ScriptError::Rejected { input }));
            assert_eq!(prepared.verify_range(range, ScriptFlags::ALL), expected);
        }
    }
    assert_eq!(prepared.verify(ScriptFlags::ALL), Err(ScriptError::Rejected { input: 1 }));
}

#[test]
fn workers_share_one_transaction() {
    let signer = Signer::new();
    let kinds: Vec<Kind> = KINDS.iter().copied().cycle().take(88).collect();
    let (tx, spent) = signer.spend(&kinds);
    let prepared = prepare(&tx, &spent).expect("well-formed");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for (input, kind) in kinds.iter().enumerate() {
                    let accepted = prepared.verify_input(input, ScriptFlags::ALL).is_ok();
                    assert_eq!(accepted, kind.is_valid(ScriptFlags::ALL), "{kind:?}");
                }
            });
        }
    });
}

impl Kind {
    fn is_taproot(self) -> bool {
        matches!(self, Self::TaprootKey | Self::TaprootKeyAnyoneCanPay | Self::TaprootUnspendable)
    }

    /// Whether the input as signed here is valid.
    fn is_valid(self, flags: ScriptFlags) -> bool {
        match self {
            Self::TaprootUnspendable => {
                !flags.contains(ScriptFlags::WITNESS | ScriptFlags::TAPROOT)
            }
            Self::TaprootLookalike => !flags.contains(ScriptFlags::WITNESS),
            _ => true,
        }
    }
}

struct Signer {
    secp: Secp256k1<All>,
    keypair: Keypair,
}

impl Signer {
    fn new() -> Self {
        let secp = Secp256k1::new();
        let secret = SecretKey::from_slice(&[0x21; 32]).expect("in range");
        let keypair = Keypair::from_secret_key(&secp, &secret);
        Self { secp, keypair }
    }

    /// A transaction that spends one output of each kind, and those outputs.
    fn spend(&self, kinds: &[Kind]) -> (Vec<u8>, Vec<Output>) {
        let spent: Vec<TxOut> = kinds
            .iter()
            .zip(1000..)
            .map(|(kind, value)| TxOut {
                value: Amount::from_sat(value),
                script_pubkey: self.script_pubkey(*kind),
            })
            .collect();
        let unsigned = unsigned(kinds.len());
        let mut tx = unsigned.clone();
        for (input, kind) in kinds.iter().enumerate() {
            let (script_sig, witness) = self.sign(*kind, &unsigned, input, &spent);
            tx.input[input].script_sig = script_sig;
            tx.input[input].witness = Witness::from_slice(&witness);
        }
        (serialize(&tx), owned(spent))
    }

    fn script_pubkey(&self, kind: Kind) -> ScriptBuf {
        let key = self.public_key();
        let program = |version: u8| ScriptBuf::from([&[version, 0x20][..], &[0xff; 32]].concat());
        match kind {
            Kind::PayToKeyHash => ScriptBuf::new_p2pkh(&key.pubkey_hash()),
            Kind::PayToWitnessKeyHash => ScriptBuf::new_p2wpkh(&key.wpubkey_hash()),
            Kind::WrappedWitnessKeyHash => self.witness_redeem_script().to_p2sh(),
            Kind::PayToWitnessScript => true_script().to_p2wsh(),
            Kind::TaprootKey | Kind::TaprootKeyAnyoneCanPay => {
                ScriptBuf::new_p2tr(&self.secp, self.keypair.x_only_public_key().0, None)
            }
            Kind::TaprootUnspendable => program(0x51),
            Kind::WrappedTaproot => program(0x51).to_p2sh(),
            Kind::TaprootLookalike => ScriptBuf::from([&[0x51][..], &[0x61; 33]].concat()),
            Kind::UnknownProgram => program(0x52),
            Kind::PayToAnchor => ScriptBuf::from(vec![0x51, 0x02, 0x4e, 0x73]),
            Kind::Empty => ScriptBuf::new(),
            Kind::PushOf35 => push(&[9; 35]).into(),
            Kind::PushOf36 => push(&[9; 36]).into(),
            Kind::PushOf75 => push(&[9; 75]).into(),
            Kind::PushesOf(len) => pushes_of(len).into(),
        }
    }

    fn sign(
        &self,
        kind: Kind,
        tx: &Transaction,
        input: usize,
        spent: &[TxOut],
    ) -> (ScriptBuf, Vec<Vec<u8>>) {
        let key = self.public_key().to_bytes().to_vec();
        let none = ScriptBuf::new();
        match kind {
            Kind::PayToKeyHash => {
                let signature = self.sign_legacy(tx, input, &spent[input].script_pubkey);
                let script_sig = [push(&signature), push(&key)].concat();
                (script_sig.into(), Vec::new())
            }
            Kind::PayToWitnessKeyHash => (none, vec![self.sign_v0(tx, input, spent), key]),
            Kind::WrappedWitnessKeyHash => {
                let script_sig = push(self.witness_redeem_script().as_bytes());
                (script_sig.into(), vec![self.sign_v0(tx, input, spent), key])
            }
            Kind::PayToWitnessScript => (none, vec![true_script().into_bytes()]),
            Kind::TaprootKey => {
                (none, vec![self.sign_taproot(tx, input, spent, TapSighashType::Default)])
            }
            Kind::TaprootKeyAnyoneCanPay => {
                let sighash_type = TapSighashType::AllPlusAnyoneCanPay;
                (none, vec![self.sign_taproot(tx, input, spent, sighash_type)])
            }
            Kind::WrappedTaproot => {
                let program = self.script_pubkey(Kind::TaprootUnspendable);
                (push(program.as_bytes()).into(), Vec::new())
            }
            Kind::TaprootLookalike | Kind::UnknownProgram => (none, vec![vec![1]]),
            Kind::TaprootUnspendable | Kind::PayToAnchor => (none, Vec::new()),
            Kind::Empty => (true_script(), Vec::new()),
            Kind::PushOf35 | Kind::PushOf36 | Kind::PushOf75 | Kind::PushesOf(_) => {
                (none, Vec::new())
            }
        }
    }

    fn sign_legacy(&self, tx: &Transaction, input: usize, script: &ScriptBuf) -> Vec<u8> {
        let sighash = SighashCache::new(tx)
            .legacy_signature_hash(input, script, EcdsaSighashType::All.to_u32())
            .expect("input exists");
        self.sign_ecdsa(sighash.to_byte_array())
    }

    fn sign_v0(&self, tx: &Transaction, input: usize, spent: &[TxOut]) -> Vec<u8> {
        let script = self.witness_redeem_script();
        let value = spent[input].value;
        let sighash = SighashCache::new(tx)
            .p2wpkh_signature_hash(input, &script, value, EcdsaSighashType::All)
            .expect("input exists");
        self.sign_ecdsa(sighash.to_byte_array())
    }

    fn sign_ecdsa(&self, sighash: [u8; 32]) -> Vec<u8> {
        let secret = self.keypair.secret_key();
        let signature = self.secp.sign_ecdsa(&Message::from_digest(sighash), &secret);
        [&*signature.serialize_der(), &[EcdsaSighashType::All.to_u32() as u8]].concat()
    }

    fn sign_taproot(
        &self,
        tx: &Transaction,
        input: usize,
        spent: &[TxOut],
        sighash_type: TapSighashType,
    ) -> Vec<u8> {
        let sighash = SighashCache::new(tx)
            .taproot_key_spend_signature_hash(input, &Prevouts::All(spent), sighash_type)
            .expect("input exists");
        let message = Message::from_digest(sighash.to_byte_array());
        let keypair = self.keypair.tap_tweak(&self.secp, None).to_keypair();
        let signature = self.secp.sign_schnorr_no_aux_rand(&message, &keypair);
        bitcoin::taproot::Signature { signature, sighash_type }.to_vec()
    }

    fn witness_redeem_script(&self) -> ScriptBuf {
        ScriptBuf::new_p2wpkh(&self.public_key().wpubkey_hash())
    }

    fn public_key(&self) -> CompressedPublicKey {
        CompressedPublicKey(self.keypair.public_key())
    }
}

fn unsigned(inputs: usize) -> Transaction {
    let outpoint = |vout| OutPoint {
        txid: Txid::from_byte_array([5; 32]),
        vout: u32::try_from(vout).expect("few"),
    };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: (0..inputs)
            .map(|vout| TxIn {
                previous_output: outpoint(vout),
                sequence: Sequence::MAX,
                ..TxIn::default()
            })
            .collect(),
        output: vec![TxOut { value: Amount::from_sat(7), script_pubkey: true_script() }],
    }
}

fn true_script() -> ScriptBuf {
    ScriptBuf::from(vec![0x51])
}

/// A script of `len` bytes, more than three of them, that leaves true.
fn pushes_of(len: usize) -> Vec<u8> {
    let mut script = Vec::new();
    while script.len() < len {
        // OP_PUSHDATA2 and the length; what is left over is another push.
        let room = len - script.len() - 3;
        let data = if room <= 520 { room } else { (room - 4).min(520) };
        script.extend([&[0x4d][..], &(data as u16).to_le_bytes(), &vec![9; data]].concat());
    }
    assert_eq!(script.len(), len);
    script
}

fn push(data: &[u8]) -> Vec<u8> {
    let len = u8::try_from(data.len()).expect("short");
    assert!(len < 0x4c, "a direct push");
    [&[len], data].concat()
}
