//! The program beside a bitcoind: descriptors of the key file are paid to there, PSBTs are made there,
//! signed here, and mined there.

mod forms;
mod process;
mod wallet;

use std::fs;
use std::path::PathBuf;

use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{Amount, Network};
use data_encoding::BASE64;
use godwit_program::Exit;
use godwit_sim::programs::Datadir;
use serde_json::{Value, json};

use crate::multisig::{THIRD, WORDS, keys, psbt, watched, with_words};
use process::Core;

/// BIP174's; nobody here has its key.
const THEIRS: &str = "bcrt1qmpwzkuwsqc9snjvgdt4czhjsnywa5yjdqpxskv";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("text: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list: {value}"))
}

/// What Core is told of descriptors that are looked at up to this index.
fn ranged<'a>(descriptors: impl IntoIterator<Item = &'a Value>, last: u32) -> Value {
    descriptors.into_iter().map(|one| json!({ "desc": one, "range": [0, last] })).collect()
}

/// The first address of a descriptor, by Core.
fn address(core: &Core, descriptor: &Value) -> String {
    text(&core.ask("deriveaddresses", &[descriptor.clone(), json!([0, 0])])[0]).to_owned()
}

/// Pays the subsidy of a block to each address, and lets it mature.
fn fund(core: &Core, addresses: &[String]) {
    for address in addresses {
        core.ask("generatetoaddress", &[json!(1), json!(address)]);
    }
    core.ask("generatetoaddress", &[json!(100), json!(THEIRS)]);
}

/// Coins of these descriptors, by Core.
fn coins(core: &Core, descriptors: &[Value]) -> Vec<Value> {
    let found = core.ask("scantxoutset", &[json!("start"), ranged(descriptors, 0)]);
    list(&found["unspents"]).to_vec()
}

/// A PSBT that spends coins of 50 BTC, gets 20 of each back and pays the rest, filled in by Core.
fn made_by_core(
    core: &Core,
    version: u32,
    coins: &[Value],
    change: &str,
    descriptors: &[Value],
) -> String {
    let inputs: Value =
        coins.iter().map(|coin| json!({ "txid": coin["txid"], "vout": coin["vout"] })).collect();
    let coin = |each: u64| Amount::from_sat(each * coins.len() as u64);
    let paid = coin(30 * 100_000_000) - Amount::from_sat(10_000);
    let back = coin(20 * 100_000_000).to_string_in(bitcoin::Denomination::Bitcoin);
    let paid = paid.to_string_in(bitcoin::Denomination::Bitcoin);
    let outputs = json!([{ change: back }, { THEIRS: paid }]);
    let created = [inputs, outputs, json!(0), json!(true), json!(2), json!(version)];
    let made = core.ask("createpsbt", &created);
    text(&core.ask("utxoupdatepsbt", &[made, ranged(descriptors, 10)])).to_owned()
}

fn file(place: &Datadir, name: &str, content: &str) -> PathBuf {
    let path = place.beside(name);
    fs::write(&path, content).expect("written");
    path
}

/// What is shown of a PSBT with the key file.
fn inspected(place: &Datadir, unsigned: &str, options: &[&str]) -> String {
    let path = file(place, "unsigned.psbt", unsigned);
    let options = [&["-passphrase-fd=0"], options].concat();
    psbt(place, "inspect", &[&path], &options).expect(Exit::Success).stdout
}

/// Signed after a look.
fn signed(place: &Datadir, unsigned: &str) -> String {
    let seen = inspected(place, unsigned, &[]);
    let token = format!("-yes={}", seen.trim_end().rsplit('=').next().expect("a token"));
    let path = place.beside("unsigned.psbt");
    let ended = psbt(place, "sign", &[&path], &["-passphrase-fd=0", &token]);
    ended.expect(Exit::Success).stdout.trim().to_owned()
}

/// The transaction, which is the same here and there.
fn finished(core: &Core, place: &Datadir, signed: &str) -> String {
    let finalized = psbt(place, "finalize", &[&file(place, "signed.psbt", signed)], &[]);
    let finalized = file(place, "finished.psbt", &finalized.expect(Exit::Success).stdout);
    let extracted = psbt(place, "extract", &[&finalized], &[]).expect(Exit::Success).stdout;
    let by_core = core.ask("finalizepsbt", &[json!(signed)]);
    assert_eq!(by_core["complete"], true);
    assert_eq!(text(&by_core["hex"]), extracted.trim());
    extracted.trim().to_owned()
}

/// Core takes them into its mempool and mines them.
fn mined(core: &Core, transactions: &[String]) -> Vec<Value> {
    let txids = transactions.iter().map(|hex| core.ask("sendrawtransaction", &[json!(hex)]));
    let txids: Vec<Value> = txids.collect();
    let block = core.ask("generatetoaddress", &[json!(1), json!(THEIRS)]);
    let block = core.ask("getblock", &[block[0].clone()]);
    let in_block = list(&block["tx"]);
    assert!(txids.iter().all(|txid| in_block.contains(txid)), "{block}");
    txids
}

