//! The program beside a wallet of Core: descriptors go there and come from there, the wallet chooses coins
//! and change, and what it makes is signed here and mined there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bitcoin::Network;
use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use godwit_program::Exit;
use godwit_sim::programs::Datadir;
use serde_json::{Value, json};

use super::process::Core;
use super::{THEIRS, file, finished, fund, inspected, list, mined, signed, text};
use crate::multisig::{THIRD, WORDS, keys, watched, with_words};
use crate::{signer, signer_with_cheap_file};

/// As Core calls the kinds of address, each with the beginning of its descriptors.
const KINDS: [(&str, &str); 4] =
    [("legacy", "pkh("), ("p2sh-segwit", "sh(wpkh("), ("bech32", "wpkh("), ("bech32m", "tr(")];

/// A wallet without keys; with `watches`, one that can have none.
fn empty_wallet(core: &Core, name: &str, watches: bool) {
    core.ask("createwallet", &[json!(name), json!(watches), json!(true)]);
}

fn new_address(core: &Core, wallet: &str, kind: &str) -> String {
    text(&core.ask_wallet(wallet, "getnewaddress", &[json!(""), json!(kind)])).to_owned()
}

/// All of them are taken.
fn import(core: &Core, wallet: &str, descriptors: &Value) {
    let results = core.ask_wallet(wallet, "importdescriptors", std::slice::from_ref(descriptors));
    for (result, descriptor) in list(&results).iter().zip(list(descriptors)) {
        assert_eq!(result["success"], true, "{descriptor}: {result}");
    }
    assert_eq!(list(&results).len(), list(descriptors).len());
}

/// A payment of 30 BTC from the one coin at an address; the wallet chooses change of that kind.
fn made_by_wallet(core: &Core, wallet: &str, address: &str, kind: &str) -> String {
    let at = core.ask_wallet(wallet, "listunspent", &[json!(1), json!(9_999), json!([address])]);
    let [coin] = list(&at) else { panic!("one coin at {address}: {at}") };
    let input = json!([{ "txid": coin["txid"], "vout": coin["vout"] }]);
    let back = core.ask_wallet(wallet, "getrawchangeaddress", &[json!(kind)]);
    let options = json!({ "add_inputs": false, "changeAddress": back, "fee_rate": 5 });
    let asked = [input, json!([{ THEIRS: 30 }]), json!(0), options];
    text(&core.ask_wallet(wallet, "walletcreatefundedpsbt", &asked)["psbt"]).to_owned()
}

/// What is left of 50 BTC comes back.
#[track_caller]
fn has_change(seen: &str) {
    let is_change = |line: &str| line.contains(" 19.99") && line.contains(", which is ours");
    assert!(seen.lines().any(is_change), "{seen}");
}

/// Descriptors of the key file, in a wallet that watches.
#[test]
fn a_wallet_of_core_watches_and_spends_what_the_key_file_describes() {
    let (place, _) = with_words(WORDS[0]);
    let Some(core) = Core::start_with_wallet(&place.beside("core")) else { return };
    let mut described = keys(&place, &["descriptors"], &["pass"]).expect(Exit::Success).json();
    empty_wallet(&core, "watch", true);
    import(&core, "watch", &described);
    // To receive through Core they have to be active there; its users say so.
    for descriptor in described.as_array_mut().expect("a list") {
        descriptor["active"] = json!(true);
    }
    import(&core, "watch", &described);
    let known = core.ask_wallet("watch", "listdescriptors", &[]);
    for ours in list(&described) {
        let theirs = list(&known["descriptors"]).iter().find(|one| one["desc"] == ours["desc"]);
        let theirs = theirs.unwrap_or_else(|| panic!("{ours}: {known}"));
        for field in ["active", "internal", "range"] {
            assert_eq!(theirs[field], ours[field], "{field}");
        }
    }

    let addresses = KINDS.map(|(kind, _)| new_address(&core, "watch", kind));
    let entry = keys(&place, &["list"], &["pass"]).expect(Exit::Success).json();
    let ours = keys(&place, &["addresses", text(&entry[0]["id"])], &["pass"]);
    let ours = ours.expect(Exit::Success).json();
    for ((_, begins), address) in KINDS.iter().zip(&addresses) {
        let first = list(&ours).iter().find(|one| text(&one["descriptor"]).starts_with(begins));
        assert_eq!(first.expect("each kind")["addresses"][0]["address"], **address);
    }
    fund(&core, &addresses);
    let mut transactions = Vec::new();
    for ((kind, _), address) in KINDS.iter().zip(&addresses) {
        let unsigned = made_by_wallet(&core, "watch", address, kind);
        has_change(&inspected(&place, &unsigned, &[]));
        transactions.push(finished(&core, &place, &signed(&place, &unsigned)));
    }
    mined(&core, &transactions);
    let balances = core.ask_wallet("watch", "getbalances", &[]);
    let left = balances["mine"]["trusted"].as_f64().expect("a number");
    assert!(left > 79.99 && left < 80.0, "{balances}");
}

/// Imports a wallet's file.
fn from_file(wallet: &Path) -> Datadir {
    let place = signer_with_cheap_file("regtest", "pass");
    let wallet = wallet.to_str().expect("a path");
    keys(&place, &["import-core-wallet", wallet], &["pass"]).expect(Exit::Success);
    place
}

