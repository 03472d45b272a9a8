use std::collections::BTreeSet;
use std::str::FromStr;

use bitcoin::bip32::DerivationPath;
use godwit_secret::{SecretArray, SecretBytes, SecretSlice};
use godwit_testdata::shared_file;
use miniscript::{Descriptor, DescriptorPublicKey};
use serde_json::Value;

use super::*;
use crate::scripts_of;

fn parsed(text: &str) -> ExtendedPrivateKey {
    let text = SecretBytes::from_plain_and_wipe(&mut text.as_bytes().to_vec()).expect("memory");
    ExtendedPrivateKey::parse(SecretSlice::from(&text)).expect("valid")
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|text| text.as_str().expect("text")).collect()
}

#[test]
fn a_root_has_the_descriptors_of_cores_wallet() {
    let Some(file) = shared_file("wallets/wallets.json") else { return };
    let wallets: Value = serde_json::from_slice(&file).expect("JSON");
    for wallet in ["plain", "born-encrypted"] {
        let wallet = &wallets["wallets"][wallet];
        let private = texts(&wallet["descriptors_private"]);
        let (_, key) = private[0].split_once('(').expect("a descriptor");
        let (key, _) = key.split_once('/').expect("a path");
        let ours = account_descriptors(&parsed(key)).expect("memory");
        let cores: BTreeSet<&str> = texts(&wallet["descriptors_public"]).into_iter().collect();
        assert_eq!(ours.iter().map(String::as_str).collect::<BTreeSet<_>>(), cores);
        assert_eq!(ours.len(), 8);
    }
}

fn root(network: NetworkKind) -> ExtendedPrivateKey {
    let seed = SecretBytes::from_plain_and_wipe(&mut [9; 32]).expect("memory");
    ExtendedPrivateKey::from_seed(&seed, network).expect("valid")
}

/// What Core derives of the accounts with number 3 of the wallet `plain`: two branches, three addresses each.
const CORES_ADDRESSES: [[&str; 6]; 6] = [
    [
        "mxMJumG4kVpb1pYzPy9NMYpSNp1BuZ4yQY",
        "ms7FkzvcaVeCmE5NCHc3y9ZrcAHh2v1ve7",
        "moucTuCyKYwZ4suikvQvZF8ME93Na5Xgzo",
        "n3r8f6SYtnx46WcXpnRHoLyjMFMBnZgtJU",
        "mkSjhvfsxZjpSh4N63wLS6Me4htKNwbfeu",
        "mrBmNuQePawSK7mRnM7b4wzkGxvqgbCpfj",
    ],
    [
        "2N7QraRFoupreoHcqdnvZKWNpxJPQMMHqyL",
        "2Mw1TKt1UBKBquSbMVGvCh3ZR71gNCMJAgt",
        "2N9suoXdsLtmGuB1auXdYfPxhF2v58kVKH1",
        "2MssiTGKgyvPwEsUrcFFt2qv49cEDU3NxNs",
        "2MsuM8UtaTnut8HVmUdmtBLr6ibzbXBPHsS",
        "2N1cBem9HN4DR9HMDgDHFUGYNWgVBDCzA5F",
    ],
    [
        "bcrt1qmjdrgy893zfv4028ds3un6jvswjax6efwvk8dk",
        "bcrt1qwz43dekl9llvtlwstxp36dcympdllrnr9wv7hn",
        "bcrt1q9htthcg9qjthv4d3462394g4jhanex2jl8n0nh",
        "bcrt1qeydg8evyyewrq7yazd3784zj4yv2yf5yh7re7z",
        "bcrt1qv06wpad6y9y4tungjndlw5dtvml6gy4nweesmv",
        "bcrt1qxhnszdam38ftr4jttjectcknddxmmm633guv70",
    ],
    [
        "bcrt1pezy0ke2jmw93x9lprewsa40rf4jz8f3l6u73jjswzsy3q3lmccrq42de3j",
        "bcrt1pfzjdz22rwhlck2g9zyh5g9sm3mfxu6z3yve92zzma487cdsa9zzs4nmtma",
        "bcrt1pygh06g58cnrehjmz4l0vr7233wvehksr3nlp44urtdu383ex3kss25pdld",
        "bcrt1pcaanr6apxpqkh5c0sz3g375c22wsf92ce2rj6kqf8hch70xk6ncqmxgdwf",
        "bcrt1pw2l4cg5rqayyjh83hz64g32a08xvvttc8u7pxyrdgw03xata9x8sytdd9d",
        "bcrt1px9y32jm3a5e0w5nr22v9en42q4e5tp70dwlqxev9mnx5kpakpg3q5387mr",
    ],
    [
        "bcrt1qge0p256kmeylryf3g07y7ckls548rypljjuglpck96k9dr4wtycqpkcdpw",
        "bcrt1qszl4ux4p3p6jxw2x5plw386a8nxzj8zqcrqnf3s77hplck27ygqqvy2dv5",
        "bcrt1qknjspedxum5nxnkh0km9juj857ff3evtj99y07nj0d7924pp26xsz3y0vq",
        "bcrt1qalhw4eujtuq4dzp5j59l4ka76l36c7h4tpe0mvxkwa5g2ervk8wqlnekmt",
        "bcrt1qn7wnxhg9wydw3xwfx9y0zmzc5gttc95szjqqamg8fctgv3dgf5gsuk4a2p",
        "bcrt1qmrnm6g285xmyptky7f5h5hljr4tgfgfusr7zeatavs05ph6jamvs7497d5",
    ],
    [
        "2NEdu1eywy8v1c538ffrXRsZhQ24NDgKPGN",
        "2N6nunzA16EBXXfssKf8u1wfd4W662VDD8w",
        "2MtbPGGMADA2FqM5ToymyhwLJ8ozn54yjTU",
        "2Mwgw4FmuhMVAFGy9asGtiGyzuKuvAkg3Ee",
        "2N2Qs4GtsoPngZ9G9LEKbVWjZSCTmfBpt2D",
        "2MwG9gviBygveQpnFDfwjGjA7u5zqr4SSAJ",
    ],
];

