mod refused;

use bitcoin::NetworkKind::{Main, Test};
use godwit_secret::SecretString;
use miniscript::descriptor::Descriptor;
use proptest::prelude::*;

use super::*;
use crate::core_wallet::tests::expected_wallets;

/// Of BIP32's first vector; fingerprint 3442193e.
const XPRV: &str = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5k\
                    ejMRNNU3TGtRBeJgk33yuGBxrMPHi";
const XPUB: &str = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtG\
                    qsefD265TMg7usUDFdp6W1EGMcet8";
/// Its children 0h and 0h/1/2h.
const XPUB_0H: &str = "xpub68Gmy5EdvgibQVfPdqkBBCHxA5htiqg55crXYuXoQRKfDBFA1WEjWgP6LHhwBZeNK1VTsfTFUHC\
                       drfp1bgwQ9xv5ski8PX9rL2dZXvgGDnw";
const XPUB_0H_1_2H: &str = "xpub6D4BDPcP2GT577Vvch3R8wDkScZWzQzMMUm3PWbmWvVJrZwQY4VUNgqFJPMM3No2dFDFGT\
                            sxxpG5uJh7n7epu4trkrX7x7DogT5Uv6fcLW5";
/// Of BIP381.
const WIF: &str = "L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1";
const WIF_UNCOMPRESSED: &str = "5KYZdUEo39z3FPrtuX2QbbwGnNP5zTd7yyr2SC1j299sBCnWjss";
const POINT: &str = "a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
const POINT_Y: &str = "5b8dec5235a0fa8722476c7709c02559e3aa73aa03918ba2d492eea75abea235";

fn split(text: &str, network: NetworkKind) -> Result<SplitDescriptor, DescriptorError> {
    let mut secret = SecretString::new();
    secret.push_str(text).expect("memory");
    split_private_descriptor(SecretSlice::from(&secret), network)
}

/// The public texts without checksums, and the number of private keys.
fn public(text: &str) -> (Vec<String>, usize) {
    let split = split(text, Main).unwrap_or_else(|error| panic!("{text}: {error}"));
    let texts = split.descriptors.iter().map(|public| {
        let (body, sum) = public.text.split_once('#').expect("a checksum");
        assert_eq!(checksum::checksum(body.as_bytes()).expect("characters")[..], *sum.as_bytes());
        body.to_owned()
    });
    (texts.collect(), split.keys.len())
}

fn one(text: &str) -> String {
    let (mut texts, _) = public(text);
    assert_eq!(texts.len(), 1);
    texts.remove(0)
}

/// Of BIP388: templates, and the descriptors that they and their keys stand for.
const POLICIES: [(&str, &[&str]); 3] = [
    (
        "wpkh(@0/**)",
        &[
            "[6738736c/84h/0h/2h]xpub6CRQzb8u9dmMcq5XAwwRn9gcoYCjndJkhKgD11WKzbVGd932UmrExWFxCAvRnDN3ez6ZujLmMvmLBa\
           SWdfWVn75L83Qxu1qSX4fJNrJg2Gt",
        ],
    ),
    (
        "wsh(sortedmulti(2,@0/**,@1/**))",
        &[
            "[6738736c/48h/0h/0h/2h]xpub6FC1fXFP1GXLX5TKtcjHGT4q89SDRehkQLtbKJ2PzWcvbBHtyDsJPLtpLtkGqYNYZdVVAjRQ5k\
             ug9CsapegmmeRutpP7PW4u4wVF9JfkDhw",
            "[b2b1f0cf/48h/0h/0h/2h]xpub6EWhjpPa6FqrcaPBuGBZRJVjzGJ1ZsMygRF26RwN932Vfkn1gyCiTbECVitBjRCkexEvetLdiq\
             zTcYimmzYxyR1BZ79KNevgt61PDcukmC7",
        ],
    ),
    (
        "tr(@0/<2;3>/*,pk(@1/**))",
        &[
            "[6738736c/48h/0h/0h/100h]xpub6FC1fXFP1GXQpyRFfSE1vzzySqs3Vg63bzimYLeqtNUYbzA87kMNTcuy9ubr7MmavGRjW2FR\
             YHP4WGKjwutbf1ghgkUW9H7e3ceaPLRcVwa",
            "xpub6Fc2TRaCWNgfT49nRGG2G78d1dPnjhW66gEXi7oYZML7qEFN8e21b2DLDipTZZnfV6V7ivrMkvh4VbnHY2ChHTS9qM3XVLJiAgc\
             fagYQk6K",
        ],
    ),
];

