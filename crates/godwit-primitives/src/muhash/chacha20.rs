//! The ChaCha20 keystream (RFC 8439) with nonce zero from block zero: here a way to stretch a hash.

/// Fills `blocks` with the keystream of `key`.
pub(super) fn keystream(key: &[u8; 32], blocks: &mut [[u8; 64]]) {
    let mut initial = [0; 16];
    // "expand 32-byte k"
    initial[..4].copy_from_slice(&[0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
    for (word, bytes) in initial[4..12].iter_mut().zip(key.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    for (counter, block) in (0..).zip(blocks) {
        initial[12] = counter;
        write_block(&initial, block);
    }
}

fn write_block(initial: &[u32; 16], block: &mut [u8; 64]) {
    let mut state = *initial;
    for _ in 0..10 {
        quarter_round(&mut state, [0, 4, 8, 12]);
        quarter_round(&mut state, [1, 5, 9, 13]);
        quarter_round(&mut state, [2, 6, 10, 14]);
        quarter_round(&mut state, [3, 7, 11, 15]);
        quarter_round(&mut state, [0, 5, 10, 15]);
        quarter_round(&mut state, [1, 6, 11, 12]);
        quarter_round(&mut state, [2, 7, 8, 13]);
        quarter_round(&mut state, [3, 4, 9, 14]);
    }
    for ((bytes, word), start) in block.as_chunks_mut().0.iter_mut().zip(state).zip(initial) {
        *bytes = word.wrapping_add(*start).to_le_bytes();
    }
}

#[inline(always)]
fn quarter_round(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(16);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(12);
    state[a] = state[a].wrapping_add(state[b]);
    state[d] = (state[d] ^ state[a]).rotate_left(8);
    state[c] = state[c].wrapping_add(state[d]);
    state[b] = (state[b] ^ state[c]).rotate_left(7);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8439, appendix A.1, test vectors 1 and 2.
    #[test]
    fn rfc_8439_blocks() {
        let mut blocks = [[0; 64]; 2];
        keystream(&[0; 32], &mut blocks);
        assert_eq!(
            hex::encode(blocks[0]),
            "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7\
             da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        );
        assert_eq!(
            hex::encode(blocks[1]),
            "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed\
             29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
        );
    }

    /// RFC 8439, section 2.3.2.
    #[test]
    fn rfc_8439_block_with_counter_and_nonce() {
        let initial = [
            0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, 0x03020100, 0x07060504, 0x0b0a0908,
            0x0f0e0d0c, 0x13121110, 0x17161514, 0x1b1a1918, 0x1f1e1d1c, 0x00000001, 0x09000000,
            0x4a000000, 0x00000000,
        ];
        let mut block = [0; 64];
        write_block(&initial, &mut block);
        assert_eq!(
            hex::encode(block),
            "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e\
             d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
        );
    }
}
