//! Descriptors, good and bad, and what is asked about them.

use serde_json::json;

use super::arguments::Asked;

pub(super) const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
pub(super) const OTHER: &str = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5";
const LONG: &str = "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
pub(super) const EXTENDED: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";

/// Descriptors: of every function, with right and wrong keys, and ranges.
pub(super) fn of_descriptors() -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    for text in [functions(), keys(), texts()].concat() {
        all.push(("getdescriptorinfo", json!([text])));
        let with_sum = with_checksum(&text);
        all.push(("deriveaddresses", json!([with_sum])));
        all.push(("deriveaddresses", json!([with_sum, [2, 4]])));
        all.push(("deriveaddresses", json!([text])));
    }
    let ranged = with_checksum(&format!("wpkh({EXTENDED}/0/*)"));
    for range in [
        json!(3),
        json!(-1),
        json!([0]),
        json!([2, 1]),
        json!([-1, 1]),
        json!([1, 2_147_483_648_u64]),
        json!([0, 1_000_000]),
        json!("x"),
        json!(null),
        json!([2_147_483_647, 2_147_483_647]),
    ] {
        all.push(("deriveaddresses", json!([ranged, range])));
    }
    for descriptor in
        [ranged, format!("wpkh({EXTENDED}/<0;1>)"), format!("wpkh({EXTENDED}/0h)"), "x".to_owned()]
    {
        all.push(("generatetodescriptor", json!([0, descriptor])));
        all.push(("generateblock", json!([descriptor, ["00"]])));
    }
    let (no_input, unknown) = ("02000000000100e1f505000000000000000000", "00".repeat(32));
    for transactions in [
        json!(["00"]),
        json!([no_input]),
        json!([unknown]),
        // The first mistake counts.
        json!(["00", unknown]),
        json!([unknown, "00"]),
        json!([no_input, unknown]),
        json!(["zz", 1]),
        json!([1, "zz"]),
    ] {
        all.push(("generateblock", json!(["raw(51)", transactions])));
    }
    all
}

/// Each function with plain keys.
pub(super) fn functions() -> Vec<String> {
    let x = &KEY[2..];
    vec![
        format!("pk({KEY})"),
        format!("pk({LONG})"),
        format!("pkh({KEY})"),
        format!("pkh([d34db33f/44'/0h]{KEY})"),
        format!("pkh([d34db33f/44h/0']{})", KEY.to_uppercase()),
        format!("wpkh({KEY})"),
        format!("wpkh({LONG})"),
        format!("sh(wpkh({KEY}))"),
        format!("sh(wsh(pkh({KEY})))"),
        format!("wsh(pk({LONG}))"),
        format!("combo({KEY})"),
        format!("combo({LONG})"),
        format!("sh(combo({KEY}))"),
        format!("multi(1,{KEY},{OTHER})"),
        format!("multi(3,{KEY},{OTHER})"),
        format!("multi(0,{KEY})"),
        format!("multi(x,{KEY})"),
        format!("multi(1,{KEY},{KEY},{KEY},{KEY})"),
        "multi(1)".to_owned(),
        format!("sh(sortedmulti(2,{KEY},{OTHER}))"),
        format!("wsh(sortedmulti(2,{KEY},{OTHER},{KEY},{OTHER}))"),
        format!("sh(multi(1{}))", format!(",{LONG}").repeat(8)),
        format!("wsh(multi(17{}))", format!(",{KEY}").repeat(18)),
        format!("wsh(multi(17{}))", format!(",{KEY}").repeat(21)),
        format!("tr({x})"),
        format!("tr({KEY})"),
        format!("tr({LONG})"),
        format!("tr({x},pk({KEY}))"),
        format!("tr({x},{{pk({x}),multi_a(1,{KEY},{OTHER})}})"),
        format!("tr({x},{{{{pk({x}),pk({KEY})}},sortedmulti_a(2,{OTHER},{KEY})}})"),
        format!("tr({x},{{pk({x})}})"),
        format!("tr({x},multi(1,{KEY}))"),
        format!("multi_a(1,{KEY})"),
        format!("rawtr({x})"),
        format!("rawtr({KEY},{KEY})"),
        format!("sh(rawtr({x}))"),
        format!("sh(tr({x}))"),
        format!("sh(sh(pk({KEY})))"),
        format!("wsh(wpkh({KEY}))"),
        format!("unused({KEY})"),
        format!("unused({LONG})"),
        format!("unused({x})"),
        format!("unused({KEY},{KEY})"),
        "unused()".to_owned(),
        format!("sh(unused({KEY}))"),
        format!("wsh(unused({KEY}))"),
        format!("tr({x},unused({KEY}))"),
    ]
}

