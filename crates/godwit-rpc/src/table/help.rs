//! `help`: the list of methods, and the help of one.

use std::fmt::Write;

use super::{Category, Kind, METHODS, Method, Need, Param};

/// The method and its parameters on one line, optional ones in parentheses, as Core has it.
fn one_line(method: &Method) -> String {
    let mut line = method.name.to_owned();
    let mut open = false;
    for param in method.params {
        match (param.is_optional(), open) {
            (true, false) => line.push_str(" ( "),
            (true, true) => line.push(' '),
            (false, true) => line.push_str(" ) "),
            (false, false) => line.push(' '),
        }
        open = param.is_optional();
        line.push_str(&placeholder(param));
    }
    if open {
        line.push_str(" )");
    }
    line
}

fn placeholder(param: &Param) -> String {
    match param.kind {
        Kind::Text | Kind::Hex | Kind::TextOrAny => format!("\"{}\"", param.name()),
        Kind::List if param.name() == "stats" => param.name().to_owned(),
        Kind::List => format!("[{},...]", param.name()),
        Kind::Object | Kind::Options(_) => format!("{{{}}}", param.name()),
        Kind::Number | Kind::Bool | Kind::Any | Kind::NumberOrText => param.name().to_owned(),
    }
}

/// The methods that are present, by category.
pub fn list_help() -> String {
    let mut text = String::new();
    for category in Category::ALL {
        if category == Category::Hidden {
            continue;
        }
        let mut methods = METHODS
            .iter()
            .filter(|method| method.category == category && method.is_present())
            .peekable();
        if methods.peek().is_none() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        writeln!(text, "== {} ==", category.name()).expect("a string takes all");
        for method in methods {
            writeln!(text, "{}", one_line(method)).expect("a string takes all");
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// The help of one method.
pub fn help_of(method: &Method) -> String {
    let mut text = format!("{}\n\n{}\n", one_line(method), method.summary);
    if !method.params.is_empty() {
        text.push_str("\nArguments:\n");
    }
    for (n, param) in method.params.iter().enumerate() {
        let kind = match param.kind {
            Kind::Text | Kind::Hex | Kind::TextOrAny => "string",
            Kind::Number => "numeric",
            Kind::Bool => "boolean",
            Kind::List => "json array",
            Kind::Object | Kind::Options(_) => "json object",
            Kind::Any => "any",
            Kind::NumberOrText => "string or numeric",
        };
        let need = match param.need {
            Need::Required => "required".to_owned(),
            Need::Optional => "optional".to_owned(),
            Need::Default(default) => format!("optional, default={default}"),
        };
        writeln!(text, "{}. {:<15} ({kind}, {need}) {}", n + 1, param.name(), param.help)
            .expect("a string takes all");
    }
    text
}