/// P2PKH, P2SH-P2WPKH, P2WPKH and taproot, one by one and all in one transaction.
#[test]
fn psbts_of_core_are_signed_here_and_mined_there() {
    let (place, _) = with_words(WORDS[0]);
    let Some(core) = Core::start(&place.beside("core")) else { return };
    let described = keys(&place, &["descriptors"], &["pass"]).expect(Exit::Success).json();
    let of_branch = |internal: bool| -> Vec<Value> {
        let entries = list(&described).iter();
        entries.filter(|one| one["internal"] == internal).map(|one| one["desc"].clone()).collect()
    };
    let (receive, change) = (of_branch(false), of_branch(true));
    let all = [receive.clone(), change.clone()].concat();
    assert_eq!(all.len(), 8);

    // The addresses are the same.
    let entry = keys(&place, &["list"], &["pass"]).expect(Exit::Success).json();
    let id = text(&entry[0]["id"]);
    let ours = keys(&place, &["addresses", id], &["pass"]).expect(Exit::Success).json();
    let mut compared = 0;
    for one in list(&ours) {
        let theirs = core.ask("deriveaddresses", &[one["descriptor"].clone(), json!([0, 19])]);
        let ours: Value =
            list(&one["addresses"]).iter().map(|one| one["address"].clone()).collect();
        assert_eq!(ours, theirs);
        compared += list(&theirs).len();
    }
    assert_eq!(compared, 8 * 20);

    let addresses: Vec<String> = receive.iter().map(|one| address(&core, one)).collect();
    fund(&core, &addresses);
    let coins_there = coins(&core, &receive);
    assert_eq!(coins_there.len(), 4);
    let mut transactions = Vec::new();
    for ((place_of_it, from), version) in receive.iter().enumerate().zip([0, 2, 0, 2]) {
        let [coin] = &coins(&core, std::slice::from_ref(from))[..] else { panic!("one coin") };
        let back = address(&core, &change[place_of_it]);
        let unsigned = made_by_core(&core, version, std::slice::from_ref(coin), &back, &all);
        let seen = inspected(&place, &unsigned, &[]);
        assert!(seen.contains(&format!(" 20.00000000 BTC to {back}, which is ours")), "{seen}");
        assert!(seen.contains("net: 30.00000000 BTC leave"), "{seen}");
        transactions.push(finished(&core, &place, &signed(&place, &unsigned)));
    }
    mined(&core, &transactions);
    // What came back is spent together.
    let back = coins(&core, &change);
    assert_eq!(back.len(), 4);
    let inputs: Value =
        back.iter().map(|coin| json!({ "txid": coin["txid"], "vout": coin["vout"] })).collect();
    let made = core.ask("createpsbt", &[inputs, json!([{ THEIRS: "79.9999" }])]);
    let unsigned = core.ask("utxoupdatepsbt", &[made, ranged(&all, 10)]);
    let transaction = finished(&core, &place, &signed(&place, text(&unsigned)));
    mined(&core, &[transaction]);
    assert_eq!(coins(&core, &all), Vec::<Value>::new());
}

/// Two of three keys: one here, one in Core, one that is only known.
#[test]
fn a_multisig_with_one_key_in_core_is_spent() {
    let (place, ours) = with_words(WORDS[0]);
    let Some(core) = Core::start(&place.beside("core")) else { return };
    let curve = Secp256k1::new();
    let root = Xpriv::new_master(Network::Regtest, &[7; 32]).expect("a valid key");
    let path: DerivationPath = "48h/1h/0h/2h".parse().expect("a path");
    let account = root.derive_priv(&curve, &path).expect("it has one");
    let origin = format!("[{}/48h/1h/0h/2h]", root.fingerprint(&curve));
    let public = format!("{origin}{}", Xpub::from_priv(&curve, &account));
    let private = format!("{origin}{account}");
    let multisig = |cores: &str, branch: &str| {
        format!("wsh(sortedmulti(2,{ours}/{branch}/*,{cores}/{branch}/*,{THIRD}/{branch}/*))")
    };
    let shown = watched(&place, &file(&place, "descriptor", &multisig(&public, "<0;1>")));
    let descriptors = list(&shown["descriptors"]);
    let [receive, change] = descriptors else { panic!("{shown}") };
    fund(&core, &[address(&core, receive), address(&core, receive)]);
    let coins = coins(&core, std::slice::from_ref(receive));
    assert_eq!(coins.len(), 2);
    let back = address(&core, change);
    let in_core = |unsigned: &str| {
        let private = [json!(multisig(&private, "0")), json!(multisig(&private, "1"))];
        let asked =
            [json!(unsigned), ranged(&private, 10), json!("ALL"), json!(true), json!(false)];
        core.ask("descriptorprocesspsbt", &asked)["psbt"].clone()
    };

    // One behind the other, and each on a copy.
    let first = made_by_core(&core, 0, &coins[..1], &back, descriptors);
    let seen = inspected(&place, &first, &[]);
    assert!(seen.contains("net: 30.00000000 BTC leave"), "{seen}");
    let here = signed(&place, &first);
    let refused = psbt(&place, "finalize", &[&file(&place, "one.psbt", &here)], &[]);
    refused.expect(Exit::InputRefused);
    let first = finished(&core, &place, text(&in_core(&here)));
    let second = made_by_core(&core, 2, &coins[1..], &back, descriptors);
    let copies = json!([signed(&place, &second), in_core(&second)]);
    let by_core = core.ask("combinepsbt", std::slice::from_ref(&copies));
    let [one, other] = [0, 1].map(|at| file(&place, &format!("{at}.psbt"), text(&copies[at])));
    let combined = psbt(&place, "combine", &[&one, &other], &[]).expect(Exit::Success).stdout;
    let second = finished(&core, &place, combined.trim());
    assert_eq!(second, finished(&core, &place, text(&by_core)));
    mined(&core, &[first, second]);
}

