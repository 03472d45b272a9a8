//! The forms of script for which claims are made.

use godwit_verify::KeyBytes;

const OP_DUP: u8 = 0x76;
const OP_HASH160: u8 = 0xa9;
const OP_EQUAL: u8 = 0x87;
const OP_EQUALVERIFY: u8 = 0x88;
const OP_DROP: u8 = 0x75;
const OP_CHECKSIG: u8 = 0xac;
const OP_CHECKLOCKTIMEVERIFY: u8 = 0xb1;
const OP_CHECKSEQUENCEVERIFY: u8 = 0xb2;
const OP_CHECKMULTISIG: u8 = 0xae;
const OP_0: u8 = 0x00;
const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;
const OP_IF: u8 = 0x63;
const OP_ENDIF: u8 = 0x68;

/// Most keys of OP_CHECKMULTISIG (Core's `MAX_PUBKEYS_PER_MULTISIG`).
pub(crate) const MAX_KEYS: usize = 20;

/// The demand of an output's script, or of a script behind a hash.
pub(crate) enum Form<'a> {
    /// P2PK: key OP_CHECKSIG.
    Key(KeyBytes),
    /// P2PKH: OP_DUP OP_HASH160 hash OP_EQUALVERIFY OP_CHECKSIG.
    KeyHash(&'a [u8; 20]),
    /// P2SH (BIP16): OP_HASH160 hash OP_EQUAL.
    ScriptHash(&'a [u8; 20]),
    /// P2WPKH (BIP141): version 0, 20 bytes.
    WitnessKeyHash(&'a [u8; 20]),
    /// P2WSH (BIP141): version 0, 32 bytes.
    WitnessScriptHash(&'a [u8; 32]),
    /// P2TR (BIP341): version 1, 32 bytes.
    Taproot(&'a [u8; 32]),
    /// m keys… n OP_CHECKMULTISIG.
    Multisig(MultisigForm),
    /// lock OP_DROP key OP_CHECKSIG.
    LockedKey(Lock, KeyBytes),
}

/// 1 ≤ m ≤ n ≤ 20.
pub(crate) struct MultisigForm {
    pub(crate) required: usize,
    pub(crate) keys: Vec<KeyBytes>,
}

/// The number of a lock, which is not negative, and the opcode that demands it.
#[derive(Clone, Copy)]
pub(crate) enum Lock {
    /// OP_CHECKLOCKTIMEVERIFY (BIP65): a demand on the transaction's lock time.
    Time(u64),
    /// OP_CHECKSEQUENCEVERIFY (BIP112): a demand on the input's sequence.
    Sequence(u64),
}

impl<'a> Form<'a> {
    /// Recognises a form by its bytes alone; `None` for any other script.
    pub(crate) fn of(script: &'a [u8]) -> Option<Form<'a>> {
        match script {
            [OP_DUP, OP_HASH160, 20, hash @ .., OP_EQUALVERIFY, OP_CHECKSIG] => {
                hash.try_into().ok().map(Form::KeyHash)
            }
            [OP_HASH160, 20, hash @ .., OP_EQUAL] => hash.try_into().ok().map(Form::ScriptHash),
            [OP_0, 20, program @ ..] => program.try_into().ok().map(Form::WitnessKeyHash),
            [OP_0, 32, program @ ..] => program.try_into().ok().map(Form::WitnessScriptHash),
            [OP_1, 32, program @ ..] => program.try_into().ok().map(Form::Taproot),
            [.., OP_CHECKMULTISIG] => multisig(script).map(Form::Multisig),
            [.., OP_CHECKSIG] => match single_key(script) {
                Some(key) => Some(Form::Key(key)),
                None => locked_key(script),
            },
            _ => None,
        }
    }
}

/// A key of 33 bytes that begins with 02 or 03, or of 65 bytes that begins with 04. Hybrid keys (06, 07)
/// are valid, other lengths never are (Core's `CPubKey`).
pub(crate) fn public_key(bytes: &[u8]) -> Option<KeyBytes> {
    match bytes.first()? {
        2 | 3 if bytes.len() == 33 => KeyBytes::from_slice(bytes),
        4 if bytes.len() == 65 => KeyBytes::from_slice(bytes),
        _ => None,
    }
}

/// The script that a P2WPKH output stands for (BIP143).
pub(crate) fn key_hash_script(hash: &[u8; 20]) -> [u8; 25] {
    let mut script = [0; 25];
    script[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
    script[3..23].copy_from_slice(hash);
    script[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
    script
}

fn multisig(script: &[u8]) -> Option<MultisigForm> {
    let (required, mut rest) = number(script)?;
    let mut keys = Vec::with_capacity(3);
    while let [len @ (33 | 65), after @ ..] = rest {
        let (key, after) = after.split_at_checked(usize::from(*len))?;
        // Only bounds work: no number that is taken allows this many keys (SCRIPT_ERR_PUBKEY_COUNT).
        if keys.len() == MAX_KEYS {
            return None;
        }
        keys.push(public_key(key)?);
        rest = after;
    }
    let (count, rest) = number(rest)?;
    // EvalScript, OP_CHECKMULTISIG: the script states the number of keys, and all of them have to be in the
    // script.
    let counts = count == keys.len();
    // EvalScript: SCRIPT_ERR_SIG_COUNT.
    let possible = required <= count;
    (counts && possible && rest == [OP_CHECKMULTISIG]).then_some(MultisigForm { required, keys })
}

/// A number from 1 to 16 as an opcode, or from 17 to 20 as a push of one byte (Core's `CScriptNum`).
fn number(script: &[u8]) -> Option<(usize, &[u8])> {
    match script {
        [opcode @ OP_1..=OP_16, rest @ ..] => Some((usize::from(opcode - OP_1) + 1, rest)),
        [1, number @ 17..=20, rest @ ..] => Some((usize::from(*number), rest)),
        _ => None,
    }
}

/// key OP_CHECKSIG.
fn single_key(script: &[u8]) -> Option<KeyBytes> {
    match script {
        [len, key @ .., OP_CHECKSIG] if usize::from(*len) == key.len() => public_key(key),
        _ => None,
    }
}

/// One lock before one key. Scripts with more locks are left to the engine.
fn locked_key(script: &[u8]) -> Option<Form<'_>> {
    let (lock, rest) = lock(script)?;
    let [OP_DROP, rest @ ..] = rest else { return None };
    single_key(rest).map(|key| Form::LockedKey(lock, key))
}

/// The number of a lock, and the opcode that demands it.
fn lock(script: &[u8]) -> Option<(Lock, &[u8])> {
    let (number, rest) = match script {
        [OP_0, rest @ ..] => (0, rest),
        [opcode @ OP_1..=OP_16, rest @ ..] => (u64::from(opcode - OP_1) + 1, rest),
        // EvalScript takes at most five bytes.
        [len @ 1..=5, rest @ ..] => {
            let (bytes, rest) = rest.split_at_checked(usize::from(*len))?;
            // CScriptNum: the sign (SCRIPT_ERR_NEGATIVE_LOCKTIME). Negative zero is left to the engine.
            if bytes.last()? & 0x80 != 0 {
                return None;
            }
            (bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)), rest)
        }
        _ => return None,
    };
    match rest {
        [OP_CHECKLOCKTIMEVERIFY, rest @ ..] => Some((Lock::Time(number), rest)),
        [OP_CHECKSEQUENCEVERIFY, rest @ ..] => Some((Lock::Sequence(number), rest)),
        _ => None,
    }
}

/// The key of a tapscript that is `<32 bytes> OP_CHECKSIG`, with any number of envelopes before and after
/// it.
///
/// None of the opcodes taken here is one that makes a tapscript valid by its mere presence (BIP342's
/// OP_SUCCESS).
pub(crate) fn leaf_key(script: &[u8]) -> Option<&[u8; 32]> {
    let script = after_envelopes(script)?;
    let [32, rest @ ..] = script else { return None };
    let (key, rest) = rest.split_first_chunk()?;
    let [OP_CHECKSIG, rest @ ..] = rest else { return None };
    after_envelopes(rest)?.is_empty().then_some(key)
}

/// The script behind any number of `OP_0 OP_IF <pushes> OP_ENDIF`, which do nothing: OP_0 is false, in the
/// only form that BIP342 allows OP_IF. `None` if an envelope holds anything but pushes of data.
fn after_envelopes(mut script: &[u8]) -> Option<&[u8]> {
    while let [OP_0, OP_IF, inside @ ..] = script {
        script = inside;
        loop {
            if let [OP_ENDIF, after @ ..] = script {
                script = after;
                break;
            }
            let push = crate::pushes::take_push(&mut script)?;
            // EvalScript: SCRIPT_ERR_PUSH_SIZE, even where nothing is executed.
            if push.len() > crate::pushes::MAX_ELEMENT_SIZE {
                return None;
            }
        }
    }
    Some(script)
}
