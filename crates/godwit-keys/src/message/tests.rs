use bitcoin::address::NetworkUnchecked;
use bitcoin::hashes::sha256;
use bitcoin::transaction::Version;
use bitcoin::{Address, Amount, ScriptBuf, Sequence, Witness};
use godwit_engine::{PolicyStage, PreparedTx, SpentOutput, check_policy};
use godwit_primitives::ScriptFlags;
use godwit_secret::{SecretSlice, SecretString};

use super::*;
use crate::accounts::single_descriptors;
use crate::bip322::nothing;
use crate::entry::{Entry, EntryDescriptor};
use crate::kdf::KdfParameters;
use crate::psbt::OwnScripts;
use crate::stored_key::StoredKey;
use crate::{parse_wif, split_private_descriptor};

/// The key of BIP322's vectors, and its address.
const WIF: &str = "L3VFeEujGtevx9w18HD1fhRbCH67Az2dpCymeRE1SoPK6XQtaN2k";
const ADDRESS: &str = "bc1q9vza2e8x573nczrlzms0wvx3gsqjx7vavgkx0l";

/// Of BIP322: hash of the message, and txids of the transaction that has it and of the one that is signed.
const HASHES: [(&str, &str, &str, &str); 3] = [
    (
        "",
        "c90c269c4f8fcbe6880f72a721ddfbf1914268a794cbb21cfafee13770ae19f1",
        "c5680aa69bb8d860bf82d4e9cd3504b55dde018de765a91bb566283c545a99a7",
        "1e9654e951a5ba44c8604c4de6c67fd78a27e81dcadcfe1edf638ba3aaebaed6",
    ),
    (
        "Hello World",
        "f0eb03b1a75ac6d9847f55c624a99169b5dccba2a31f5b23bea77ba270de0a7a",
        "b79d196740ad5217771c1098fc4a4b51e0535c32236c71f1ea4d61a2d603352b",
        "88737ae86f2077145f93cc4b153ae9a1cb8d56afa511988c149c5c8c9d93bddf",
    ),
    (
        "UTF-8 support: öäüéàè 测试文本 \u{1f604}",
        "43936b237ea38c7794eb5d755e0d220b6db92ebfc5c8f482759d22b1286376d7",
        "c8f4f525fe8afb1bc09b44175bd2096f079c98425e8a1be676b712add1fb62f0",
        "8f488e06b89eafd019ec528109eafaf7f1d1811fd617aa1eeb9658f1c1be6586",
    ),
];

