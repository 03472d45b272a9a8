use bitcoin::Script;
use godwit_testdata::{read, shared_data};
use proptest::prelude::*;
use secp256k1::{PublicKey, Secp256k1, SecretKey};

use super::*;
use crate::muhash::MuHash3072;
use crate::{Block, COIN, MAX_MONEY, Txid};

fn coin(value: Amount, script: &[u8], height: u32, coinbase: bool) -> Coin {
    Coin { value, script_pubkey: script.into(), height, coinbase }
}

fn encode(coin: &Coin) -> Vec<u8> {
    let mut out = DataStream::new();
    coin.encode(&mut out);
    out.as_slice().to_vec()
}

fn encode_undo(coin: &Coin) -> Vec<u8> {
    let mut out = DataStream::new();
    coin.encode_undo(&mut out);
    out.as_slice().to_vec()
}

/// The whole of `bytes` as a coin.
fn decode(bytes: &[u8]) -> Result<Coin, DecodeError> {
    let mut reader = SpanReader::new(bytes);
    let coin = Coin::decode(&mut reader)?;
    assert!(reader.is_empty());
    Ok(coin)
}

fn encoded_script(script: &[u8]) -> Vec<u8> {
    // Height, coinbase bit and value take a byte each.
    encode(&coin(0, script, 0, false))[2..].to_vec()
}

fn p2pkh(hash: &[u8]) -> Vec<u8> {
    [&[0x76, 0xa9, 20], hash, &[0x88, 0xac]].concat()
}

fn p2sh(hash: &[u8]) -> Vec<u8> {
    [&[0xa9, 20], hash, &[0x87]].concat()
}

fn p2pk(key: &[u8]) -> Vec<u8> {
    [&[key.len() as u8], key, &[0xac]].concat()
}

fn public_key(seed: u8) -> PublicKey {
    let mut secret = [1; 32];
    secret[31] = seed;
    let secret = SecretKey::from_slice(&secret).expect("below the group's order and not zero");
    PublicKey::from_secret_key(&Secp256k1::signing_only(), &secret)
}

/// Bitcoin Core, `src/test/coins_tests.cpp`, `ccoins_serialization`.
#[test]
fn core_coins() {
    let core = [
        (
            "97f23c835800816115944e077fe7c803cfa57f29b36bf87c1d35",
            coin(
                60_000_000_000,
                &p2pkh(&hex::decode("816115944e077fe7c803cfa57f29b36bf87c1d35").unwrap()),
                203_998,
                false,
            ),
        ),
        (
            "8ddf77bbd123008c988f1a4a4de2161e0f50aac7f17e7f9555caa4",
            coin(
                110_397,
                &p2pkh(&hex::decode("8c988f1a4a4de2161e0f50aac7f17e7f9555caa4").unwrap()),
                120_891,
                true,
            ),
        ),
        ("000006", coin(0, &[], 0, false)),
    ];
    for (bytes, coin) in core {
        assert_eq!(decode(&hex::decode(bytes).unwrap()).as_ref(), Ok(&coin));
        assert_eq!(hex::encode(encode(&coin)), bytes);
    }
    // A script that ends beyond the data, by one byte and by 3 * 10^9.
    assert_eq!(decode(&[0, 0, 7]), Err(DecodeError::UnexpectedEnd));
    let huge = hex::decode("00008a95c0bb00").unwrap();
    assert_eq!(decode(&huge), Err(DecodeError::UnexpectedEnd));
}

/// Bitcoin Core, `src/test/compress_tests.cpp`, `compress_script_to_*`.
#[test]
fn core_script_forms() {
    assert_eq!(encoded_script(&p2pkh(&[7; 20])), [&[0][..], &[7; 20]].concat());
    assert_eq!(encoded_script(&p2sh(&[7; 20])), [&[1][..], &[7; 20]].concat());
    for seed in 1..20 {
        let key = public_key(seed).serialize();
        assert_eq!(encoded_script(&p2pk(&key)), key);
        let key = public_key(seed).serialize_uncompressed();
        let form = 4 | key[64] & 1;
        assert_eq!(encoded_script(&p2pk(&key)), [&[form], &key[1..33]].concat());
    }
}

/// Bitcoin Core, `src/test/compress_tests.cpp`, `compress_p2pk_scripts_not_on_curve`.
#[test]
fn keys_off_the_curve() {
    // x = 5 has no point; y makes no difference.
    let mut x = [0; 32];
    x[31] = 5;
    let uncompressed = p2pk(&[&[4][..], &x, &[0; 32]].concat());
    assert_eq!(encoded_script(&uncompressed)[0], 67 + 6);
    assert_eq!(
        decode(&encode(&coin(1, &uncompressed, 1, false))).unwrap().script_pubkey[..],
        uncompressed
    );
    for form in [4, 5] {
        let bytes = [&[0, 0, form][..], &x].concat();
        assert_eq!(decode(&bytes), Ok(coin(0, &[], 0, false)));
    }
    // A compressed key is never looked at.
    let compressed = p2pk(&[&[2][..], &x].concat());
    assert_eq!(encoded_script(&compressed), [&[2][..], &x].concat());
}