fn watched(text: &str) -> Result<Vec<String>, DescriptorError> {
    let mut secret = SecretString::new();
    secret.push_str(text).expect("memory");
    let descriptors = watched_descriptors(SecretSlice::from(&secret), Main)?;
    Ok(descriptors.into_iter().map(|public| public.text).collect())
}

#[test]
fn policies_of_bip388_make_the_round() {
    for (template, keys) in POLICIES {
        let descriptor = |number: usize, at: &str| {
            let mut text = template.to_owned();
            for (index, key) in keys.iter().enumerate() {
                let branches = [format!("@{index}/**"), format!("@{index}/<2;3>/*")];
                let [usual, other] = branches;
                text = text.replace(&usual, &format!("{key}/{}/*", number));
                text = text.replace(&other, &format!("{key}/{}/*", number + 2));
            }
            assert!(!text.contains('@'), "{at}");
            let sum = checksum::checksum(text.as_bytes()).expect("characters");
            format!("{text}#{}", String::from_utf8(sum.to_vec()).expect("text"))
        };
        let expected = [descriptor(0, template), descriptor(1, template)];
        let lines = format!("{template}\n{}\n", keys.join("\n"));
        assert_eq!(watched(&lines).expect(template), expected);
        assert_eq!(
            watched(&lines.replace("h/", "'/").replace("h]", "']")).expect(template),
            expected
        );
        let joined = multipath(expected.iter().map(String::as_str));
        let policy = policy_of(&joined[0]);
        if template.contains("<2;3>") {
            // Two branches that are not the usual ones stay apart.
            assert_eq!((joined.len(), policy), (2, None));
            continue;
        }
        let policy = policy.expect(template);
        assert_eq!(policy.template, template);
        assert_eq!(policy.keys, keys);
        // One multipath descriptor says the same, and so do both branches in a line each.
        assert_eq!(watched(&joined[0]).expect("a descriptor"), expected);
        assert_eq!(watched(&expected.join("\n")).expect("two"), expected);
    }
}

#[test]
fn what_bip388_forbids_is_no_policy() {
    let (_, keys) = POLICIES[1];
    let with = |template: &str, keys: &[&str]| watched(&format!("{template}\n{}", keys.join("\n")));
    for template in [
        "pkh(@0)",
        "pkh(@0/0/**)",
        "sh(multi(1,@0/**,@0/**))",
        "sh(multi(1,@1/**,@0/**))",
        "wsh(sortedmulti(2,@0/**,@2/**))",
        "wsh(sortedmulti(2,@00/**,@1/**))",
        "wsh(sortedmulti(2,@0/<0;1;2>/*,@1/**))",
        "wsh(sortedmulti(2,@0/<0;0>/*,@1/**))",
        "wsh(sortedmulti(2,@0/<0h;1>/*,@1/**))",
        "pk(@0/**)",
    ] {
        let refused = with(template, keys);
        assert!(matches!(refused, Err(DescriptorError::Policy(_))), "{template}: {refused:?}");
    }
    let template = POLICIES[1].0;
    let path = format!("{}/0/*", keys[0]);
    for keys in
        [&keys[..1], &[keys[0], keys[0]], &[&path, keys[1]], &[keys[0], keys[1], keys[1]], &[]]
    {
        let refused = with(template, keys);
        assert!(matches!(refused, Err(DescriptorError::Policy(_))), "{keys:?}: {refused:?}");
    }
}