/// Of BIP322: message, address, signature.
const VECTORS: [(&str, &str, &str); 14] = [
    (
        "",
        ADDRESS,
        "smpAkcwRAIgM2gBAQqvZX15ZiysmKmQpDrG83avLIT492QBzLnQIxYCIBaTpOaD20qRlEylyxFSeEA2ba9YOixpX8z46TSDtS40ASECx/EgAxlkQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI=",
    ),
    (
        "",
        ADDRESS,
        "smpAkgwRQIhAPkJ1Q4oYS0htvyuSFHLxRQpFAY56b70UvE7Dxazen0ZAiAtZfFz1S6T6I23MWI2lK/pcNTWncuyL8UL+oMdydVgzAEhAsfxIAMZZEKUPYWI4BruhAQjzFT8FSFSajuFwrDL1Yhy",
    ),
    (
        "Hello World",
        ADDRESS,
        "smpAkcwRAIgZRfIY3p7/DoVTty6YZbWS71bc5Vct9p9Fia83eRmw2QCICK/ENGfwLtptFluMGs2KsqoNSk89pO7F29zJLUx9a/sASECx/EgAxlkQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI=",
    ),
    (
        "Hello World",
        ADDRESS,
        "smpAkgwRQIhAOzyynlqt93lOKJr+wmmxIens//zPzl9tqIOua93wO6MAiBi5n5EyAcPScOjf1lAqIUIQtr3zKNeavYabHyR8eGhowEhAsfxIAMZZEKUPYWI4BruhAQjzFT8FSFSajuFwrDL1Yhy",
    ),
    (
        "This will be a p2wsh 3-of-3 multisig BIP 322 signed message",
        "bc1qp0ahvfh83088w49k405szqgg4f3pptr7p2g06tdxfjcd40z4lh4q95lsz9",
        "smpBQBHMEQCIFX9aaqPJWq2Ff2kpen5bFDTid+ehgUOpHV0LfjncXy4AiA3GNicF7aKPzdpa9PCpmaYQs3pHd+qbvvhXdxOCKCAMAFIMEUCIQD/ELXg6CNYyUQijCg96JtgvgjZb9dsl1Ctof4QAeyTcQIgVM/1AAblFl/DCt6A1gJg+T/i2qU5SQD09+chFJzolRwBSDBFAiEAlqRfSFyWNVQhvaCnmeV5tyneiCWMTcFbuujoD/pFa3wCIGnZjfQb8NolSYq9asV+ZeBSkCGHJcqnaV4JYS5MYPEGAWlTIQJ1aLEfEi/4p7wcV+XHZCBVvGGJZ7L3v+jhH+mZA8lN0yECCovfec+kIdllXpKCgA8RX/HZ2x5yHOtCSKP8/sf6pnwhAwxSng6kCgCXXSAmJOOZFdr3vdK3HzGqCFloOHgc5fM6U64=",
    ),
    (
        "No prefix fallback",
        "bc1pss0zhytly75awhm6x2hhvd5lnzv3vssgrf9axfheq8ldyzn88ges79fler",
        "AUCJYOwOjxYAvatTAGYaVlNXBVyFuc4MwNQkOuK2tl8xhfKDONd0NjfYyNSYcRqeCp8hsAnCEPHAVEkO9h6vbQ/R",
    ),
    (
        "ESHJI7MWUL64AXHBI42L3UR4QA",
        "bc1qkntwc3c4dzxh9xh6875l03fn3vkk023jgak3u7",
        "AkcwRAIgCYHF/vn67iZX5WBimh84kqD6pTME6eNCMGhfFnnwCNECIAF3nMCk/RfLit+uv8a8FgfQIw0f0ASE21GSz7rX17PsASEDTA2vM8bOtUFgvenSDUmvkq7aWNwoTB0CMiM6carHY1s=",
    ),
    (
        "TPIZPITUIHEUHO5ACOL6W6MBVD",
        "bc1p9cyuceaazr8cz46mvgkzl94wy397mwpqsrk84su37t72jvkg6wzqv52nfp",
        "AUBay6NwR4LEYedkTG+vE9F7C0RTOCB5NH6ZAqf+3hudjHIkOzSZk1jW/5Kt0wRKX3llJ25os+0qktdou4/Y8516",
    ),
    (
        "GI2SVNWVCWTEEIMFZFFZYAQNSA",
        "164P4mbDkPcyvRnFGAZd1ThjxSj7Fbsywz",
        "AgAAAAGEmHuloQANVIqnpMegGLNFKwAGE0Urv0a/uMiHnJ+FQwAAAABrSDBFAiEAr8VdqPCZU/oVqKKj2WwHfeCX/lzp+Rfk8d59cS9xdGECIAar0nievDdeVstmIgjfM7kzMepL6HrecBuJtgEitFxBASECzgU8WF30ffzpbdClcw/0NBkTCkuRbiEzr+CTXePjiPfgBwAAAQAAAAAAAAAAAWrgBwAA",
    ),
    (
        "YGIAANMREUXLFRI4HIEOCE4T23",
        "bc1qkwzsslep5elkuat4608v7tpntpr3d9n7w5cwwq",
        "AgAAAAABAaVatLF3wpACTG5XowFYPJPv65lgTlZypjUV9d1DNduCAAAAAADgBwAAAQAAAAAAAAAAAWoCRzBEAiB+SJdR6bVLpv5+kK8pOXSUDS24rU53YkTQEvelQJ22uwIgEfqM8eYTupu4LtA0Tz7z1LIbhpP2PrUxWEt9osnrxFEBIQMasC7JaIHbbAUt1kU81yx7S4QHScnEDBs4GsdHDPMPSuAHAAA=",
    ),
    (
        "K276VUM3MXP56DGNVICQR5XWRT",
        "bc1psmjelwjtg7lz26jhd4kkf35v0xp3u7ffc6p4n4869s0hxkrrrtkqkpqvmg",
        "AgAAAAABAY+B3hhlrps+S2YaxSvL3HxZKdfT+8XCCtZ4KQc5N+AaAAAAAADgBwAAAQAAAAAAAAAAAWoBQEHQoT3HfPKw4WNiQySblfcRX2gnha/mrpFxUoYlkJxuQFXNN3sS+XbJsNAoXRlvQitk0tVEFpsUGRcCdZ7bWPHgBwAA",
    ),
    (
        "5WCQVNSZADVB2U447BH2A44Y4X",
        "bc1peeyux4l3g6wmq23hsl6hytndlu89emtvqrw0k222hgnfvys8yw8sehzpun",
        "AgAAAAABARTMGFokvM/viA990Uz2acpongloH+NqLgjm1grzw7C1AAAAAADgBwAAAQAAAAAAAAAAAWoEQAl8+ry6NBWeMu08ZpB9fJVnTiWQJy1i5LOfmtDr8DLWVvSUyKAwNQK7EyIPJlQhATz/7cw3Oywj0+dF0NHS9mMAS2MgrYfXhOkh0CvwuJpB+O3tal2ECfO0v7k1/A4PTlGcQiBnAuAHsnUg15isG0dq0JWAnqDPzUnq+bMlf+cWyLUGg00iNZeg0D5orCHB15isG0dq0JWAnqDPzUnq+bMlf+cWyLUGg00iNZeg0D7gBwAA",
    ),
    (
        "OQXDXSR5SN5N7WRXSPTI462HKH",
        "37HVPoc7ZsU5C9Z2VKcCkSLzEknYXCzm3s",
        "AgAAAAABAbtjBsUTHnoyuNG4NGbx6cI1Z01QLlfGHJX/WIRCAU6/AAAAABcWABTGXFmsgRqCkic6D+eE4AKm1iyVhuAHAAABAAAAAAAAAAABagJHMEQCIBp/IMJTnnhI6YrHJwIQbfucoizq0esZ35QRxtpXuk7fAiAGx6kSd9BuPDY+R0sHTJU0ZFtScJI8ASojEHwrClKxDQEhAl3boe/68fHvtuYzRkaS3GOSxnUTJwejjrubm+czK+Yi4AcAAA==",
    ),
    (
        "TOJXD6LSM3XO5OQ4QBQSL56I22",
        "bc1q9dtw8dz93e7w6v5w8tra2et0vhz3wct3hpvl4tk5vrac9xz8szwqtvf0e2",
        "AgAAAAABARVzK6W+9P3uKAmwv5xuqaftTkpGVj+1VWPgnqAVBFPyAAAAAADgBwAAAQAAAAAAAAAAAWoDSDBFAiEA82QBQkW16bqrm2mfKOLubqM2XHM+042kNMIor103anACICxp8esh++3RqSzqeefA+nlZoejw4pJJeubRTC9d6kZaAQBNYyEDrYfXhOkh0CvwuJpB+O3tal2ECfO0v7k1/A4PTlGcQiBnAuAHsnUhAyTbIAnLsvFRwT/A4kYwUNI0ny1pwRQ5KkFkMopLD5q4aKzgBwAA",
    ),
];

