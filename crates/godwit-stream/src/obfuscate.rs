//! Obfuscation of files with an 8-byte key (Bitcoin Core `util/obfuscation.h`): block, undo and
//! database bytes are XORed so that a virus scanner finds no signature in them. It hides nothing.

/// A key that bytes are XORed with, repeated every 8 bytes from the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obfuscation([u8; 8]);

impl Obfuscation {
    /// The key that changes nothing.
    pub const NONE: Self = Self([0; 8]);

    /// With the key as it is in Core's `xor.dat`.
    pub const fn new(key: [u8; 8]) -> Self {
        Self(key)
    }

    /// The key as it is in Core's `xor.dat`.
    pub const fn key(&self) -> [u8; 8] {
        self.0
    }

    /// Obfuscates `bytes` that are at `file_offset`, or restores them: XOR is its own inverse.
    pub fn apply(&self, bytes: &mut [u8], file_offset: u64) {
        if *self == Self::NONE {
            return;
        }
        let mut rotated = self.0;
        rotated.rotate_left((file_offset % 8) as usize);
        let word = u64::from_ne_bytes(rotated);
        // Whole words: the compiler turns this loop into vector instructions.
        let (words, tail) = bytes.as_chunks_mut();
        for chunk in words {
            *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
        }
        for (byte, key) in tail.iter_mut().zip(rotated) {
            *byte ^= key;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn equals_byte_by_byte_at_every_offset(
            key: [u8; 8],
            plain in prop::collection::vec(any::<u8>(), 0..200),
            skip in 0usize..16,
            offset: u64,
        ) {
            let skip = skip.min(plain.len());
            let mut bytes = plain.clone();
            Obfuscation::new(key).apply(&mut bytes[skip..], offset);
            for (i, (got, was)) in bytes[skip..].iter().zip(&plain[skip..]).enumerate() {
                let at = offset.wrapping_add(i as u64);
                prop_assert_eq!(*got, was ^ key[(at % 8) as usize]);
            }
            prop_assert_eq!(&bytes[..skip], &plain[..skip]);
            Obfuscation::new(key).apply(&mut bytes[skip..], offset);
            prop_assert_eq!(bytes, plain);
        }
    }

    #[test]
    fn bytes_in_two_pieces_equal_bytes_in_one() {
        let key = Obfuscation::new([1, 2, 3, 4, 5, 6, 7, 8]);
        let plain: Vec<u8> = (0..100).collect();
        let mut whole = plain.clone();
        key.apply(&mut whole, 5);
        for cut in 0..=plain.len() {
            let mut pieces = plain.clone();
            key.apply(&mut pieces[..cut], 5);
            key.apply(&mut pieces[cut..], 5 + cut as u64);
            assert_eq!(pieces, whole, "cut at {cut}");
        }
    }
}