/// Core's `deriveaddresses` of descriptors with the private root, `wsh(pk())` where several keys sign.
#[test]
fn addresses_of_accounts_are_cores() {
    let root = parsed(
        "tprv8ZgxMBicQKsPe24QGuwqysdYcuZQiPCt2HVMcmFKE7ivfVSgYx9sB1yqP6KTdTwMjDLatKefcmWTLmbjWqQcwABCM\
         Nu4nMrtxbSXGSnUxnn",
    );
    let accounts = account_keys(&root, None, 3).expect("memory");
    let kinds = ["pkh", "sh(wpkh)", "wpkh", "tr", "wsh", "sh(wsh)"];
    let paths =
        ["44h/1h/3h", "49h/1h/3h", "84h/1h/3h", "86h/1h/3h", "48h/1h/3h/2h", "48h/1h/3h/1h"];
    assert_eq!(accounts.len(), kinds.len());
    for (place, account) in accounts.iter().enumerate() {
        assert_eq!(account.script, Some(kinds[place]));
        assert_eq!(account.purpose, paths[place][..2].parse().ok());
        let origin = format!("[2e5b70d8/{}]tpub", paths[place]);
        assert!(account.key.starts_with(&origin), "{account:?}");
        let descriptor = account.descriptor.clone().unwrap_or_else(|| match place {
            4 => format!("wsh(pk({}/<0;1>/*))", account.key),
            _ => format!("sh(wsh(pk({}/<0;1>/*)))", account.key),
        });
        assert_eq!(account.descriptor.is_some(), place < 4);
        let parsed: Descriptor<DescriptorPublicKey> = descriptor.parse().expect("valid");
        let branches = parsed.into_single_descriptors().expect("two branches");
        let scripts = branches.iter().flat_map(|branch| scripts_of(&branch.to_string(), 0..=2));
        let addresses = scripts.map(|(_, script)| {
            let address = bitcoin::Address::from_script(&script, bitcoin::Network::Regtest);
            address.expect("it has one").to_string()
        });
        assert_eq!(addresses.collect::<Vec<_>>(), CORES_ADDRESSES[place], "{descriptor}");
    }
    // At another depth is no account of that kind, nor behind a step that is not hardened.
    for path in ["84h", "84h/1h", "84h/1h/3h/0h", "84h/1h/3", "48h/1h/3h", "48h/1h/3h/2h/0h"] {
        let steps = DerivationPath::from_str(path).expect("a path");
        let key = root.derive(steps.as_ref()).expect("a key");
        let origin = (root.fingerprint().expect("memory"), steps);
        let [alone] = &account_keys(&key, Some(&origin), 0).expect("memory")[..] else {
            panic!("one")
        };
        assert!(alone.key.starts_with(&format!("[2e5b70d8/{path}]tpub")), "{alone:?}");
        assert_eq!((alone.script, &alone.descriptor), (None, &None), "{path}");
    }
    // An account's own key tells the same of itself, whatever number is asked for.
    for (place, account) in accounts.iter().enumerate() {
        let path = DerivationPath::from_str(paths[place]).expect("a path");
        let key = root.derive(path.as_ref()).expect("a key");
        let origin = (root.fingerprint().expect("memory"), path);
        let same = account_keys(&key, Some(&origin), 7).expect("memory");
        assert_eq!(same, std::slice::from_ref(account));
        let [bare] = &account_keys(&key, None, 7).expect("memory")[..] else { panic!("one") };
        assert_eq!(account.key.split(']').nth(1), Some(bare.key.as_str()));
        assert_eq!((bare.purpose, bare.script, &bare.descriptor), (None, None, &None));
    }
}