fn script(address: &str) -> ScriptBuf {
    let address: Address<NetworkUnchecked> = address.parse().expect("an address");
    address.assume_checked().script_pubkey()
}

/// What Core's engine and the rules of BIP322 say; lock time and age of a transaction.
fn verified(text: &str, script: &Script, message: &str) -> Result<(u32, u32), MessageError> {
    match read_signature(text, script, message)? {
        MessageClaim::Verified => Ok((0, 0)),
        MessageClaim::Transaction(transaction, spent) => {
            let outputs = [SpentOutput { value: 0, script_pubkey: spent.script_pubkey.as_bytes() }];
            let bytes = encode::serialize(&*transaction);
            let prepared = PreparedTx::new(&bytes, outputs.into_iter()).expect("it is whole");
            prepared.verify_input(0, ScriptFlags::ALL).map_err(|_| MessageError::Wrong)?;
            let outputs = [SpentOutput { value: 0, script_pubkey: spent.script_pubkey.as_bytes() }];
            let held = |stage| check_policy(stage, &bytes, &outputs).expect("it is whole");
            held(PolicyStage::MessageRequired)
                .map_err(|refusal| MessageError::Rule(refusal.reason))?;
            held(PolicyStage::MessageUpgradable)
                .map_err(|refusal| MessageError::LaterRule(refusal.reason))?;
            let time = transaction.lock_time.to_consensus_u32();
            Ok((time, transaction.input[0].sequence.0))
        }
    }
}

#[test]
fn hashes_are_those_of_bip322() {
    for (message, hash, spend, sign) in HASHES {
        assert_eq!(hex::encode(message_hash(message.as_bytes())), hash);
        let to_spend = to_spend(&script(ADDRESS), message.as_bytes());
        assert_eq!(to_spend.compute_txid().to_string(), spend);
        assert_eq!(to_sign(&to_spend).compute_txid().to_string(), sign, "{message}");
    }
}

