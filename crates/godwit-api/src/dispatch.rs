//! From the body of a request to the body of its answer (Core `httprpc.cpp`, `rpc/server.cpp`).

mod arguments;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use godwit_rpc::{Json, Method, RpcError, code, find, help_of};

use crate::added_names::AddedNames;
use crate::answers::{Answers, Room};
use crate::api::{Active, Api};
use crate::methods::{self, Call};
use crate::server::{AnswerText, Reply, ServerOptions};
use crate::stage::Stage;

const OK: u16 = 200;
const NO_CONTENT: u16 = 204;
const BAD_REQUEST: u16 = 400;
const FORBIDDEN: u16 = 403;
const NOT_FOUND: u16 = 404;
const INTERNAL_ERROR: u16 = 500;

/// A request, as far as it was read; of a batch, the next one is read over the one before.
struct Request {
    id: Option<Json>,
    v2: bool,
    method: String,
    params: Json,
}

impl Request {
    fn new() -> Self {
        Self { id: Some(Json::Null), v2: false, method: String::new(), params: Json::Null }
    }

    fn read(&mut self, json: &Json) -> Result<(), RpcError> {
        let invalid = |text: &str| RpcError::new(code::INVALID_REQUEST, text);
        let Json::Object(_) = json else { return Err(invalid("Invalid Request object")) };
        self.id = json.get("id").cloned();
        self.v2 = false;
        match json.get("jsonrpc") {
            None | Some(Json::Null) => {}
            Some(Json::Text(version)) if version == "1.0" => {}
            Some(Json::Text(version)) if version == "2.0" => self.v2 = true,
            Some(Json::Text(_)) => return Err(invalid("JSON-RPC version not supported")),
            Some(_) => return Err(invalid("jsonrpc field must be a string")),
        }
        self.method = match json.get("method") {
            None | Some(Json::Null) => return Err(invalid("Missing method")),
            Some(Json::Text(method)) => method.clone(),
            Some(_) => return Err(invalid("Method must be a string")),
        };
        self.params = match json.get("params") {
            None | Some(Json::Null) => Json::List(Vec::new()),
            Some(params @ (Json::List(_) | Json::Object(_))) => params.clone(),
            Some(_) => return Err(invalid("Params must be an array or object")),
        };
        Ok(())
    }

    /// Whether nobody wants an answer.
    fn is_notification(&self) -> bool {
        self.v2 && self.id.is_none()
    }

    fn reply(&self, result: Result<Json, RpcError>) -> Json {
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
            Err(error) => {
                if !self.v2 {
                    reply.push("result", Json::Null);
                }
                reply.push("error", error.to_json());
            }
        }
        if let Some(id) = &self.id {
            reply.push("id", id.clone());
        }
        reply
    }
}

/// The status of HTTP that says an error of a request that is not version 2.
fn status_of(error: &RpcError) -> u16 {
    match error.code {
        code::INVALID_REQUEST => BAD_REQUEST,
        code::METHOD_NOT_FOUND => NOT_FOUND,
        _ => INTERNAL_ERROR,
    }
}

impl Api {
    pub(crate) fn new(stage: &Stage, options: &ServerOptions) -> Self {
        Self {
            stage: stage.clone(),
            answers: Answers::new(options.answer_bytes),
            whitelist: options.whitelist.clone(),
            version: options.version,
            log_path: options.log_path.clone(),
            started: Instant::now(),
            added: AddedNames::default(),
            stop: Arc::clone(&options.stop),
            active: Mutex::default(),
            next_call: AtomicU64::new(0),
        }
    }

    /// Answers the body of a request of this user.
    pub(crate) fn answer(&self, body: &[u8], user: &str) -> Reply {
        let mut room = self.answers.room();
        let mut request = Request::new();
        let answered = match Json::parse(body) {
            None => Err(RpcError::new(code::PARSE_ERROR, "Parse error")),
            Some(_) if self.whitelist.excludes(user) => {
                log::warn!("RPC User {user} not allowed to call any methods");
                return Reply { status: FORBIDDEN, text: None };
            }
            Some(json @ Json::Object(_)) => self.single(&json, user, &mut request, &mut room),
            Some(Json::List(items)) => self.batch(&items, user, &mut request, &mut room),
            Some(_) => Err(RpcError::new(code::PARSE_ERROR, "Top-level object parse error")),
        };
        let (status, text) = answered
            .unwrap_or_else(|error| (status_of(&error), Some(request.reply(Err(error)).write())));
        let text = text.map(|mut text| {
            text.push('\n');
            room.shrink_to(text.capacity());
            AnswerText { text, _room: room }
        });
        Reply { status, text }
    }

