use data_encoding::HEXLOWER;

use super::super::base58;
use super::*;

fn parsed(text: &str) -> Result<Descriptor, String> {
    Descriptor::parse(text, Network::Main, false)
}

#[track_caller]
fn script(text: &str, number: u32) -> String {
    let scripts = parsed(text).expect("a descriptor").scripts(0, number).expect("public keys");
    HEXLOWER.encode(&scripts[0])
}

const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
/// Of BIP86: the account's key of the test seed.
const ACCOUNT: &str = "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVky7D3UKDP9QyrLprQ3VCECoY49yfdDEHGCtMMj92pReUsQ";

#[test]
fn scripts_are_those_of_the_proposals() {
    assert_eq!(script(&format!("wpkh({KEY})"), 0), "0014751e76e8199196d454941c45d1b3a323f1433bd6");
    // BIP86: the first address of the account.
    assert_eq!(
        script(&format!("tr({ACCOUNT}/0/*)"), 0),
        "5120a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c"
    );
    // BIP341: one leaf.
    assert_eq!(
        script(
            "tr(187791b6f712a8ea41c8ecdd0ee77fab3e85263b37e1ec18a3651926b3a6cf27,\
             pk(d85a959b0290bf19bb89ed43c916be835475d013da4b362117393e25a48229b8))",
            0
        ),
        "5120147c9c57132f6e7ecddba9800bb0c4449251c92a1e60371ee77557b6620f3ea3"
    );
}

#[test]
fn paths_and_ranges_are_written_as_they_are_read() {
    let ranged = parsed(&format!("wpkh([d34db33f/84'/0h]{ACCOUNT}/<0;1>/*)")).expect("it is read");
    assert!(ranged.is_range() && ranged.is_solvable());
    assert_eq!(ranged.paths(), 2);
    let text = ranged.text(1, Network::Main);
    assert!(text.starts_with(&format!("wpkh([d34db33f/84h/0h]{ACCOUNT}/1/*)#")), "{text}");
    assert_ne!(ranged.scripts(0, 5), ranged.scripts(1, 5));
    let hardened = parsed(&format!("pkh({ACCOUNT}/0'/*)")).expect("it is read");
    assert_eq!(hardened.scripts(0, 0), Err(key::NeedsPrivateKey));
}

/// An extended key of this depth, with this fingerprint of its parent and this number.
fn extended(depth: u8, of_parent: [u8; 8]) -> String {
    let mut bytes = base58::decode_check(ACCOUNT, 78).expect("an extended key");
    bytes[4] = depth;
    bytes[5..13].copy_from_slice(&of_parent);
    base58::encode_check(&bytes)
}

/// The fifth test vector of BIP32. The answers are those of Core's source.
#[test]
fn a_key_at_the_top_has_no_parent() {
    let read = |key: &str| parsed(&format!("pkh({key})")).map(|found| found.paths());
    assert_eq!(read(&extended(0, [0; 8])), Ok(1));
    for place in 0..8 {
        let mut of_parent = [0; 8];
        of_parent[place] = 1;
        assert_eq!(read(&extended(1, of_parent)), Ok(1));
        let key = extended(0, of_parent);
        assert_eq!(read(&key), Err(format!("pkh(): key '{key}' is not valid")));
    }
}

#[test]
fn nothing_is_derived_below_the_last_depth() {
    let derived = |depth: u8, steps: &str| {
        let text = format!("pkh({}{steps})", extended(depth, [1; 8]));
        parsed(&text).expect("it is read").scripts(0, 0).map(|scripts| scripts.len())
    };
    for (depth, steps) in [(255, ""), (254, "/0"), (254, "/*"), (253, "/0/*")] {
        assert_eq!(derived(depth, steps), Ok(1), "{depth}{steps}");
    }
    for (depth, steps) in [(255, "/0"), (255, "/*"), (254, "/0/*"), (253, "/0/0/*")] {
        assert_eq!(derived(depth, steps), Err(key::NeedsPrivateKey), "{depth}{steps}");
    }
}