#[test]
fn signatures_of_bip322_are_verified() {
    for (number, (message, address, signature)) in VECTORS.into_iter().enumerate() {
        let expected = if number < 8 { (0, 0) } else { (2016, 2016) };
        let script = script(address);
        assert_eq!(verified(signature, &script, message), Ok(expected), "{message} {address}");
        let padded = format!(" {signature}\n");
        assert_eq!(verified(&padded, &script, message), Ok(expected), "{message}");
        // Of another message; by another address.
        for (script, message) in
            [(&script, "another"), (&self::script(VECTORS[(number + 4) % 14].1), message)]
        {
            let refused = verified(signature, script, message);
            assert!(
                matches!(
                    refused,
                    Err(MessageError::Wrong
                        | MessageError::OtherTransaction
                        | MessageError::Format
                        | MessageError::Inconclusive(_))
                ),
                "{signature}: {refused:?}"
            );
        }
    }
}

#[test]
fn what_is_no_signature_of_bip322_is_told() {
    let script = script(ADDRESS);
    let of = |text: &str| verified(text, &script, "");
    for text in ["not-valid-base64!!!", "", "fooAA==", "AA", "smp", "ful", "smpAA", "fulAA=="] {
        assert_eq!(of(text), Err(MessageError::Encoding), "{text}");
    }
    assert_eq!(of("smpAA=="), Err(MessageError::Wrong), "no witness at all");
    // The whole of one behind the prefix of the other.
    let full = VECTORS[9].2;
    let claimed = verified(&format!("smp{full}"), &self::script(VECTORS[9].1), VECTORS[9].0);
    assert_eq!(claimed, Err(MessageError::Encoding));
    let taproot = "fulAUDZwFXUp+adN+/UZj5dVrGAbB3zKs1Vcalz5fCF9srxS63eSWNGvH1NYbrBkPt1BJDUyWUz9zgUxfc63/QheT6M";
    let address = "bc1pyrgrm6cu6n54jrvkdjd9rvyd3xfyu84s2623awu2srn6mxhscwpsm5644w";
    let claimed = verified(taproot, &self::script(address), "incorrect prefix");
    assert_eq!(claimed, Err(MessageError::Encoding));
    let simple = taproot.replace("ful", "smp");
    assert_eq!(verified(&simple, &self::script(address), "incorrect prefix"), Ok((0, 0)));
    assert!(matches!(of("pofAA=="), Err(MessageError::Inconclusive(_))));
    assert_eq!(of(&"A".repeat(MAX_SIGNATURE + 1)), Err(MessageError::TooLong));
}

/// Rules of BIP322 that are none of consensus.
#[test]
fn what_consensus_allows_and_bip322_does_not_is_refused() {
    let (message, address, signature) = VECTORS[9];
    let script = self::script(address);
    let bytes = BASE64.decode(signature.as_bytes()).expect("base64");
    let changed = |change: &dyn Fn(&mut Transaction)| {
        let mut transaction: Transaction = encode::deserialize(&bytes).expect("whole");
        change(&mut transaction);
        let text = format!("ful{}", BASE64.encode(&encode::serialize(&transaction)));
        verified(&text, &script, message)
    };
    assert_eq!(changed(&|_| {}), Ok((2016, 2016)));
    let with_type = |kind: u8| {
        changed(&move |transaction| {
            let mut parts = transaction.input[0].witness.to_vec();
            *parts[0].last_mut().expect("a type") = kind;
            transaction.input[0].witness = Witness::from_slice(&parts);
        })
    };
    for kind in [0, 2, 3, 0x81] {
        assert_eq!(with_type(kind), Err(MessageError::Signature), "{kind}");
    }
    assert!(matches!(changed(&|it| it.version = Version(1)), Err(MessageError::Inconclusive(_))));
    let more = changed(&|it| it.input.push(it.input[0].clone()));
    assert!(matches!(more, Err(MessageError::Inconclusive(_))), "a proof of funds");
    let other = changed(&|it| it.output.push(nothing()));
    assert_eq!(other, Err(MessageError::OtherTransaction));
    let other = changed(&|it| it.output[0].value = Amount::ONE_SAT);
    assert_eq!(other, Err(MessageError::OtherTransaction));
    assert_eq!(changed(&|it| it.input.clear()), Err(MessageError::OtherTransaction));
    assert_eq!(changed(&|it| it.input[0].sequence = Sequence(7)), Err(MessageError::Wrong));
    // An address of which no rule says anything.
    let future = ScriptBuf::from_bytes([&[0x52, 0x20][..], &[7; 32]].concat());
    assert!(matches!(verified("smpAA==", &future, ""), Err(MessageError::Inconclusive(_))));
}

