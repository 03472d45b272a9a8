//! What Core writes of keys that are no usual ones.

use data_encoding::BASE64;
use godwit_program::Exit;
use serde_json::{Value, json};

use super::process::Core;
use super::{coins, file, finished, fund, made_by_core, mined, text};
use crate::multisig::psbt;
use crate::signer_with_cheap_file;

/// The number 1, for test networks.
const WIF: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";

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