/// What a node says of the coins of a PSBT, before and after they are spent.
#[test]
fn a_node_is_asked_whether_coins_are_unspent() {
    let (place, _) = with_words(WORDS[0]);
    let Some(core) = Core::start(&place.beside("core")) else { return };
    let described = keys(&place, &["descriptors"], &["pass"]).expect(Exit::Success).json();
    let of_kind = |internal| {
        let is_it =
            |one: &&Value| one["internal"] == internal && text(&one["desc"]).starts_with("wpkh(");
        list(&described).iter().find(is_it).expect("each kind has both")["desc"].clone()
    };
    let (receive, change) = (of_kind(false), of_kind(true));
    fund(&core, &[address(&core, &receive)]);
    let coins = coins(&core, std::slice::from_ref(&receive));
    let descriptors = [receive, change];
    let back = address(&core, &descriptors[1]);
    let unsigned = made_by_core(&core, 0, &coins, &back, &descriptors);
    let node = core.option();

    let seen = inspected(&place, &unsigned, &[&node]);
    assert!(seen.contains("\nnode: every input spends an output that is unspent\n"), "{seen}");
    // Without keys too.
    let path = place.beside("unsigned.psbt");
    let public = psbt(&place, "inspect", &[&path], &[&node]).expect(Exit::Success).stdout;
    assert!(public.trim_end().ends_with("\nnode: every input spends an output that is unspent"));
    // The token is of what the node said.
    let token = |seen: &str| format!("-yes={}", seen.trim_end().rsplit('=').next().expect("one"));
    let sign = |token: &str, node: &str| {
        psbt(&place, "sign", &[&path], &["-passphrase-fd=0", token, node])
    };
    let other = psbt(&place, "sign", &[&path], &["-passphrase-fd=0", &token(&seen)]);
    assert!(other.expect(Exit::Failure).stderr.contains("-yes is not the token"));
    let signed = sign(&token(&seen), &node).expect(Exit::Success).stdout;

    // Another amount: the token agrees to nothing that is contradicted.
    let honest = BASE64.decode(unsigned.as_bytes()).expect("base64");
    let mut lie = bitcoin::Psbt::deserialize(&honest).expect("it is valid");
    lie.inputs[0].non_witness_utxo = None;
    lie.inputs[0].witness_utxo.as_mut().expect("it is P2WPKH").value -= Amount::ONE_SAT;
    let lie = BASE64.encode(&lie.serialize());
    let seen = inspected(&place, &lie, &[&node]);
    assert!(seen.contains("\nwrong: by the node, input 0 spends 50"), "{seen}");
    let refused = sign(&token(&seen), &node).expect(Exit::Failure);
    let told = "not signed: input 0 spends another output than the PSBT says, by the node\n";
    assert!(refused.stderr.ends_with(told), "{refused:?}");
    // Without the node nobody sees it.
    let seen = inspected(&place, &lie, &[]);
    psbt(&place, "sign", &[&path], &["-passphrase-fd=0", &token(&seen)]).expect(Exit::Success);

    // Spent, in the mempool and in a block: a warning.
    core.ask("sendrawtransaction", &[json!(finished(&core, &place, signed.trim()))]);
    for _ in 0..2 {
        let seen = inspected(&place, &unsigned, &[&node]);
        assert!(seen.contains("\nwarning: the node has no unspent output for input 0: "), "{seen}");
        sign(&token(&seen), &node).expect(Exit::Success);
        core.ask("generatetoaddress", &[json!(1), json!(THEIRS)]);
    }

    // Before the passphrase is read: a wrong one would be told otherwise.
    for (node, told) in [
        (format!("{node}-no"), "Failed to read cookie file"),
        ("-node=1".to_owned(), "Could not connect to the server"),
    ] {
        let place_of_it: Vec<&dyn AsRef<std::ffi::OsStr>> =
            vec![&"psbt", &"sign", &path, &"-passphrase-fd=0", &node];
        let refused = place.run_with_input(&place_of_it, "wrong\n").expect(Exit::Failure);
        assert!(refused.stderr.contains("the node tells nothing of the inputs: "), "{refused:?}");
        assert!(refused.stderr.contains(told), "{refused:?}");
        assert_eq!(refused.stdout, "");
    }
}
