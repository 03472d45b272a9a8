//! `godwit-cli`: asks a running node, as `bitcoin-cli` does, and prints what it says.

mod arguments;
mod client;
mod config_file;
mod info;
mod password;

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use godwit_program::write_for_owner_only;
use godwit_rpc::{Json, code, convert};

use arguments::{Arguments, Asked};
use client::{CallError, Login, Server};

const SUCCESS: u8 = 0;

/// The exit code of everything that is no error of the server (Core `EXIT_FAILURE`).
const FAILURE: u8 = 1;

/// Between two attempts with `-rpcwait`.
const RETRY: Duration = Duration::from_secs(1);

/// Runs the program on these arguments, and returns its exit code.
pub fn run(words: impl Iterator<Item = OsString>) -> u8 {
    write_for_owner_only();
    let asked = match arguments::parse(words) {
        Ok(asked) => asked,
        Err(error) => {
            eprintln!("{error}");
            return FAILURE;
        }
    };
    let outcome = match asked {
        Asked::Print(text) => Ok(text),
        Asked::Call(arguments) => call(&arguments),
    };
    match outcome {
        Ok(text) if text.is_empty() => SUCCESS,
        // Whoever reads may have enough.
        Ok(text) => match writeln!(io::stdout(), "{text}") {
            Ok(()) => SUCCESS,
            Err(_) => FAILURE,
        },
        Err(Failed { text, exit }) => {
            eprintln!("{text}");
            exit
        }
    }
}

/// What is printed on standard error, and the exit code.
struct Failed {
    text: String,
    exit: u8,
}

impl<T: std::fmt::Display> From<T> for Failed {
    fn from(error: T) -> Self {
        Self { text: format!("error: {error}"), exit: FAILURE }
    }
}

/// What is sent and how the answer is shown.
enum Request {
    Method(Json),
    GetInfo(Json),
}

fn call(arguments: &Arguments) -> Result<String, Failed> {
    let password = match arguments.is_set("stdinrpcpass") {
        true => Some(password::read()?),
        false => arguments.value("rpcpassword").map(str::to_owned),
    };
    let mut words = arguments.words.clone();
    if arguments.is_set("stdin") {
        for line in io::stdin().lock().lines() {
            words.push(line?);
        }
    }
    let request = request(arguments, &words)?;
    let server = Server::of(arguments)?;
    let login = Login::of(arguments, password);
    let (Request::Method(json) | Request::GetInfo(json)) = &request;
    let reply = ask(arguments, &server, &login, json)?;
    match &request {
        Request::Method(_) => shown(&reply),
        Request::GetInfo(_) => info::shown(&reply, arguments),
    }
}

fn request(arguments: &Arguments, words: &[String]) -> Result<Request, Failed> {
    if arguments.is_set("getinfo") {
        if !words.is_empty() {
            return Err("-getinfo takes no arguments".into());
        }
        return Ok(Request::GetInfo(info::request()));
    }
    let [method, words @ ..] = words else {
        return Err("too few parameters (need at least command)".into());
    };
    let params = match arguments.is_set("named") {
        true => convert::named(method, words)?,
        false => convert::positional(method, words)?,
    };
    Ok(Request::Method(Json::object([
        ("method", method.as_str().into()),
        ("params", params),
        ("id", arguments.value("rpcid").unwrap_or("1").into()),
        ("jsonrpc", "2.0".into()),
    ])))
}

/// Asks, again and again with `-rpcwait` while the server is not there or starts.
fn ask(
    arguments: &Arguments,
    server: &Server,
    login: &Login,
    request: &Json,
) -> Result<Json, Failed> {
    let waits = arguments.is_set("rpcwait");
    let seconds = arguments.number("rpcwaittimeout")?.unwrap_or(0);
    let started = Instant::now();
    loop {
        let error = match server.call(login, &request.write()) {
            Ok(reply) if waits && is_starting(&reply) => {
                CallError::Connection("server in warmup".to_owned())
            }
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        let CallError::Connection(text) = error else { return Err(error.into()) };
        if !waits {
            return Err(text.into());
        }
        if seconds > 0 && started.elapsed() >= Duration::from_secs(seconds) {
            return Err(format!("timeout on transient error: {text}").into());
        }
        std::thread::sleep(RETRY);
    }
}

fn is_starting(reply: &Json) -> bool {
    let code = reply.get("error").and_then(|error| error.get("code"));
    code.is_some_and(|number| number.as_integer() == Ok(code::IN_WARMUP))
}

/// What is printed of an answer: nothing for null, a text as it is, all else on several lines.
fn shown(reply: &Json) -> Result<String, Failed> {
    if !matches!(reply, Json::Object(members) if !members.is_empty()) {
        return Err("expected reply to have result, error and id properties".into());
    }
    match reply.get("error") {
        None | Some(Json::Null) => {}
        Some(error) => return Err(failed(error)),
    }
    Ok(match reply.get("result") {
        None | Some(Json::Null) => String::new(),
        Some(Json::Text(text)) => text.clone(),
        Some(result) => result.write_indented(2),
    })
}

/// An error of the server: its code is the exit code, without its sign.
fn failed(error: &Json) -> Failed {
    let number = error.get("code").and_then(|code| code.as_integer::<i32>().ok());
    let mut text = match error {
        Json::Object(_) => String::new(),
        other => format!("error: {}", other.write()),
    };
    if let Some(code) = error.get("code") {
        text = format!("error code: {}\n", code.write());
    }
    if let Some(Json::Text(message)) = error.get("message") {
        text.push_str(&format!("error message:\n{message}"));
    }
    // What the shell sees of it.
    Failed { text, exit: number.map_or(FAILURE, |number| number.unsigned_abs() as u8) }
}
