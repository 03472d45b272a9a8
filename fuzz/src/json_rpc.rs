//! Bodies of requests, and command lines of the client: JSON as serde_json reads it, in memory that the
//! server counted before, calls as a naive reading of the rules takes them, errors of the known numbers.

use std::borrow::Cow;

use godwit_rpc::request::{MAX_MESSAGE, Request, memory_of, most_values};
use godwit_rpc::{Json, Kind, METHODS, Method, Param, RpcError, arguments, code, convert, find};

use crate::json_twin::{Said, depth, read};
use crate::memory::within;

/// Values within values that UniValue reads; serde_json has no limit here.
const MAX_DEPTH: usize = 512;

/// Memory of a name in a search for those that are given twice: nodes of a set are half full at least.
const NAME_BYTES: usize = 48;

/// A body; also a command line, with a word on each line, of which the first is the method.
pub(crate) fn check(data: &[u8]) {
    let json = check_reading(data);
    match json {
        Some(Json::List(items)) => {
            // As the server does: one is read over the one before.
            let mut request = Request::default();
            items.into_iter().for_each(|item| check_request(&mut request, item));
        }
        Some(single) => check_request(&mut Request::default(), single),
        None => {}
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let mut words = text.split('\n').map(str::to_owned);
        let method = words.next().unwrap_or_default();
        check_words(&method, &words.collect::<Vec<_>>());
    }
}

/// As serde_json reads it. UniValue differs from that in the depth and in numbers beyond a `double`
/// ([`Said::Unlimited`]), and keeps members of the same name, as the twin does.
///
/// In what else it differs godwit follows serde_json, because no client writes it so, or UniValue gets it
/// wrong: a `-` alone is a number, surrogates may be UTF-8 each for itself or have ASCII between them, UTF-8
/// may be longer than it has to be, and of an escaped character beyond U+1FFFF some bits are lost.
fn check_reading(data: &[u8]) -> Option<Json> {
    let json = within(memory_of(data), || Json::parse(data));
    if depth(data) > MAX_DEPTH {
        assert_eq!(json, None, "too deep");
        return None;
    }
    match (&json, read(data)) {
        (Some(ours), Said::Value(theirs)) => assert!(theirs.is(ours), "{ours:?}, not {theirs:?}"),
        (None, Said::Refused) | (_, Said::Unlimited) => {}
        (ours, theirs) => panic!("{ours:?}, not {theirs:?}"),
    }
    let json = json?;
    assert!(count(&json) <= most_values(data));
    check_writing(&json);
    check_numbers(&json);
    Some(json)
}

fn count(json: &Json) -> usize {
    1 + match json {
        Json::List(items) => items.iter().map(count).sum(),
        Json::Object(members) => members.iter().map(|(_, value)| count(value)).sum(),
        _ => 0,
    }
}

/// What is written is read again, unless it was put into one list or object too many.
fn check_writing(json: &Json) {
    let line = json.write();
    assert_eq!(line.len(), json.written_len());
    assert!(!line.contains(|c: char| c.is_ascii_control()), "one line: {line:?}");
    let expected = (depth(line.as_bytes()) <= MAX_DEPTH).then_some(json);
    assert_eq!(Json::parse(line.as_bytes()).as_ref(), expected, "{line}");
    assert_eq!(Json::parse(json.write_indented(2).as_bytes()).as_ref(), expected);
}

/// Whatever is asked of a value as a number is one, or an error that says why not.
fn check_numbers(json: &Json) {
    match json {
        Json::List(items) => items.iter().for_each(check_numbers),
        Json::Object(members) => members.iter().for_each(|(_, value)| check_numbers(value)),
        Json::Number(text) => {
            let one_of = |error: RpcError| assert_eq!(error.code, code::MISC_ERROR);
            match json.as_integer::<i64>() {
                Ok(number) => assert_eq!(text.parse(), Ok(number)),
                Err(error) => {
                    assert!(text.parse::<i64>().is_err());
                    one_of(error);
                }
            }
            json.as_integer::<u16>().map_or_else(one_of, |number| {
                assert_eq!(text.parse(), Ok(number));
            });
            json.as_real().map_or_else(one_of, |number| assert!(number.is_finite(), "{text}"));
        }
        other => {
            assert_eq!(
                other.as_integer::<i64>().map_err(|error| error.code),
                Err(code::TYPE_ERROR)
            );
            assert_eq!(other.as_real().map_err(|error| error.code), Err(code::TYPE_ERROR));
        }
    }
}

