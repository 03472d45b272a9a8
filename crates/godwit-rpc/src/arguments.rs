//! Arguments of a call: puts named ones into positions, and checks their types.

use std::collections::BTreeSet;

use crate::error::{RpcError, code};
use crate::json::{Json, JsonKind};
use crate::table::help::help_of;
use crate::table::{Kind, Method, Param};

/// The name under which a client passes arguments by position together with named ones.
const POSITIONAL: &str = "args";

/// The arguments in the order of the parameters (Core `transformNamedArguments`).
///
/// # Errors
///
/// An unknown name, or one that is given twice.
pub fn by_position(method: &Method, params: Json) -> Result<Vec<Json>, RpcError> {
    let mut given = match params {
        Json::List(items) => return Ok(items),
        Json::Object(members) => members,
        _ => return Ok(Vec::new()),
    };
    let refused = |text: String| RpcError::new(code::INVALID_PARAMETER, text);
    let mut names = BTreeSet::new();
    if let Some((name, _)) = given.iter().find(|(name, _)| !names.insert(&**name)) {
        return Err(refused(format!("Parameter {name} specified multiple times")));
    }
    drop(names);
    let mut args = Vec::new();
    // Numbers of positions without an argument: before the next argument, and before the first one.
    let (mut hole, mut initial_hole) = (0, 0);
    let mut first = None;
    for param in method.params {
        // If an argument is given under several names of its parameter, the first name is taken and the
        // others are refused as unknown.
        let mut take = |names: &str| {
            let place = |name: &str| given.iter().position(|(given, _)| given == name);
            let found = names.split('|').find_map(place)?;
            Some(given.remove(found))
        };
        let mut options = Vec::new();
        if let Kind::Options(known) = param.kind {
            options.extend(known.iter().filter_map(|option| take(option.names)));
        }
        let found = take(param.names);
        if let (Some((option, _)), Some((name, _))) = (options.first(), &found) {
            return Err(refused(format!("Parameter {name} conflicts with parameter {option}")));
        }
        let options = (!options.is_empty()).then_some(Json::Object(options));
        let Some(value) = found.map(|(_, value)| value).or(options) else {
            hole += 1;
            if args.is_empty() {
                initial_hole = hole;
            }
            continue;
        };
        args.extend(std::iter::repeat_n(Json::Null, hole));
        hole = 0;
        first.get_or_insert(param.names);
        args.push(value);
    }
    let positional = given.iter().position(|(name, _)| name == POSITIONAL);
    // Anything but a list is ignored.
    if let Some(Json::List(mut positional)) = positional.map(|at| given.remove(at).1) {
        if let Some(first) = first.filter(|_| initial_hole < positional.len()) {
            let text =
                format!("Parameter {first} specified twice both as positional and named argument");
            return Err(refused(text));
        }
        let count = positional.len();
        positional.extend(args.into_iter().skip(count));
        args = positional;
    }
    match given.first() {
        Some((name, _)) => Err(refused(format!("Unknown named parameter {name}"))),
        None => Ok(args),
    }
}

/// Checks the number and types of the arguments.
///
/// # Errors
///
/// They do not fit the method. The text is the method's help, or says what is wrong with each.
pub fn check(method: &Method, args: &[Json]) -> Result<(), RpcError> {
    if !(method.required()..=method.params.len()).contains(&args.len()) {
        return Err(RpcError::new(code::MISC_ERROR, help_of(method)));
    }
    let mut mismatches = Json::Object(Vec::new());
    for (n, param) in method.params.iter().enumerate() {
        let given = args.get(n).unwrap_or(&Json::Null);
        if let Some(mismatch) = mismatch(param, given) {
            mismatches.push(format!("Position {} ({})", n + 1, param.names), mismatch);
        }
    }
    if mismatches == Json::Object(Vec::new()) {
        return Ok(());
    }
    let text = format!("Wrong type passed:\n{}", mismatches.write_indented(4));
    Err(RpcError::new(code::TYPE_ERROR, text))
}

/// What is wrong with the type of an argument, or `None`.
fn mismatch(param: &Param, given: &Json) -> Option<String> {
    let expected = match param.kind {
        Kind::Text | Kind::Hex => JsonKind::Text,
        Kind::Number => JsonKind::Number,
        Kind::Bool => JsonKind::Bool,
        Kind::List => JsonKind::List,
        Kind::Object | Kind::Options(_) => JsonKind::Object,
        Kind::Any | Kind::NumberOrText | Kind::TextOrAny => return None,
    };
    let found = given.kind();
    if found == expected || (param.is_optional() && given.is_null()) {
        return None;
    }
    let (found, expected) = (found.name(), expected.name());
    Some(format!("JSON value of type {found} is not of expected type {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    fn arranged(method: &str, params: &str) -> String {
        let method = find(method).expect("a method");
        let params = Json::parse(params.as_bytes()).expect("JSON");
        by_position(method, params)
            .map_or_else(|error| error.message, |args| Json::List(args).write())
    }

    #[test]
    fn names_become_positions() {
        assert_eq!(arranged("getblock", r#"{"verbose":2,"blockhash":"a"}"#), r#"["a",2]"#);
        assert_eq!(arranged("getblock", r#"{"verbosity":2}"#), "[null,2]");
        assert_eq!(arranged("getblock", r#"{"args":["a"],"verbosity":2}"#), r#"["a",2]"#);
        assert_eq!(arranged("getblock", r#"{"args":["a",1]}"#), r#"["a",1]"#);
        assert_eq!(arranged("getblock", "{}"), "[]");
        for ignored in ["1", "null", "{}", "\"a\"", "true"] {
            let params = format!(r#"{{"args":{ignored},"verbosity":2}}"#);
            assert_eq!(arranged("getblock", &params), "[null,2]");
        }
    }

    #[test]
    fn many_names_are_refused_as_soon_as_few() {
        let members: Vec<String> = (0..200_000).map(|n| format!(r#""{n}":0"#)).collect();
        let all = members.join(",");
        assert_eq!(arranged("getblock", &format!("{{{all}}}")), "Unknown named parameter 0");
        assert_eq!(
            arranged("getblock", &format!(r#"{{{all},"199999":1}}"#)),
            "Parameter 199999 specified multiple times"
        );
    }

    #[test]
    fn names_that_clash_or_do_not_exist_are_refused() {
        assert_eq!(arranged("getblock", r#"{"x":1}"#), "Unknown named parameter x");
        assert_eq!(
            arranged("getblock", r#"{"verbose":1,"blockhash":"a","verbosity":2}"#),
            "Unknown named parameter verbose"
        );
        assert_eq!(
            arranged("getblock", r#"{"blockhash":"a","blockhash":"b"}"#),
            "Parameter blockhash specified multiple times"
        );
        assert_eq!(
            arranged("getblock", r#"{"args":["a"],"blockhash":"b"}"#),
            "Parameter blockhash specified twice both as positional and named argument"
        );
    }
}
