//! `godwit status`: asks the node that runs on the data directory, and prints its answer.

use std::fmt;
use std::time::Duration;

use godwit_client::{CallError, Login, Server};
use godwit_program::{options::CONFIG_FILE, print_text};
use godwit_rpc::Json;

use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::options::{AskOptions, Config};

/// A node that runs answers from what it has published; longer than this it is not there.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Why there is nothing to print.
#[derive(Debug)]
enum StatusError {
    Unanswered(CallError),
    /// The node's own words.
    Refused(String),
    /// The answer is of another program.
    Unexpected,
}

impl fmt::Display for StatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered(error) => {
                // Further lines are advice of godwit-cli's.
                let text = error.to_string();
                f.write_str(text.lines().next().unwrap_or_default())?;
                match error {
                    CallError::Connection(_) => f.write_str(
                        ": no node runs there, or the network or -rpcport is not the node's",
                    ),
                    CallError::Other(_) => Ok(()),
                }
            }
            Self::Refused(text) => write!(f, "the node says: {text}"),
            Self::Unexpected => {
                f.write_str("what answers at that port is no godwit of this version")
            }
        }
    }
}

impl Fatal for StatusError {
    fn exit(&self) -> Exit {
        Exit::Failure
    }
}

pub(crate) fn run(config: &Config, options: &AskOptions) -> Result<Exit, Failure> {
    let reply = ask(config, options).map_err(StatusError::Unanswered)?;
    let text = shown(&reply, options.json)?;
    print_text(&text).map_err(Failure::from)
}

fn ask(config: &Config, options: &AskOptions) -> Result<Json, CallError> {
    let dir = config.network_dir();
    let (user, password) = match &options.login {
        Some((user, password)) => (user.clone(), Some(password.text().to_owned())),
        None => (String::new(), None),
    };
    let config_file = config.config_file.clone();
    let login = Login {
        user,
        password,
        cookie: options.cookie.as_ref().map(|file| dir.join(file)),
        config_file: config_file.unwrap_or_else(|| config.datadir.join(CONFIG_FILE)),
    };
    let server = Server { host: "127.0.0.1".to_owned(), port: options.port, timeout: TIMEOUT };
    server.call(&login, None, r#"{"jsonrpc":"2.0","id":1,"method":"getsyncstatus"}"#)
}

/// The four lines, or all of it; while the node starts, what it is at.
fn shown(reply: &Json, json: bool) -> Result<String, StatusError> {
    if let Some(error) = reply.get("error").filter(|error| !error.is_null()) {
        let text = error.get("message").and_then(|text| text.as_text().ok());
        return Err(StatusError::Refused(text.unwrap_or("an error").to_owned()));
    }
    let result = reply.get("result").ok_or(StatusError::Unexpected)?;
    if json {
        return Ok(result.write_indented(2) + "\n");
    }
    let lines = result.get("lines").and_then(|lines| lines.as_list().ok());
    let mut text = String::new();
    for line in lines.ok_or(StatusError::Unexpected)? {
        text.push_str(line.as_text().map_err(|_| StatusError::Unexpected)?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reply: &str, json: bool) -> String {
        match shown(&Json::parse(reply.as_bytes()).expect("JSON"), json) {
            Ok(text) => text,
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_failure_is_one_line() {
        let said = |error| StatusError::Unanswered(error).to_string();
        let alone =
            said(CallError::Connection("Error (timeout)\n\nMake sure.\nUse it.".to_owned()));
        assert_eq!(
            alone,
            "Error (timeout): no node runs there, or the network or -rpcport is not the node's"
        );
        assert_eq!(
            said(CallError::Other("Server response: a\nb".to_owned())),
            "Server response: a"
        );
    }

    #[test]
    fn what_the_node_says_is_printed() {
        let reply = r#"{"result":{"stage":"blocks","lines":["a","b"]},"id":1}"#;
        assert_eq!(of(reply, false), "a\nb\n");
        assert_eq!(of(r#"{"result":{"stage":"blocks"}}"#, true), "{\n  \"stage\": \"blocks\"\n}\n");
        let starting = r#"{"error":{"code":-28,"message":"Loading block index…"},"id":1}"#;
        assert_eq!(of(starting, false), "the node says: Loading block index…");
        for other in [r#"{"result":7}"#, "{}", r#"{"result":{"lines":[7]}}"#] {
            assert!(of(other, false).contains("no godwit"), "{other}");
        }
    }
}