/// Whoever knows the address can write these: none of them has a signature.
#[test]
fn what_anybody_can_spend_is_no_signature() {
    let told = |script: &Script, script_sig: ScriptBuf, witness: Witness| {
        let mut transaction = to_sign(&to_spend(script, b"I owe you"));
        transaction.input[0].script_sig = script_sig;
        transaction.input[0].witness = witness;
        let text = format!("ful{}", BASE64.encode(&encode::serialize(&transaction)));
        verified(&text, script, "I owe you")
    };
    let push = |redeem: &Script| {
        let bytes = bitcoin::script::PushBytesBuf::try_from(redeem.to_bytes()).expect("short");
        bitcoin::script::Builder::new().push_slice(bytes).into_script()
    };
    for version in [0x51, 0x52, 0x60] {
        for length in [2, 32, 40] {
            let program = [&[version, length][..], &vec![7; usize::from(length)]].concat();
            let program = ScriptBuf::from_bytes(program);
            let told = told(&program.to_p2sh(), push(&program), Witness::new());
            assert!(matches!(told, Err(MessageError::Inconclusive(_))), "{program}: {told:?}");
        }
    }
    // One of version 0 is left to Core's engine, which finds no signature.
    let program = ScriptBuf::from_bytes([&[0, 20][..], &[7; 20]].concat());
    let refused = told(&program.to_p2sh(), push(&program), Witness::new());
    assert_eq!(refused, Err(MessageError::Wrong));

    let curve = bitcoin::secp256k1::Secp256k1::new();
    let internal = bitcoin::secp256k1::Keypair::from_seckey_slice(&curve, &[5; 32]).expect("a key");
    let internal = internal.x_only_public_key().0;
    let by_leaf = |leaf: &[u8], arguments: &[&[u8]]| {
        let leaf = ScriptBuf::from_bytes(leaf.to_vec());
        let tree = bitcoin::taproot::TaprootBuilder::new().add_leaf(0, leaf.clone());
        let spend = tree.expect("one leaf").finalize(&curve, internal).expect("a tree");
        let version = (leaf.clone(), bitcoin::taproot::LeafVersion::TapScript);
        let block = spend.control_block(&version).expect("it is in the tree").serialize();
        let parts = [arguments, &[leaf.as_bytes(), &block]].concat();
        told(&ScriptBuf::new_p2tr_tweaked(spend.output_key()), ScriptBuf::new(), parts.into())
    };
    let odd = [&[33][..], &[2; 33], &[0xac]].concat();
    let even = [&[32][..], &internal.serialize(), &[0xac]].concat();
    let given = by_leaf(&[0xac], &[&[1], &[2; 33]]);
    // IF key, ELSE another kind of key, ENDIF; IF another kind, with nothing else.
    let (key, other) = (&even[..33], &odd[..34]);
    let either = by_leaf(&[&[0x63], key, &[0x67], other, &[0x68, 0xac]].concat(), &[&[1], &[]]);
    let one = by_leaf(&[other, &[0x51, 0x63], key, &[0x75, 0x68, 0xac]].concat(), &[&[1]]);
    for told in [
        either,
        one,
        by_leaf(&odd, &[&[1]]),
        given,
        by_leaf(&[0x50], &[]),
        by_leaf(&[0xfe, 0xac], &[]),
    ] {
        assert!(matches!(told, Err(MessageError::Inconclusive(_))), "{told:?}");
    }
    assert_eq!(by_leaf(&even, &[&[1; 64]]), Err(MessageError::Wrong), "it is no signature");
    // In a leaf too, what BIP322 forbids makes it invalid.
    assert!(matches!(by_leaf(&[0xab, 0x51], &[]), Err(MessageError::Rule(_))));
    for code in 0..=255 {
        use bitcoin::opcodes::{Class, ClassifyContext};
        let class = bitcoin::Opcode::from(code).classify(ClassifyContext::TapScript);
        assert_eq!(verify::succeeds(code), class == Class::SuccessOp, "{code}");
    }
}

/// How BIP322 judges a signature of "rules" that is this.
fn judged(
    script: &Script,
    script_sig: ScriptBuf,
    witness: &[&[u8]],
) -> Result<(u32, u32), MessageError> {
    let mut transaction = to_sign(&to_spend(script, b"rules"));
    transaction.input[0].script_sig = script_sig;
    transaction.input[0].witness = Witness::from_slice(witness);
    let text = format!("ful{}", BASE64.encode(&encode::serialize(&transaction)));
    verified(&text, script, "rules")
}

