use data_encoding::HEXLOWER;

use super::address::{Address, NoAddress};
use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    HEXLOWER.decode(hex.as_bytes()).expect("hexadecimal")
}

#[test]
fn addresses_go_there_and_back() {
    for (text, script) in [
        (
            "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",
            "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac",
        ),
        ("3P14159f73E4gFr7JterCCQh9QjiTjiZrG", "a914e9c3dd0c07aac76179ebc76a6c78d4d67c6c160a87"),
        (
            "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
            "0014751e76e8199196d454941c45d1b3a323f1433bd6",
        ),
        (
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
            "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
        ),
        ("bc1pfeessrawgf", "51024e73"),
    ] {
        let address = Address::parse(text, Network::Main).expect("an address");
        assert_eq!(HEXLOWER.encode(&address.script()), script);
        assert_eq!(address.encode(Network::Main), text);
        let (found, script) = (kind(&address.script()).name(), address.script());
        assert_eq!(address::of_script(&kind(&script)), Some(address), "{found}");
    }
}

#[test]
fn what_is_wrong_with_an_address_is_said() {
    let wrong = |text: &str| Address::parse(text, Network::Main).expect_err("no address").why;
    assert_eq!(
        wrong("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"),
        "Invalid checksum or length of Base58 address (P2PKH or P2SH)"
    );
    assert_eq!(wrong("0"), "Invalid or unsupported Segwit (Bech32) or Base58 encoding.");
    assert_eq!(
        wrong("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn"),
        "Invalid or unsupported Base58-encoded address."
    );
}

/// Texts and places of Core's tests (`test/bech32_tests.cpp`, `rpc_validateaddress.py`), and both sides of
/// each bound.
#[test]
fn where_an_address_with_witness_is_wrong_is_said() {
    let wrong = |text: &str| {
        let NoAddress { why, at } = Address::parse(text, Network::Main).expect_err("no address");
        (why, at)
    };
    let no = |why: &str, at: &[usize]| (why.to_owned(), at.to_vec());
    let of_length = |length: usize| format!("bc1{}", "q".repeat(length - 3));
    assert_eq!(wrong(&of_length(90)), no("Invalid checksum", &[]));
    assert_eq!(wrong(&of_length(91)), no("Bech32 string too long", &[90]));
    assert_eq!(wrong(&of_length(93)), no("Bech32 string too long", &[90, 91, 92]));
    let mixed = "Invalid character or mixed case";
    assert_eq!(wrong("bc1Qqqq\u{fc}q q\u{7f}"), no(mixed, &[3, 7, 8, 10, 12]));
    assert_eq!(wrong("BC1qQQQQQQQQ"), no(mixed, &[3]));
    assert_eq!(wrong("Bcqqqqqqqq"), no(mixed, &(1..10).collect::<Vec<_>>()));
    assert_eq!(wrong("bcqqqqqqqq"), no("Missing separator", &[]));
    assert_eq!(wrong("bc1qqqqq"), no("Invalid separator position", &[2]));
    assert_eq!(wrong("bc1qqqqqq"), no("Invalid checksum", &[]));
    assert_eq!(wrong("bc1qqbqi1qqqqq"), no("Invalid separator position", &[8]));
    assert_eq!(wrong("bc1qqbqqiqq"), no("Invalid Base 32 character", &[5]));
    assert_eq!(wrong("BC1QQQQQOQQB"), no("Invalid Base 32 character", &[8]));
}

/// One or two other characters are found wherever they are, of both codes.
#[test]
fn mistyped_characters_are_found() {
    const DIGITS: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    let mut of_other_code = Vec::new();
    for (text, why) in [
        ("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "Invalid Bech32 checksum"),
        (
            "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
            "Invalid Bech32m checksum",
        ),
    ] {
        let wrong = |at: &[usize], by: usize| {
            let mut bytes = text.as_bytes().to_vec();
            for at in at {
                let digit = DIGITS.iter().position(|digit| *digit == bytes[*at]).expect("a digit");
                bytes[*at] = DIGITS[(digit + by) % 32];
            }
            let mistyped = String::from_utf8(bytes).expect("ASCII");
            Address::parse(&mistyped, Network::Main).expect_err("a wrong checksum")
        };
        for first in 3..text.len() {
            let by = first % 31 + 1;
            let one = NoAddress { why: why.to_owned(), at: vec![first] };
            assert_eq!(wrong(&[first], by), one);
            for second in first + 1..text.len() {
                let found = wrong(&[first, second], by);
                // Two others would make it one of the other code, which is looked at first.
                match found.why == why {
                    true => assert_eq!(found.at, [first, second]),
                    false => of_other_code.push(found.at.len()),
                }
            }
        }
    }
    assert!(of_other_code.len() < 10 && of_other_code.iter().all(|places| *places == 2));
}

#[test]
fn scripts_in_words() {
    assert_eq!(
        asm(&bytes("76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac")),
        "OP_DUP OP_HASH160 62e907b15cbf27d5425399ebf6f0fb50ebb88f18 OP_EQUALVERIFY OP_CHECKSIG"
    );
    assert_eq!(asm(&bytes("4c")), "[error]");
    assert_eq!(asm(&bytes("004f5160ba02ffff0181")), "0 -1 1 16 OP_CHECKSIGADD -32767 -1");
    assert_eq!(asm(&bytes("bbff")), "OP_UNKNOWN OP_INVALIDOPCODE");
}

#[test]
fn descriptors_have_the_checksums_of_core() {
    let desc = |hex: &str| {
        let script = bytes(hex);
        descriptor::infer(&script, &kind(&script), Network::Regtest)
    };
    assert_eq!(desc("51"), "raw(51)#8lvh9jxk");
}
