//! The PSBTs of Bitcoin Core's wallets: version 2, one for each kind of descriptor.

use bitcoin::consensus::encode::serialize_hex;

use super::*;

/// Private keys of a wallet.
fn keys_of(wallet: &Value) -> Vec<StoredKey> {
    let descriptors = wallet["descriptors_private"].as_array().expect("a list");
    descriptors.iter().flat_map(|text| descriptor(text.as_str().expect("text"))).collect()
}

/// Every PSBT with its wallet's keys.
fn each_psbt(mut check: impl FnMut(&[StoredKey], &Value)) {
    let Some(file) = shared_json("wallets/wallets.json") else { return };
    let mut count = 0;
    for wallet in file["wallets"].as_object().expect("an object").values() {
        let keys = keys_of(wallet);
        for psbt in wallet["psbts"].as_array().expect("a list") {
            check(&keys, psbt);
            count += 1;
        }
    }
    assert_eq!(count, 14);
}

#[test]
fn signed_and_finished_as_by_core() {
    each_psbt(|keys, vector| {
        let mut psbt = read(&vector["unsigned"]).expect("it is valid");
        assert_eq!(psbt.version(), 2);
        let signed =
            psbt.sign(&mut |source, key| look_up(keys, source, key), &SignPolicy::default());
        signed.unwrap_or_else(|error| panic!("{error}: {}", vector["spends"]));
        psbt.finalize();
        assert!(psbt.is_finished(), "{}", vector["spends"]);
        verify(&psbt);
        let transaction = psbt.extract().expect("it is finished");
        assert_eq!(serialize_hex(&transaction), vector["core_final_hex"], "{}", vector["spends"]);
        // Core's own PSBT behind its signer and finalizer.
        let by_core = read(&vector["core_signed"]).expect("it is valid");
        assert_eq!(by_core.extract().expect("it is finished"), transaction);
        assert_eq!(by_core.version(), psbt.version());
    });
}
