//! What a backend must answer before it is used: valid checks and invalid ones, each in every lane.
//!
//! It finds a processor or an emulator that computes otherwise than the instructions are documented, not a
//! mistake in the code, which has the tests.

use crate::backend::Backend;
use crate::check::{Check, KeyBytes};
use crate::lanes::prove;

/// Bytes of hexadecimal digits.
const fn bytes<const N: usize>(digits: &str) -> [u8; N] {
    let digits = digits.as_bytes();
    assert!(digits.len() == 2 * N);
    let mut bytes = [0; N];
    let mut i = 0;
    while i < 2 * N {
        let digit = match digits[i] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit => digit - b'a' + 10,
        };
        bytes[i / 2] = bytes[i / 2] << 4 | digit;
        i += 1;
    }
    bytes
}

/// Made with Python integers, from keys and nonces that are hashes.
const VALID: [Check; 4] = [
    Check::Ecdsa {
        key: KeyBytes::Compressed(bytes(
            "036a104855c17f507f9e73db6d70afc6772ddb87d51d9b014cad97c7f59b7b463c",
        )),
        signature: bytes(
            "cc1728b1319a5c545eb0b1cb6dbcc21c70b20a11d533c2adb75a60d8bac9c8b1\
             79f953a3d684b361ada992a2391adaa1789bdd1d1f1252f2e29da7cadb656de9",
        ),
        message: bytes("cb660899600a9f1185bafd1759d6399b55a0d4cefd932718529173cc945f153f"),
    },
    Check::Ecdsa {
        key: KeyBytes::Full(bytes(
            "04feee761ce96fe11bac5b8c2f5811a3bf72d595a223e221e3af82ce0009d1736a\
             c1ae6fc9a56864d59672f991909ebf875f059262416dc12e7d4f4a7ccac6f34a",
        )),
        signature: bytes(
            "3ca331dda5d59289989a380746d7daaf62b4719a72b28d016c832f202a387b92\
             64581c75d4c1e6660129a57e8cd1999342d7ec28dd57c5d4e8dd64ee91c8e435",
        ),
        message: bytes("c6a0f6f82f5effa467e73cf5f35c3ed9f38f3546cdea6fb51adbb309680b63d5"),
    },
    Check::Schnorr {
        key: bytes("bf5f9ce715d4febe7d6ce1f7ff550db941b41aaff77787038bcf96d747e26a12"),
        signature: bytes(
            "3f39dcbf3aeb4ff4a45bbb47e8ad1fce3555ecacd77fb8105a5d0cdb4399994e\
             1ddf98a44a21b91c89ce9a00e7952922d4127e8cef063b053c7c14a1cef210ec",
        ),
        message: bytes("1378c8fdb42ee97a237937cd5f678f3285cfb1c118d6b802928a93d27b6029e4"),
    },
    Check::Commitment {
        internal_key: bytes("5bf08d58a430f8c222bffaf9127249c5cdff70a2d68b2b45637eb662b6b88eb5"),
        tweak: bytes("3982f19bef1615bccfbb05e321c10e1d4cba3df0e841c2e41eeb6016347653c3"),
        output_key: bytes("491e5d15f550eff75cfff32a9425e0f9ace99aec8d75e136b9966eea19bcf23a"),
        odd: true,
    },
];

/// With the key G, r = 1, s = 1 and the message -1: the sum is infinity, for which X = r Z^2 holds.
const INFINITY: Check = Check::Ecdsa {
    key: KeyBytes::Compressed(bytes(
        "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
    )),
    signature: bytes(
        "0000000000000000000000000000000000000000000000000000000000000001\
         0000000000000000000000000000000000000000000000000000000000000001",
    ),
    message: bytes("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140"),
};

/// Whether the backend proves exactly what is valid.
pub(crate) fn hold(backend: Backend) -> bool {
    backend.kind().lanes() == 0 || hold_for(|checks| prove(backend, checks.iter()).proven())
}

/// Whether `prove` says yes to exactly the valid checks, each of them at each place.
pub(crate) fn hold_for(prove: impl Fn(&[Check]) -> Vec<bool>) -> bool {
    let mut checks: Vec<Check> = VALID.to_vec();
    checks.push(INFINITY);
    for mut invalid in [VALID[1], VALID[2], VALID[3]] {
        match &mut invalid {
            Check::Ecdsa { message, .. } | Check::Schnorr { message, .. } => message[31] ^= 1,
            Check::Commitment { odd, .. } => *odd = !*odd,
        }
        checks.push(invalid);
    }
    (0..checks.len()).all(|shift| {
        let mut shifted = checks.clone();
        shifted.rotate_right(shift);
        let mut expected: Vec<bool> = (0..checks.len()).map(|at| at < VALID.len()).collect();
        expected.rotate_right(shift);
        prove(&shifted) == expected
    })
}