/// A search derives the scripts of all paths, and tells beforehand what it cannot derive.
#[test]
fn what_cannot_be_derived_is_known_of_all_paths_before_anything_is() {
    let top = extended(1, [1; 8]);
    let at_the_end = extended(254, [1; 8]);
    for text in [
        format!("wpkh({KEY})"),
        format!("wpkh({top}/<0;1>/*)"),
        format!("wpkh([d34db33f/1h]{top}/0)"),
        format!("wpkh({at_the_end}/*)"),
        "raw(51)".to_owned(),
    ] {
        assert!(parsed(&text).expect("it is read").is_derivable(), "{text}");
    }
    for text in [
        format!("wpkh({top}/*h)"),
        format!("wpkh({top}/1h/0)"),
        format!("wpkh({top}/<0;1h>/*)"),
        format!("multi(1,{KEY},{top}/<0;1;2'>)"),
        format!("tr({KEY},{{pk({KEY}),pk({top}/<0;1h>)}})"),
        format!("unused({top}/<0;1h>)"),
        format!("wpkh({at_the_end}/0/*)"),
    ] {
        let descriptor = parsed(&text).expect("it is read");
        assert!(!descriptor.is_derivable(), "{text}");
        let last = descriptor.paths() - 1;
        assert_eq!(descriptor.scripts(last, 0), Err(key::NeedsPrivateKey), "{text}");
    }
}

/// Each number of a multipath copies the path before it.
#[test]
fn paths_are_bounded() {
    let of_steps = |count: usize| parsed(&format!("wpkh({ACCOUNT}{})", "/0".repeat(count)));
    assert!(of_steps(255).is_ok());
    assert!(of_steps(256).is_err());
    let of_paths = |count: usize| {
        let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        parsed(&format!("wpkh({ACCOUNT}/<{}>/*)", numbers.join(";")))
    };
    assert_eq!(of_paths(1000).map(|descriptor| descriptor.paths()), Ok(1000));
    assert!(of_paths(1001).is_err());
    let of_len = |len: usize| parsed(&format!("raw({})", "00".repeat((len - 5) / 2)));
    assert!(of_len((256 << 10) - 1).is_ok());
    assert!(of_len((256 << 10) + 1).is_err());
}

/// `unused` is a key by itself. The answers are bitcoind's.
#[test]
fn a_key_that_is_not_used_has_no_script() {
    let of_key = parsed(&format!("unused({KEY})")).expect("it is read");
    assert_eq!(of_key.text(0, Network::Main), format!("unused({KEY})#qxhn8d3e"));
    assert!(!of_key.is_range() && of_key.is_solvable());
    let none = Ok(Vec::new());
    assert_eq!(of_key.scripts(0, 0), none);
    assert_eq!(of_key.specific(0, 0, Network::Main), Ok(Vec::new()));
    let of_paths = parsed(&format!("unused({ACCOUNT}/<0;1>)")).expect("it is read");
    assert_eq!((of_paths.paths(), of_paths.scripts(1, 0)), (2, none));
    let hardened = parsed(&format!("unused({ACCOUNT}/0h)")).expect("it is read");
    assert_eq!(hardened.scripts(0, 0), Err(key::NeedsPrivateKey));

    let wrong = |text: String| parsed(&text).expect_err("no descriptor");
    for step in ["*", "*h", "<0;1>/*"] {
        let text = wrong(format!("unused({ACCOUNT}/{step})"));
        assert_eq!(text, "unused(): key cannot be ranged");
    }
    for keys in [format!("{KEY},{KEY}"), format!("x,{KEY}"), ",".to_owned()] {
        assert_eq!(wrong(format!("unused({keys})")), "unused(): only one key expected");
    }
    assert_eq!(wrong("unused()".to_owned()), "No key provided");
    assert_eq!(wrong("unused(x)".to_owned()), "key 'x' is not valid");
    let x_only = &KEY[2..];
    assert_eq!(wrong(format!("unused({x_only})")), format!("Pubkey '{x_only}' is invalid"));
    for text in ["sh(unused(_))", "wsh(unused())", "sh(wsh(unused(_,)))", "tr(_,unused(_))"] {
        let text = wrong(text.replace('_', KEY));
        assert_eq!(text, "Can only have unused at top level");
    }
}

