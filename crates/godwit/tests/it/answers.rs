//! What `godwit-cli` makes of answers that are none, and of being asked nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::client::{Said, ask};

/// Says nothing, and is no error.
const NOTHING: &str = r#"{"result":null,"error":null,"id":"1"}"#;

/// Reads a request; false where there is none.
fn is_asked(stream: &TcpStream) -> bool {
    let mut request = BufReader::new(stream);
    let mut length = 0;
    let head = request.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    for line in head {
        let line = line.to_lowercase();
        if let Some(found) = line.strip_prefix("content-length:") {
            length = found.trim().parse().expect("a number");
        }
    }
    request.read_exact(&mut vec![0; length]).expect("a body");
    length > 0
}

/// How a client ends whose every question gets this answer, and how many it asked.
fn answered(answer: &str, words: &[&str]) -> (Said, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let to = ["-noconf", &format!("-rpcport={port}"), "-rpcuser=u", "-rpcpassword=p"];
    let words: Vec<String> = to.iter().chain(words).map(|word| (*word).to_owned()).collect();
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut questions = 0;
            loop {
                let (mut stream, _) = listener.accept().expect("a client");
                if !is_asked(&stream) {
                    return questions;
                }
                questions += 1;
                let length = answer.len();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}")
                    .expect("it reads");
            }
        });
        let said = ask(&words, "");
        // Asks nothing, and so ends it.
        drop(TcpStream::connect(("127.0.0.1", port)).expect("it listens"));
        (said, serving.join().expect("no panic"))
    })
}

fn refused(err: &str, questions: usize) -> (Said, usize) {
    (Said { code: Some(1), out: String::new(), err: format!("error: {err}\n") }, questions)
}

/// As by `bitcoin-cli`, whose words they are.
#[test]
fn an_answer_of_another_type_is_no_success() {
    let of_type = |expected: &str| {
        refused(&format!("JSON value of type null is not of expected type {expected}"), 1)
    };
    assert_eq!(answered(NOTHING, &["-addrinfo"]), of_type("object"));
    let uncounted = r#"{"result":{"ipv4":{}},"error":null,"id":"1"}"#;
    assert_eq!(answered(uncounted, &["-addrinfo"]), of_type("number"));
    // Nothing is generated to no address.
    assert_eq!(answered(NOTHING, &["-generate"]), of_type("string"));
    for option in ["-getinfo", "-netinfo"] {
        assert_eq!(answered(NOTHING, &[option]), refused("Batch must be an array", 1));
        assert_eq!(answered("[null]", &[option]).0.code, Some(1));
    }
    let nothings = r#"[{"result":null,"error":null,"id":0},{"result":null,"error":null,"id":1}]"#;
    for nothings in [nothings, "[]"] {
        assert_eq!(answered(nothings, &["-netinfo"]), of_type("number"));
        assert_eq!(answered(nothings, &["-getinfo"]).0, of_type("number").0);
    }
    // Of a method it is an answer.
    let said = Said { code: Some(0), out: String::new(), err: String::new() };
    assert_eq!(answered(NOTHING, &["getblockcount"]), (said, 1));
}

#[test]
fn a_batch_that_is_refused_as_a_whole_is_reported() {
    let refusal = r#"{"result":null,"error":{"code":-28,"message":"Loading"},"id":null}"#;
    for option in ["-getinfo", "-netinfo"] {
        let (said, _) = answered(refusal, &[option]);
        assert_eq!(
            (said.code, &*said.err),
            (Some(28), "error code: -28\nerror message:\nLoading\n")
        );
    }
}

#[test]
fn what_a_server_says_does_not_steer_the_terminal() {
    let answer = r#"{"result":null,"error":{"code":-1,"message":"a\nb\u001b[31m"},"id":"1"}"#;
    let (said, _) = answered(answer, &["getblockcount"]);
    assert_eq!(said.err, "error code: -1\nerror message:\na\nb\\x1b[31m\n");
    let wrong = ask(&["-\u{1b}[31m".to_owned()], "");
    let expected = "Error parsing command line arguments: Invalid parameter -\\x1b[31m\n";
    assert_eq!((wrong.code, &*wrong.err), (Some(1), expected));
}

#[test]
fn who_asks_nothing_is_told_how() {
    let said = ask(&[], "");
    assert_eq!((said.code, &*said.err), (Some(1), "Error: too few parameters\n"));
    assert!(said.out.contains("godwit-cli [options] METHOD [ARGUMENT...]"), "{said:?}");
}
