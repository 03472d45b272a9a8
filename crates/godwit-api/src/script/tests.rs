use data_encoding::HEXLOWER;

use super::address::Address;
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
    let wrong = |text: &str| Address::parse(text, Network::Main).expect_err("no address");
    assert_eq!(
        wrong("1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb"),
        "Invalid checksum or length of Base58 address (P2PKH or P2SH)"
    );
    assert_eq!(wrong("0"), "Invalid or unsupported Segwit (Bech32) or Base58 encoding.");
    assert_eq!(
        wrong("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn"),
        "Invalid or unsupported Base58-encoded address."
    );
    assert_eq!(
        wrong("bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4"),
        "Invalid Bech32 checksum"
    );
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