/// What consensus lets pass, with its code in Core's engine: the required rules make a signature invalid, the
/// upgradable ones inconclusive.
#[test]
fn required_and_upgradable_rules_of_bip322_are_held() {
    use bitcoin::script::{Builder, PushBytesBuf};
    let push = |bytes: &[u8]| PushBytesBuf::try_from(bytes.to_vec()).expect("short");
    let by_witness = |script: &[u8], arguments: &[&[u8]]| {
        let parts = [arguments, &[script]].concat();
        judged(&Script::from_bytes(script).to_p2wsh(), ScriptBuf::new(), &parts)
    };
    let by_redeem = |script: &[u8], arguments: &[u8]| {
        let builder = Builder::from(arguments.to_vec()).push_slice(push(script));
        judged(&Script::from_bytes(script).to_p2sh(), builder.into_script(), &[])
    };
    let key = [&[0x21, 2][..], &[0x79; 32]].concat();
    let rule = |told: &Result<_, _>| matches!(told, Err(MessageError::Rule(_)));
    let later = |told: &Result<_, _>| matches!(told, Err(MessageError::LaterRule(_)));
    // IF 1 ELSE 1 ENDIF (MINIMALIF); `2` for a truth.
    let condition = [0x63, 0x51, 0x67, 0x51, 0x68];
    assert_eq!(by_witness(&condition, &[&[1]]), Ok((0, 0)));
    assert_eq!(by_witness(&condition, &[&[]]), Ok((0, 0)));
    assert!(rule(&by_witness(&condition, &[&[2]])));
    // A number that is pushed as data (MINIMALDATA), in script and in input.
    assert_eq!(by_redeem(&[0x51, 0x87], &[0x51]), Ok((0, 0)));
    assert!(rule(&by_redeem(&[0x51, 0x87], &[1, 1])));
    assert!(rule(&by_witness(&[1, 1], &[])));
    // What is left beside the answer (CLEANSTACK); consensus asks it of witnesses alone.
    assert!(rule(&by_redeem(&[0x51], &[0x51])));
    // A signature that fails and is not empty (NULLFAIL): key CHECKSIG NOT.
    let refuted = [&key[..], &[0xac, 0x91]].concat();
    let der = "3006020101020101";
    let wrong = [&hex::decode(der).expect("hex")[..], &[1]].concat();
    assert_eq!(by_witness(&refuted, &[&[]]), Ok((0, 0)));
    assert!(rule(&by_witness(&refuted, &[&wrong])));
    // The same of a legacy script, whose signature is in it (FindAndDelete, CONST_SCRIPTCODE).
    let found = [&[9][..], &wrong, &key, &[0xac, 0x91]].concat();
    assert!(rule(&by_redeem(&found, &[])));
    // OP_CODESEPARATOR: in legacy scripts and in witnesses.
    assert!(rule(&by_redeem(&[0xab, 0x51], &[])));
    assert!(rule(&by_witness(&[0xab, 0x51], &[])));
    assert!(rule(&by_witness(&[0x51, 0x63, 0x51, 0x67, 0xab, 0x51, 0x68], &[])), "not executed");
    // NOPs that are reserved for upgrades; OP_NOP itself has none.
    for nop in [0xb0, 0xb3, 0xb9] {
        assert!(later(&by_witness(&[nop, 0x51], &[])), "{nop}");
        assert!(later(&by_redeem(&[nop, 0x51], &[])), "{nop}");
    }
    assert_eq!(by_witness(&[0x61, 0x51], &[]), Ok((0, 0)));
    // Both: what is required comes first.
    assert!(rule(&by_witness(&[0xb0, 1, 1], &[])));
    // A preimage that begins as a signature does.
    let preimage = [&[0x30][..], &[6; 31]].concat();
    let hash = sha256::Hash::hash(&preimage).to_byte_array();
    let lock = [&[0xa8, 32][..], &hash, &[0x87]].concat();
    assert_eq!(by_witness(&lock, &[&preimage]), Ok((0, 0)));
}

/// A signature with a high S, which consensus still takes, is none.
#[test]
fn a_signature_in_another_form_is_none() {
    let (message, address, signature) = VECTORS[9];
    let script = self::script(address);
    let bytes = BASE64.decode(signature.as_bytes()).expect("base64");
    let mut transaction: Transaction = encode::deserialize(&bytes).expect("whole");
    let mut parts = transaction.input[0].witness.to_vec();
    let der = parts[0].split_last().expect("a type").1;
    let low = bitcoin::secp256k1::ecdsa::Signature::from_der(der).expect("a signature");
    let compact = low.serialize_compact();
    let mut s = bitcoin::secp256k1::SecretKey::from_slice(&compact[32..]).expect("a number");
    s = s.negate();
    let high = [&compact[..32], &s.secret_bytes()].concat();
    let high = bitcoin::secp256k1::ecdsa::Signature::from_compact(&high).expect("a signature");
    parts[0] = [&high.serialize_der()[..], &[1]].concat();
    transaction.input[0].witness = Witness::from_slice(&parts);
    let text = format!("ful{}", BASE64.encode(&encode::serialize(&transaction)));
    assert!(matches!(verified(&text, &script, message), Err(MessageError::Rule(_))));
}

