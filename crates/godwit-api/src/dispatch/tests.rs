//! Requests that ask for more than there is.

use std::sync::atomic::AtomicBool;

use godwit_rpc::request::MAX_MESSAGE;

use super::*;
use crate::server::tests::{Node, USER, options, ready};

/// With so much memory for answers, so many threads, and a node that nobody drives.
fn api(answer_bytes: usize, threads: usize) -> (Api, Node) {
    let (stage, node) = ready();
    let answers = Answers::new(answer_bytes);
    let options = crate::ServerOptions { threads, ..options() };
    (Api::new(&stage, &answers, &options), node)
}

fn text_of(reply: Reply) -> String {
    let text = |body: AnswerBody| String::from_utf8(body.bytes.to_vec()).expect("text");
    reply.body.map_or_else(String::new, text)
}

fn ask(api: &Api, body: &str) -> (u16, String) {
    let body = RequestBody { bytes: body.as_bytes().to_vec(), permit: None };
    let reply = api.answer(body, USER, &|| false);
    (reply.status, text_of(reply))
}

fn code_of(text: &str) -> String {
    let reply = Json::parse(text.trim_end().as_bytes()).expect("JSON");
    reply.get("error").and_then(|error| error.get("code")).unwrap_or(&Json::Null).write()
}

#[test]
fn a_batch_stays_within_the_memory_of_answers() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"rpc.discover"}"#;
    let one = {
        let (api, _node) = api(1 << 20, 1);
        ask(&api, call).1.len()
    };
    let (api, _node) = api(3 * one, 1);
    let (status, text) = ask(&api, &format!("[{}]", [call; 40].join(",")));
    assert_eq!(status, OK);
    let Some(Json::List(replies)) = Json::parse(text.trim_end().as_bytes()) else {
        panic!("a list");
    };
    let refused = |reply: &&Json| reply.get("error").is_some();
    let count = replies.iter().filter(refused).count();
    assert!(replies.len() == 40 && (30..39).contains(&count), "{count} of {}", replies.len());
    assert!(replies[0].get("result").is_some());
    // With what each request has for its own, and what is said to those that are refused.
    assert!(text.len() < 3 * one + (64 << 10) + 40 * 120, "{} bytes", text.len());
    let (_, text) = ask(&api, call);
    assert_eq!(text.len(), one, "what it took is free again");
}

