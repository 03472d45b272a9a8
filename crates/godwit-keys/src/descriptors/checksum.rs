//! The checksum of descriptors (BIP380).

use godwit_secret::{LockError, SecretArray, SecretBytes};

/// Number of characters behind the `#`.
pub(crate) const LENGTH: usize = 8;

/// What a descriptor may consist of, in the order that BIP380 numbers it.
const INPUT: &[u8; 95] = b"0123456789()[],'/*abcdefgh@:$%{}\
IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~\
ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";

/// What a checksum consists of: bech32's alphabet.
const OUTPUT: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";

/// What the bits that leave the register add to it, from the lowest.
const GENERATOR: [u64; 5] =
    [0xf5_dee5_1989, 0xa9_fdca_3312, 0x1b_ab10_e32d, 0x37_06b1_677a, 0x64_4d62_6ffd];

/// The checksum of a descriptor without its own; the position of the first character that no
/// descriptor has when there is one.
pub(crate) fn checksum(text: &[u8]) -> Result<[u8; LENGTH], usize> {
    let mut register = 1;
    for (number, group) in text.chunks(3).enumerate() {
        let mut classes = 0;
        for (i, byte) in group.iter().enumerate() {
            let code = INPUT.iter().position(|c| c == byte).ok_or(3 * number + i)? as u64;
            register = push(register, code & 31);
            classes = classes * 3 + (code >> 5);
        }
        register = push(register, classes);
    }
    for _ in 0..LENGTH {
        register = push(register, 0);
    }
    register ^= 1;
    Ok(std::array::from_fn(|i| OUTPUT[(register >> (5 * (LENGTH - 1 - i)) & 31) as usize]))
}

/// Puts `#` and the checksum behind a private descriptor; returns whether it consists of characters of
/// descriptors, without which there is none. The checksum tells of the keys: it stays in locked memory.
/// Runs on a secret stack.
pub(crate) fn append_to_secret(text: &mut SecretBytes) -> Result<bool, LockError> {
    let mut sum = SecretArray::<LENGTH>::zeroed()?;
    let has_one = text.expose_secret_into(&mut sum, |text, sum| match checksum(text) {
        Ok(computed) => {
            sum.expose_secret_mut(|sum| *sum = computed);
            true
        }
        Err(_) => false,
    });
    if has_one {
        text.push(b'#')?;
        text.extend_from_secret(&sum)?;
    }
    Ok(has_one)
}

/// Multiplies the polynomial of eight 5-bit coefficients by x, reduces it and adds `symbol`.
fn push(register: u64, symbol: u64) -> u64 {
    let leaving = register >> 35;
    let shifted = (register & 0x7_ffff_ffff) << 5 ^ symbol;
    let bits = GENERATOR.iter().enumerate().filter(|(bit, _)| leaving >> bit & 1 == 1);
    bits.fold(shifted, |sum, (_, addend)| sum ^ addend)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_bip380() {
        assert_eq!(checksum(b"raw(deadbeef)"), Ok(*b"89f8spxm"));
        assert_ne!(checksum(b"raw(deedbeef)"), Ok(*b"89f8spxm"));
        assert_eq!(checksum("raw(Ü)".as_bytes()), Err(4));
    }

    #[test]
    fn every_change_of_one_character_shows() {
        let text = *b"wsh(multi(2,[00000000/111'/222]xp))";
        let right = checksum(&text);
        for i in 0..text.len() {
            for replacement in INPUT {
                let mut other = text;
                other[i] = *replacement;
                assert_eq!(checksum(&other) == right, other == text);
            }
        }
    }

    #[test]
    fn it_is_the_one_of_miniscript() {
        for length in 0..100 {
            let text: String = INPUT.iter().cycle().take(length).map(|b| char::from(*b)).collect();
            let mut engine = miniscript::descriptor::checksum::Engine::new();
            engine.input(&text).expect("the characters of descriptors");
            let theirs = engine.checksum();
            assert_eq!(checksum(text.as_bytes()).map(|c| c.to_vec()), Ok(theirs.into_bytes()));
        }
    }
}
