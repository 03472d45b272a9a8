//! JSON as serde_json reads it, to compare with.

use std::fmt;

use godwit_rpc::Json;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A value with its members in the order of the text, those of the same name too.
#[derive(Debug)]
pub(crate) enum Twin {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Twin>),
    Object(Vec<(String, Twin)>),
}

/// What serde_json says of a text.
#[derive(Debug)]
pub(crate) enum Said {
    Value(Twin),
    Refused,
    /// It has a number beyond those of a `double`. UniValue keeps numbers as texts, so that it has no such
    /// limit before somebody asks for a number.
    Unlimited,
}

/// Reads one value. The caller sees to it that it is not too deep for the stack.
pub(crate) fn read(text: &[u8]) -> Said {
    let mut reader = serde_json::Deserializer::from_slice(text);
    // UniValue has 512 levels.
    reader.disable_recursion_limit();
    let value = Twin::deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(value) => Said::Value(value),
        Err(error) if error.to_string().starts_with("number out of range") => Said::Unlimited,
        Err(_) => Said::Refused,
    }
}

/// How deep lists and objects lie within one another, by their signs outside of texts.
pub(crate) fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

impl Twin {
    pub(crate) fn is(&self, ours: &Json) -> bool {
        match (self, ours) {
            (Self::Null, Json::Null) => true,
            (Self::Bool(theirs), Json::Bool(ours)) => theirs == ours,
            (Self::Number(theirs), Json::Number(ours)) => ours.parse() == Ok(*theirs),
            (Self::Text(theirs), Json::Text(ours)) => theirs == ours,
            (Self::List(theirs), Json::List(ours)) => {
                theirs.len() == ours.len()
                    && theirs.iter().zip(ours).all(|(theirs, ours)| theirs.is(ours))
            }
            (Self::Object(theirs), Json::Object(ours)) => {
                theirs.len() == ours.len()
                    && theirs
                        .iter()
                        .zip(ours)
                        .all(|((name, theirs), (known, ours))| name == known && theirs.is(ours))
            }
            _ => false,
        }
    }
}

impl<'de> Deserialize<'de> for Twin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Whatever)
    }
}

struct Whatever;

impl<'de> Visitor<'de> for Whatever {
    type Value = Twin;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Twin, E> {
        Ok(Twin::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Twin, E> {
        Ok(Twin::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Twin, E> {
        Ok(Twin::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Twin, E> {
        Ok(Twin::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Twin, E> {
        Ok(Twin::Number(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Twin, E> {
        Ok(Twin::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Twin, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Twin::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Twin, A::Error> {
        let mut object = Vec::new();
        while let Some(member) = members.next_entry()? {
            object.push(member);
        }
        Ok(Twin::Object(object))
    }
}