/// What is read of a stored coin where it lies is what decoding it gives.
fn assert_view_agrees(bytes: &[u8]) {
    let (view, coin) = (CoinView::from_compressed(bytes), Coin::from_compressed(bytes));
    let (view, coin) = match (view, coin) {
        (Ok(view), Ok(coin)) => (view, coin),
        (view, coin) => return assert_eq!(view.err(), coin.err(), "{bytes:?}"),
    };
    let script = &coin.script_pubkey[..];
    match view.lock {
        Lock::Script(lying) => assert_eq!(lying, script),
        Lock::ScriptHash => assert_eq!(script, p2sh(&script[2..22])),
        Lock::Key => assert!(
            script.is_empty() || matches!(script.len(), 25 | 35 | 67) && script.ends_with(&[0xac])
        ),
    }
    assert_eq!(CoinView { lock: Lock::Script(script), ..view }, CoinView::from(&coin));
}

#[test]
fn scripts_around_the_largest() {
    for len in [MAX_SCRIPT_SIZE - 1, MAX_SCRIPT_SIZE, MAX_SCRIPT_SIZE + 1] {
        let long = coin(5, &vec![0x51; len], 9, false);
        let mut expected = long.clone();
        if len > MAX_SCRIPT_SIZE {
            expected.script_pubkey = ScriptBytes::from_slice(&[OP_RETURN]);
        }
        assert_eq!(decode(&encode(&long)), Ok(expected));
        assert_view_agrees(&encode(&long));
        assert_eq!(is_unspendable(&long.script_pubkey), len > MAX_SCRIPT_SIZE);
    }
    assert!(is_unspendable(&[OP_RETURN]));
    assert!(!is_unspendable(&[]));
    assert!(!is_unspendable(&[0x51, OP_RETURN]));
}

#[test]
fn undo_form() {
    let created_at_zero = coin(50 * COIN, &[0x51], 0, true);
    assert_eq!(encode_undo(&created_at_zero), [1, 0x32, 7, 0x51]);
    let later = coin(50 * COIN, &[0x51], 1, false);
    assert_eq!(encode_undo(&later), [2, 0, 0x32, 7, 0x51]);
    // Written by a version of Core that stored the transaction's version, here 2^31.
    let old = [2, 0x86, 0xfe, 0xfe, 0xff, 0x00, 0x32, 7, 0x51];
    assert_eq!(Coin::decode_undo(&mut SpanReader::new(&old)), Ok(later));
    let too_large = [2, 0x8e, 0xfe, 0xfe, 0xff, 0x00, 0x32, 7, 0x51];
    let result = Coin::decode_undo(&mut SpanReader::new(&too_large));
    assert_eq!(result, Err(DecodeError::VarIntTooLarge));
}

#[test]
fn form_of_the_set_hashes() {
    let outpoint = OutPoint { txid: Txid::from_bytes([3; 32]), vout: 258 };
    let mut out = DataStream::new();
    txout_ser(&outpoint, &coin(COIN, &[0x51, 0x52], 100, true), &mut out);
    let expected = [
        &[3; 32][..],
        &[2, 1, 0, 0],
        &[201, 0, 0, 0],
        &[0, 0xe1, 0xf5, 5, 0, 0, 0, 0],
        &[2, 0x51, 0x52],
    ];
    assert_eq!(out.as_slice(), expected.concat());
    assert_eq!(bogo_size(2), 52);
}

/// Core's script forms once more, from what the `bitcoin` crate knows about scripts.
fn naive_script_form(bytes: &[u8]) -> Vec<u8> {
    let script = Script::from_bytes(bytes);
    if script.is_p2pkh() {
        return [&[0], &bytes[3..23]].concat();
    }
    if script.is_p2sh() {
        return [&[1], &bytes[2..22]].concat();
    }
    if script.is_p2pk() && bytes.len() == 35 && matches!(bytes[1], 2 | 3) {
        return bytes[1..34].to_vec();
    }
    if bytes.len() == 67 && script.p2pk_public_key().is_some() && bytes[1] == 4 {
        return [&[4 + bytes[65] % 2], &bytes[2..34]].concat();
    }
    let mut form = DataStream::new();
    form.write_var_int(bytes.len() as u64 + 6);
    form.write(bytes);
    form.as_slice().to_vec()
}