fn check_request(request: &mut Request, item: Json) {
    let before = request.id.clone();
    let read = request.read(item.clone());
    assert_eq!(read.is_ok(), is_request(&item));
    match &item {
        Json::Object(_) => assert_eq!(request.id.as_ref(), item.get("id")),
        _ => assert_eq!(request.id, before),
    }
    let result = match read {
        Err(error) => {
            assert_eq!(error.code, code::INVALID_REQUEST);
            Err(error)
        }
        Ok(()) => {
            assert_eq!(request.v2, item.get("jsonrpc") == Some(&"2.0".into()));
            check_call(&request.method, &request.params)
        }
    };
    check_reply(request, result);
}

/// By the rules of JSON-RPC as Core has them.
fn is_request(item: &Json) -> bool {
    let member = |name: &str| item.get(name).unwrap_or(&Json::Null);
    let version = match member("jsonrpc") {
        Json::Null => true,
        Json::Text(version) => ["1.0", "2.0"].contains(&version.as_str()),
        _ => false,
    };
    let has_params = matches!(member("params"), Json::Null | Json::List(_) | Json::Object(_));
    version && matches!(member("method"), Json::Text(_)) && has_params
}

/// The answer to a call, which is its arguments here.
fn check_reply(request: &Request, result: Result<Json, RpcError>) {
    let is_error = result.is_err();
    let reply = request.reply(result);
    let names: Vec<&str> = match &reply {
        Json::Object(members) => members.iter().map(|(name, _)| &**name).collect(),
        _ => panic!("an object"),
    };
    let expected: &[&str] = match (request.v2, is_error) {
        (false, _) => &["result", "error"],
        (true, false) => &["jsonrpc", "result"],
        (true, true) => &["jsonrpc", "error"],
    };
    let id = request.id.is_some().then_some("id");
    assert_eq!(names, expected.iter().copied().chain(id).collect::<Vec<_>>());
    assert_eq!(reply.get("id"), request.id.as_ref());
    let text = reply.get("error").and_then(|error| error.get("message"));
    let length = text.map_or(0, |text| text.as_text().expect("a text").len());
    assert!(length <= MAX_MESSAGE + '…'.len_utf8());
    check_writing(&reply);
}

/// The arguments by position, or why there is no call.
fn check_call(name: &str, params: &Json) -> Result<Json, RpcError> {
    let Some(method) = find(name) else {
        return Err(RpcError::new(code::METHOD_NOT_FOUND, "Method not found"));
    };
    let given = params.clone();
    let names = params.as_object().map_or(0, |members| members.len());
    // What is refused is named in an error, and a list of positions is moved.
    let allowed = 4_096 + NAME_BYTES * names + memory_of(params.write().as_bytes());
    let arranged = within(allowed, || arguments::by_position(method, given));
    assert_eq!(arranged.as_ref().ok(), arranged_naively(method, params).as_ref());
    let args = match arranged {
        Ok(args) => args,
        Err(error) => {
            assert_eq!(error.code, code::INVALID_PARAMETER);
            return Err(error);
        }
    };
    check_named(method, &args);
    match arguments::check(method, &args) {
        Ok(()) => {
            assert!((method.required()..=method.params.len()).contains(&args.len()));
            check_typed_as(method, &args);
        }
        Err(error) => {
            assert!([code::MISC_ERROR, code::TYPE_ERROR].contains(&error.code));
            return Err(error);
        }
    }
    Ok(Json::List(args))
}

/// Parameter by parameter: what is given for it by its name, or by the names of its options.
fn arranged_naively(method: &Method, params: &Json) -> Option<Vec<Json>> {
    let Json::Object(members) = params else { return Some(params.as_list().ok()?.to_vec()) };
    let mut left: Vec<&str> = members.iter().map(|(name, _)| &**name).collect();
    left.sort_unstable();
    if left.windows(2).any(|two| two[0] == two[1]) {
        return None;
    }
    let mut take = |param: &Param| {
        let name = param.names.split('|').find(|name| left.contains(name))?;
        left.retain(|known| *known != name);
        Some((Cow::Borrowed(name), params.get(name)?.clone()))
    };
    let mut named = Vec::new();
    for param in method.params {
        let options: Vec<_> = match param.kind {
            Kind::Options(known) => known.iter().filter_map(&mut take).collect(),
            _ => Vec::new(),
        };
        named.push(match (take(param), options.is_empty()) {
            (Some(_), false) => return None,
            (None, false) => Some(Json::Object(options)),
            (found, true) => found.map(|(_, value)| value),
        });
    }
    let positional = match params.get("args").filter(|_| left.contains(&"args")) {
        Some(Json::List(items)) => items.as_slice(),
        _ => &[],
    };
    let rest = left.iter().filter(|name| **name != "args").count();
    let first = named.iter().position(Option::is_some);
    if rest > 0 || first.is_some_and(|first| first < positional.len()) {
        return None;
    }
    let count = named.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let mut args = positional.to_vec();
    let more = named.into_iter().take(count).skip(args.len());
    args.extend(more.map(Option::unwrap_or_default));
    Some(args)
}

