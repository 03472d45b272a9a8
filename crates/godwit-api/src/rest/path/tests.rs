use godwit_stream::DataStream;

use super::*;

const HASH: &str = "00000000000000000000000000000000000000000000000000000000000000Ab";

/// What is asked, or the refusal's status and text.
fn ask(target: &str, body: &[u8]) -> Result<(Asked, Format), (u16, String)> {
    let refused =
        |refusal: Refusal| (refusal.status, String::from_utf8_lossy(&refusal.text).into_owned());
    path(target).map_err(refused)?.read(body).map_err(refused)
}

#[track_caller]
fn asked(target: &str) -> Asked {
    ask(target, b"").expect("it is understood").0
}

#[track_caller]
fn refused(target: &str) -> String {
    ask(target, b"").expect_err("it is refused").1
}

#[test]
fn the_format_stands_behind_the_last_dot_and_before_the_query() {
    for (rest, expected) in [
        ("a.bin", ("a", Format::Binary)),
        ("a.hex?x=1.json", ("a", Format::Hex)),
        ("a.b.json", ("a.b", Format::Json)),
        ("a", ("a", Format::Unknown)),
        ("a.", ("a", Format::Unknown)),
        ("a.xml", ("a.xml", Format::Unknown)),
        ("a.JSON", ("a.JSON", Format::Unknown)),
        ("a.json?b.bin?c", ("a.json?b", Format::Binary)),
        ("", ("", Format::Unknown)),
    ] {
        assert_eq!(name_and_format(rest), expected, "{rest}");
    }
}

#[test]
fn a_parameter_is_decoded_and_the_first_of_its_name_counts() {
    let value = |query: &str| parameter(&format!("/rest/x{query}"), "count");
    assert_eq!(value("?count=7"), Some(b"7".to_vec()));
    assert_eq!(value("?a=b&count=7&count=8"), Some(b"7".to_vec()));
    assert_eq!(value("?c%6funt=%37"), Some(b"7".to_vec()));
    assert_eq!(value("?count"), Some(Vec::new()));
    assert_eq!(value("?count=%f%zz%"), Some(b"%f%zz%".to_vec()));
    assert_eq!(value("?count=%ff"), Some(vec![0xff]));
    assert_eq!((value("?Count=7"), value(""), value("?")), (None, None, None));
    // A second question mark belongs to the value before it.
    assert_eq!(value("?count=1?count=2"), Some(b"1?count=2".to_vec()));
}

