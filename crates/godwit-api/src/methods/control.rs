//! `help`, `stop`, `uptime`, `logging`, `echo`, and the methods about the program itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use godwit_rpc::{Json, RpcError, code, find, help_of, list_help, openrpc};
use godwit_secret::process_stats;
use log::LevelFilter;

use super::{Call, parse};
use crate::log_categories::LogCategories;
use crate::sync::sync_json;
use crate::zmq::Notifier;

pub(super) fn help(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(match call.arg(0) {
        Json::Null => list_help().into(),
        name => match name.as_text()? {
            "" => list_help().into(),
            name => match find(name) {
                Some(method) => help_of(method).trim_end().into(),
                None => format!("help: unknown command: {name}").into(),
            },
        },
    })
}

pub(super) fn discover(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(openrpc(call.api.program.version))
}

/// Milliseconds that `stop` may be told to wait.
const LONGEST_WAIT: u64 = 10_000;

pub(super) fn stop(call: &mut Call<'_>) -> Result<Json, RpcError> {
    // As in Core, whatever the wait is, the node ends.
    call.api.stop.store(true, Ordering::SeqCst);
    // The node looks at it at its next turn, which this begins; it may have ended by then.
    let (Ok(()) | Err(_)) = call.node.ask(|_| ());
    let wait: i32 = parse::integer(call.arg(0), 0)?;
    let wait = u64::try_from(wait).unwrap_or(0).min(LONGEST_WAIT);
    call.api.stage.sleep(Duration::from_millis(wait));
    Ok("godwit stopping".into())
}

pub(super) fn uptime(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(call.api.program.started.elapsed().as_secs().into())
}

pub(super) fn sync_status(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(sync_json(&call.node.snapshot().sync, call.network().name(), call.api.program.version))
}

pub(super) fn echo(call: &mut Call<'_>) -> Result<Json, RpcError> {
    Ok(Json::List(call.args.to_vec()))
}

pub(super) fn memory_info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let mode = match call.arg(0) {
        Json::Null => "stats",
        mode => mode.as_text()?,
    };
    match mode {
        "stats" => {
            let stats = process_stats();
            let locked = Json::object([
                ("used", stats.used.into()),
                ("free", stats.free.into()),
                ("total", stats.total.into()),
                ("locked", stats.locked.into()),
                ("chunks_used", stats.chunks_used.into()),
                ("chunks_free", stats.chunks_free.into()),
            ]);
            Ok(Json::object([("locked", locked)]))
        }
        "mallocinfo" => {
            Err(RpcError::new(code::INVALID_PARAMETER, "mallocinfo mode not available"))
        }
        mode => Err(RpcError::new(code::INVALID_PARAMETER, format!("unknown mode {mode}"))),
    }
}

pub(super) fn rpc_info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let active = call.api.active.list().into_iter().map(|active| {
        let micros = active.since.elapsed().as_micros();
        Json::object([
            ("method", active.method.into()),
            ("duration", u64::try_from(micros).unwrap_or(u64::MAX).into()),
        ])
    });
    Ok(Json::object([
        ("active_commands", active.collect()),
        ("logpath", call.api.log_path.display().to_string().into()),
    ]))
}

/// What is published where, in the order of the topics.
pub(super) fn notifiers(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let json = |notifier: &Notifier| {
        Json::object([
            ("type", format!("pub{}", notifier.topic.name()).into()),
            ("address", notifier.address.to_string().into()),
            ("hwm", notifier.high_water_mark.into()),
        ])
    };
    Ok(call.api.interfaces.notifiers.iter().map(json).collect())
}

/// Turns categories of the log on and then others off, as far as all of them are known, and lists them.
pub(super) fn logging(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let categories = call.api.log_categories;
    let changed = change_categories(call, categories);
    let level = if categories.are_any() { LevelFilter::Debug } else { LevelFilter::Info };
    log::set_max_level(level);
    changed?;
    Ok(Json::Object(categories.list().map(|(name, on)| (name.into(), on.into())).collect()))
}

fn change_categories(call: &Call<'_>, categories: &LogCategories) -> Result<(), RpcError> {
    for (n, on) in [(0, true), (1, false)] {
        let names = call.arg(n);
        let names = if names.is_null() { &[] } else { names.as_list()? };
        for name in names {
            let name = name.as_text()?;
            if !categories.set(name, on) {
                let text = format!("unknown logging category {name}");
                return Err(RpcError::new(code::INVALID_PARAMETER, text));
            }
        }
    }
    Ok(())
}