#[test]
fn a_request_has_so_many_values_and_no_more() {
    let (api, _node) = api(1 << 20, 1);
    let with = |zeros: usize| {
        let zeros = vec!["0"; zeros].join(",");
        ask(&api, &format!(r#"{{"method":"echo","id":[{zeros}]}}"#))
    };
    // The object, the method and the list count as well.
    let (status, text) = with(MAX_VALUES - 3);
    assert_eq!((status, code_of(&text).as_str()), (OK, "null"));
    let (status, text) = with(MAX_VALUES - 2);
    assert_eq!((status, code_of(&text)), (INTERNAL_ERROR, code::LIMIT_EXCEEDED.to_string()));
}

/// Hexadecimal of a transaction with so many outputs that say nothing.
fn with_outputs(count: u32) -> String {
    let count_hex: String = count.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let input = format!("{}00000000{}ffffffff", "11".repeat(32), "00");
    let outputs = "000000000000000000".repeat(count as usize);
    format!("0200000001{input}fe{count_hex}{outputs}00000000")
}

/// A block has at most 111,000 outputs. Of sixteen times as many, each a value with names, one call took a
/// gigabyte.
#[test]
fn a_transaction_of_which_more_is_told_than_of_any_block_is_not_decoded() {
    let (api, _node) = api(1 << 20, 1);
    let decode = |count: u32| {
        let hex = with_outputs(count);
        let (status, text) =
            ask(&api, &format!(r#"{{"method":"decoderawtransaction","params":["{hex}"]}}"#));
        (status, code_of(&text))
    };
    assert_eq!(decode(70_000), (OK, "null".to_owned()));
    let too_large = (INTERNAL_ERROR, code::LIMIT_EXCEEDED.to_string());
    assert_eq!(decode(200_000), too_large);
}

#[test]
fn depth_is_an_error_of_its_own_before_the_number_of_values() {
    let (api, _node) = api(1 << 20, 1);
    for text in ["[".repeat(MAX_VALUES + 1), format!("{}1", "[[".repeat(MAX_VALUES))] {
        assert_eq!(code_of(&ask(&api, &text).1), code::PARSE_ERROR.to_string());
    }
    let flat = format!("[{}", "[],".repeat(MAX_VALUES));
    assert_eq!(code_of(&ask(&api, &flat).1), code::LIMIT_EXCEEDED.to_string());
}

#[test]
fn an_error_repeats_only_so_much_of_what_was_sent() {
    let (api, _node) = api(1 << 20, 1);
    let long = "ä".repeat(1 << 20);
    let (status, text) =
        ask(&api, &format!(r#"{{"method":"waitforblock","id":1,"params":["{long}"]}}"#));
    assert_eq!((status, code_of(&text)), (INTERNAL_ERROR, code::INVALID_PARAMETER.to_string()));
    assert!((MAX_MESSAGE..MAX_MESSAGE + 200).contains(&text.len()), "{} bytes", text.len());
}

#[test]
fn waits_leave_a_thread_to_the_others() {
    for (threads, waits) in [(1, 1), (2, 1), (16, 15)] {
        let (api, _node) = api(1 << 20, threads);
        let all: Vec<_> = (0..waits).map(|_| api.begin_wait().expect("there is a place")).collect();
        let error = api.begin_wait().err().expect("there is none");
        assert_eq!(error.code, code::LIMIT_EXCEEDED);
        drop(all);
        assert!(api.begin_wait().is_ok());
    }
}

#[test]
fn a_wait_ends_when_nobody_waits_for_it() {
    let (api, _node) = api(1 << 20, 1);
    let body =
        RequestBody { bytes: br#"{"method":"waitfornewblock","id":1}"#.to_vec(), permit: None };
    let reply = api.answer(body, USER, &|| true);
    assert_eq!(reply.status, OK);
}

/// The coins never come, because nobody drives the node: two callers wait, one of them for the other one.
#[test]
fn who_waits_for_all_coins_ends_when_he_is_gone_or_the_node_ends() {
    let (api, node) = api(64 << 20, 4);
    let is_gone = AtomicBool::new(false);
    let ask = |is_gone: &AtomicBool| {
        let bytes = br#"{"method":"gettxoutsetinfo","id":1}"#.to_vec();
        let gone = || is_gone.load(Ordering::SeqCst);
        let reply = api.answer(RequestBody { bytes, permit: None }, USER, &gone);
        code_of(&text_of(reply))
    };
    let until = |waiting: usize| {
        while api.waits.count.load(Ordering::SeqCst) != waiting {
            std::thread::yield_now();
        }
    };
    let never = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| ask(&is_gone));
        until(1);
        let second = scope.spawn(|| ask(&never));
        until(2);
        assert_eq!(ask(&never), code::LIMIT_EXCEEDED.to_string(), "one waits already");
        is_gone.store(true, Ordering::SeqCst);
        first.join().expect("it ends");
        until(1);
        assert!(!second.is_finished(), "it has its turn now, or soon");
        drop(node);
        let code = second.join().expect("it ends");
        assert_eq!(code, code::CLIENT_NOT_CONNECTED.to_string());
    });
}

/// One waits for the node's thread, one for what it would send, and one for another tip.
#[test]
fn who_waits_hears_whether_the_node_ends_or_starts_again() {
    let methods = ["getchaintips", "gettxoutsetinfo", "waitfornewblock"];
    let told = |end: fn(Node)| {
        methods.map(|method| {
            let (api, node) = api(64 << 20, 4);
            let text = std::thread::scope(|scope| {
                let waits =
                    scope.spawn(|| ask(&api, &format!(r#"{{"method":"{method}","id":1}}"#)).1);
                while api.active.list().is_empty() {
                    std::thread::yield_now();
                }
                end(node);
                waits.join().expect("it ends")
            });
            let reply = Json::parse(text.trim_end().as_bytes()).expect("JSON");
            let error = reply.get("error").cloned().unwrap_or_default();
            (error.get("code").cloned(), error.get("message").cloned())
        })
    };
    let said = |code: i32, text: &str| (Some(code.into()), Some(text.into()));
    let pausing = said(code::IN_WARMUP, "Loading UTXO snapshot…");
    assert_eq!(told(Node::pause), [pausing.clone(), pausing.clone(), pausing]);
    let ending = said(code::CLIENT_NOT_CONNECTED, "Shutting down");
    // Core's waits answer with the last tip.
    assert_eq!(told(drop), [ending.clone(), ending, (None, None)]);
}

/// Each is refused before anything is asked of the node, which nobody drives.
#[test]
fn a_search_for_too_much_is_refused() {
    const KEY: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
    let (api, _node) = api(8 << 20, 4);
    let asked = |objects: &str| {
        let body = format!(r#"{{"method":"scantxoutset","id":1,"params":["start",{objects}]}}"#);
        code_of(&ask(&api, &body).1)
    };
    let steps = "/1".repeat(250);
    let limit = code::LIMIT_EXCEEDED.to_string();
    // Each takes a megabyte; half of the memory is there for them.
    let paths = (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(";");
    let long = format!(r#""pkh({KEY}{steps}/<{paths}>)","#).repeat(5);
    assert_eq!(asked(&format!("[{}]", long.trim_end_matches(','))), limit);
    let deep = format!(r#"[{{"desc":"pkh({KEY}{steps}/*)","range":[0,99999]}}]"#);
    assert_eq!(asked(&deep), limit);
    // The scripts alone would be too much, and so are they behind what is wrong with another object.
    let wide = format!(r#"{{"desc":"pkh({KEY}/*)","range":[0,99999]}}"#);
    assert_eq!(asked(&format!("[{wide}]")), limit);
    for (objects, error) in [
        (format!(r#"[{wide},"raw(51)"]"#), code::INVALID_PARAMETER),
        (format!(r#"["x",{wide},"raw(51)"]"#), code::INVALID_ADDRESS_OR_KEY),
    ] {
        assert_eq!(asked(&objects), error.to_string(), "{objects}");
    }
    assert!(api.coins.search.under_way().is_none() && api.waits.count.load(Ordering::SeqCst) == 0);
}

/// The coins never come, because nobody drives the node.
#[test]
fn one_search_at_a_time_which_can_be_aborted() {
    let (api, node) = api(64 << 20, 4);
    let ask = |params: &str| {
        let body = format!(r#"{{"method":"scantxoutset","id":1,"params":{params}}}"#);
        let text = ask(&api, &body).1;
        let reply = Json::parse(text.trim_end().as_bytes()).expect("JSON");
        let of = |json: &Json, name| json.get(name).cloned().unwrap_or_default();
        let (result, error) = (of(&reply, "result"), of(&reply, "error"));
        if error.is_null() { result } else { of(&error, "code") }
    };
    let started = || ask(r#"["start",["raw(51)"]]"#);
    let until = |running: bool| {
        while ask(r#"["status"]"#).is_null() == running {
            std::thread::yield_now();
        }
    };
    assert_eq!(ask(r#"["abort"]"#), false.into());
    std::thread::scope(|scope| {
        let first = scope.spawn(started);
        until(true);
        assert_eq!(ask(r#"["status"]"#), Json::object([("progress", 0.into())]));
        assert_eq!(started(), code::INVALID_PARAMETER.into());
        assert_eq!(ask(r#"["abort"]"#), true.into());
        let found = first.join().expect("it ends");
        assert_eq!(found.get("success"), Some(&false.into()));
        assert_eq!(found.get("unspents"), Some(&Json::List(Vec::new())));
        until(false);
        let second = scope.spawn(started);
        until(true);
        drop(node);
        assert_eq!(second.join().expect("it ends"), code::CLIENT_NOT_CONNECTED.into());
        until(false);
    });
}

/// The answers never come, because nobody drives the node; with its end, they are refused.
#[test]
fn whoever_asks_the_node_is_among_the_active_requests_until_he_is_answered() {
    let body = |bytes: &[u8]| RequestBody { bytes: bytes.to_vec(), permit: None };
    let call = body(br#"{"method":"getnettotals","id":1}"#);
    let hash = "00".repeat(32);
    type Asking = Box<dyn FnOnce(&Api) -> Reply + Send>;
    let by_rpc: Asking = Box::new(|api| api.answer(call, USER, &|| false));
    let nothing = body(b"");
    let by_rest: Asking = Box::new(move |api| {
        api.answer_resource(&format!("/rest/block/{hash}.bin"), nothing, &|| false)
    });
    for asking in [by_rpc, by_rest] {
        let (api, node) = api(1 << 20, 1);
        assert!(!api.active.may_read());
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| asking(&api));
            while !api.active.may_read() {
                std::thread::yield_now();
            }
            drop(node);
            assert_ne!(asked.join().expect("it ends").status, OK);
        });
        assert!(!api.active.may_read());
    }
}