/// Imports descriptors with private keys, each by itself.
fn from_descriptors(descriptors: &Value) -> Datadir {
    let place = signer_with_cheap_file("regtest", "pass");
    for one in list(descriptors) {
        let imported = keys(&place, &["import", "-secret-fd=0"], &["pass", text(&one["desc"])]);
        imported.expect(Exit::Success);
    }
    place
}

/// A wallet that Core made, by its file and by its descriptors.
#[test]
fn a_wallet_made_by_core_is_signed_for_here() {
    let place = signer("regtest");
    let Some(core) = Core::start_with_wallet(&place.beside("core")) else { return };
    core.ask("createwallet", &[json!("hot")]);
    let addresses: Vec<String> = KINDS
        .iter()
        .flat_map(|(kind, _)| [*kind; 2])
        .map(|kind| new_address(&core, "hot", kind))
        .collect();
    fund(&core, &addresses);
    let saved: PathBuf = place.beside("saved.dat");
    core.ask_wallet("hot", "backupwallet", &[json!(saved)]);
    let private = core.ask_wallet("hot", "listdescriptors", &[json!(true)]);
    let places = [from_file(&saved), from_descriptors(&private["descriptors"])];

    let mut transactions = Vec::new();
    for (at, address) in addresses.iter().enumerate() {
        let (kind, _) = KINDS[at / 2];
        let unsigned = made_by_wallet(&core, "hot", address, kind);
        let place = &places[at % 2];
        has_change(&inspected(place, &unsigned, &[]));
        let transaction = finished(&core, place, &signed(place, &unsigned));
        // Core's own signatures make the same transaction.
        let by_core = core.ask_wallet("hot", "walletprocesspsbt", &[json!(unsigned)]);
        assert_eq!(by_core["complete"], true, "{by_core}");
        let [ours, theirs] = [&transaction, text(&by_core["hex"])]
            .map(|hex| core.ask("decoderawtransaction", &[json!(hex)])["txid"].clone());
        assert_eq!(ours, theirs);
        transactions.push(transaction);
    }
    mined(&core, &transactions);
    // What is exported makes the same wallet once more.
    let entry = keys(&places[0], &["list"], &["pass"]).expect(Exit::Success).json();
    let exported = keys(&places[0], &["export", text(&entry[0]["id"])], &["pass"]);
    let exported = exported.expect(Exit::Success).stdout;
    let described = exported.lines().map(|line| json!({ "desc": line, "timestamp": "now" }));
    empty_wallet(&core, "again", false);
    import(&core, "again", &described.collect());
    let sorted = |wallet: &str| {
        let all = core.ask_wallet(wallet, "listdescriptors", &[json!(true)]);
        let all = list(&all["descriptors"]).iter().map(|one| text(&one["desc"]).to_owned());
        all.collect::<BTreeSet<_>>()
    };
    assert_eq!(sorted("again"), sorted("hot"));
    let left = core.ask_wallet("hot", "listunspent", &[]);
    assert_eq!(list(&left).len(), addresses.len(), "the change of each: {left}");
}

/// Two of three keys: one here, one in a wallet of Core, one that is only known.
#[test]
fn a_wallet_of_core_is_the_cosigner_of_a_multisig() {
    let (place, ours) = with_words(WORDS[0]);
    let Some(core) = Core::start_with_wallet(&place.beside("core")) else { return };
    let curve = Secp256k1::new();
    let root = Xpriv::new_master(Network::Regtest, &[7; 32]).expect("a valid key");
    let path: DerivationPath = "48h/1h/0h/2h".parse().expect("a path");
    let account = root.derive_priv(&curve, &path).expect("it has one");
    let origin = format!("[{}/48h/1h/0h/2h]", root.fingerprint(&curve));
    let multisig = |cores: &str, branch: &str| {
        format!("wsh(sortedmulti(2,{ours}/{branch}/*,{cores}/{branch}/*,{THIRD}/{branch}/*))")
    };
    let public = format!("{origin}{}", Xpub::from_priv(&curve, &account));
    let shown = watched(&place, &file(&place, "descriptor", &multisig(&public, "<0;1>")));

    empty_wallet(&core, "cosigner", false);
    let private = [("0", false), ("1", true)].map(|(branch, internal)| {
        let descriptor = multisig(&format!("{origin}{account}"), branch);
        let sum = core.ask("getdescriptorinfo", &[json!(descriptor)])["checksum"].clone();
        json!({
            "desc": format!("{descriptor}#{}", text(&sum)),
            "active": true, "internal": internal, "range": [0, 99], "timestamp": 0,
        })
    });
    import(&core, "cosigner", &json!(private));
    let addresses = [0, 1].map(|_| new_address(&core, "cosigner", "bech32"));
    assert_eq!(shown["addresses"][0]["addresses"][0]["address"], *addresses[0]);
    fund(&core, &addresses);

    // Here first and there second, and the other way round.
    let by_core = |unsigned: &str| {
        text(&core.ask_wallet("cosigner", "walletprocesspsbt", &[json!(unsigned)])["psbt"])
            .to_owned()
    };
    let unsigned = addresses.each_ref().map(|at| made_by_wallet(&core, "cosigner", at, "bech32"));
    let here_first = by_core(&signed(&place, &unsigned[0]));
    let there_first = signed(&place, &by_core(&unsigned[1]));
    let transactions = [here_first, there_first].map(|all| finished(&core, &place, &all));
    mined(&core, &transactions);
}
