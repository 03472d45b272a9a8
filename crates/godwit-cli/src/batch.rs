//! Several questions at once.

use godwit_rpc::Json;

use crate::{Failed, failed};

/// The questions, numbered in their order.
pub(crate) fn request(methods: &[&str]) -> Json {
    let question = |(id, method): (usize, &&str)| {
        Json::object([
            ("method", (*method).into()),
            ("params", Json::Null),
            ("id", id.into()),
            ("jsonrpc", "2.0".into()),
        ])
    };
    methods.iter().enumerate().map(question).collect()
}

/// The results in the order of the questions; null for one that was refused, unless it is needed.
///
/// # Errors
///
/// No list of answers, or the refusal of one that is needed.
pub(crate) fn results(reply: &Json, needed: &[usize], count: usize) -> Result<Vec<Json>, Failed> {
    let answers = reply.as_list().map_err(|_| match reply.get("error") {
        // A server that refuses the whole answers with one object.
        Some(error) if !error.is_null() => failed(error),
        _ => Failed::from("Batch must be an array"),
    })?;
    let mut results = vec![Json::Null; count];
    for answer in answers {
        if answer.as_object().is_err() {
            return Err("Batch member must be an object".into());
        }
        let id = answer.get("id").and_then(|id| id.as_integer::<usize>().ok());
        let Some(id) = id.filter(|id| *id < count) else {
            return Err("Batch member id is larger than batch size".into());
        };
        match answer.get("error") {
            Some(error) if !error.is_null() && needed.contains(&id) => return Err(failed(error)),
            _ => results[id] = answer.get("result").cloned().unwrap_or_default(),
        }
    }
    Ok(results)
}
