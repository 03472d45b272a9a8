//! Disassembles a script (Core `ScriptToAsmStr`).

use data_encoding::HEXLOWER;

use super::kind::is_unspendable;
use super::opcodes::{Ops, name, number};
use super::signature::hash_type_of;

/// Longest push that is shown as a number.
const LONGEST_NUMBER: usize = 4;

/// A script that holds no signatures.
pub(crate) fn asm(script: &[u8]) -> String {
    words(script, false)
}

/// A script that may hold signatures: their hash type is shown by name.
pub(crate) fn asm_of_script_sig(script: &[u8]) -> String {
    words(script, !is_unspendable(script))
}

fn words(script: &[u8], with_signatures: bool) -> String {
    let mut text = String::new();
    for op in Ops(script) {
        if !text.is_empty() {
            text.push(' ');
        }
        match op {
            Err(_) => text.push_str("[error]"),
            Ok(op) if !op.is_push() => text.push_str(name(op.code)),
            Ok(op) if op.data.len() <= LONGEST_NUMBER => {
                text.push_str(&number(op.data).to_string());
            }
            Ok(op) => match hash_type_of(op.data).filter(|_| with_signatures) {
                None => HEXLOWER.encode_append(op.data, &mut text),
                Some(hash_type) => {
                    HEXLOWER.encode_append(&op.data[..op.data.len() - 1], &mut text);
                    text.push_str(&format!("[{hash_type}]"));
                }
            },
        }
    }
    text
}