/// Before BIP322 had prefixes, some programs signed for nested addresses as for native ones. (Of the tests of
/// `btcutil`.)
#[test]
fn a_simple_signature_by_a_nested_address_is_one_of_the_time_before_prefixes() {
    let address = "37qyp7jQAzqb2rCBpMvVtLDuuzKAUCVnJb";
    let signature = "AkgwRQIhAJFXl+/g7w+UDxvGex2KulmFJshHi02gQZXGRpZ+9bapAiB5Q/ikazTS7FMewqVFil3RLkEErUZ25k6f/xYThoQX\
                     ogEhAsfxIAMZZEKUPYWI4BruhAQjzFT8FSFSajuFwrDL1Yhy";
    let script = self::script(address);
    assert_eq!(verified(signature, &script, ""), Ok((0, 0)));
    assert_eq!(verified(signature, &script, "another"), Err(MessageError::Wrong));
    let prefixed = format!("smp{signature}");
    assert_eq!(verified(&prefixed, &script, ""), Err(MessageError::Format));
    let other = self::script(VECTORS[12].1);
    assert_eq!(verified(signature, &other, ""), Err(MessageError::Wrong));
    // One by a native address is none by the nested one of its key.
    assert_eq!(verified(&VECTORS[0].2[3..], &script, ""), Err(MessageError::Wrong));
}

fn secret(plain: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut plain.to_owned()).expect("memory")
}

/// A file of these keys and descriptors.
fn store(
    network: NetworkKind,
    descriptors: Vec<String>,
    keys: Vec<StoredKey>,
) -> (tempfile::TempDir, KeyStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let parameters = KdfParameters::new(8, 1, 1).expect("within limits");
    let path = folder.path().join("keys.godwit");
    let mut store = KeyStore::create(&path, &secret("pass"), parameters).expect("new");
    let descriptors = descriptors.into_iter().map(EntryDescriptor::new).collect();
    let label = String::new();
    let entry = Entry { label, created: 0, network, descriptors, keys, words: None };
    store.insert(entry).expect("written");
    (folder, store)
}

fn single(wif: &str) -> (tempfile::TempDir, KeyStore, NetworkKind) {
    let (key, network, compressed) = parse_wif(SecretSlice::from(&secret(wif))).expect("valid");
    let descriptors = single_descriptors(&key, compressed).expect("memory");
    let (folder, store) = store(network, descriptors, vec![StoredKey::Single { key, compressed }]);
    (folder, store, network)
}

fn own(store: &KeyStore, network: NetworkKind, script: &Script) -> OwnScript {
    OwnScripts::of(store, network).expect("memory").search(script).expect("it is ours")
}

#[test]
fn messages_are_signed_as_in_bip322() {
    let (_folder, store, network) = single(WIF);
    let own = own(&store, network, &script(ADDRESS));
    for (message, _, signature) in [VECTORS[0], VECTORS[2]] {
        let signed = sign_message(&store, network, &own, message, MessageFormat::Simple);
        assert_eq!(signed.as_deref(), Ok(signature));
    }
}

