use godwit_secret::Declassified;

use super::*;

fn secret(plain: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut plain.to_owned()).expect("memory")
}

fn key(passphrase: &str, salt: &[u8; 16], parameters: [u32; 3]) -> [u8; 32] {
    let [memory, passes, lanes] = parameters;
    let parameters = KdfParameters::new(memory, passes, lanes).expect("within limits");
    derive_key(&secret(passphrase), salt, parameters)
        .expect("memory")
        .expose_secret(|key| Declassified(*key))
        .0
}

/// Known answers of Argon2's reference implementation (`src/test.c` there).
#[test]
fn keys_are_argon2ids() {
    for (memory_kib, passes, lanes, expected) in [
        (256, 2, 1, "9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"),
        (256, 2, 2, "6d093c501fd5999645e0ea3bf620d7b8be7fd2db59c20d9fff9539da2bf57037"),
        (65_536, 2, 1, "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7"),
    ] {
        let parameters = KdfParameters::new(memory_kib, passes, lanes).expect("within limits");
        let mut key = [0; 32];
        argon2id(b"password", b"somesalt", parameters, &mut key).expect("memory");
        assert_eq!(hex::encode(key), expected);
    }
}

#[test]
fn everything_goes_into_the_key() {
    let base = key("password", &[1; 16], [32, 2, 1]);
    assert_eq!(key("password", &[1; 16], [32, 2, 1]), base);
    for other in [
        key("passwore", &[1; 16], [32, 2, 1]),
        key("password", &[2; 16], [32, 2, 1]),
        key("password", &[1; 16], [40, 2, 1]),
        key("password", &[1; 16], [32, 3, 1]),
        key("password", &[1; 16], [32, 2, 2]),
    ] {
        assert_ne!(other, base);
    }
    assert_eq!(
        key("pässword", &[1; 16], [32, 2, 1]),
        key("pa\u{308}ssword", &[1; 16], [32, 2, 1]),
        "keyboards differ in how they write an umlaut"
    );
}

#[test]
fn parameters_have_limits() {
    let fits = |memory, passes, lanes| KdfParameters::new(memory, passes, lanes).is_some();
    assert!(fits(8, 1, 1) && !fits(7, 1, 1));
    assert!(fits(32, 1, 4) && !fits(31, 1, 4));
    assert!(fits(KdfParameters::MAX_MEMORY_KIB, 1, 1));
    assert!(!fits(KdfParameters::MAX_MEMORY_KIB + 1, 1, 1) && !fits(u32::MAX, 1, 1));
    assert!(fits(4096, 16, 16) && !fits(4096, 17, 1) && !fits(4096, 1, 17));
    assert!(!fits(4096, 0, 1) && !fits(4096, 1, 0) && !fits(0, 0, 0));
    assert!(!fits(4096, u32::MAX, 1) && !fits(4096, 1, u32::MAX));
    let [memory, passes, lanes] = KdfParameters::RECOMMENDED.numbers();
    assert!(fits(memory, passes, lanes));
}

#[test]
fn what_argon2_begins_with_is_known() {
    let parameters = KdfParameters::new(8, 1, 1).expect("within limits");
    let params = Params::new(8, 1, 1, Some(32)).expect("within limits");
    // In one pass the first block of a lane is not written again.
    let mut blocks = vec![Block::new(); params.block_count()];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(
            "pa\u{308}ssword".as_bytes(),
            &[7; 16],
            &mut [0; 32],
            &mut blocks,
        )
        .expect("memory");
    let first: Vec<u8> =
        blocks[0].as_ref()[..4].iter().flat_map(|word| word.to_le_bytes()).collect();
    let [_, block] = argon2_start(&secret("pässword"), &[7; 16], parameters).expect("memory");
    assert_eq!(block.expose_secret(|bytes| Declassified(bytes.to_vec())).0, first);
}

#[test]
fn a_new_file_costs_no_less_than_is_recommended() {
    let new = |memory, passes| KdfParameters::RECOMMENDED.with_cost(Some(memory), Some(passes));
    assert_eq!(new(64, 3), Some(KdfParameters::RECOMMENDED));
    assert_eq!((new(63, 3), new(64, 2), new(0, 0)), (None, None, None));
    assert!(new(256, 16).is_some());
    assert_eq!((new(257, 3), new(64, 17), new(u32::MAX, 3)), (None, None, None));
    // What a file has is kept where it is more, and nothing else.
    let of = |memory, passes, lanes| KdfParameters::new(memory, passes, lanes).expect("in range");
    let cheap = of(8, 16, 1);
    assert_eq!(cheap.at_least_recommended(), of(64 << 10, 16, 4));
    assert_eq!(cheap.at_least_recommended().with_cost(None, Some(3)), Some(of(64 << 10, 3, 4)));
    let odd = of((64 << 10) + 1, 1, 16);
    assert_eq!(odd.at_least_recommended().with_cost(None, None), Some(of((64 << 10) + 1, 3, 16)));
    assert_eq!(cheap.with_cost(None, Some(3)), None);
    let below =
        |memory, passes| KdfParameters::new(memory, passes, 4).map(|p| p.is_below_recommended());
    assert_eq!(below(64 << 10, 3), Some(false));
    assert_eq!((below((64 << 10) - 1, 3), below(64 << 10, 2)), (Some(true), Some(true)));
}
