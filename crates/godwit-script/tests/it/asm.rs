//! The notations of Core's JSON vectors (core_io.cpp ParseScript, transaction_tests.cpp
//! ParseScriptFlags).

use godwit_primitives::ScriptFlags;

/// The consensus flags by Core's names.
pub(crate) const FLAG_NAMES: [(&str, ScriptFlags); 7] = [
    ("P2SH", ScriptFlags::P2SH),
    ("DERSIG", ScriptFlags::DERSIG),
    ("NULLDUMMY", ScriptFlags::NULLDUMMY),
    ("CHECKLOCKTIMEVERIFY", ScriptFlags::CHECKLOCKTIMEVERIFY),
    ("CHECKSEQUENCEVERIFY", ScriptFlags::CHECKSEQUENCEVERIFY),
    ("WITNESS", ScriptFlags::WITNESS),
    ("TAPROOT", ScriptFlags::TAPROOT),
];

/// Names of the opcodes from OP_NOP (0x61) to OP_CHECKSIGADD (0xba), without `OP_`.
const OPCODE_NAMES: &str = "NOP VER IF NOTIF VERIF VERNOTIF ELSE ENDIF VERIFY RETURN \
    TOALTSTACK FROMALTSTACK 2DROP 2DUP 3DUP 2OVER 2ROT 2SWAP IFDUP DEPTH DROP DUP NIP OVER PICK \
    ROLL ROT SWAP TUCK CAT SUBSTR LEFT RIGHT SIZE INVERT AND OR XOR EQUAL EQUALVERIFY RESERVED1 \
    RESERVED2 1ADD 1SUB 2MUL 2DIV NEGATE ABS NOT 0NOTEQUAL ADD SUB MUL DIV MOD LSHIFT RSHIFT \
    BOOLAND BOOLOR NUMEQUAL NUMEQUALVERIFY NUMNOTEQUAL LESSTHAN GREATERTHAN LESSTHANOREQUAL \
    GREATERTHANOREQUAL MIN MAX WITHIN RIPEMD160 SHA1 SHA256 HASH160 HASH256 CODESEPARATOR \
    CHECKSIG CHECKSIGVERIFY CHECKMULTISIG CHECKMULTISIGVERIFY NOP1 CHECKLOCKTIMEVERIFY \
    CHECKSEQUENCEVERIFY NOP4 NOP5 NOP6 NOP7 NOP8 NOP9 NOP10 CHECKSIGADD";

/// A script in Core's notation: decimal numbers, `0x` bytes inserted raw, quoted strings pushed,
/// opcode names.
pub(crate) fn parse_script(text: &str) -> Vec<u8> {
    let mut script = Vec::new();
    for word in text.split([' ', '\t', '\n']).filter(|word| !word.is_empty()) {
        if let Ok(number) = word.parse::<i64>() {
            push_number(&mut script, number);
        } else if let Some(raw) = word.strip_prefix("0x") {
            script.extend(hex::decode(raw).expect("raw bytes are hex"));
        } else if let Some(quoted) = word.strip_prefix('\'') {
            let quoted = quoted.strip_suffix('\'').expect("quotes are closed");
            push_data(&mut script, quoted.as_bytes());
        } else {
            script.push(opcode(word));
        }
    }
    script
}

/// The flags of a comma-separated list, or the list's first flag that is not consensus.
pub(crate) fn parse_flags(list: &str) -> Result<ScriptFlags, &str> {
    let mut flags = ScriptFlags::NONE;
    for word in list.split(',').filter(|word| !word.is_empty() && *word != "NONE") {
        let known = FLAG_NAMES.iter().find(|(name, _)| *name == word).ok_or(word)?;
        flags = flags | known.1;
    }
    Ok(flags)
}

/// Every combination of consensus flags that the engine takes.
pub(crate) fn flag_combinations() -> Vec<ScriptFlags> {
    (0..1u32 << FLAG_NAMES.len())
        .map(|bits| {
            let chosen = FLAG_NAMES.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
            chosen.fold(ScriptFlags::NONE, |flags, (_, (_, flag))| flags | *flag)
        })
        .filter(|flags| !flags.contains(ScriptFlags::WITNESS) || flags.contains(ScriptFlags::P2SH))
        .collect()
}

fn opcode(name: &str) -> u8 {
    let name = name.strip_prefix("OP_").unwrap_or(name);
    if name == "RESERVED" {
        return 0x50;
    }
    let index = OPCODE_NAMES.split_whitespace().position(|known| known == name);
    let index = index.unwrap_or_else(|| panic!("unknown opcode {name}"));
    0x61 + u8::try_from(index).expect("fewer than 256 opcodes")
}

fn push_number(script: &mut Vec<u8>, number: i64) {
    match number {
        0 => script.push(0),
        -1 => script.push(0x4f),
        1..=16 => script.push(0x50 + number as u8),
        _ => push_data(script, &script_number(number)),
    }
}

/// CScriptNum::serialize: little-endian magnitude, the sign in the highest bit.
fn script_number(number: i64) -> Vec<u8> {
    let mut magnitude = number.unsigned_abs();
    let mut bytes = Vec::new();
    while magnitude > 0 {
        bytes.push(magnitude as u8);
        magnitude >>= 8;
    }
    if bytes.last().is_some_and(|last| last & 0x80 != 0) {
        bytes.push(0);
    }
    if let (Some(last), true) = (bytes.last_mut(), number < 0) {
        *last |= 0x80;
    }
    bytes
}

fn push_data(script: &mut Vec<u8>, data: &[u8]) {
    match u8::try_from(data.len()) {
        Ok(len @ 0..0x4c) => script.push(len),
        Ok(len) => script.extend([0x4c, len]),
        Err(_) => {
            let len = u16::try_from(data.len()).expect("vectors push less than 64 KiB");
            script.push(0x4d);
            script.extend(len.to_le_bytes());
        }
    }
    script.extend(data);
}