/// Extended keys, and keys that are none.
pub(super) fn keys() -> Vec<String> {
    vec![
        format!("wpkh({EXTENDED})"),
        format!("wpkh({EXTENDED}/0/1)"),
        format!("wpkh({EXTENDED}/0/*)"),
        format!("wpkh({EXTENDED}/0'/*)"),
        format!("wpkh({EXTENDED}/*h)"),
        format!("wpkh({EXTENDED}/<0;1>/*)"),
        format!("wpkh({EXTENDED}/<0;1h>/*)"),
        format!("wpkh({EXTENDED}/<0;0>/*)"),
        format!("wpkh({EXTENDED}/<0>/*)"),
        format!("wpkh({EXTENDED}/x)"),
        format!("wpkh({EXTENDED}/2147483648)"),
        format!("tr([d34db33f/86'/1h]{EXTENDED}/7/*)"),
        format!("wsh(sortedmulti(1,{EXTENDED}/1/*,{EXTENDED}/2/*))"),
        format!("unused({EXTENDED}/1)"),
        format!("unused({EXTENDED}/*)"),
        format!("unused({EXTENDED}/1h)"),
        format!("unused({EXTENDED}/<0;1>)"),
        format!("multi(1,{EXTENDED}/<0;1>,{EXTENDED}/<0;1;2>)"),
        format!("tr({EXTENDED}/7,multi_a(1,{EXTENDED}/<0;1>,{EXTENDED}/<0;1;2>))"),
        format!("tr({EXTENDED}/<0;1;2>/*,pk({EXTENDED}/<0;1>/*))"),
        format!("tr({EXTENDED}/7,{{pk({EXTENDED}/<0;1>),pk({EXTENDED}/<0;1;2>)}})"),
        format!("tr({EXTENDED}/<0;1>/*,pk({EXTENDED}/<0;1;2>/*))"),
        format!("tr({EXTENDED}/<0;1>,{{pk({EXTENDED}/7),pk({EXTENDED}/<0;1;2>)}})"),
        format!("pkh([d34db33/0]{KEY})"),
        format!("pkh([d34db33x/0]{KEY})"),
        format!("pkh(d34db33f]{KEY})"),
        format!("pkh([d34db33f]a]{KEY})"),
        format!("pkh({}00)", &KEY[..64]),
        format!("pkh(07{})", &LONG[2..]),
        "pkh()".to_owned(),
        "pkh(x)".to_owned(),
        format!("pkh( {KEY})"),
    ]
}

/// Without keys.
pub(super) fn texts() -> Vec<String> {
    vec![
        "addr(bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080)".to_owned(),
        "addr(2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc)".to_owned(),
        "addr(x)".to_owned(),
        "raw(51)".to_owned(),
        "raw(5)".to_owned(),
        "raw()".to_owned(),
        "sh(raw(51))".to_owned(),
        "sh(x)".to_owned(),
        "sh()".to_owned(),
        "nonsense".to_owned(),
        String::new(),
        "raw(51)#8lvh9jxk".to_owned(),
        "raw(51)#8lvh9jx".to_owned(),
        "raw(51)#8lvh9jxx".to_owned(),
        "raw(51)#8lvh9jxk#".to_owned(),
        "raw(51)\u{fc}".to_owned(),
    ]
}

/// With the checksum of BIP380, where the text can have one.
fn with_checksum(text: &str) -> String {
    const INPUT: &str = "0123456789()[],'/*abcdefgh@:$%{}IJKLMNOPQRSTUVWXYZ&+-.;<=>?!^_|~ijklmnopqrstuvwxyzABCDEFGH`#\"\\ ";
    const OUTPUT: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const GENERATOR: [u64; 5] =
        [0xf5dee51989, 0xa9fdca3312, 0x1bab10e32d, 0x3706b1677a, 0x644d626ffd];
    let mut sum = 1u64;
    let mut step = |value: u64| {
        let top = sum >> 35;
        sum = (sum & 0x7_ffff_ffff) << 5 ^ value;
        for (bit, generator) in GENERATOR.iter().enumerate() {
            sum ^= if top >> bit & 1 == 1 { *generator } else { 0 };
        }
        sum
    };
    let mut classes = Vec::new();
    for character in text.chars() {
        let Some(at) = INPUT.find(character) else { return text.to_owned() };
        step(at as u64 & 31);
        classes.push(at as u64 >> 5);
        if classes.len() == 3 {
            step(classes[0] * 9 + classes[1] * 3 + classes[2]);
            classes.clear();
        }
    }
    match classes[..] {
        [one] => step(one),
        [one, two] => step(one * 3 + two),
        _ => 0,
    };
    (0..7).for_each(|_| {
        step(0);
    });
    let sum = step(0) ^ 1;
    let digits = (0..8).map(|n| char::from(OUTPUT[(sum >> (5 * (7 - n)) & 31) as usize]));
    format!("{text}#{}", digits.collect::<String>())
}
