//! JSON as Bitcoin Core's `UniValue` has it: objects keep their order and numbers keep their text. Text that
//! `UniValue` refuses is refused here.

mod read;
mod write;

use std::borrow::Cow;

use crate::error::{RpcError, code};

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    #[default]
    Null,
    Bool(bool),
    /// The text of the number, as it was read or will be written.
    Number(String),
    Text(String),
    List(Vec<Json>),
    /// Members in the order in which they are written.
    Object(Vec<(Cow<'static, str>, Json)>),
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

impl JsonKind {
    /// The name in error texts (Core `uvTypeName`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::Text => "string",
            Self::List => "array",
            Self::Object => "object",
        }
    }
}

impl Json {
    /// Reads one value; `None` if the text is not exactly one value.
    pub fn parse(text: &[u8]) -> Option<Self> {
        read::parse(text)
    }

    pub fn object<const N: usize>(members: [(&'static str, Json); N]) -> Self {
        Self::Object(
            members.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect(),
        )
    }

    /// An amount in satoshi as bitcoins with eight decimals (Core `ValueFromAmount`).
    pub fn amount(satoshi: i64) -> Self {
        let (sign, whole) = (if satoshi < 0 { "-" } else { "" }, satoshi.unsigned_abs());
        Self::Number(format!("{sign}{}.{:08}", whole / 100_000_000, whole % 100_000_000))
    }

    /// A number as Core writes it, with sixteen significant digits, but never with an exponent, because shell
    /// scripts read `verificationprogress`.
    pub fn real(value: f64) -> Self {
        Self::Number(write::real(value))
    }

    /// Bytes in hexadecimal.
    pub fn hex(bytes: &[u8]) -> Self {
        Self::Text(data_encoding::HEXLOWER.encode(bytes))
    }

    pub fn kind(&self) -> JsonKind {
        match self {
            Self::Null => JsonKind::Null,
            Self::Bool(_) => JsonKind::Bool,
            Self::Number(_) => JsonKind::Number,
            Self::Text(_) => JsonKind::Text,
            Self::List(_) => JsonKind::List,
            Self::Object(_) => JsonKind::Object,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The first member of this name; `None` for any value but an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }

    /// Appends a member to an object.
    ///
    /// # Panics
    ///
    /// If the value is not an object.
    pub fn push(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Json>) {
        let Self::Object(members) = self else { panic!("only objects have members") };
        members.push((name.into(), value.into()));
    }

    /// Gives a member another value, if there is such a member.
    ///
    /// # Panics
    ///
    /// If the value is not an object.
    pub fn set(&mut self, name: &str, value: impl Into<Json>) {
        let Self::Object(members) = self else { panic!("only objects have members") };
        if let Some((_, old)) = members.iter_mut().find(|(known, _)| known == name) {
            *old = value.into();
        }
    }

    /// # Errors
    ///
    /// Another kind of value.
    pub fn as_text(&self) -> Result<&str, RpcError> {
        if let Self::Text(text) = self { Ok(text) } else { Err(self.unexpected(JsonKind::Text)) }
    }

    /// # Errors
    ///
    /// Another kind of value.
    pub fn as_bool(&self) -> Result<bool, RpcError> {
        if let Self::Bool(value) = self { Ok(*value) } else { Err(self.unexpected(JsonKind::Bool)) }
    }

    /// # Errors
    ///
    /// Another kind of value.
    pub fn as_list(&self) -> Result<&[Json], RpcError> {
        if let Self::List(items) = self { Ok(items) } else { Err(self.unexpected(JsonKind::List)) }
    }

    /// The members of an object.
    ///
    /// # Errors
    ///
    /// Another kind of value.
    pub fn as_object(&self) -> Result<&[(Cow<'static, str>, Json)], RpcError> {
        match self {
            Self::Object(members) => Ok(members),
            _ => Err(self.unexpected(JsonKind::Object)),
        }
    }

    /// An integer in the range of `T`, written without a decimal point or exponent.
    ///
    /// # Errors
    ///
    /// Another kind of value, or another number.
    pub fn as_integer<T: TryFrom<i128>>(&self) -> Result<T, RpcError> {
        let Self::Number(text) = self else { return Err(self.unexpected(JsonKind::Number)) };
        let out_of_range = || RpcError::new(code::MISC_ERROR, "JSON integer out of range");
        // Core's `from_chars` reads no sign into unsigned types.
        if text.starts_with('-') && T::try_from(-1).is_err() {
            return Err(out_of_range());
        }
        let number: i128 = text.parse().map_err(|_| out_of_range())?;
        T::try_from(number).map_err(|_| out_of_range())
    }

    /// A number, integer or not.
    ///
    /// # Errors
    ///
    /// Another kind of value.
    pub fn as_real(&self) -> Result<f64, RpcError> {
        let Self::Number(text) = self else { return Err(self.unexpected(JsonKind::Number)) };
        // Rust parses numbers that are too large as infinite.
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| RpcError::new(code::MISC_ERROR, "JSON double out of range"))
    }

    fn unexpected(&self, expected: JsonKind) -> RpcError {
        let (found, expected) = (self.kind().name(), expected.name());
        let message = format!("JSON value of type {found} is not of expected type {expected}");
        RpcError::new(code::TYPE_ERROR, message)
    }

    /// The value on one line, without spaces.
    pub fn write(&self) -> String {
        let mut out = String::new();
        write::compact(self, &mut out);
        out
    }

    /// Length of [`write`](Self::write).
    pub fn written_len(&self) -> usize {
        write::compact_len(self)
    }

    /// The value on several lines, as `bitcoin-cli` prints it.
    pub fn write_indented(&self, indent: usize) -> String {
        let mut out = String::new();
        write::indented(self, indent, 1, &mut out);
        out
    }
}

impl RpcError {
    /// The error object that clients receive.
    pub fn to_json(&self) -> Json {
        Json::object([
            ("code", Json::from(self.code)),
            ("message", Json::from(self.message.as_str())),
        ])
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Json {
            fn from(value: $integer) -> Self {
                Self::Number(value.to_string())
            }
        }
    )*};
}

from_integers!(i32, i64, u8, u16, u32, u64, usize);

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> FromIterator<T> for Json {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests;
