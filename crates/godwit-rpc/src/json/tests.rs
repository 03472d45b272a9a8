use super::*;

fn same(text: &str) {
    assert_eq!(Json::parse(text.as_bytes()).map(|value| value.write()).as_deref(), Some(text));
}

#[test]
fn what_is_read_is_written_as_it_was() {
    for text in [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1.50",
        "1e5",
        "-12.25E-3",
        "\"\"",
        "[]",
        "{}",
        r#"{"b":1,"a":[1,{"x":null}],"b":2}"#,
        r#""a\"b\\c\n\u0001\u007fé""#,
    ] {
        same(text);
    }
    assert_eq!(
        Json::parse(br#" [ 1 , "\u00e9\ud83d\ude00\/" ] "#).unwrap().write(),
        "[1,\"é😀/\"]"
    );
}

#[test]
fn what_univalue_refuses_is_refused() {
    for text in [
        "",
        " ",
        "nul",
        "tru",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "\"",
        "\"\n\"",
        r#""\x""#,
        r#""\ud800""#,
        r#""\ud800\u0041""#,
        r#""\udc00""#,
        "[",
        "[1,]",
        "[,1]",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "1 2",
        "[1]]",
        "NaN",
    ] {
        assert_eq!(Json::parse(text.as_bytes()), None, "{text}");
    }
    assert_eq!(Json::parse(b"\"\xff\""), None);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Json::parse(nested(512).as_bytes()).is_some());
    assert!(Json::parse(nested(513).as_bytes()).is_none());
    assert!(Json::parse("[".repeat(1_000_000).as_bytes()).is_none());
}

#[test]
fn numbers_are_written_as_core_does_but_without_exponents() {
    let real = |value| Json::real(value).write();
    assert_eq!(real(4.656542373906925e-10), "0.0000000004656542373906925");
    assert_eq!(real(0.1), "0.1");
    assert_eq!(real(1.0), "1");
    assert_eq!(real(0.9999999999999999), "0.9999999999999999");
    assert_eq!(real(155973032196071.9), "155973032196071.9");
    assert_eq!(real(1e22), "10000000000000000000000");
    assert_eq!(real(1.0 / 3.0), "0.3333333333333333");
    assert_eq!(real(1.2732e-9), "0.0000000012732");
    assert_eq!(Json::amount(-1).write(), "-0.00000001");
    assert_eq!(Json::amount(5_000_000_000).write(), "50.00000000");
}

#[test]
fn values_are_taken_out_by_type() {
    let number = |text: &str| Json::Number(text.to_owned());
    assert_eq!(number("12").as_integer::<u8>(), Ok(12));
    for bad in ["256", "-1", "1.0", "1e1", "99999999999999999999999999999999999999999"] {
        let error = number(bad).as_integer::<u8>().unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-1, "JSON integer out of range"));
    }
    let error = Json::Null.as_text().unwrap_err();
    assert_eq!(error.message, "JSON value of type null is not of expected type string");
    assert_eq!(Json::from("x").as_integer::<i32>().unwrap_err().code, -3);
    assert_eq!(
        ["0.25", "-1e2", "3"].map(|text| number(text).as_real()),
        [Ok(0.25), Ok(-100.0), Ok(3.0)]
    );
    assert_eq!(Json::from("1").as_real().unwrap_err().code, -3);
    for too_large in ["1e309", "-1e309"] {
        let error = number(too_large).as_real().unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-1, "JSON double out of range"));
    }
    assert_eq!(number("1e-400").as_real(), Ok(0.0));
}

#[test]
fn lines_are_indented_as_bitcoin_cli_prints_them() {
    let value = Json::parse(br#"{"a":[],"b":{},"c":[1,{"d":"e"}]}"#).unwrap();
    let expected = "{\n  \"a\": [\n  ],\n  \"b\": {\n  },\n  \"c\": [\n    1,\n    {\n      \"d\": \"e\"\n    }\n  ]\n}";
    assert_eq!(value.write_indented(2), expected);
    assert_eq!(value.written_len(), value.write().len());
}
