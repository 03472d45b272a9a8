//! What rules outside the script engine read from scripts: operations, pushes and two output forms.
//!
//! Source: Core `script/script.cpp`, `script/script.h`.

pub(crate) const OP_0: u8 = 0x00;
pub(crate) const OP_PUSHDATA1: u8 = 0x4c;
pub(crate) const OP_PUSHDATA2: u8 = 0x4d;
pub(crate) const OP_PUSHDATA4: u8 = 0x4e;
pub(crate) const OP_1: u8 = 0x51;
pub(crate) const OP_16: u8 = 0x60;
pub(crate) const OP_RETURN: u8 = 0x6a;
pub(crate) const OP_DUP: u8 = 0x76;
pub(crate) const OP_EQUAL: u8 = 0x87;
pub(crate) const OP_EQUALVERIFY: u8 = 0x88;
pub(crate) const OP_HASH160: u8 = 0xa9;
pub(crate) const OP_CHECKSIG: u8 = 0xac;
pub(crate) const OP_CHECKSIGVERIFY: u8 = 0xad;
pub(crate) const OP_CHECKMULTISIG: u8 = 0xae;
pub(crate) const OP_CHECKMULTISIGVERIFY: u8 = 0xaf;
pub(crate) const OP_INVALIDOPCODE: u8 = 0xff;

/// A push that reaches beyond the end of its script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncated;

/// Takes one operation off the front of `script`: its opcode and the data it pushes, which is empty
/// for all but pushes. `None` at the end (Core `GetScriptOp`).
pub(crate) fn next_op<'a>(script: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, Truncated> {
    let Some((&opcode, tail)) = script.split_first() else { return Ok(None) };
    let (size, tail) = match opcode {
        0..OP_PUSHDATA1 => (usize::from(opcode), tail),
        OP_PUSHDATA1 => {
            let (size, tail) = tail.split_first_chunk().ok_or(Truncated)?;
            (usize::from(u8::from_le_bytes(*size)), tail)
        }
        OP_PUSHDATA2 => {
            let (size, tail) = tail.split_first_chunk().ok_or(Truncated)?;
            (usize::from(u16::from_le_bytes(*size)), tail)
        }
        OP_PUSHDATA4 => {
            let (size, tail) = tail.split_first_chunk().ok_or(Truncated)?;
            (u32::from_le_bytes(*size) as usize, tail)
        }
        _ => (0, tail),
    };
    let (data, tail) = tail.split_at_checked(size).ok_or(Truncated)?;
    *script = tail;
    Ok(Some((opcode, data)))
}

/// The data of the last operation of a script that only pushes; `None` when one does something else
/// or is truncated. Numbers are pushes, but their data count as empty.
pub(crate) fn last_push(mut script: &[u8]) -> Option<&[u8]> {
    let mut last: &[u8] = &[];
    while let Some((opcode, data)) = next_op(&mut script).ok()? {
        if opcode > OP_16 {
            return None;
        }
        last = data;
    }
    Some(last)
}

/// Whether an output pays to a script hash (BIP16).
pub(crate) fn is_pay_to_script_hash(script: &[u8]) -> bool {
    script.len() == 23 && script[0] == OP_HASH160 && script[1] == 0x14 && script[22] == OP_EQUAL
}

/// Version and program of a witness output: a number, then one push of 2 to 40 bytes (BIP141).
pub(crate) fn witness_program(script: &[u8]) -> Option<(u8, &[u8])> {
    let &[version, size, ref program @ ..] = script else { return None };
    if !(2..=40).contains(&program.len()) || usize::from(size) != program.len() {
        return None;
    }
    match version {
        OP_0 => Some((0, program)),
        OP_1..=OP_16 => Some((version - OP_1 + 1, program)),
        _ => None,
    }
}

/// Appends the shortest push opcode for `data`, then `data` (Core `CScript::operator<<`).
pub(crate) fn push_data(script: &mut Vec<u8>, data: &[u8]) {
    let size = data.len();
    if size < usize::from(OP_PUSHDATA1) {
        script.push(size as u8);
    } else if size <= 0xff {
        script.extend([OP_PUSHDATA1, size as u8]);
    } else if size <= 0xffff {
        script.push(OP_PUSHDATA2);
        script.extend((size as u16).to_le_bytes());
    } else {
        script.push(OP_PUSHDATA4);
        script.extend((size as u32).to_le_bytes());
    }
    script.extend_from_slice(data);
}

/// A block height as BIP34 wants a coinbase to start with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeightPush {
    bytes: [u8; 6],
    len: usize,
}

impl HeightPush {
    /// `OP_0` to `OP_16` up to 16, else a push of the shortest little-endian number whose top bit,
    /// the sign, is clear (Core `CScript() << nHeight`).
    pub(crate) fn new(height: u32) -> Self {
        let mut bytes = [0; 6];
        if height <= 16 {
            bytes[0] = if height == 0 { OP_0 } else { OP_1 - 1 + height as u8 };
            return Self { bytes, len: 1 };
        }
        let bits = u32::BITS - height.leading_zeros();
        let size = (bits / 8 + 1) as usize;
        bytes[0] = size as u8;
        bytes[1..5].copy_from_slice(&height.to_le_bytes());
        Self { bytes, len: 1 + size }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests;
