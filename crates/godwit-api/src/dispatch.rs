//! From the body of a request to the body of its answer (Core `httprpc.cpp`, `rpc/server.cpp`).

mod arguments;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use godwit_rpc::{Json, Method, RpcError, code, find, help_of};

use crate::added_names::AddedNames;
use crate::answers::{Answers, Room};
use crate::api::{ActiveCalls, Api, Program, Waiting, Waits};
use crate::coin_calls::CoinCalls;
use crate::log_limit::LogLimit;
use crate::methods::{self, Call};
use crate::price_cache::PriceCache;
use crate::server::{AnswerBody, ContentKind, Reply, RequestBody, ServerOptions};
use crate::stage::Stage;

/// Values of one request at most, those within others included.
const MAX_VALUES: usize = 250_000;

/// Memory of a value beside its text: itself and its name in a list that has room for as many again.
const VALUE_BYTES: usize = 160;

/// Copies of a request's text: in its values, in an answer that repeats one, in what is decoded of it.
const COPIES: usize = 3;

/// Characters of a method's name in the log.
const MAX_LOGGED: usize = 100;

/// Bytes of an error's text at most: some repeat what the caller sent.
const MAX_MESSAGE: usize = 16 << 10;

struct Caller<'a> {
    user: &'a str,
    /// Nobody waits for the answer any more.
    is_gone: &'a dyn Fn() -> bool,
    room: &'a mut Room,
}

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

    fn read(&mut self, json: Json) -> Result<(), RpcError> {
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
fn most_values(text: &[u8]) -> usize {
    1 + text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

/// Values within values that nobody reads (UniValue `MAX_JSON_DEPTH`).
const DEEP: usize = 512;

/// Whether a text that is refused in any case looks as if its depth were the reason, as it is for Core.
fn is_deep(text: &[u8]) -> bool {
    let depths = text.iter().scan(0_usize, |depth, byte| {
        match byte {
            b'[' | b'{' => *depth += 1,
            b']' | b'}' => *depth = depth.saturating_sub(1),
            _ => {}
        }
        Some(*depth)
    });
    depths.max() > Some(DEEP)
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
    pub(crate) fn new(stage: &Stage, answers: &Answers, options: &ServerOptions) -> Self {
        Self {
            stage: stage.clone(),
            answers: answers.clone(),
            whitelist: options.whitelist.clone(),
            program: Program { version: options.version, started: Instant::now() },
            log_path: options.log_path.clone(),
            added: AddedNames::default(),
            stop: Arc::clone(&options.stop),
            active: ActiveCalls::default(),
            waits: Waits {
                most: options.threads.saturating_sub(1).max(1),
                count: AtomicUsize::new(0),
            },
            coins: CoinCalls::default(),
            prices: PriceCache::default(),
            bans: Arc::clone(&options.bans),
            interfaces: options.interfaces.clone(),
            log_categories: options.log_categories,
            forbidden: LogLimit::default(),
            has_assembled: AtomicBool::new(false),
        }
    }

    /// Answers the body of a request of this user; `is_gone` tells whether nobody waits for it any more.
    pub(crate) fn answer(
        &self,
        body: RequestBody,
        user: &str,
        is_gone: &dyn Fn() -> bool,
    ) -> Reply {
        let mut room = self.answers.room();
        let mut request = Request::new();
        let parsed = parse(&body.bytes, &mut room);
        drop(body);
        let mut caller = Caller { user, is_gone, room: &mut room };
        let answered = match parsed {
            Err(error) => Err(error),
            Ok(_) if self.whitelist.excludes(user) => {
                self.forbidden.warn(|| format!("RPC User {user} not allowed to call any methods"));
                return Reply { status: FORBIDDEN, body: None };
            }
            Ok(json @ Json::Object(_)) => self.single(json, &mut request, &mut caller),
            Ok(Json::List(items)) => self.batch(items, &mut request, &mut caller),
            Ok(_) => Err(RpcError::new(code::PARSE_ERROR, "Top-level object parse error")),
        };
        let (status, text) = answered
            .unwrap_or_else(|error| (status_of(&error), Some(request.reply(Err(error)).write())));
        let body = text.map(|mut text| {
            text.push('\n');
            room.shrink_to(text.capacity());
            AnswerBody { kind: ContentKind::Json, bytes: text.into_bytes(), _room: room }
        });
        Reply { status, body }
    }

    fn single(
        &self,
        json: Json,
        request: &mut Request,
        caller: &mut Caller<'_>,
    ) -> Result<(u16, Option<String>), RpcError> {
        request.read(json)?;
        if !self.whitelist.allows(caller.user, &request.method) {
            return Ok(self.forbidden(caller.user, &request.method));
        }
        let result = self.execute(request, caller);
        if request.is_notification() {
            return Ok((NO_CONTENT, None));
        }
        match result {
            Err(error) if !request.v2 => Err(error),
            result => Ok((OK, Some(written(&request.reply(result), caller.room)?))),
        }
    }

    fn batch(
        &self,
        items: Vec<Json>,
        request: &mut Request,
        caller: &mut Caller<'_>,
    ) -> Result<(u16, Option<String>), RpcError> {
        if self.whitelist.lists(caller.user) {
            for item in &items {
                let Json::Object(_) = item else {
                    return Err(RpcError::new(code::INVALID_REQUEST, "Invalid Request object"));
                };
                let method = item.get("method").unwrap_or(&Json::Null).as_text();
                let method =
                    method.map_err(|error| RpcError::new(code::PARSE_ERROR, error.message))?;
                if !self.whitelist.allows(caller.user, method) {
                    return Ok(self.forbidden(caller.user, method));
                }
            }
        }
        let (is_empty, of_request) = (items.is_empty(), caller.room.bytes());
        let mut text = String::from("[");
        for item in items {
            if (caller.is_gone)() {
                break;
            }
            let result = request.read(item).and_then(|()| self.execute(request, caller));
            if request.is_notification() {
                continue;
            }
            let reply = match written(&request.reply(result), caller.room) {
                Ok(reply) => reply,
                Err(error) => request.reply(Err(error)).write(),
            };
            if text.len() > 1 {
                text.push(',');
            }
            if text.capacity() - text.len() <= reply.len() {
                // It grows by a quarter, because room for what never comes would count.
                text.reserve_exact(reply.len() + text.len() / 4 + 1);
            }
            text.push_str(&reply);
            drop(reply);
            caller.room.hold_answer(of_request, text.capacity());
        }
        if text.len() == 1 && !is_empty {
            return Ok((NO_CONTENT, None));
        }
        text.push(']');
        Ok((OK, Some(text)))
    }

    fn forbidden(&self, user: &str, method: &str) -> (u16, Option<String>) {
        self.forbidden.warn(|| {
            let method: String = method.escape_default().take(MAX_LOGGED).collect();
            format!("RPC User {user} not allowed to call method {method}")
        });
        (FORBIDDEN, None)
    }

    fn execute(&self, request: &mut Request, caller: &mut Caller<'_>) -> Result<Json, RpcError> {
        self.stage.node()?;
        let not_found = || RpcError::new(code::METHOD_NOT_FOUND, "Method not found");
        let method = find(&request.method).ok_or_else(not_found)?;
        let handler = methods::handler(method.name).ok_or_else(not_found)?;
        let args = arguments::by_position(method, std::mem::take(&mut request.params))?;
        check(method, &args)?;
        let number = self.active.begin(method.name);
        let Caller { room, is_gone, .. } = caller;
        // Taken behind that, so that nobody holds the node who is not among the active ones.
        let result = self.stage.node().and_then(|node| {
            handler(&mut Call { api: self, node, args: &args, room, is_gone: *is_gone })
        });
        self.active.end(number);
        result
    }

    /// Takes a place among the calls that wait for blocks, or read all coins.
    ///
    /// # Errors
    ///
    /// There is none.
    pub(crate) fn begin_wait(&self) -> Result<Waiting<'_>, RpcError> {
        let waiting = Waiting(&self.waits.count);
        if self.waits.count.fetch_add(1, Ordering::SeqCst) >= self.waits.most {
            let text = "Too many calls wait or take long (see -rpcthreads)";
            return Err(RpcError::new(code::LIMIT_EXCEEDED, text));
        }
        Ok(waiting)
    }
}

/// The value of a body, once there is memory for it.
fn parse(body: &[u8], room: &mut Room) -> Result<Json, RpcError> {
    let values = most_values(body);
    let malformed = || RpcError::new(code::PARSE_ERROR, "Parse error");
    if values > MAX_VALUES {
        let too_many = RpcError::new(code::LIMIT_EXCEEDED, "Too many values in one request");
        return Err(if is_deep(body) { malformed() } else { too_many });
    }
    room.grow(COPIES * body.len() + VALUE_BYTES * values)?;
    room.hold();
    Json::parse(body).ok_or_else(malformed)
}

/// As text, once there is memory for it: that which the method took for its values and their text, if it
/// took any.
pub(crate) fn written(reply: &Json, room: &mut Room) -> Result<String, RpcError> {
    room.cover(reply.written_len())?;
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
