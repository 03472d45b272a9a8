//! What Core writes of keys that are no usual ones: without an internal key, and in 65 bytes.

use data_encoding::BASE64;
use godwit_program::Exit;
use serde_json::{Value, json};

use super::process::Core;
use super::{coins, file, finished, fund, inspected, made_by_core, mined, signed, text};
use crate::multisig::{keys, psbt};
use crate::signer_with_cheap_file;

/// The number 1, for test networks, with a public key in 33 and in 65 bytes.
const WIF: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
const WIF_UNCOMPRESSED: &str = "91avARGdfge8E4tZfYLoxeJ5sGBdNJQH4kvjJoQFacbgwmaKkrx";

/// A descriptor with public keys, and its one address, by Core.
fn of_private(core: &Core, private: &str) -> (Value, String) {
    let public = core.ask("getdescriptorinfo", &[json!(private)])["descriptor"].clone();
    let addresses = core.ask("deriveaddresses", std::slice::from_ref(&public));
    (public, text(&addresses[0]).to_owned())
}

fn decoded(psbt: &str) -> Vec<u8> {
    BASE64.decode(psbt.as_bytes()).expect("base64")
}

/// `rawtr()` knows the key of the output alone.
#[test]
fn what_core_signs_without_an_internal_key_is_finished_here() {
    let place = signer_with_cheap_file("regtest", "pass");
    let Some(core) = Core::start(&place.beside("core")) else { return };
    let private = format!("rawtr({WIF})");
    let (public, address) = of_private(&core, &private);
    fund(&core, std::slice::from_ref(&address));
    let coins = coins(&core, std::slice::from_ref(&public));
    let unsigned = made_by_core(&core, 0, &coins, &address, std::slice::from_ref(&public));
    let asked = [json!(unsigned), json!([private]), json!("DEFAULT"), json!(true), json!(false)];
    let signed = core.ask("descriptorprocesspsbt", &asked)["psbt"].clone();
    let read = bitcoin::Psbt::deserialize(&decoded(text(&signed))).expect("it is valid");
    assert!(read.inputs[0].tap_key_sig.is_some() && read.inputs[0].tap_internal_key.is_none());

    let path = file(&place, "core.psbt", text(&signed));
    let seen = psbt(&place, "inspect", &[&path], &[]).expect(Exit::Success).stdout;
    assert!(seen.contains("  signature by ") && seen.contains(", valid"), "{seen}");
    let transaction = finished(&core, &place, text(&signed));
    mined(&core, &[transaction]);
}

#[test]
fn uncompressed_keys_of_core_are_signed_for_here() {
    let place = signer_with_cheap_file("regtest", "pass");
    let Some(core) = Core::start(&place.beside("core")) else { return };
    keys(&place, &["import", "-secret-fd=0"], &["pass", WIF_UNCOMPRESSED]).expect(Exit::Success);
    let (public, address) = of_private(&core, &format!("pkh({WIF_UNCOMPRESSED})"));
    fund(&core, &[address.clone(), address.clone()]);
    let coins = coins(&core, std::slice::from_ref(&public));
    let mut transactions = Vec::new();
    for (coin, version) in coins.chunks(1).zip([0, 2]) {
        let unsigned = made_by_core(&core, version, coin, &address, std::slice::from_ref(&public));
        // An input and an output name the key as the script has it.
        let bytes = decoded(&unsigned);
        let named = |kind: u8| bytes.windows(3).filter(|head| **head == [66, kind, 4]).count();
        assert_eq!((named(0x06), named(0x02)), (1, 1));
        let seen = inspected(&place, &unsigned, &[]);
        assert!(seen.contains(&format!(" 20.00000000 BTC to {address}, which is ours")), "{seen}");
        transactions.push(finished(&core, &place, &signed(&place, &unsigned)));
    }
    assert_eq!(mined(&core, &transactions).len(), 2);
}