/// The same arguments with their names are the same call.
fn check_named(method: &Method, args: &[Json]) {
    if args.len() > method.params.len() {
        return;
    }
    let names = method.params.iter().map(|param| param.name().into());
    let named = Json::Object(names.zip(args.iter().cloned()).collect());
    let arranged = arguments::by_position(method, named);
    assert_eq!(arranged.as_deref(), Ok(args), "{}", method.name);
}

/// What a user types for arguments of the right types is what he means, but where a text looks like a
/// number and may be either.
fn check_typed_as(method: &Method, args: &[Json]) {
    let typed = |value: &Json| match value {
        Json::Text(text) => text.clone(),
        other => other.write(),
    };
    let words: Vec<String> = args.iter().map(typed).collect();
    let read = convert::positional(method.name, &words);
    check_words(method.name, &words);
    let Ok(Json::List(read)) = read else {
        let is_json = |text: &str| Json::parse(text.as_bytes()).is_some();
        let no_json = |value: &Json| value.as_text().is_ok_and(|text| !is_json(text));
        assert!(args.iter().any(no_json), "{}: {words:?}", method.name);
        return;
    };
    for ((param, meant), read) in method.params.iter().zip(args).zip(&read) {
        let is_plain = match param.kind {
            Kind::Text | Kind::Hex => !meant.is_null(),
            Kind::Number | Kind::Bool | Kind::List | Kind::Object | Kind::Options(_) => true,
            Kind::Any | Kind::NumberOrText | Kind::TextOrAny => false,
        };
        assert!(!is_plain || meant == read, "{} {}: {read:?}", method.name, param.names);
    }
}

/// A command line, with and without `-named`.
fn check_words(method: &str, words: &[String]) {
    let read = |word: &str, value: &Json| match value {
        Json::Text(text) if text == word => true,
        value => Json::parse(word.as_bytes()).as_ref() == Some(value),
    };
    match convert::positional(method, words) {
        Ok(Json::List(values)) => {
            assert_eq!(values.len(), words.len());
            assert!(words.iter().zip(&values).all(|(word, value)| read(word, value)), "{values:?}");
        }
        Ok(other) => panic!("{other:?}"),
        Err(convert::NoJson(word)) => {
            assert!(words.contains(&word) && Json::parse(word.as_bytes()).is_none());
        }
    }
    match convert::named(method, words) {
        Ok(params) => {
            check_named_words(words, &params, read);
            check_writing(&params);
            if let Some(method) = find(method) {
                let code = arguments::by_position(method, params).map_err(|error| error.code);
                assert!(code.is_ok() || code == Err(code::INVALID_PARAMETER));
            }
        }
        Err(convert::NoJson(text)) => {
            let is_of = |word: &String| {
                *word == text || word.split_once('=').is_some_and(|(_, value)| value == text)
            };
            assert!(words.iter().any(is_of) && Json::parse(text.as_bytes()).is_none());
        }
    }
}

