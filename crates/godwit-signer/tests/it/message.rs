//! Messages through the program.

use std::ffi::OsStr;
use std::fs;

use godwit_program::Exit;
use godwit_sim::programs::{Datadir, Ended};

use crate::signer;

/// Of Core's own tests: key, address, and the signature of a message.
const WIF: &str = "cUeKHd5orzT3mz8P9pxyREHfsWtVfgsfDjiZZBcjUBAaGk1BTj7N";
const ADDRESS: &str = "mpLQjfK79b7CCV4VMJWEWAj5Mpx8Up5zxB";
const MESSAGE: &str = "This is just a test message";
const SIGNATURE: &str =
    "INbVnW4e6PeRmsv2Qgu8NuopvrVjkcxob+sX8OcZG0SALhWybUjzMLPdAsXI46YZGb0KQTRii+wWIQzRpG/U+S0=";

fn run(place: &Datadir, words: &[&str], input: &str) -> Ended {
    let all: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
    place.run_with_input(&all, input)
}

fn with_key() -> Datadir {
    let place = signer("regtest");
    let words = ["keys", "import", "-secret-fd=0", "-passphrase-fd=0"];
    run(&place, &words, &format!("pass\n{WIF}\n")).expect(Exit::Success);
    place
}

#[test]
fn a_message_is_signed_after_a_look() {
    let place = with_key();
    let file = place.beside("message");
    fs::write(&file, MESSAGE).expect("written");
    let file = file.to_str().expect("a path");
    let of = |action: &str, address: &str, options: &[&str]| {
        let words = [&["message", action, address, file, "-passphrase-fd=0"], options].concat();
        run(&place, &words, "pass\n")
    };
    let seen = of("inspect", ADDRESS, &[]).expect(Exit::Success).stdout;
    assert!(
        seen.starts_with(&format!(
            "message of 27 bytes in 1 lines by {ADDRESS}, as Core's signmessage, hash "
        )),
        "{seen}"
    );
    assert!(
        seen.contains("\n  ours by entry ")
            && seen.contains(", descriptor 1: pkh(")
            && seen.contains(&format!("\n  | {MESSAGE}\n")),
        "{seen}"
    );
    let token = seen.trim().rsplit('=').next().expect("a token").to_owned();
    let yes = format!("-yes={token}");
    let signed = of("sign", ADDRESS, &[&yes]).expect(Exit::Success);
    assert_eq!(signed.stdout.trim(), SIGNATURE);
    assert!(signed.stderr.contains(&format!("  | {MESSAGE}\n")), "it is shown: {signed:?}");
    // The token is of this message, address and format.
    for (address, options) in [(ADDRESS, &["-yes=0"][..]), (ADDRESS, &[&yes, "-format=full"])] {
        let refused = of("sign", address, options).expect(Exit::Failure);
        assert!(refused.stderr.contains("-yes is not the token of this message"), "{refused:?}");
        assert_eq!(refused.stdout, "");
    }
    fs::write(file, format!("{MESSAGE}\n")).expect("written");
    let refused = of("sign", ADDRESS, &[&yes]).expect(Exit::Failure);
    assert!(refused.stderr.contains("-yes is not the token of this message"), "{refused:?}");
    let seen = of("inspect", ADDRESS, &["-format=full"]).expect(Exit::Success).stdout;
    assert!(
        seen.contains("BIP322, full, hash ") && seen.contains("message of 28 bytes in 2 lines"),
        "{seen}"
    );
    let foreign = "mkSjhvfsxZjpSh4N63wLS6Me4htKNwbfeu";
    let refused = of("inspect", foreign, &[]).expect(Exit::Failure);
    assert!(
        refused.stderr.contains("no descriptor of the key file derives the address"),
        "{refused:?}"
    );
    let main = "164P4mbDkPcyvRnFGAZd1ThjxSj7Fbsywz";
    let refused = of("inspect", main, &[]).expect(Exit::Configuration);
    assert!(refused.stderr.contains("another network"), "{refused:?}");
    let simple = of("sign", ADDRESS, &["-format=simple", "-yes=0"]).expect(Exit::Failure);
    assert_eq!(simple.stdout, "");
}

