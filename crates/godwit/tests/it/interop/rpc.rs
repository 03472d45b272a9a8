//! A JSON-RPC client as small as tests need it: every request has a connection of its own.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

/// User and password of all nodes.
pub(super) const USER: &str = "godwit";
/// See [`USER`].
pub(super) const PASSWORD: &str = "godwit";
/// `godwit:godwit` in Base64, as HTTP's basic authentication sends it.
const CREDENTIALS: &str = "Z29kd2l0OmdvZHdpdA==";
/// The slowest answer is that of `gettxoutsetinfo` on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The RPC server on a port of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rpc {
    port: u16,
}

/// Why there is no result.
pub(super) enum RpcError {
    /// Nobody answers, or not in JSON; so it is while a node starts.
    Unreachable(io::Error),
    /// The server's error object.
    Refused(Value),
}

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RpcError::Unreachable(error) => write!(f, "no answer: {error}"),
            RpcError::Refused(error) => write!(f, "refused: {error}"),
        }
    }
}

impl From<io::Error> for RpcError {
    fn from(error: io::Error) -> Self {
        RpcError::Unreachable(error)
    }
}

impl Rpc {
    pub(super) fn new(port: u16) -> Self {
        Self { port }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// `params` as a JSON array.
    pub(super) fn try_call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let request = json!({ "jsonrpc": "1.0", "id": 1, "method": method, "params": params });
        let response = self.post(&request.to_string())?;
        let bad = |why: &dyn fmt::Display| io::Error::new(ErrorKind::InvalidData, why.to_string());
        let (_, body) = response.split_once("\r\n\r\n").ok_or_else(|| bad(&"no body"))?;
        let mut answer: Value = serde_json::from_str(body).map_err(|error| bad(&error))?;
        match answer["error"].take() {
            Value::Null => Ok(answer["result"].take()),
            error => Err(RpcError::Refused(error)),
        }
    }

    /// As [`Rpc::try_call`], for what cannot fail in a test that passes.
    #[track_caller]
    pub(super) fn call(&self, method: &str, params: &Value) -> Value {
        self.try_call(method, params).unwrap_or_else(|error| panic!("{method}: {error:?}"))
    }

    /// Sends an HTTP request and reads until the server closes.
    fn post(&self, body: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let length = body.len();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {CREDENTIALS}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n\
             {body}"
        );
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }
}
