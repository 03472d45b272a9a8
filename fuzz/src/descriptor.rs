//! Descriptors with private keys: what comes out has none, splits into itself, and pays to the scripts
//! that `miniscript`'s own reader of private descriptors finds.

use std::str::FromStr;

use bitcoin::bip32::{Xpriv, Xpub};
use bitcoin::secp256k1::Secp256k1;
use bitcoin::{Network, NetworkKind};
use godwit_keys::{MAX_DESCRIPTOR_SIZE, SplitDescriptor, split_private_descriptor};
use godwit_secret::{SecretBytes, SecretSlice};
use miniscript::descriptor::{Descriptor, DescriptorPublicKey};

use crate::input::Input;

/// Bit 0 of the first byte: a test network. In the text, capital letters from A on stand for keys: two
/// extended private ones, an extended public one, a WIF, a public key, one of 32 bytes.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let network = if input.u8() & 1 == 0 { NetworkKind::Main } else { NetworkKind::Test };
    let keys = keys(network);
    let mut text = Vec::new();
    for byte in input.rest() {
        match byte.checked_sub(b'A').and_then(|index| keys.get(usize::from(index))) {
            Some(key) => text.extend_from_slice(key.as_bytes()),
            None => text.push(*byte),
        }
    }
    let Some(split) = split(&text, network) else { return };
    assert!(text.len() <= MAX_DESCRIPTOR_SIZE);
    for public in &split.descriptors {
        for secret in [&keys[0], &keys[1], &keys[3]] {
            assert!(!public.text.contains(secret.as_str()), "a private key is left");
        }
        assert!(!public.text.contains("prv"), "a private key is left");
        let (_, checksum) = public.text.rsplit_once('#').expect("a checksum");
        assert_eq!(checksum.len(), 8);
        // With its checksum, which `miniscript` verifies.
        let read = Descriptor::<DescriptorPublicKey>::from_str(&public.text);
        assert_eq!(read.as_ref().ok(), Some(&public.descriptor));
    }
    if let [public] = &split.descriptors[..] {
        compare(&text, &public.descriptor);
    }
    if split.keys.is_empty() {
        return;
    }
    for public in &split.descriptors {
        // Behind a hardened wildcard there are no public keys, and a text with one is refused.
        if public.text.contains("/*h") {
            continue;
        }
        let again = self::split(public.text.as_bytes(), network).expect("it is a descriptor");
        assert!(again.keys.is_empty());
        assert_eq!(again.descriptors, std::slice::from_ref(public));
    }
}

fn split(text: &[u8], network: NetworkKind) -> Option<SplitDescriptor> {
    let secret = SecretBytes::from_plain_and_wipe(&mut text.to_vec()).expect("locked memory");
    split_private_descriptor(SecretSlice::from(&secret), network).ok()
}

/// Both pay to the same script.
fn compare(text: &[u8], ours: &Descriptor<DescriptorPublicKey>) {
    let text = std::str::from_utf8(text).expect("descriptors are ASCII");
    let curve = Secp256k1::new();
    let Ok((theirs, _)) = Descriptor::parse_descriptor(&curve, text) else { return };
    let derived = |descriptor: &Descriptor<DescriptorPublicKey>| {
        let definite = descriptor.at_derivation_index(3).ok()?;
        Some(definite.derived_descriptor(&curve).script_pubkey())
    };
    if let (Some(ours), Some(theirs)) = (derived(ours), derived(&theirs)) {
        assert_eq!(ours, theirs);
    }
}

fn keys(network: NetworkKind) -> [String; 6] {
    let curve = Secp256k1::new();
    let network = if network.is_mainnet() { Network::Bitcoin } else { Network::Regtest };
    let key = |seed| Xpriv::new_master(network, &[seed; 32]).expect("a key");
    let single = key(3).to_priv();
    let public = single.public_key(&curve);
    [
        key(1).to_string(),
        key(2).to_string(),
        Xpub::from_priv(&curve, &key(4)).to_string(),
        single.to_wif(),
        public.to_string(),
        public.inner.x_only_public_key().0.to_string(),
    ]
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "wpkh(A/84h/1h/0h/0/*)",
        "wpkh([00112233/84'/0']A/<0;1>/*)",
        "pkh(D)",
        "sh(wpkh(B/49h/0h/0h/1/*))",
        "wsh(sortedmulti(2,A/0/*,B/0/*,C/0/*))",
        "tr(A/86h/1h/0h/0/*)",
        "tr(F,{pk(A/7h),and_v(v:pk(B/0/*),older(9))})",
        "wsh(and_v(v:pk(A/1h/*),or_d(pk(C/2/*),after(100))))",
        "sh(multi(1,E,D))",
        "wsh(andor(pk(E),sha256(0000000000000000000000000000000000000000000000000000000000000000),\
         pk(A/0)))",
        "pkh(A/1/*h)",
        "combo(A)",
        "wpkh(C/0/*)",
    ];
    let mut seeds: Vec<Vec<u8>> = texts
        .iter()
        .flat_map(|text| [0, 1].map(|n| [&[n][..], text.as_bytes()].concat()))
        .collect();
    seeds.push(b"\x01pkh(A/1)#00000000".to_vec());
    seeds
}