/// BIP86 has this key of the words "abandon … about".
#[test]
fn the_account_of_bip86_is_the_one_of_its_vector() {
    let words = format!("{}about", "abandon ".repeat(11));
    let words = SecretBytes::from_plain_and_wipe(&mut words.into_bytes()).expect("memory");
    let mnemonic = crate::Mnemonic::parse(SecretSlice::from(&words)).expect("valid");
    let passphrase = godwit_secret::SecretString::new();
    let root = ExtendedPrivateKey::from_mnemonic(&mnemonic, &passphrase, NetworkKind::Main);
    let accounts = account_keys(&root.expect("memory"), None, 0).expect("memory");
    let expected = "[73c5da0a/86h/0h/0h]xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVk\
                    y7D3UKDP9QyrLprQ3VCECoY49yfdDEHGCtMMj92pReUsQ";
    assert_eq!(accounts[3].key, expected);
}

#[test]
fn every_descriptor_is_one() {
    let single = root(NetworkKind::Main).private_key().expect("memory");
    let account = DerivationPath::from_str("m/84h/0h/3h").expect("a path");
    let account = root(NetworkKind::Main).derive(account.as_ref()).expect("a key");
    let all = [
        account_descriptors(&root(NetworkKind::Main)),
        account_descriptors(&root(NetworkKind::Test)),
        account_descriptors(&account),
        single_descriptors(&single, true),
        single_descriptors(&single, false),
    ];
    for (descriptors, count) in all.into_iter().zip([8, 8, 8, 4, 1]) {
        let descriptors = descriptors.expect("memory");
        assert_eq!(descriptors.len(), count);
        for text in descriptors {
            let descriptor: Descriptor<DescriptorPublicKey> = text.parse().expect("valid");
            assert!(descriptor.sanity_check().is_ok(), "{text}");
        }
    }
}

#[test]
fn coins_of_other_networks_have_their_own_accounts() {
    let first = |network| account_descriptors(&root(network)).expect("memory").remove(0);
    assert!(first(NetworkKind::Main).contains("/44h/0h/0h]xpub"));
    assert!(first(NetworkKind::Test).contains("/44h/1h/0h]tpub"));
}

/// The key 1, whose addresses everybody knows.
#[test]
fn a_single_key_receives_in_four_ways() {
    let one = SecretArray::from_fn_in_place(|number: &mut [u8; 32]| number[31] = 1);
    let key = PrivateKey::from_secret(one.expect("memory")).expect("in range");
    let generator = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    let expected = [
        format!("pkh(02{generator})"),
        format!("sh(wpkh(02{generator}))"),
        format!("wpkh(02{generator})"),
        format!("tr({generator})"),
    ];
    let ours = single_descriptors(&key, true).expect("memory");
    assert!(ours.iter().zip(&expected).all(|(ours, text)| ours.starts_with(text)), "{ours:?}");
    let plain = single_descriptors(&key, false).expect("memory");
    assert!(plain[0].starts_with(&format!("pkh(04{generator}")), "{plain:?}");
}

#[test]
fn an_account_with_an_origin_is_of_one_kind_and_names_its_root() {
    let root = root(NetworkKind::Test);
    let fingerprint = root.fingerprint().expect("memory");
    let all = account_descriptors(&root).expect("memory");
    for (place, purpose) in [44, 49, 84, 86].into_iter().enumerate() {
        let path = DerivationPath::from_str(&format!("{purpose}h/1h/0h")).expect("a path");
        let account = root.derive(path.as_ref()).expect("a key");
        let of_account = account_descriptors_of(&account, &(fingerprint, path)).expect("memory");
        assert_eq!(of_account, all[2 * place..][..2], "as of the root");
    }
    let path = DerivationPath::from_str("48h/1h/0h/2h").expect("a path");
    let account = root.derive(path.as_ref()).expect("a key");
    let all = account_descriptors_of(&account, &(fingerprint, path)).expect("memory");
    assert_eq!(all.len(), 8, "a purpose without a kind of its own");
    assert!(all.iter().all(|text| text.contains(&format!("[{fingerprint}/48h/1h/0h/2h]tpub"))));
}
