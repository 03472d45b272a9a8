use bitcoin::NetworkKind;
use bitcoin::bip32::{DerivationPath, Xpriv};
use godwit_secret::SecretString;

use super::*;
use crate::descriptors::{PublicDescriptor, watched_descriptors};

fn watched(text: &str) -> Result<Vec<PublicDescriptor>, DescriptorError> {
    let mut secret = SecretString::new();
    secret.push_str(text).expect("memory");
    watched_descriptors(SecretSlice::from(&secret), NetworkKind::Main)
}

fn hex(number: u8) -> String {
    format!("{number:064x}")
}

/// A tree of keys, and private keys of it.
struct Tree(Xpriv);

impl Tree {
    fn new(seed: u8) -> Self {
        Self(Xpriv::new_master(NetworkKind::Main, &[seed; 32]).expect("a root"))
    }

    fn xpub(&self) -> Xpub {
        Xpub::from_priv(curve(), &self.0)
    }

    fn private(&self, path: &str) -> SecretKey {
        let path: DerivationPath = path.parse().expect("a path");
        self.0.derive_priv(curve(), &path).expect("a key").private_key
    }
}

#[test]
fn a_private_key_beside_its_public_one_is_not_watched() {
    // A number that is a coordinate, as every second one is.
    let three: SecretKey = hex(3).parse().expect("a number");
    let compressed = three.public_key(curve());
    let x_only = compressed.x_only_public_key().0;
    let whole: String =
        compressed.serialize_uncompressed().iter().map(|byte| format!("{byte:02x}")).collect();
    let (tree, other) = (Tree::new(7), Tree::new(8).xpub());
    let xpub = tree.xpub();
    let of = |path: &str| tree.private(path).display_secret().to_string();
    let negated = tree.private("m/0/3").negate().display_secret().to_string();
    let above = "wsh(and_v(v:pk(";
    for (text, line, number) in [
        (format!("{above}{compressed}),sha256({})))", hex(3)), 1, hex(3)),
        (format!("sh(and_v(v:pk({whole}),hash256({})))", hex(3)), 1, hex(3)),
        (format!("wsh(and_v(v:sha256({}),pk({compressed})))", hex(3)), 1, hex(3)),
        (format!("tr({x_only},and_v(v:pk({x_only}),sha256({})))", hex(3)), 1, hex(3)),
        (format!("tr({},pk({x_only}))", hex(3)), 1, hex(3)),
        (format!("tr({x_only},pk({}))", hex(3)), 1, hex(3)),
        (format!("{above}{xpub}),sha256({})))", of("m")), 1, of("m")),
        (format!("{above}{xpub}/5/6),sha256({})))", of("m/5/6")), 1, of("m/5/6")),
        (format!("{above}{xpub}/5/6),sha256({})))", of("m/5")), 1, of("m/5")),
        (format!("{above}{xpub}/<0;1>/*),sha256({})))", of("m/1/19")), 1, of("m/1/19")),
        (format!("{above}{xpub}/0/*),sha256({negated})))"), 1, negated.clone()),
        (format!("wpkh({xpub}/0/*)\n\n{above}{other}/0/*),sha256({negated})))"), 2, negated),
    ] {
        match watched(&text) {
            Err(DescriptorError::PrivateNumber { line: told, position }) => {
                assert_eq!(told, line, "{text}");
                let mut lines = text.lines().filter(|line| !line.is_empty());
                let line = lines.nth(line - 1).expect("a line");
                assert_eq!(&line[position - 1..][..64], number, "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // Hashes and coordinates of which the public key is not there, and what is not compared.
    for text in [
        format!("{above}{compressed}),sha256({})))", hex(4)),
        format!("{above}{compressed}),sha256({})))", hex(0)),
        format!("tr({x_only},pk({}))", hex(1)),
        format!("{above}{xpub}/0/*),sha256({})))", of("m/0/20")),
    ] {
        watched(&text).expect(&text);
    }
}
