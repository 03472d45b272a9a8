//! A compact notation for the scripts of the cases.

use bitcoin::ScriptBuf;
use bitcoin::hex::FromHex;
use bitcoin::opcodes::Opcode;
use bitcoin::script::{Builder, PushBytesBuf};

/// Assembles a script from words:
/// decimal numbers are minimal number pushes, `<hex>` pushes data, `0xhex` stands for itself,
/// other words are opcodes without `OP_`; `*n` after a word repeats it.
///
/// Panics on a word it does not know: scripts are literals of this crate.
pub(super) fn asm(text: &str) -> ScriptBuf {
    ScriptBuf::from_bytes(text.split_whitespace().flat_map(word).collect())
}

fn word(word: &str) -> Vec<u8> {
    match word.split_once('*') {
        Some((once, times)) => once_word(once).repeat(times.parse().expect("a count")),
        None => once_word(word),
    }
}

fn once_word(word: &str) -> Vec<u8> {
    if let Ok(number) = word.parse::<i64>() {
        return Builder::new().push_int(number).into_bytes();
    }
    if let Some(hex) = word.strip_prefix("0x") {
        return Vec::from_hex(hex).expect("hex after 0x");
    }
    if let Some(hex) = word.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
        return push(&Vec::from_hex(hex).expect("hex between angle brackets")).into_bytes();
    }
    vec![opcode(word)]
}

fn opcode(name: &str) -> u8 {
    (0..=u8::MAX)
        .find(|code| Opcode::from(*code).to_string().strip_prefix("OP_") == Some(name))
        .unwrap_or_else(|| panic!("unknown opcode {name}"))
}

/// A script that pushes `data`.
pub(super) fn push(data: &[u8]) -> ScriptBuf {
    let data = PushBytesBuf::try_from(data.to_vec()).expect("data is below 4 GiB");
    Builder::new().push_slice(data).into_script()
}

/// One script after the other.
pub(super) fn concat(scripts: &[&ScriptBuf]) -> ScriptBuf {
    ScriptBuf::from_bytes(scripts.iter().flat_map(|script| script.to_bytes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_bytes() {
        assert_eq!(asm("1 -1 17 IF <aabb> 0x4c CLTV NOP*3 ENDIF").to_hex_string(), {
            "514f01116302aabb4cb161616168"
        });
    }
}
