//! The operations of a script.

pub(super) const PUSHDATA1: u8 = 0x4c;
pub(super) const PUSHDATA2: u8 = 0x4d;
pub(super) const PUSHDATA4: u8 = 0x4e;
pub(super) const ONE: u8 = 0x51;
pub(super) const SIXTEEN: u8 = 0x60;
pub(super) const RETURN: u8 = 0x6a;
pub(super) const DUP: u8 = 0x76;
pub(super) const EQUAL: u8 = 0x87;
pub(super) const EQUALVERIFY: u8 = 0x88;
pub(super) const HASH160: u8 = 0xa9;
pub(super) const CHECKSIG: u8 = 0xac;
pub(super) const CHECKMULTISIG: u8 = 0xae;
pub(crate) const CHECKSIGADD: u8 = 0xba;

/// One operation, with what it pushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Op<'a> {
    pub(crate) code: u8,
    pub(crate) data: &'a [u8],
}

impl Op<'_> {
    /// Whether it pushes the bytes that follow it.
    pub(super) fn is_push(&self) -> bool {
        self.code <= PUSHDATA4
    }
}

/// Reads a script operation by operation; a push that is cut off ends it with an error.
pub(crate) struct Ops<'a>(pub(crate) &'a [u8]);

/// A push is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutOff;

impl<'a> Iterator for Ops<'a> {
    type Item = Result<Op<'a>, CutOff>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&code, rest) = self.0.split_first()?;
        let op = next(code, rest);
        self.0 = op.map_or(&[], |(_, rest)| rest);
        Some(op.map(|(op, _)| op).ok_or(CutOff))
    }
}

fn next(code: u8, rest: &[u8]) -> Option<(Op<'_>, &[u8])> {
    let bytes_of_length = match code {
        PUSHDATA1 => 1,
        PUSHDATA2 => 2,
        PUSHDATA4 => 4,
        _ => 0,
    };
    let (length, rest) = rest.split_at_checked(bytes_of_length)?;
    let length = match code {
        0..PUSHDATA1 => usize::from(code),
        _ => length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
    };
    let (data, rest) = rest.split_at_checked(length)?;
    Some((Op { code, data }, rest))
}

/// The name of an operation that is no push (Core `GetOpName`).
pub(super) fn name(code: u8) -> &'static str {
    const SMALL: [&str; 16] =
        ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];
    match code {
        0x4f => "-1",
        0x50 => "OP_RESERVED",
        ONE..=SIXTEEN => SMALL[usize::from(code - ONE)],
        0x61..=CHECKSIGADD => NAMES[usize::from(code - 0x61)],
        0xff => "OP_INVALIDOPCODE",
        _ => "OP_UNKNOWN",
    }
}

/// Little-endian, the highest bit being the sign (Core `CScriptNum`).
pub(super) fn number(bytes: &[u8]) -> i64 {
    let Some((last, rest)) = bytes.split_last() else { return 0 };
    let high = i64::from(last & 0x7f);
    let size = rest.iter().rev().fold(high, |sum, byte| sum << 8 | i64::from(*byte));
    if last & 0x80 == 0 { size } else { -size }
}

/// From 0x61 on.
const NAMES: [&str; 90] = [
    "OP_NOP",
    "OP_VER",
    "OP_IF",
    "OP_NOTIF",
    "OP_VERIF",
    "OP_VERNOTIF",
    "OP_ELSE",
    "OP_ENDIF",
    "OP_VERIFY",
    "OP_RETURN",
    "OP_TOALTSTACK",
    "OP_FROMALTSTACK",
    "OP_2DROP",
    "OP_2DUP",
    "OP_3DUP",
    "OP_2OVER",
    "OP_2ROT",
    "OP_2SWAP",
    "OP_IFDUP",
    "OP_DEPTH",
    "OP_DROP",
    "OP_DUP",
    "OP_NIP",
    "OP_OVER",
    "OP_PICK",
    "OP_ROLL",
    "OP_ROT",
    "OP_SWAP",
    "OP_TUCK",
    "OP_CAT",
    "OP_SUBSTR",
    "OP_LEFT",
    "OP_RIGHT",
    "OP_SIZE",
    "OP_INVERT",
    "OP_AND",
    "OP_OR",
    "OP_XOR",
    "OP_EQUAL",
    "OP_EQUALVERIFY",
    "OP_RESERVED1",
    "OP_RESERVED2",
    "OP_1ADD",
    "OP_1SUB",
    "OP_2MUL",
    "OP_2DIV",
    "OP_NEGATE",
    "OP_ABS",
    "OP_NOT",
    "OP_0NOTEQUAL",
    "OP_ADD",
    "OP_SUB",
    "OP_MUL",
    "OP_DIV",
    "OP_MOD",
    "OP_LSHIFT",
    "OP_RSHIFT",
    "OP_BOOLAND",
    "OP_BOOLOR",
    "OP_NUMEQUAL",
    "OP_NUMEQUALVERIFY",
    "OP_NUMNOTEQUAL",
    "OP_LESSTHAN",
    "OP_GREATERTHAN",
    "OP_LESSTHANOREQUAL",
    "OP_GREATERTHANOREQUAL",
    "OP_MIN",
    "OP_MAX",
    "OP_WITHIN",
    "OP_RIPEMD160",
    "OP_SHA1",
    "OP_SHA256",
    "OP_HASH160",
    "OP_HASH256",
    "OP_CODESEPARATOR",
    "OP_CHECKSIG",
    "OP_CHECKSIGVERIFY",
    "OP_CHECKMULTISIG",
    "OP_CHECKMULTISIGVERIFY",
    "OP_NOP1",
    "OP_CHECKLOCKTIMEVERIFY",
    "OP_CHECKSEQUENCEVERIFY",
    "OP_NOP4",
    "OP_NOP5",
    "OP_NOP6",
    "OP_NOP7",
    "OP_NOP8",
    "OP_NOP9",
    "OP_NOP10",
    "OP_CHECKSIGADD",
];