fn script() -> impl Strategy<Value = Vec<u8>> {
    let bytes = |len| proptest::collection::vec(any::<u8>(), len);
    let forms = prop_oneof![
        bytes(20..=20).prop_map(|hash| p2pkh(&hash)),
        bytes(20..=20).prop_map(|hash| p2sh(&hash)),
        any::<u8>().prop_map(|seed| p2pk(&public_key(seed).serialize())),
        any::<u8>().prop_map(|seed| p2pk(&public_key(seed).serialize_uncompressed())),
        (2u8..=4, bytes(32..=32)).prop_map(|(form, x)| p2pk(&[&[form][..], &x].concat())),
        (2u8..=7, bytes(64..=64)).prop_map(|(form, xy)| p2pk(&[&[form][..], &xy].concat())),
        bytes(20..=20).prop_map(|program| [&[0, 20][..], &program].concat()),
        (0u8..=1, bytes(32..=32)).prop_map(|(v, program)| [&[v * 0x51, 32][..], &program].concat()),
        bytes(0..=80),
        bytes(100..=300),
    ];
    // A few scripts miss their form by one byte.
    (forms, 0..10u8, any::<prop::sample::Index>(), any::<u8>()).prop_map(
        |(mut script, change, at, byte)| {
            if change == 0 && !script.is_empty() {
                let at = at.index(script.len());
                script[at] = byte;
            }
            script
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn coins_round_trip_and_scripts_equal_their_naive_twin(
        value in 0..=MAX_MONEY,
        script in script(),
        height in 0..1u32 << 31,
        coinbase: bool,
    ) {
        prop_assert_eq!(encoded_script(&script), naive_script_form(&script));
        let coin = coin(value, &script, height, coinbase);
        let bytes = encode(&coin);
        prop_assert!(bytes.len() >= Coin::MIN_ENCODED_LEN);
        prop_assert_eq!(decode(&bytes), Ok(coin.clone()));
        assert_view_agrees(&bytes);
        let undo = encode_undo(&coin);
        let mut converted = DataStream::new();
        compressed_to_undo(&bytes, &mut converted);
        prop_assert_eq!(converted.as_slice(), &undo[..]);
        prop_assert_eq!(Coin::decode_undo(&mut SpanReader::new(&undo)), Ok(coin));
        for end in 0..bytes.len() {
            prop_assert!(Coin::decode(&mut SpanReader::new(&bytes[..end])).is_err());
        }
    }

    /// Whatever decodes and was not replaced encodes to something that decodes to the same.
    #[test]
    fn arbitrary_bytes_never_panic(
        head in proptest::collection::vec(any::<u8>(), 0..8),
        form in 0u8..12,
        rest in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let bytes = [&head[..], &[form], &rest].concat();
        assert_view_agrees(&bytes);
        for decode in [Coin::decode, Coin::decode_undo] {
            if let Ok(coin) = decode(&mut SpanReader::new(&bytes)) {
                let again = Coin::decode(&mut SpanReader::new(&encode(&coin))).unwrap();
                prop_assert_eq!(again.script_pubkey, coin.script_pubkey);
                let money = (0..=MAX_MONEY).contains(&coin.value);
                prop_assert!(!money || again.value == coin.value);
            }
        }
    }
}

/// Regtest's chain has coinbases only, so its set is what they create.
#[test]
fn statistics_of_regtest_equal_cores_at_every_height() {
    let Some(folder) = shared_data() else { return };
    let chain = read(folder.join("chains/regtest_0_150.dat.zst"));
    let golden = read(folder.join("chains/golden_regtest_0_150.jsonl.zst"));
    let (mut set, mut coins, mut bogosize, mut total) = (MuHash3072::new(), 0, 0, 0);
    let mut records = SpanReader::new(&chain);
    for (height, line) in (0..).zip(golden.split(|&b| b == b'\n').filter(|line| !line.is_empty())) {
        let golden: serde_json::Value = serde_json::from_slice(line).unwrap();
        records.skip(4).unwrap();
        let len = records.u32().unwrap() as usize;
        let block = Block::from_bytes(records.bytes(len).unwrap()).unwrap();
        assert_eq!(golden["hash"], block.hash().to_string());
        let coinbase = block.view().tx(0);
        for (vout, output) in (0..).zip(coinbase.outputs()) {
            if height == 0 || is_unspendable(output.script_pubkey) {
                continue;
            }
            let mut bytes = DataStream::new();
            let coin = coin(output.value, output.script_pubkey, height, true);
            txout_ser(&OutPoint { txid: coinbase.txid(), vout }, &coin, &mut bytes);
            set.insert(bytes.as_slice());
            coins += 1;
            bogosize += bogo_size(output.script_pubkey.len());
            total += output.value;
        }
        let mut muhash = set.finalize();
        muhash.reverse();
        assert_eq!(golden["muhash"], hex::encode(muhash), "height {height}");
        assert_eq!(golden["txouts"], coins);
        assert_eq!(golden["bogosize"], bogosize);
        assert_eq!(golden["total_amount_sat"], total);
    }
    assert!(records.is_empty());
}
