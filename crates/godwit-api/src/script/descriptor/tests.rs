use data_encoding::HEXLOWER;

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