/// Where keys have other numbers of paths, the texts are bitcoind's.
#[test]
fn several_paths_are_as_many_everywhere() {
    let read = |text: &str| parsed(&text.replace('X', ACCOUNT)).map(|found| found.paths());
    for (text, paths) in [
        ("tr(X/<0;1>/*,pk(X/7/*))", 2),
        ("tr(X/7/*,pk(X/<0;1>/*))", 2),
        ("tr(X/<0;1>/*,{pk(X/7/*),multi_a(1,X/<0;1>/*,X/7/*)})", 2),
        ("wsh(multi(1,X/<0;1;2>/*,X/7/*))", 3),
    ] {
        assert_eq!(read(text), Ok(paths), "{text}");
    }
    let of_keys = "multi(): Multipath derivation paths have mismatched lengths";
    let of_leaves = "tr(): Multipath subscripts have mismatched lengths";
    let of_internal = "tr(): Multipath internal key mismatches multipath subscripts lengths";
    for (text, said) in [
        ("multi(1,X/<0;1>,X/<0;1;2>)", of_keys),
        ("sh(wsh(sortedmulti(1,X/<0;1>,X/<0;1;2>)))", of_keys),
        ("tr(X/7,multi_a(1,X/<0;1>,X/<0;1;2>))", of_keys),
        ("tr(X/7,{pk(X/<0;1>),multi_a(1,X/<0;1>,X/<0;1;2>)})", of_keys),
        ("tr(X/<0;1;2>/*,pk(X/<0;1>/*))", of_leaves),
        ("tr(X/<0;1>,{pk(X/<0;1;2>),pk(X/<0;1>)})", of_leaves),
        ("tr(X/7/*,{pk(X/<0;1>/*),pk(X/<0;1;2>/*)})", of_leaves),
        ("tr(X/<0;1;2>/*,{pk(X/<0;1>/*),multi_a(1,X/<0;1>/*,X/7/*)})", of_leaves),
        ("tr(X/<0;1>/*,pk(X/<0;1;2>/*))", of_internal),
        ("tr(X/<0;1>/*,{pk(X/7/*),pk(X/<0;1;2>/*)})", of_internal),
        // What is wrong further on comes before.
        ("tr(X/<0;1>,{pk(X/<0;1;2>),pk(x)})", "pk(): key 'x' is not valid"),
        ("tr(X/<0;1>,{pk(X/<0;1;2>),pk(X)}x)", "tr(): expected ')' after script expression"),
    ] {
        assert_eq!(read(text), Err(said.to_owned()), "{text}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let wrong = |text: &str| parsed(text).expect_err("no descriptor");
    assert_eq!(wrong("pk()"), "pk(): No key provided");
    assert_eq!(wrong("wpkh(00)"), "wpkh(): Pubkey '00' is invalid");
    assert_eq!(wrong("sh(sh(pk(00)))"), "Can only have sh() at top level");
    assert_eq!(wrong("raw(5)"), "Raw script is not hex");
    assert_eq!(
        wrong("raw(51)#8lvh9jxl"),
        "Provided checksum '8lvh9jxl' does not match computed checksum '8lvh9jxk'"
    );
    // A private key is not said again.
    let private = "pkh(L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1)";
    assert_eq!(wrong(private), "pkh(): Private keys are not read here");
    assert_eq!(
        Descriptor::parse("raw(51)", Network::Main, true),
        Err("Missing checksum".to_owned())
    );
}