    fn single(
        &self,
        json: &Json,
        user: &str,
        request: &mut Request,
        room: &mut Room,
    ) -> Result<(u16, Option<String>), RpcError> {
        request.read(json)?;
        if !self.whitelist.allows(user, &request.method) {
            return Ok(self.forbidden(user, &request.method));
        }
        let result = self.execute(request, room);
        if request.is_notification() {
            return Ok((NO_CONTENT, None));
        }
        match result {
            Err(error) if !request.v2 => Err(error),
            result => Ok((OK, Some(written(&request.reply(result), room)?))),
        }
    }

    fn batch(
        &self,
        items: &[Json],
        user: &str,
        request: &mut Request,
        room: &mut Room,
    ) -> Result<(u16, Option<String>), RpcError> {
        if self.whitelist.lists(user) {
            for item in items {
                let Json::Object(_) = item else {
                    return Err(RpcError::new(code::INVALID_REQUEST, "Invalid Request object"));
                };
                let method = item.get("method").unwrap_or(&Json::Null).as_text();
                let method =
                    method.map_err(|error| RpcError::new(code::PARSE_ERROR, error.message))?;
                if !self.whitelist.allows(user, method) {
                    return Ok(self.forbidden(user, method));
                }
            }
        }
        let mut text = String::from("[");
        for item in items {
            let result = request.read(item).and_then(|()| self.execute(request, room));
            if request.is_notification() {
                continue;
            }
            let reply = match written(&request.reply(result), room) {
                Ok(reply) => reply,
                Err(error) => request.reply(Err(error)).write(),
            };
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&reply);
            drop(reply);
            room.shrink_to(text.capacity());
        }
        if text.len() == 1 && !items.is_empty() {
            return Ok((NO_CONTENT, None));
        }
        text.push(']');
        Ok((OK, Some(text)))
    }

    fn forbidden(&self, user: &str, method: &str) -> (u16, Option<String>) {
        log::warn!("RPC User {user} not allowed to call method {}", method.escape_default());
        (FORBIDDEN, None)
    }

    fn execute(&self, request: &Request, room: &mut Room) -> Result<Json, RpcError> {
        let node = self.stage.node()?;
        let not_found = || RpcError::new(code::METHOD_NOT_FOUND, "Method not found");
        let method = find(&request.method).ok_or_else(not_found)?;
        let handler = methods::handler(method.name).ok_or_else(not_found)?;
        let args = arguments::by_position(method, &request.params)?;
        check(method, &args)?;
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let active = Active { number, method: method.name, since: Instant::now() };
        self.with_active(|all| all.push(active));
        let result = handler(&mut Call { api: self, node, args: &args, room });
        self.with_active(|all| all.retain(|active| active.number != number));
        result
    }

    fn with_active<T>(&self, change: impl FnOnce(&mut Vec<Active>) -> T) -> T {
        change(&mut self.active.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The calls under way.
    pub(crate) fn active(&self) -> Vec<Active> {
        self.with_active(|all| all.clone())
    }
}

/// As text, once there is memory for it.
fn written(reply: &Json, room: &mut Room) -> Result<String, RpcError> {
    room.grow(reply.written_len())?;
    Ok(reply.write())
}

/// Number and types of the arguments.
fn check(method: &Method, args: &[Json]) -> Result<(), RpcError> {
    if !(method.required()..=method.params.len()).contains(&args.len()) {
        return Err(RpcError::new(code::MISC_ERROR, help_of(method)));
    }
    let mut mismatches = Json::Object(Vec::new());
    for (n, param) in method.params.iter().enumerate() {
        let given = args.get(n).unwrap_or(&Json::Null);
        if let Some(mismatch) = arguments::mismatch(param, given) {
            mismatches.push(format!("Position {} ({})", n + 1, param.names), mismatch);
        }
    }
    if mismatches == Json::Object(Vec::new()) {
        return Ok(());
    }
    let text = format!("Wrong type passed:\n{}", mismatches.write_indented(4));
    Err(RpcError::new(code::TYPE_ERROR, text))
}
