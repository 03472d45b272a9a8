//! `godwit-cli`: asks a running node, as `bitcoin-cli` does, and prints its answer.

mod arguments;
mod batch;
mod config_file;
mod info;
mod netinfo;
mod password;
mod reach;
mod table;

use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use godwit_client::{CallError, Login, Server};
use godwit_program::{complain, show, write_for_owner_only};
use godwit_rpc::{Json, RpcError, code, convert};

use arguments::{Arguments, Asked};

const SUCCESS: u8 = 0;

/// The exit code of everything that is no error of the server (Core `EXIT_FAILURE`).
const FAILURE: u8 = 1;

/// Between two attempts with `-rpcwait`.
const RETRY: Duration = Duration::from_secs(1);

/// Runs the program on these arguments, and returns its exit code.
pub fn run(words: impl Iterator<Item = OsString>) -> u8 {
    write_for_owner_only();
    let mut words = words.peekable();
    if words.peek().is_none() {
        show(&table::help());
        complain("Error: too few parameters");
        return FAILURE;
    }
    let asked = match arguments::parse(words) {
        Ok(asked) => asked,
        Err(error) => {
            complain(&error);
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
            complain(&text);
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

/// What is asked, and how the answer is shown.
enum Question {
    Method(Json),
    GetInfo,
    NetInfo(netinfo::Shown),
    AddrInfo,
    /// Numbers of blocks and of tries.
    Generate(Vec<String>),
    /// Answered without a server.
    Known(&'static str),
}

/// What several options ask at once.
const QUESTIONS: [&str; 4] = ["addrinfo", "generate", "getinfo", "netinfo"];

fn call(arguments: &Arguments) -> Result<String, Failed> {
    let password = match arguments.is_set("stdinrpcpass") {
        true => Some(password::read("stdinrpcpass", "RPC password")?),
        false => arguments.value("rpcpassword").map(str::to_owned),
    };
    let mut words = arguments.words.clone();
    if arguments.is_set("stdinwalletpassphrase") {
        if !words.first().is_some_and(|method| method.starts_with("walletpassphrase")) {
            return Err(
                "-stdinwalletpassphrase is only applicable for walletpassphrase(change)".into()
            );
        }
        words.insert(1, password::read("stdinwalletpassphrase", "Wallet passphrase")?);
    }
    if arguments.is_set("stdin") {
        for line in io::stdin().lock().lines() {
            words.push(line?);
        }
    }
    let question = question(arguments, &words)?;
    if let Question::Known(text) = question {
        return Ok(text.to_owned());
    }
    check_way(arguments)?;
    let asking = Asking {
        arguments,
        server: reach::server(arguments)?,
        login: reach::login(arguments, password),
    };
    let wallet = arguments.value("rpcwallet");
    match question {
        Question::Method(request) => shown(&asking.ask(&request, wallet)?),
        Question::GetInfo => {
            let reply = asking.ask(&info::request(), wallet)?;
            let balances = if wallet.is_none() { asking.balances(&reply)? } else { Vec::new() };
            info::shown(&reply, &balances, arguments)
        }
        Question::NetInfo(shown) => {
            netinfo::shown(&asking.ask(&netinfo::request(), wallet)?, shown, arguments.network)
        }
        Question::AddrInfo => {
            let reply = asking.ask(&request("getaddrmaninfo", Json::Null, "1"), wallet)?;
            known_addresses(&reply)
        }
        Question::Generate(numbers) => asking.generate(numbers, wallet),
        Question::Known(text) => Ok(text.to_owned()),
    }
}

/// There is no way to a server but HTTP.
fn check_way(arguments: &Arguments) -> Result<(), Failed> {
    match arguments.text("ipcconnect").unwrap_or("auto") {
        "0" | "auto" => Ok(()),
        _ if arguments.value("rpcconnect").is_some() => {
            Err("-rpcconnect and -ipcconnect options cannot both be enabled".into())
        }
        _ => Err("godwit-cli was not built with IPC support".into()),
    }
}

fn question(arguments: &Arguments, words: &[String]) -> Result<Question, Failed> {
    let asked: Vec<&str> =
        QUESTIONS.into_iter().filter(|option| arguments.is_set(option)).collect();
    if asked.len() > 1 {
        let options: Vec<String> = asked.iter().map(|option| format!("-{option}")).collect();
        return Err(format!("Only one of {} may be specified.", options.join(", ")).into());
    }
    Ok(match (asked.first().copied(), words) {
        (Some("getinfo"), []) => Question::GetInfo,
        (Some("getinfo"), _) => return Err("-getinfo takes no arguments".into()),
        (Some("addrinfo"), []) => Question::AddrInfo,
        (Some("addrinfo"), _) => return Err("-addrinfo takes no arguments".into()),
        (Some("netinfo"), [help, ..]) if help == "h" || help == "help" => {
            Question::Known(netinfo::HELP)
        }
        (Some("netinfo"), words) => Question::NetInfo(netinfo::Shown::parse(words)?),
        (Some(_), words) => Question::Generate(words.to_vec()),
        (None, []) => return Err("too few parameters (need at least command)".into()),
        (None, [method, words @ ..]) => {
            let params = match arguments.is_set("named") {
                true => convert::named(method, words)?,
                false => convert::positional(method, words)?,
            };
            Question::Method(request(method, params, arguments.value("rpcid").unwrap_or("1")))
        }
    })
}

fn request(method: &str, params: Json, id: &str) -> Json {
    Json::object([
        ("method", method.into()),
        ("params", params),
        ("id", id.into()),
        ("jsonrpc", "2.0".into()),
    ])
}

/// The result of an answer.
fn result(reply: &Json) -> Result<&Json, Failed> {
    if !matches!(reply, Json::Object(members) if !members.is_empty()) {
        return Err("expected reply to have result, error and id properties".into());
    }
    match reply.get("error") {
        None | Some(Json::Null) => Ok(member(reply, "result")),
        Some(error) => Err(failed(error)),
    }
}

/// The member of an object; null for one that it lacks.
fn member<'a>(json: &'a Json, name: &str) -> &'a Json {
    json.get(name).unwrap_or(&Json::Null)
}

/// What is said of an answer of another type than expected.
fn unexpected(error: RpcError) -> String {
    error.message
}

/// How many addresses are known, by network.
fn known_addresses(reply: &Json) -> Result<String, Failed> {
    let code = reply.get("error").and_then(|error| error.get("code"));
    if code.is_some_and(|code| code.as_integer() == Ok(code::METHOD_NOT_FOUND)) {
        return Err("-addrinfo requires a server with the getaddrmaninfo RPC.".into());
    }
    let mut addresses = Json::Object(Vec::new());
    for (network, counts) in result(reply)?.as_object().map_err(unexpected)? {
        let total: i64 = member(counts, "total").as_integer().map_err(unexpected)?;
        addresses
            .push(if network == "all_networks" { "total".into() } else { network.clone() }, total);
    }
    Ok(Json::object([("addresses_known", addresses)]).write_indented(2))
}

/// A server, and how to ask it.
struct Asking<'a> {
    arguments: &'a Arguments,
    server: Server,
    login: Login,
}

impl Asking<'_> {
    /// What each wallet holds, where there are several.
    fn balances(&self, info: &Json) -> Result<Vec<(String, Json)>, Failed> {
        // No call is worth it where the node itself did not answer.
        if info.as_list().is_err() {
            return Ok(Vec::new());
        }
        let reply = self.ask(&request("listwallets", Json::List(Vec::new()), "1"), None)?;
        let names = reply.get("result").and_then(|names| names.as_list().ok()).unwrap_or_default();
        if names.len() <= 1 {
            return Ok(Vec::new());
        }
        let mut balances = Vec::new();
        for name in names.iter().filter_map(|name| name.as_text().ok()) {
            let asked = request("getbalances", Json::List(Vec::new()), "1");
            let reply = self.ask(&asked, Some(name))?;
            let mine = reply.get("result").and_then(|result| result.get("mine"));
            let trusted = mine.and_then(|mine| mine.get("trusted")).cloned();
            balances.push((name.to_owned(), trusted.unwrap_or_default()));
        }
        Ok(balances)
    }

    fn generate(&self, mut words: Vec<String>, wallet: Option<&str>) -> Result<String, Failed> {
        let reply = self.ask(&request("getnewaddress", Json::List(Vec::new()), "1"), wallet)?;
        let address = result(&reply)?.as_text().map_err(unexpected)?.to_owned();
        if words.len() > 2 {
            return Err("too many arguments (maximum 2 for nblocks and maxtries)".into());
        }
        match words.first().map(String::as_str) {
            None => words.push("1".to_owned()),
            Some("0") => {
                return Err(
                    "the first argument (number of blocks to generate, default: 1) must be an \
                            integer value greater than zero"
                        .into(),
                );
            }
            Some(_) => {}
        }
        words.insert(1, address.clone());
        let params = convert::positional("generatetoaddress", &words)?;
        let reply = self.ask(&request("generatetoaddress", params, "1"), wallet)?;
        let blocks = result(&reply)?.clone();
        Ok(Json::object([("address", address.into()), ("blocks", blocks)]).write_indented(2))
    }

    /// Asks, again and again with `-rpcwait` while the server is not there or starts.
    fn ask(&self, request: &Json, wallet: Option<&str>) -> Result<Json, Failed> {
        let waits = self.arguments.is_set("rpcwait");
        let limit = self.arguments.limit("rpcwaittimeout", 0)?;
        let (request, started) = (request.write(), Instant::now());
        loop {
            let error = match self.server.call(&self.login, wallet, &request) {
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
            if limit.is_some_and(|limit| started.elapsed() >= limit) {
                return Err(format!("timeout on transient error: {text}").into());
            }
            std::thread::sleep(RETRY);
        }
    }
}

/// Whether the server says so, to one question or to any of several.
fn is_starting(reply: &Json) -> bool {
    let code = |reply: &Json| reply.get("error").and_then(|error| error.get("code")).cloned();
    let starts =
        |reply: &Json| code(reply).is_some_and(|code| code.as_integer() == Ok(code::IN_WARMUP));
    reply.as_list().map_or_else(|_| starts(reply), |replies| replies.iter().any(starts))
}

/// What is printed of an answer: nothing for null, a text as it is, all else on several lines.
fn shown(reply: &Json) -> Result<String, Failed> {
    Ok(match result(reply)? {
        Json::Null => String::new(),
        Json::Text(text) => text.clone(),
        result => result.write_indented(2),
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
    if number == Some(code::WALLET_NOT_SPECIFIED) {
        text.push_str(
            " Or for the CLI, specify the \"-rpcwallet=<walletname>\" option before the command (run \
             \"godwit-cli -h\" for help or \"godwit-cli listwallets\" to see which wallets are currently \
             loaded).",
        );
    }
    // What the shell sees of it.
    Failed { text, exit: number.map_or(FAILURE, |number| number.unsigned_abs() as u8) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_if_it_says_so_to_any_question() {
        let starts = |text: &str| is_starting(&Json::parse(text.as_bytes()).expect("JSON"));
        let error = r#"{"error":{"code":-28,"message":"Loading"},"id":0}"#;
        let result = r#"{"result":1,"error":null,"id":1}"#;
        assert!(starts(error) && !starts(result));
        assert!(starts(&format!("[{result},{error}]")) && !starts(&format!("[{result}]")));
    }

    #[test]
    fn who_names_no_wallet_is_told_how() {
        let error = Json::parse(br#"{"code":-19,"message":"Wallet file not specified."}"#);
        let failed = failed(&error.expect("JSON"));
        assert_eq!(failed.exit, 19);
        assert!(failed.text.contains("specify the \"-rpcwallet=<walletname>\" option"));
    }
}
