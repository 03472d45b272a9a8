//! Turns a JSON value into a request, and a result into its answer (Core `rpc/request.cpp`).

use std::borrow::Cow;

use crate::error::{RpcError, code};
use crate::json::Json;

/// Memory of a value besides its text: the value and its name, in a list that has room for as many again.
const VALUE_BYTES: usize = 160;

/// Copies of a request's text: one in its values, one in an answer that repeats it, one in data decoded from
/// it.
const COPIES: usize = 3;

/// Bytes of an error's text, at most: some errors repeat what the caller sent.
pub const MAX_MESSAGE: usize = 16 << 10;

/// A request, as far as it was read. The requests of a batch are read into the same value, one after another.
pub struct Request {
    pub id: Option<Json>,
    pub v2: bool,
    pub method: String,
    pub params: Json,
}

impl Default for Request {
    /// A request of which nothing has been read.
    fn default() -> Self {
        Self { id: Some(Json::Null), v2: false, method: String::new(), params: Json::Null }
    }
}

impl Request {
    /// Reads a request over the one that was read before. Fields that are not reached keep their old values.
    ///
    /// # Errors
    ///
    /// The value is not a valid request.
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

    /// Whether the client wants no answer.
    pub fn is_notification(&self) -> bool {
        self.v2 && self.id.is_none()
    }

    /// The object that answers the request.
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

/// Takes the first member of this name out of its place.
fn take(members: &mut [(Cow<'static, str>, Json)], name: &str) -> Option<Json> {
    let (_, value) = members.iter_mut().find(|(found, _)| found == name)?;
    Some(std::mem::take(value))
}

/// Cuts an error's text to `MAX_MESSAGE`.
fn shorten(message: &mut String) {
    if message.len() > MAX_MESSAGE {
        let end = (0..=MAX_MESSAGE).rev().find(|end| message.is_char_boundary(*end));
        message.truncate(end.unwrap_or(0));
        message.push('…');
    }
}

/// An upper bound of the number of values in a text: each value but the outermost stands behind one of these
/// characters, or behind a name that does.
pub fn most_values(text: &[u8]) -> usize {
    1 + text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// Bytes that the values of a text take at most, with the data made from its texts.
pub fn memory_of(text: &[u8]) -> usize {
    COPIES * text.len() + VALUE_BYTES * most_values(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes on the heap that a value holds: room in its list, its texts and its values.
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
            // Below the limit of 512 levels.
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
