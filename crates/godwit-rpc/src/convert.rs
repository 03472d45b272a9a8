//! Turns the words of a command line into the parameters of a call (Core `rpc/client.cpp`). The table of
//! methods says which words are JSON.

mod foreign;

use std::borrow::Cow;

use foreign::FOREIGN;

use crate::json::Json;
use crate::table::{Kind, METHODS, Param};

/// How an argument is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Text,
    /// As JSON, or as text if it is not JSON.
    Either,
}

/// A word that is not JSON where JSON is needed. The error shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoJson(pub String);

impl std::fmt::Display for NoJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Error parsing JSON: {}", self.0)
    }
}

impl std::error::Error for NoJson {}

fn form_of(kind: Kind) -> Option<Form> {
    match kind {
        Kind::Text | Kind::Hex | Kind::TextOrAny => None,
        Kind::Number | Kind::Bool | Kind::List | Kind::Object | Kind::Any | Kind::Options(_) => {
            Some(Form::Json)
        }
        Kind::NumberOrText => Some(Form::Either),
    }
}

/// The form of the first parameter for which `is_meant` holds; `None` for plain text.
fn find(method: &str, is_meant: impl Fn(usize, &str) -> bool) -> Option<Form> {
    if let Some(row) = METHODS.iter().find(|row| row.name == method && row.is_present()) {
        let mut params = row.params.iter().enumerate();
        let found = params.find_map(|(at, param)| {
            let options = match param.kind {
                Kind::Options(options) => options,
                _ => &[],
            };
            let all = std::iter::once(param).chain(options);
            let meant = |param: &&Param| param.names.split('|').any(|name| is_meant(at, name));
            all.clone().find(meant).map(|param| form_of(param.kind))
        });
        if let Some(Some(form)) = found {
            return Some(form);
        }
    }
    let (_, params) = FOREIGN.iter().find(|(name, _)| *name == method)?;
    params.split(' ').find_map(|param| {
        let at = param.find(|c: char| !c.is_ascii_digit())?;
        let (position, rest) = param.split_at(at);
        let (form, name) = rest.split_at(1);
        let form = match form {
            "j" => Form::Json,
            "e" => Form::Either,
            _ => Form::Text,
        };
        is_meant(position.parse().ok()?, name).then_some(form)
    })
}

fn by_position(method: &str, position: usize) -> Option<Form> {
    find(method, |at, _| at == position)
}

fn by_name(method: &str, name: &str) -> Option<Form> {
    find(method, |_, found| found == name)
}

fn read(form: Option<Form>, word: &str) -> Result<Json, NoJson> {
    let text = || Json::from(word);
    match form {
        None | Some(Form::Text) => Ok(text()),
        Some(Form::Either) => Ok(Json::parse(word.as_bytes()).unwrap_or_else(text)),
        Some(Form::Json) => Json::parse(word.as_bytes()).ok_or_else(|| NoJson(word.to_owned())),
    }
}

/// Arguments by position.
///
/// # Errors
///
/// A word that is not JSON where JSON is needed.
pub fn positional(method: &str, words: &[String]) -> Result<Json, NoJson> {
    let argument = |(at, word): (usize, &String)| read(by_position(method, at), word);
    words.iter().enumerate().map(argument).collect::<Result<Vec<_>, _>>().map(Json::List)
}

/// Arguments by name (`-named`): `name=value`. A word without `=`, or with one that is part of its value, is
/// taken by position.
///
/// # Errors
///
/// As [`positional`].
pub fn named(method: &str, words: &[String]) -> Result<Json, NoJson> {
    let (mut members, mut positional): (Vec<(Cow<'static, str>, Json)>, Vec<Json>) =
        Default::default();
    for word in words {
        let next = by_position(method, positional.len());
        let Some((name, value)) = word.split_once('=') else {
            positional.push(read(next, word)?);
            continue;
        };
        let form = by_name(method, name);
        if form.is_none() {
            match next {
                Some(Form::Json) => {
                    if let Some(value) = Json::parse(word.as_bytes()) {
                        positional.push(value);
                        continue;
                    }
                }
                Some(Form::Text) => {
                    positional.push(Json::from(word.as_str()));
                    continue;
                }
                _ => {}
            }
        }
        let value = read(form, value)?;
        // The last one counts: scripts append to the arguments that they were given.
        match members.iter_mut().find(|(found, _)| found == name) {
            Some(member) => member.1 = value,
            None => members.push((name.to_owned().into(), value)),
        }
    }
    if !positional.is_empty() {
        members.push(("args".into(), Json::List(positional)));
    }
    Ok(Json::Object(members))
}

#[cfg(test)]
mod tests {
    use godwit_testdata::package_source;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn written(result: Result<Json, NoJson>) -> String {
        result.map_or_else(|error| error.to_string(), |json| json.write())
    }

    #[test]
    fn numbers_are_numbers_and_hashes_are_texts() {
        let by_position = |method, given: &[&str]| written(positional(method, &words(given)));
        assert_eq!(by_position("getblockhash", &["7"]), "[7]");
        assert_eq!(by_position("getblock", &["00", "2"]), "[\"00\",2]");
        assert_eq!(by_position("getblockstats", &["00ab", "[\"txs\"]"]), "[\"00ab\",[\"txs\"]]");
        assert_eq!(by_position("getblockstats", &["12"]), "[12]");
        assert_eq!(by_position("getblockhash", &["x"]), "Error parsing JSON: x");
        assert_eq!(by_position("sendtoaddress", &["a", "0.1"]), "[\"a\",0.1]");
        assert_eq!(by_position("nothing", &["1"]), "[\"1\"]");
    }

    /// Every row of Core's table of conversions is known here, and its words are read in the same way.
    #[test]
    fn words_are_converted_as_core_does() {
        let source = package_source("libbitcoinkernel-sys").expect("cargo has unpacked it");
        let text = std::fs::read_to_string(source.join("bitcoin/src/rpc/client.cpp"))
            .expect("the table is there");
        let rows = text.lines().filter_map(|line| line.trim().strip_prefix("{ \""));
        let mut count = 0;
        for row in rows {
            let row: Vec<&str> =
                row.split([',', '}']).map(|field| field.trim_matches([' ', '"'])).collect();
            let [method, position, name, format, ..] = row[..] else { panic!("{row:?}") };
            let position: usize = position.parse().expect("a position");
            let expected = match format {
                "" => Form::Json,
                "ParamFormat::STRING" => Form::Text,
                "ParamFormat::JSON_OR_STRING" => Form::Either,
                other => panic!("{other}"),
            };
            assert_eq!(by_name(method, name), Some(expected), "{method} {name}");
            let at = find(method, |at, found| at == position && found == name);
            assert_eq!(at, Some(expected), "{method} {position}");
            count += 1;
        }
        assert!(count > 300, "{count} rows");
    }

    #[test]
    fn names_and_positions_mix() {
        let by_name = |method, given: &[&str]| written(named(method, &words(given)));
        assert_eq!(
            by_name("getblock", &["blockhash=00", "verbose=true"]),
            r#"{"blockhash":"00","verbose":true}"#
        );
        assert_eq!(
            by_name("getblock", &["00", "verbosity=1", "verbosity=2"]),
            r#"{"verbosity":2,"args":["00"]}"#
        );
        assert_eq!(by_name("gettxoutproof", &["[\"=\"]"]), r#"{"args":[["="]]}"#);
        assert_eq!(by_name("createwallet", &["my=wallet"]), r#"{"args":["my=wallet"]}"#);
    }
}
