//! Which outputs are ours, and which only look so.

use bitcoin::Network;
use bitcoin::bip32::{KeySource, Xpriv, Xpub};
use bitcoin::hashes::Hash;
use bitcoin::secp256k1::Secp256k1;

use super::coins::public_descriptor;
use crate::psbt::{Branch, MAX_OWN_INDEX, OwnScripts};
use crate::{EntryDescriptor, KeyId};

fn xpub(letter: char) -> Xpub {
    let key = Xpriv::new_master(Network::Regtest, &[letter as u8; 32]).expect("a valid key");
    Xpub::from_priv(&Secp256k1::new(), &key)
}

/// `@` and the next index may stand behind a descriptor.
pub(super) fn of_descriptors(kinds: &[&str]) -> OwnScripts {
    let text = |kind: &&str| {
        let parts = kind.chars().map(|letter| match letter {
            'A' | 'B' | 'F' => xpub(letter).to_string(),
            other => other.to_string(),
        });
        parts.collect()
    };
    let used = kinds.iter().map(|kind| match kind.split_once('@') {
        Some((kind, next)) => (text(&kind), next.parse().expect("a number")),
        None => (text(kind), 0),
    });
    let known: Vec<EntryDescriptor> = used
        .map(|(text, next_index)| EntryDescriptor { next_index, ..EntryDescriptor::new(text) })
        .collect();
    // Each in an entry of its own, as somebody imports them one by one.
    let numbered = (1..).zip(&known);
    OwnScripts::of_descriptors(numbered.map(|(number, known)| (id(number), 1, known)))
}

fn id(number: u32) -> KeyId {
    format!("{number:08x}").parse().expect("eight digits")
}

fn source(path: &str) -> KeySource {
    (xpub('A').fingerprint(), path.parse().expect("a path"))
}

fn derive(own: &mut OwnScripts, kind: &str, path: &str) -> bool {
    own.find(&public_descriptor(kind).script_pubkey(), [&source(path)]).is_some()
}

#[test]
fn what_a_descriptor_derives_at_the_index_of_the_path_is_ours() {
    let mut own = of_descriptors(&["wpkh(A/1/*)", "tr(A/2/*)", "wsh(multi(1,A/3/*,B/3/*))"]);
    for kind in ["wpkh(A/1/7)", "tr(A/2/7)", "wsh(multi(1,A/3/7,B/3/7))"] {
        assert!(derive(&mut own, kind, "m/1/7"), "{kind}");
        for elsewhere in ["m/1/8", "m/1/7h", "m"] {
            assert!(!derive(&mut own, kind, elsewhere), "{kind} {elsewhere}");
        }
        assert!(own.find(&public_descriptor(kind).script_pubkey(), []).is_none(), "{kind}");
    }
    // Without a wildcard no path is needed.
    let mut own = of_descriptors(&["wpkh(A/1/7)", "no descriptor", "wpkh(A/2/*h)"]);
    assert!(own.find(&public_descriptor("wpkh(A/1/7)").script_pubkey(), []).is_some());
    assert!(!derive(&mut own, "wpkh(A/1/8)", "m/1/8"));
}

#[test]
fn a_key_of_ours_beside_somebody_elses_is_not_enough() {
    let mut own = of_descriptors(&["wpkh(A/1/*)", "tr(A/2/*)", "pkh(A/3/*)"]);
    for kind in [
        "tr(A/2/7,pk(F/0))",
        "tr(F/0,pk(A/2/7))",
        "wsh(multi(1,A/1/7,F/0))",
        "sh(multi(1,A/3/7,F/0))",
        "wsh(pk(A/1/7))",
        "sh(wpkh(A/1/7))",
    ] {
        assert!(!derive(&mut own, kind, "m/1/7"), "{kind}");
    }
    let key = public_descriptor("wpkh(A/1/7)").script_pubkey();
    let hash = bitcoin::hashes::hash160::Hash::hash(key.as_bytes());
    let burnt = bitcoin::ScriptBuf::new_op_return(hash.to_byte_array());
    assert!(own.find(&burnt, [&source("m/1/7")]).is_none());
}

#[test]
fn an_index_far_away_is_not_looked_at() {
    let mut own = of_descriptors(&["wpkh(A/1/*)"]);
    for (index, found) in [(MAX_OWN_INDEX, true), (MAX_OWN_INDEX + 1, false)] {
        let (kind, path) = (format!("wpkh(A/1/{index})"), format!("m/1/{index}"));
        assert_eq!(derive(&mut own, &kind, &path), found, "{index}");
    }
}

#[test]
fn it_is_told_by_which_descriptor_and_index() {
    let mut own = of_descriptors(&["wpkh(A/0/*)", "wpkh(A/1/*)", "wpkh(A/2/*)", "pkh(A/1/7)"]);
    for (kind, path, place, branch, index) in [
        ("wpkh(A/0/5)", "m/0/5", 1, Branch::Receive, Some(5)),
        ("wpkh(A/1/6)", "m/1/6", 2, Branch::Change, Some(6)),
        ("wpkh(A/2/7)", "m/2/7", 3, Branch::Other, Some(7)),
        ("pkh(A/1/7)", "m/1/7", 4, Branch::Other, None),
    ] {
        let found = own.find(&public_descriptor(kind).script_pubkey(), [&source(path)]);
        let found = found.expect(kind);
        assert_eq!((found.entry, found.place, found.index), (id(place), 1, index), "{kind}");
        assert_eq!(found.branch(), branch, "{kind}");
    }
}
