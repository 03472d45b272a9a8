//! Turns the body of a request into the body of its answer (Core `httprpc.cpp`, `rpc/server.cpp`).

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use godwit_http::{AnswerBody, ContentKind, LogLimit, Reply, RequestBody};
use godwit_rpc::request::{Request, memory_of, most_values};
use godwit_rpc::{Json, RpcError, arguments, code, find};

use crate::added_names::AddedNames;
use crate::answers::{Answers, Room};
use crate::api::{ActiveCalls, Api, Program, Waiting, Waits};
use crate::coin_calls::CoinCalls;
use crate::methods::{self, Call};
use crate::price_cache::PriceCache;
use crate::server::ServerOptions;
use crate::stage::Stage;

/// Values of one request at most, those within others included.
const MAX_VALUES: usize = 250_000;

/// Characters of a method's name in the log.
const MAX_LOGGED: usize = 100;

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
        let mut request = Request::default();
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
            AnswerBody { kind: ContentKind::Json, bytes: room.until_sent(text.into_bytes()) }
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
        arguments::check(method, &args)?;
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
    room.grow(memory_of(body))?;
    room.hold();
    Json::parse(body).ok_or_else(malformed)
}

/// As text, once there is memory for it: that which the method took for its values and their text, if it
/// took any.
pub(crate) fn written(reply: &Json, room: &mut Room) -> Result<String, RpcError> {
    room.cover(reply.written_len())?;
    Ok(reply.write())
}