#[test]
fn numbers_are_digits() {
    assert_eq!(integer::<u64>(b"18446744073709551615"), Some(u64::MAX));
    for text in ["18446744073709551616", "", "+1", "-1", " 1", "1 ", "0x1", "\u{ff11}"] {
        assert_eq!(integer::<u64>(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(integer::<u64>(b"\xff"), None);
    assert_eq!(integer::<i32>(b"-0"), Some(0));
}

#[test]
fn the_number_of_headers_has_two_places_and_a_range() {
    for (path, count) in [
        (format!("/rest/headers/{HASH}.bin"), 5),
        (format!("/rest/headers/{HASH}.bin?count=1"), 1),
        (format!("/rest/headers/{HASH}.bin?count=2000"), 2000),
        (format!("/rest/headers/2000/{HASH}.bin"), 2000),
    ] {
        assert_eq!(asked(&path), Asked::Headers(HASH.parse().expect("a hash"), count), "{path}");
    }
    let out_of_range = "Header count is invalid or out of acceptable range (1-2000): ";
    for count in ["0", "2001", "", "x", "-1"] {
        let text = format!("{out_of_range}{count}");
        assert_eq!(refused(&format!("/rest/headers/{count}/{HASH}.bin")), text);
        assert_eq!(refused(&format!("/rest/headers/{HASH}.bin?count={count}")), text);
    }
    assert!(refused(&format!("/rest/headers/1/2/{HASH}.bin")).starts_with("Invalid URI format"));
    // Its number is looked at before the hash.
    assert!(refused("/rest/headers/0/x.bin").starts_with(out_of_range));
    assert_eq!(refused("/rest/headers/1/x.bin"), "Invalid hash: x");
}

#[test]
fn a_part_needs_both_of_its_numbers_before_anything_else_is_looked_at() {
    let part = |query: &str| path(&format!("/rest/blockpart/x.bin{query}")).map(|path| path.part);
    assert_eq!(part("?offset=3&size=5"), Ok(Some(Part { offset: 3, size: 5 })));
    let refusal = |query: &str| part(query).expect_err("it is refused").text;
    assert_eq!(refusal("?size=5"), b"Block part offset missing or invalid");
    assert_eq!(refusal("?offset=3"), b"Block part size missing or invalid");
    assert_eq!(refusal("?offset=3&size=-5"), b"Block part size missing or invalid");
    assert_eq!(refused("/rest/blockpart/x.bin?offset=3&size=5"), "Invalid hash: x");
}

#[test]
fn only_json_is_there_of_some() {
    for path in ["chaininfo.bin", "chaininfo", "mempool/info.hex", "deploymentinfo/x.bin"] {
        let text = "output format not found (available: json)";
        assert_eq!(ask(&format!("/rest/{path}"), b""), Err((NOT_FOUND, text.to_owned())));
    }
    assert_eq!(asked("/rest/chaininfo.json"), Asked::ChainInfo);
    assert_eq!(asked("/rest/deploymentinfo.json"), Asked::Deployments(None));
    assert!(refused("/rest/mempool/x.bin").starts_with("Invalid URI format"));
}

#[test]
fn the_first_prefix_counts() {
    let text = HASH.to_owned();
    let named = Named { hash: HASH.parse().expect("a hash"), text };
    let path = |prefix: &str| format!("/rest/{prefix}/{HASH}.json");
    assert_eq!(asked(&path("block/notxdetails")), Asked::Block(named.clone(), Detail::Ids));
    assert_eq!(asked(&path("block")), Asked::Block(named, Detail::Everything));
    assert!(!is_resource("/rest/") && !is_resource("/rest/block") && !is_resource("/"));
    assert!(is_resource("/rest/block/") && is_resource("/rest/chaininfo"));
}

fn outpoint_text(vout: usize) -> String {
    format!("{HASH}-{vout}")
}

#[test]
fn coins_are_named_in_the_path() {
    let of = |path: &str| ask(&format!("/rest/getutxos{path}"), b"");
    let count = |path: &str| match of(path) {
        Ok((Asked::Coins { outpoints, with_outbox }, _)) => (outpoints.len(), with_outbox),
        other => panic!("{path}: {other:?}"),
    };
    let list = |n: usize| (0..n).map(outpoint_text).collect::<Vec<_>>().join("/");
    assert_eq!(count(&format!("/{}.json", list(15))), (15, false));
    assert_eq!(count(&format!("/checkmempool/{}.bin", list(1))), (1, true));
    let text = |path: &str| of(path).expect_err("it is refused").1;
    let too_many = "Error: max outpoints exceeded (max: 15, tried: 16)";
    assert_eq!(text(&format!("/{}.json", list(16))), too_many);
    for empty in [".json", "/.json", "/checkmempool.json"] {
        assert_eq!(text(empty), "Error: empty request", "{empty}");
    }
    for broken in ["//.json", "/checkmempool/.json", "/x-1.json", "/checkmempoolx/.json"] {
        assert_eq!(text(broken), "Parse error", "{broken}");
    }
    for vout in ["", "x", "-1", "1-1", "4294967296"] {
        assert_eq!(text(&format!("/{HASH}-{vout}.json")), "Parse error", "{vout}");
    }
    assert!(text(&format!("/{}", list(16))).starts_with("output format not found"));
}

#[test]
fn coins_are_named_in_the_body() {
    let body = |count: u64| {
        let mut out: DataStream = DataStream::new();
        out.write_compact_size(count);
        for vout in 0..count as u32 {
            out.put(&OutPoint { txid: HASH.parse().expect("an id"), vout });
        }
        out.as_slice().to_vec()
    };
    let of = |path: &str, body: &[u8]| match ask(&format!("/rest/getutxos{path}"), body) {
        Ok((Asked::Coins { outpoints, .. }, _)) => Ok(outpoints.len()),
        Ok(other) => panic!("{other:?}"),
        Err((_, text)) => Err(text),
    };
    let hex = |bytes: &[u8]| data_encoding::HEXUPPER.encode(bytes).into_bytes();
    for count in [0, 1, 6] {
        assert_eq!(of(".bin", &body(count)), Ok(count as usize));
        assert_eq!(of(".hex", &hex(&body(count))), Ok(count as usize));
    }
    // From 253 bytes on, the length that goes before them has three, of which the last two count as numbers.
    assert_eq!((body(7).len(), of(".bin", &body(7))), (253, Err("Parse error".to_owned())));
    let long = [body(16), vec![0; 0x1041 - body(16).len()]].concat();
    let too_many = "Error: max outpoints exceeded (max: 15, tried: 65)".to_owned();
    assert_eq!(of(".bin", &long), Err(too_many));
    let spaced: Vec<u8> = hex(&body(2)).chunks(2).collect::<Vec<_>>().join(&b" \t\r\n"[..]);
    assert_eq!(of(".hex", &spaced), Ok(2));
    // What is no hexadecimal counts as nothing, and nothing asks for nothing.
    for nothing in [&b"zz"[..], b"0", b"0 1", b"\n"] {
        assert_eq!(of(".hex", nothing), Ok(0));
    }
    let with_outbox = |path: &str, body: &[u8]| match ask(&format!("/rest/getutxos{path}"), body) {
        Ok((Asked::Coins { with_outbox, .. }, _)) => with_outbox,
        other => panic!("{other:?}"),
    };
    assert!(with_outbox(".bin", &body(2)) && with_outbox(".hex", &hex(&body(2))));
    assert!(!with_outbox(".hex", b"zz"), "it is no body");
    let cut = &body(2)[..49];
    assert_eq!(of(".bin", cut), Err("Parse error".to_owned()));
    assert_eq!(of(".bin", &[body(2), vec![1]].concat()), Ok(2), "what follows does not matter");
    assert_eq!(of(".bin", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), Err("Parse error".into()));
    assert_eq!(of(".json", &body(1)), Err("Error: empty request".to_owned()));
    let both = format!("/{}.bin", outpoint_text(0));
    assert!(of(&both, &body(1)).expect_err("it is refused").starts_with("Combination of URI"));
}

/// Whatever the pieces of a path are, there is an answer.
#[test]
fn any_text_is_read() {
    let pieces = [
        "/rest/",
        "tx/",
        "block/",
        "notxdetails/",
        "blockpart/",
        "headers/",
        "getutxos",
        "mempool/",
        "blockfilter/",
        "blockfilterheaders/",
        "basic/",
        "contents",
        "info",
        "deploymentinfo",
        "blockhashbyheight/",
        "spenttxouts/",
        "checkmempool/",
        HASH,
        "-",
        "/",
        ".",
        "..",
        ".bin",
        ".hex",
        ".json",
        "?",
        "count=",
        "offset=",
        "size=",
        "&",
        "=",
        "%",
        "%4",
        "%41",
        "0",
        "1",
        "2147483648",
        "ä",
    ];
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut understood = 0;
    for _ in 0..200_000 {
        let count = next(8);
        let rest: String = (0..count).map(|_| pieces[next(pieces.len())]).collect();
        let body = &b"\x01\x02 0102"[..next(8)];
        understood += u32::from(ask(&format!("/rest/{rest}"), body).is_ok());
    }
    assert!(understood > 100, "{understood} of these paths mean something");
}