/// What is to be watched is public: nothing else leaves locked memory.
#[test]
fn nothing_private_is_watched() {
    let (template, keys) = POLICIES[1];
    let hex = "0c28fca386c7a227600b2fe50b7cae11ec86d3bf1fbe471be89827e19d72aa1d";
    for (text, at) in [
        (format!("wpkh({XPRV}/0/*)"), 6),
        (format!("wsh(multi(1,{},[00112233/1]{XPRV}))", keys[0]), 0),
        (format!("pkh({WIF})"), 5),
        (format!("wpkh({}/0/*)\nwpkh({XPRV}/1/*)", keys[0]), 6),
        (format!("{template}\n{}\n{XPRV}", keys[0]), 1),
        (format!("{template}\n{}\n[00112233/48h]{XPRV}", keys[0]), 15),
        (format!("{template}\n{WIF}\n{}", keys[0]), 1),
        (format!("wsh(sortedmulti(2,@0/**,{XPRV}/0/*))\n{}", keys[0]), 25),
        (format!("wsh(sortedmulti(2,@0/**,{WIF}))\n{}", keys[0]), 25),
        (format!("{template}\n{}\n{hex}", keys[0]), 1),
        (format!("wsh(and_v(v:pk(@0/**),sha256({hex})))\n{}", keys[0]), 30),
    ] {
        match watched(&text) {
            Err(DescriptorError::NotPublic { position }) => {
                assert!(at == 0 || position == at, "{text}: {position}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["", "\n \n", "words of no descriptor", "wpkh(\u{e9})"] {
        assert!(watched(text).is_err(), "{text:?}");
    }
    // A private key in hex is none of a descriptor, and is told as before.
    assert!(matches!(watched(&format!("pkh({hex})")), Err(DescriptorError::Key { .. })));
    let many = format!("{}\n", multipath([format!("wpkh({XPUB}/0/*)").as_str()])[0]).repeat(101);
    assert!(matches!(watched(&many), Err(DescriptorError::TooLong { .. })));
}

/// Files that somebody took for another one: nothing of them leaves locked memory, in an error either.
#[test]
fn nothing_of_another_file_is_told() {
    let (template, keys) = POLICIES[1];
    let hex = "0c28fca386c7a227600b2fe50b7cae11ec86d3bf1fbe471be89827e19d72aa1d";
    let behind_its_origin = keys[0].split_once(']').expect("an origin").1;
    // A private key under the version of public ones.
    let mut payload = bitcoin::base58::decode_check(XPRV).expect("base58");
    payload[..4].copy_from_slice(&[0x04, 0x88, 0xb2, 0x1e]);
    let disguised = bitcoin::base58::encode_check(&payload);
    for (text, secret) in [
        ("p@ssw0rd".to_owned(), "ssw0rd"),
        ("correct horse @ battery".to_owned(), "horse"),
        ("wsh(horse(@0/**))".to_owned(), "horse"),
        ("wsh(pk(@0/**))horse".to_owned(), "horse"),
        ("wsh(pk(@horse/**))".to_owned(), "horse"),
        ("horse@(12)".to_owned(), "horse"),
        (format!("wsh(horse({}/0/*))", keys[0]), "horse"),
        (format!("wsh(pk({}/horse))", keys[0]), "horse"),
        (format!("pkh({hex})"), hex),
        (format!("wsh(pk({hex}))"), hex),
        (format!("wpkh({disguised}/0/*)"), &disguised),
        (format!("wpkh({XPUB} {XPRV})"), XPRV),
        (format!("wpkh({XPUB}{XPRV}/0/*)"), XPRV),
        (format!("wpkh({XPUB}/{XPRV})"), XPRV),
        (format!("{template}\n{}\n{} {XPRV}", keys[0], keys[1]), XPRV),
        (format!("{template}\n{}\n{}/{XPRV}", keys[0], keys[1]), XPRV),
        (format!("{template}\n{}\n{XPRV}]{behind_its_origin}", keys[0]), XPRV),
        (format!("{template}\n{}\n[{XPRV}]{behind_its_origin}", keys[0]), XPRV),
        (format!("{template}\n{}\n{disguised}", keys[0]), &disguised),
        (format!("{template}\n{}\n{}horse", keys[0], keys[1]), "horse"),
    ] {
        let mut secret_text = SecretString::new();
        secret_text.push_str(&text).expect("memory");
        // Before anything is given to `miniscript`, which tells what it reads.
        let early = watched::public_text(SecretSlice::from(&secret_text)).expect_err(&text);
        for told in [early.to_string(), format!("{early:?}")] {
            assert!(!told.contains(secret), "{text}: {told}");
        }
        assert!(watched(&text).is_err(), "{text}");
    }
}

#[test]
fn a_key_has_one_origin() {
    let with = |first: &str, second: &str| {
        watched(&format!("wsh(multi(1,[{first}]{XPUB}/0/*,[{second}]{XPUB}/1/*))"))
    };
    assert!(with("d34db33f/48h", "d34db33f/48h").is_ok());
    for other in ["d34db33e/48h", "d34db33f/47h", "d34db33f"] {
        let refused = with("d34db33f/48h", other);
        assert!(matches!(refused, Err(DescriptorError::TwoOrigins { .. })), "{refused:?}");
    }
}

#[test]
fn two_branches_become_one_multipath_descriptor() {
    let shared = format!("wsh(sortedmulti(2,[d34db33f/48h/0h/0h/2h]{XPUB}/@/*,{XPUB_0H}/@/*))");
    let single = format!("tr({XPUB}/@/*)");
    let hardened = format!("wpkh({XPUB_0H}/@/*h)");
    let branch = |text: &str, step: &str| text.replace('@', step);
    let texts = [
        branch(&shared, "1"),
        branch(&single, "0"),
        format!("wsh(multi(1,{XPUB}/0/*,{XPUB_0H}/1/*))"),
        branch(&single, "2"),
        branch(&shared, "0"),
        branch(&hardened, "0"),
        format!("wpkh({XPUB}/0/1)"),
        format!("wpkh({XPUB}/10/*)"),
        branch(&single, "1"),
        branch(&hardened, "1"),
        format!("wpkh({XPUB}/11/*)"),
    ];
    let expected = [
        branch(&shared, "<0;1>"),
        branch(&single, "<0;1>"),
        texts[2].clone(),
        texts[3].clone(),
        branch(&hardened, "<0;1>"),
        texts[6].clone(),
        texts[7].clone(),
        texts[10].clone(),
    ];
    let with_checksums = texts.clone().map(|mut text| {
        super::split::append_checksum(&mut text);
        text
    });
    let joined = multipath(with_checksums.iter().map(String::as_str));
    let bodies: Vec<_> =
        joined.iter().map(|text| text.split('#').next().expect("a body")).collect();
    assert_eq!(bodies, expected);
    // What stands in one descriptor splits into both again.
    for text in &joined[..2] {
        let (again, keys) = public(text);
        assert_eq!(keys, 0);
        assert_eq!(again[1], again[0].replace("/0/*", "/1/*"));
        assert!(texts.contains(&again[0]) && texts.contains(&again[1]), "{text}");
    }
}

#[test]
fn wallets_of_core_are_split_as_core_does() {
    let Some(wallets) = expected_wallets() else { return };
    for wallet in wallets {
        // Core has ordered both lists by their private text, up to what public keys change.
        let mut ours = Vec::new();
        for text in &wallet.private {
            let split = split(text, Test).expect("a descriptor of Core");
            ours.extend(split.descriptors.into_iter().map(|public| public.text));
        }
        ours.sort();
        let mut theirs = wallet.public.clone();
        theirs.sort();
        assert_eq!(ours, theirs, "{}", wallet.name);
        for text in &theirs {
            let split = split(text, Test).expect("a public descriptor");
            assert_eq!(&split.descriptors[0].text, text);
            assert!(split.keys.is_empty());
        }
    }
}

#[test]
fn extended_keys_become_public_behind_the_last_hardened_step() {
    assert_eq!(public(&format!("pkh({XPRV})")), (vec![format!("pkh({XPUB})")], 1));
    assert_eq!(one(&format!("wpkh({XPRV}/1/2/*)")), format!("wpkh({XPUB}/1/2/*)"));
    for marker in ["h", "'"] {
        assert_eq!(
            one(&format!("wpkh({XPRV}/0{marker}/*)")),
            format!("wpkh([3442193e/0h]{XPUB_0H}/*)")
        );
        assert_eq!(
            one(&format!("wpkh([AABBCCDD/7{marker}]{XPRV}/00{marker}/1/2{marker}/3)")),
            format!("wpkh([aabbccdd/7h/0h/1/2h]{XPUB_0H_1_2H}/3)")
        );
    }
    assert_eq!(
        one(&format!("wpkh([aabbccdd/7']{XPRV}/1)")),
        format!("wpkh([aabbccdd/7h]{XPUB}/1)")
    );
}

#[test]
fn a_hardened_wildcard_is_printed_as_core_does() {
    assert_eq!(one(&format!("wpkh({XPRV}/0'/*')")), format!("wpkh({XPUB}/0h/*h)"));
    assert_eq!(
        one(&format!("pkh([0badcafe/1']{XPRV}/*h)")),
        format!("pkh([0badcafe/1h]{XPUB}/*h)")
    );
}

#[test]
fn single_keys_become_what_their_script_takes() {
    assert_eq!(public(&format!("wpkh({WIF})")), (vec![format!("wpkh(03{POINT})")], 1));
    assert_eq!(one(&format!("tr({WIF})")), format!("tr({POINT})"));
    assert_eq!(one(&format!("tr({POINT},pk({WIF}))")), format!("tr({POINT},pk({POINT}))"));
    assert_eq!(one(&format!("pkh({WIF_UNCOMPRESSED})")), format!("pkh(04{POINT}{POINT_Y})"));
    assert_eq!(
        one(&format!("sh(multi(1,[deadbeef/1]{WIF},{WIF_UNCOMPRESSED}))")),
        format!("sh(multi(1,[deadbeef/1]03{POINT},04{POINT}{POINT_Y}))")
    );
    let refused = split(&format!("tr({WIF_UNCOMPRESSED})"), Main);
    assert!(matches!(refused, Err(DescriptorError::Uncompressed { position: 4 })));
    let refused = split(&format!("wpkh({WIF_UNCOMPRESSED})"), Main);
    assert!(matches!(refused, Err(DescriptorError::Refused(_))));
}

#[test]
fn each_number_of_a_path_makes_a_descriptor() {
    let (texts, keys) = public(&format!("wsh(multi(1,{XPRV}/0h/<0;1>/*,[11223344]{WIF}))"));
    let with = |n| format!("wsh(multi(1,[3442193e/0h]{XPUB_0H}/{n}/*,[11223344]03{POINT}))");
    assert_eq!((texts, keys), (vec![with(0), with(1)], 2));
    let (texts, _) = public(&format!("wpkh({XPRV}/<0h;5>/*)"));
    assert_eq!(texts, [format!("wpkh([3442193e/0h]{XPUB_0H}/*)"), format!("wpkh({XPUB}/5/*)")]);
    let (texts, _) = public(&format!("wsh(multi(1,{XPUB}/<0;1;2>,{XPUB}/<7;8;9>))"));
    assert_eq!(texts[2], format!("wsh(multi(1,{XPUB}/2,{XPUB}/9))"));
    let refused = split(&format!("wsh(multi(1,{XPRV}/<0;1>,{XPRV}/<7;8;9>))"), Main);
    assert!(matches!(refused, Err(DescriptorError::PathCount)));
}

#[test]
fn a_combo_is_each_kind_that_its_key_can_be_paid_by() {
    let all = |key: &str| {
        let kinds = [("pk(", ")"), ("pkh(", ")"), ("wpkh(", ")"), ("sh(wpkh(", "))")];
        kinds.map(|(before, behind)| format!("{before}{key}{behind}")).to_vec()
    };
    let long = format!("04{POINT}{POINT_Y}");
    for (text, expected) in [
        (XPRV.to_owned(), all(XPUB)),
        (format!("{XPRV}/0h/*"), all(&format!("[3442193e/0h]{XPUB_0H}/*"))),
        (format!("{XPRV}/0'/*'"), all(&format!("{XPUB}/0h/*h"))),
        (WIF.to_owned(), all(&format!("03{POINT}"))),
        (WIF_UNCOMPRESSED.to_owned(), all(&long)[..2].to_vec()),
        (format!("[11223344]{long}"), all(&format!("[11223344]{long}"))[..2].to_vec()),
        (format!("{XPRV}/<0;1>"), [all(&format!("{XPUB}/0")), all(&format!("{XPUB}/1"))].concat()),
    ] {
        assert_eq!(public(&format!("combo({text})")).0, expected, "{text}");
    }
    for text in [
        format!("combo({XPRV},{XPRV})"),
        format!("sh(combo({XPRV}))"),
        format!("combo(pk({XPRV}))"),
        format!("v:combo({XPRV})"),
        "combo(1)".to_owned(),
        "combo()".to_owned(),
    ] {
        assert!(split(&text, Main).is_err(), "{text}");
    }
}

#[test]
fn keys_come_once_and_remember_where_they_come_from() {
    let text = format!(
        "wsh(multi(1,{XPRV}/0,{XPRV}/1,[aabbccdd/5h]{XPRV}/2,{WIF},[deadbeef]{WIF},{XPUB}/3))"
    );
    // miniscript wants different public keys, which the two of the WIF are not.
    let parts = split::split(SecretSlice::from(&secret(&text)), Main).expect("a descriptor");
    assert_eq!(parts.keys.len(), 3);
    let origins = parts.keys.iter().filter_map(|key| match key {
        StoredKey::Extended { origin, .. } => Some(origin.as_ref().map(|o| o.0.to_string())),
        StoredKey::Single { .. } => None,
    });
    assert_eq!(origins.collect::<Vec<_>>(), [None, Some("aabbccdd".to_owned())]);
}

fn secret(text: &str) -> SecretString {
    let mut secret = SecretString::new();
    secret.push_str(text).expect("memory");
    secret
}

#[test]
fn what_core_refuses_is_refused() {
    let position = |text: &str, network| match split(text, network) {
        Err(
            DescriptorError::Network { position }
            | DescriptorError::Key { position }
            | DescriptorError::PrivateKey { position, .. }
            | DescriptorError::HardenedPublic { position },
        ) => position,
        Err(error) => panic!("{text}: {error}"),
        Ok(_) => panic!("{text}"),
    };
    for key in [XPRV, XPUB, WIF] {
        assert_eq!(position(&format!("wpkh({key})"), Test), 6);
    }
    assert_eq!(position(&format!("wpkh([11223344]{XPUB}/0'/1)"), Main), 16);
    assert_eq!(position(&format!("wpkh({XPUB}/*h)"), Main), 6);
    assert_eq!(position(&format!("wpkh({WIF}/0)"), Main), 6);
    assert_eq!(position(&format!("wpkh({})", &WIF[1..]), Main), 6);
    assert_eq!(position(&format!("wpkh({})", &XPRV[..110]), Main), 6);
    assert_eq!(position(&format!("wpkh( {XPRV})"), Main), 6);
    assert_eq!(position("wpkh(aa)", Main), 6);
    assert_eq!(position(&format!("wpkh({POINT})"), Main), 6, "a private key in hex looks like it");
    assert_eq!(position(&format!("tr(04{POINT}{POINT_Y})"), Main), 4);
    // Of BIP340's vectors: no point of the curve has it.
    let no_point = "eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34";
    assert_eq!(position(&format!("tr({no_point})"), Main), 4);
    assert_eq!(position(&format!("tr({POINT},pk({no_point}))"), Main), 72);
    assert_eq!(position(&format!("pkh(05{POINT})"), Main), 5);
    for text in [
        format!("sh(sh(pk({XPRV})))"),
        format!("wsh(wpkh({XPRV}))"),
        format!("wsh(multi(4,{XPRV}/0,{XPRV}/1))"),
        format!("wsh(and_v(pk({XPRV}/0),pk({XPRV}/1)))"),
        format!("wsh(or_i(pk({XPRV}/0),1))"),
        format!("pkh({XPRV},{XPRV})"),
        format!("nothing({XPRV})"),
        "wpkh()".to_owned(),
        "wpkh(12)".to_owned(),
    ] {
        let error = split(&text, Main).err().unwrap_or_else(|| panic!("{text}"));
        assert!(!error.to_string().contains('\n'), "one line: {error}");
    }
}

/// No eight characters of a private key stand in `message`.
fn tells_nothing(message: &str) {
    for key in [XPRV, WIF, WIF_UNCOMPRESSED] {
        for start in 0..key.len() - 8 {
            // An xprv begins with what is no secret.
            let part = &key[start..start + 8];
            assert!(!message.contains(part), "{part:?} of a private key in {message:?}");
        }
    }
}

#[test]
fn errors_tell_nothing_of_keys() {
    let texts = [
        format!("wsh(multi(2,[11223344/5h]{XPRV}/0h/<0;1>/*,{WIF}))"),
        format!("tr({WIF},{{pk({XPRV}/1),sha256({POINT})}})"),
        format!("pkh({WIF_UNCOMPRESSED})"),
    ];
    for text in texts {
        for at in 0..text.len() {
            for replacement in
                ["", "(", ")", ",", "{", "}", "[", "]", "/", "*", "<", ";", "#", "l", "0"]
            {
                for rest in [at, at + 1] {
                    let changed = format!("{}{replacement}{}", &text[..at], &text[rest..]);
                    match split(&changed, Main) {
                        Err(error) => {
                            tells_nothing(&error.to_string());
                            tells_nothing(&format!("{error:?}"));
                        }
                        Ok(split) => {
                            split.descriptors.iter().for_each(|public| tells_nothing(&public.text));
                        }
                    }
                }
            }
            if let Err(error) = split(&text[..at], Main) {
                tells_nothing(&format!("{error} {error:?}"));
            }
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    let step = (0_u32..0x8000_0000, prop::sample::select(vec!["", "h", "'"]));
    let steps = prop::collection::vec(step, 0..5);
    (steps, prop::sample::select(vec!["", "/*"])).prop_map(|(steps, end)| {
        let steps: String = steps.iter().map(|(n, marker)| format!("/{n}{marker}")).collect();
        steps + end
    })
}

fn origin() -> impl Strategy<Value = String> {
    prop::option::of((any::<u32>(), 0_u32..100)).prop_map(|origin| match origin {
        Some((fingerprint, step)) => format!("[{fingerprint:08x}/{step}h]"),
        None => String::new(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// `miniscript` splits private keys too, on the heap.
    #[test]
    fn miniscript_agrees(
        keys in prop::collection::vec((origin(), path()), 1..4),
        frame in 0..4_usize,
    ) {
        let mut keys: Vec<String> =
            keys.into_iter().map(|(origin, path)| format!("{origin}{XPRV}{path}")).collect();
        keys.sort();
        keys.dedup();
        let text = match frame {
            0 => format!("pkh({})", keys[0]),
            1 => format!("sh(wpkh({}))", keys[0]),
            2 => format!("wsh(sortedmulti(1,{}))", keys.join(",")),
            _ => format!("tr({POINT},multi_a(1,{}))", keys.join(",")),
        };
        let curve = bitcoin::secp256k1::Secp256k1::new();
        let theirs = Descriptor::parse_descriptor(&curve, &text);
        match (split(&text, Main), theirs) {
            (Ok(ours), Ok((theirs, _))) => prop_assert_eq!(&ours.descriptors[0].descriptor, &theirs),
            (Err(DescriptorError::Refused(_)), _) => {}
            (ours, theirs) => {
                prop_assert!(false, "{:?} {:?}", ours.map(|ours| ours.descriptors), theirs);
            }
        }
    }

    #[test]
    fn any_text_is_refused_or_split(text in "[a-z(){},/#*h'<;>\\[\\]0-9 ]{0,60}") {
        let frame = text.replace('k', XPRV).replace('w', WIF);
        if let Err(error) = split(&frame, Main) {
            tells_nothing(&error.to_string());
        }
    }
}