/// Each word is there: behind its name, unless a later one has that, or in its turn.
fn check_named_words(words: &[String], params: &Json, read: impl Fn(&str, &Json) -> bool) {
    let members = params.as_object().expect("an object");
    let positional = match members.last() {
        Some((name, Json::List(items))) if name == "args" => items.as_slice(),
        _ => &[],
    };
    let is_named = |word: &str| {
        word.split_once('=').is_some_and(|(name, value)| {
            let same = |(known, found): &(_, Json)| known == name && read(value, found);
            let later = |later: &String| later.split_once('=').is_some_and(|(n, _)| n == name);
            members.iter().any(same) || words.iter().filter(|word| later(word)).count() > 1
        })
    };
    let in_turn = |word: &str| positional.iter().any(|value| read(word, value));
    for word in words {
        assert!(is_named(word) || in_turn(word), "{word:?} is not in {members:?}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = ODD.iter().map(|text| text.as_bytes().to_vec()).collect();
    for depth in [MAX_DEPTH, MAX_DEPTH + 1] {
        seeds.push([b"[".repeat(depth), b"]".repeat(depth)].concat());
        seeds.push([b"{\"a\":".repeat(depth), b"1".to_vec(), b"}".repeat(depth)].concat());
    }
    seeds.push(format!("[{}0]", "0,".repeat(1024)).into_bytes());
    seeds.push(format!("{{{}\"a\":0}}", "\"\":0,".repeat(1024)).into_bytes());
    seeds.push(format!("[\"{}\\n\"]", "a".repeat(4096)).into_bytes());
    for method in METHODS.iter().filter(|method| method.is_present()) {
        seeds.push(calls_of(method).write().into_bytes());
        seeds.push(command_line_of(method, false).into_bytes());
        seeds.push(command_line_of(method, true).into_bytes());
    }
    seeds
}

/// Texts, numbers and requests in forms that are seldom seen.
const ODD: &[&str] = &[
    "",
    "-",
    " [ 1 , \"\\u00e9\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\" ] ",
    "\"\\ud800\\u0041\"",
    "\"\u{7f}\u{85}\u{2028}é😀\"",
    "[-0,0.5,1e5,-12.25E-3,1e999,-1e999,18446744073709551616,9223372036854775808,0.1e-400]",
    r#"{"b":1,"a":[1,{"x":null}],"b":2}"#,
    r#"{"jsonrpc":"3.0","method":"echo"}"#,
    r#"{"jsonrpc":2,"method":"echo"}"#,
    r#"{"jsonrpc":"2.0","method":"echo"}"#,
    r#"{"jsonrpc":"2.0","method":"getblock","params":{"verbose":1,"verbosity":2},"id":{"a":[1.50]}}"#,
    r#"{"method":"getblock","params":{"args":["a"],"verbosity":2},"id":"x"}"#,
    r#"{"method":"getblock","params":{"args":["a",1],"verbosity":2}}"#,
    r#"{"method":"getblock","params":{"args":1,"verbosity":2}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"method":"echo"},1,[],{},null,{"method":1,"id":2}]"#,
    "getblock\n00\nverbosity=1\nverbosity=2",
    "gettxoutproof\n[\"=\"]\nargs=[1]",
    "createwallet\nmy=wallet",
    "sendtoaddress\na\n0.1",
];

/// Something that a parameter may be.
fn example(param: &Param) -> Json {
    match param.kind {
        Kind::Text | Kind::TextOrAny => "all".into(),
        Kind::Hex => "00ff".into(),
        Kind::Number | Kind::NumberOrText => 7.into(),
        Kind::Bool => true.into(),
        Kind::List => Json::List(vec!["a".into(), Json::Null]),
        Kind::Object | Kind::Any => Json::object([("a", 1.into())]),
        Kind::Options(options) => Json::Object(options.iter().map(member).collect()),
    }
}

fn member(param: &Param) -> (Cow<'static, str>, Json) {
    (param.name().into(), example(param))
}

/// A batch of the same call: by position, by name, with names of options, and as a notification.
fn calls_of(method: &Method) -> Json {
    let call = |version: &'static str, params: Json| {
        Json::object([
            ("jsonrpc", version.into()),
            ("id", 1.into()),
            ("method", method.name.into()),
            ("params", params),
        ])
    };
    let by_options = method.params.iter().flat_map(|param| match param.kind {
        Kind::Options(options) => options.iter().map(member).collect(),
        _ => vec![member(param)],
    });
    let notification = Json::object([("jsonrpc", "2.0".into()), ("method", method.name.into())]);
    Json::List(vec![
        call("1.0", method.params.iter().map(example).collect()),
        call("2.0", Json::Object(method.params.iter().map(member).collect())),
        call("2.0", Json::Object(by_options.collect())),
        notification,
    ])
}

fn command_line_of(method: &Method, named: bool) -> String {
    let mut line = method.name.to_owned();
    for param in method.params {
        let value = match example(param) {
            Json::Text(text) => text,
            other => other.write(),
        };
        line.push('\n');
        if named {
            line.push_str(param.name());
            line.push('=');
        }
        line.push_str(&value);
    }
    line
}
