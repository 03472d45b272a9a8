//! From a value to a request, and from a result to its answer (Core `rpc/request.cpp`).

use std::borrow::Cow;

use crate::error::{RpcError, code};
use crate::json::Json;

/// Memory of a value beside its text: itself and its name in a list that has room for as many again.
const VALUE_BYTES: usize = 160;

/// Copies of a request's text: in its values, in an answer that repeats one, in what is decoded of it.
const COPIES: usize = 3;

/// Bytes of an error's text at most: some repeat what the caller sent.
pub const MAX_MESSAGE: usize = 16 << 10;

/// A request, as far as it was read; of a batch, the next one is read over the one before.
pub struct Request {
    pub id: Option<Json>,
    pub v2: bool,
    pub method: String,
    pub params: Json,
}

impl Default for Request {
    /// Before anything of it was read.
    fn default() -> Self {
        Self { id: Some(Json::Null), v2: false, method: String::new(), params: Json::Null }
    }
}

impl Request {
    /// Reads a value over what was read before, which stays where the value is no object.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn read(&mut self, json: Json) -> Result<(), RpcError> {
        let invalid = |text: &str| RpcError::new(code::INVALID_REQUEST, text);
        let Json::Object(mut members) = json else {
            return Err(invalid("Invalid Request object"));
        };
        self.id = take(&mut members, "id");
        self.v2 = false;
        match take(&mut members, "jsonrpc") {
            None | Some(Json::Null) => {}
            Some(Json::Text(version)) if version == "1.0" => {}
            Some(Json::Text(version)) if version == "2.0" => self.v2 = true,
            Some(Json::Text(_)) => return Err(invalid("JSON-RPC version not supported")),
            Some(_) => return Err(invalid("jsonrpc field must be a string")),
        }
        self.method = match take(&mut members, "method") {
            None | Some(Json::Null) => return Err(invalid("Missing method")),
            Some(Json::Text(method)) => method,
            Some(_) => return Err(invalid("Method must be a string")),
        };
        self.params = match take(&mut members, "params") {
            None | Some(Json::Null) => Json::List(Vec::new()),
            Some(params @ (Json::List(_) | Json::Object(_))) => params,
            Some(_) => return Err(invalid("Params must be an array or object")),
        };
        Ok(())
    }

    /// Whether nobody wants an answer.
    pub fn is_notification(&self) -> bool {
        self.v2 && self.id.is_none()
    }

    /// The object that answers it.
    pub fn reply(&self, result: Result<Json, RpcError>) -> Json {
        let mut reply = Json::Object(Vec::new());
        if self.v2 {
            reply.push("jsonrpc", "2.0");
        }
        match result {
            Ok(result) => {
                reply.push("result", result);
                if !self.v2 {
                    reply.push("error", Json::Null);
                }
            }
            Err(mut error) => {
                if !self.v2 {
                    reply.push("result", Json::Null);
                }
                shorten(&mut error.message);
                reply.push("error", error.to_json());
            }
        }
        if let Some(id) = &self.id {
            reply.push("id", id.clone());
        }
        reply
    }
}

/// Takes the first member of a name.
fn take(members: &mut [(Cow<'static, str>, Json)], name: &str) -> Option<Json> {
    let (_, value) = members.iter_mut().find(|(found, _)| found == name)?;
    Some(std::mem::take(value))
}

/// Cuts off what is longer than an error's text may be.
fn shorten(message: &mut String) {
    if message.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
}

/// No fewer than the values of a text: each but the outermost stands behind one of these signs, or behind a
/// name that does.
pub fn most_values(text: &[u8]) -> usize {
    1 + text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// Bytes that the values of a text take at most, and what is made of its texts.
pub fn memory_of(text: &[u8]) -> usize {
    COPIES * text.len() + VALUE_BYTES * most_values(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes behind a value: room in its list, and what its texts and values have.
    fn held(json: &Json) -> usize {
        match json {
            Json::Null | Json::Bool(_) => 0,
            Json::Number(text) | Json::Text(text) => text.capacity(),
            Json::List(items) => {
                items.capacity() * size_of::<Json>() + items.iter().map(held).sum::<usize>()
            }
            Json::Object(members) => {
                let name = |name: &Cow<'_, str>| match name {
                    Cow::Borrowed(_) => 0,
                    Cow::Owned(name) => name.capacity(),
                };
                members.capacity() * size_of::<(Cow<'static, str>, Json)>()
                    + members.iter().map(|(key, value)| name(key) + held(value)).sum::<usize>()
            }
        }
    }

    #[test]
    fn values_take_no_more_memory_than_is_counted() {
        let nested = |open: &str, close: &str| {
            // Within the 512 levels that are read.
            let times = 500 / close.len();
            let tower = format!("{}0{}", open.repeat(times), close.repeat(times));
            format!("[{}]", [tower.as_str(); 20].join(","))
        };
        for text in [
            nested("[", "]"),
            nested("{\"\":", "}"),
            nested("[{\"\":", "}]"),
            nested("{\"a\":0,\"\":", "}"),
            format!("[{}0]", "0,".repeat(4096)),
            format!("[{}[]]", "[],".repeat(4096)),
            format!("[{}0]", "{\"\":0},".repeat(4096)),
            format!("{{{}\"\":\"\"}}", "\"\":\"\",".repeat(4096)),
            format!("[\"{}\\n\"]", "a".repeat(4096)),
            format!("\"{}\"", "\\n".repeat(4097)),
        ] {
            let json = Json::parse(text.as_bytes()).expect("JSON");
            let (held, counted) = (held(&json), memory_of(text.as_bytes()));
            assert!(held <= counted, "{held} bytes, {counted} counted: {text:.40}");
        }
    }
}