#[test]
fn signatures_of_messages_are_verified() {
    let place = signer("main");
    let verify = |address: &str, signature: &str, message: &str| {
        run(&place, &["message", "verify", address, signature, "-"], message)
    };
    let (p2wpkh, simple) = (
        "bc1q9vza2e8x573nczrlzms0wvx3gsqjx7vavgkx0l",
        "smpAkcwRAIgZRfIY3p7/DoVTty6YZbWS71bc5Vct9p9Fia83eRmw2QCICK/ENGfwLtptFluMGs2KsqoNSk89pO7F29zJLUx9a/sASECx/EgAxl\
         kQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI=",
    );
    assert_eq!(verify(p2wpkh, simple, "Hello World").expect(Exit::Success).stdout, "valid\n");
    let other = verify(p2wpkh, simple, "Hello World\n").expect(Exit::InputRefused);
    assert!(other.stderr.contains("it is by another key, or of another message"), "{other:?}");
    let (p2pkh, full) = (
        "164P4mbDkPcyvRnFGAZd1ThjxSj7Fbsywz",
        "AgAAAAGEmHuloQANVIqnpMegGLNFKwAGE0Urv0a/uMiHnJ+FQwAAAABrSDBFAiEAr8VdqPCZU/oVqKKj2WwHfeCX/lzp+Rfk8d59cS9xdGECI\
         Aar0nievDdeVstmIgjfM7kzMepL6HrecBuJtgEitFxBASECzgU8WF30ffzpbdClcw/0NBkTCkuRbiEzr+CTXePjiPfgBwAAAQAAAAAAAAAAAW\
         rgBwAA",
    );
    let valid = verify(p2pkh, full, "GI2SVNWVCWTEEIMFZFFZYAQNSA").expect(Exit::Failure);
    assert_eq!(valid.stdout, "valid at time 2016 and age 2016\n");
    assert!(!place.network_dir().join("keys.godwit").exists(), "it takes no key file");
    let nothing = verify(p2wpkh, "rubbish!", "").expect(Exit::InputRefused);
    assert!(nothing.stderr.contains("no signature of a message in base64"), "{nothing:?}");
    verify("rubbish", simple, "").expect(Exit::Configuration);
    let regtest = signer("regtest");
    let words = ["message", "verify", ADDRESS, SIGNATURE, "-"];
    let valid = run(&regtest, &words, MESSAGE).expect(Exit::Success);
    assert_eq!(valid.stdout, "valid\n");
}

/// Both are valid by consensus: a truth of another form than BIP322 wants, and a NOP that is reserved.
#[test]
fn what_breaks_a_rule_of_bip322_is_invalid_or_inconclusive() {
    let place = signer("regtest");
    for (script, argument, exit, told) in [
        (&[0x63, 0x51, 0x67, 0x51, 0x68][..], &[1u8][..], Exit::Success, ""),
        (
            &[0x63, 0x51, 0x67, 0x51, 0x68],
            &[2],
            Exit::InputRefused,
            "it breaks a rule of BIP322: OP_IF/NOTIF argument must be minimal",
        ),
        (&[0xb0], &[1], Exit::InputRefused, "nothing can be told: NOPx"),
    ] {
        let script = bitcoin::ScriptBuf::from_bytes(script.to_vec());
        let address = bitcoin::Address::p2wsh(&script, bitcoin::Network::Regtest).to_string();
        let witness = bitcoin::Witness::from_slice(&[argument, script.as_bytes()]);
        let witness = bitcoin::consensus::encode::serialize(&witness);
        let signature = format!("smp{}", data_encoding::BASE64.encode(&witness));
        let words = ["message", "verify", &address, &signature, "-"];
        let ended = run(&place, &words, "anything").expect(exit);
        assert!(ended.stderr.contains(told), "{ended:?}");
    }
}