/// Core's `signmessagewithprivkey`.
#[test]
fn messages_are_signed_as_by_core() {
    let compressed = "cUeKHd5orzT3mz8P9pxyREHfsWtVfgsfDjiZZBcjUBAaGk1BTj7N";
    let uncompressed = "91gGn1HgSap6CbU12F6z3pJri26xzp7Ay1VW6NHCoEayNXwRpu2";
    for (wif, message, expected) in [
        (
            compressed,
            "",
            "H/ewVlZtPpDa0GRFaBWrMro6lltU8TUdeLo2ktc0+7qIKnwQK0DR7LI6vw+zyNgTlWBBihXHgADb8PWwM1/uUC0=",
        ),
        (
            compressed,
            "This is just a test message",
            "INbVnW4e6PeRmsv2Qgu8NuopvrVjkcxob+sX8OcZG0SALhWybUjzMLPdAsXI46YZGb0KQTRii+wWIQzRpG/U+S0=",
        ),
        (
            compressed,
            "grüße 漢字 😄",
            "IGZ+87bhOhBQ8Nv+N0n7UTdlkiDQWqfy7QbsK5UvFj5peDKBVVafV4VrweQZUpRdB9KKnTSub/bCyXrJSK6V9G4=",
        ),
        (
            uncompressed,
            "uncompressed",
            "G7imFQRaPZs6HopGym4QIMpiy6Km/lSgmfoPPnAyrVgzVod71VsKF4uzhsl5d2epNCc4ue41kRqtEXZ4WQNeivQ=",
        ),
    ] {
        let (_folder, store, network) = single(wif);
        let descriptor = store.entries()[0].descriptors[0].text.clone();
        let (_, script) = crate::scripts_of(&descriptor, 0..=0).next().expect("one");
        let own = own(&store, network, &script);
        let signed = sign_message(&store, network, &own, message, MessageFormat::Legacy);
        assert_eq!(signed.as_deref(), Ok(expected), "{message}");
        assert_eq!(verified(expected, &script, message), Ok((0, 0)));
        assert_eq!(verified(expected, &script, "another"), Err(MessageError::Wrong));
        let other = self::script(VECTORS[8].1);
        assert_eq!(verified(expected, &other, message), Err(MessageError::Wrong));
        // The older form is one of P2PKH alone.
        assert!(verified(expected, &self::script(ADDRESS), message).is_err());
    }
    let known = self::script("mpLQjfK79b7CCV4VMJWEWAj5Mpx8Up5zxB");
    let signature =
        "INbVnW4e6PeRmsv2Qgu8NuopvrVjkcxob+sX8OcZG0SALhWybUjzMLPdAsXI46YZGb0KQTRii+wWIQzRpG/U+S0=";
    assert_eq!(
        verified(signature, &known, "This is just a test message"),
        Ok((0, 0)),
        "of Core's tests"
    );
    let broken = [&[26][..], &[7; 64]].concat();
    assert_eq!(verified(&BASE64.encode(&broken), &known, ""), Err(MessageError::Encoding));
}

#[test]
fn each_kind_of_address_signs_in_its_formats() {
    use MessageFormat::{Full, Legacy, Simple};
    let xprv = |number: u8| {
        let key = bitcoin::bip32::Xpriv::new_master(bitcoin::Network::Regtest, &[number; 32]);
        key.expect("a key").to_string()
    };
    let (ours, theirs) = (xprv(1), xprv(2));
    let theirs: bitcoin::bip32::Xpriv = theirs.parse().expect("a key");
    let theirs = bitcoin::bip32::Xpub::from_priv(&bitcoin::secp256k1::Secp256k1::new(), &theirs);
    for (text, usual, formats) in [
        (format!("pkh({ours}/0/*)"), Legacy, &[Legacy, Full][..]),
        (format!("wpkh({ours}/0/*)"), Simple, &[Simple, Full]),
        (format!("sh(wpkh({ours}/0/*))"), Full, &[Full]),
        (format!("tr({ours}/0/*)"), Simple, &[Simple, Full]),
        (format!("tr({theirs}/0/*,pk({ours}/1/*))"), Simple, &[Simple, Full]),
        (format!("wsh(sortedmulti(1,{ours}/0/*,{theirs}/0/*))"), Simple, &[Simple, Full]),
        (format!("sh(multi(1,{ours}/0/*,{theirs}/0/*))"), Full, &[Full]),
        (format!("wsh(multi(2,{ours}/0/*,{theirs}/0/*))"), Simple, &[]),
    ] {
        let split = split_private_descriptor(SecretSlice::from(&secret(&text)), NetworkKind::Test);
        let split = split.expect("a descriptor");
        let texts = split.descriptors.into_iter().map(|public| public.text).collect::<Vec<_>>();
        let (_, script) = crate::scripts_of(&texts[0], 7..=7).next().expect("one");
        let (_folder, store) = store(NetworkKind::Test, texts, split.keys);
        let own = own(&store, NetworkKind::Test, &script);
        assert_eq!((own.index, MessageFormat::usual_of(&script)), (Some(7), usual), "{text}");
        for format in [Legacy, Simple, Full] {
            let signed = sign_message(&store, NetworkKind::Test, &own, "Hello\n", format);
            match formats.contains(&format) {
                true => {
                    let signed =
                        signed.unwrap_or_else(|error| panic!("{text} {format:?}: {error}"));
                    assert_eq!(verified(&signed, &script, "Hello\n"), Ok((0, 0)), "{text}");
                    assert!(verified(&signed, &script, "Hello").is_err(), "{text}");
                }
                false if formats.is_empty() && format != Legacy => {
                    assert_eq!(signed, Err(MessageError::Unfinished), "{text}");
                }
                false => assert_eq!(signed, Err(MessageError::Format), "{text}"),
            }
        }
        let none = sign_message(&store, NetworkKind::Main, &own, "Hello", usual);
        assert!(none.is_err(), "keys of another network: {text}");
    }
}
