//! The list of methods in `docs/rpc.md`.

use std::fmt::Write;

use super::{METHODS, Presence};

/// Two tables in Markdown: what is there, and what is not and why.
pub fn page() -> String {
    let mut text = String::from("| method | arguments | what it does |\n| --- | --- | --- |\n");
    for method in METHODS.iter().filter(|method| method.is_present()) {
        let argument = |param: &super::Param| match param.is_optional() {
            true => format!("({})", param.name()),
            false => param.name().to_owned(),
        };
        let arguments: Vec<String> = match method.params.len() {
            10 => vec!["up to ten".to_owned()],
            _ => method.params.iter().map(argument).collect(),
        };
        writeln!(text, "| `{}` | {} | {} |", method.name, arguments.join(", "), method.summary)
            .expect("a string takes all");
    }
    text.push_str("\n| absent | why |\n| --- | --- |\n");
    for method in METHODS {
        if let Presence::Absent(reason) = method.presence {
            writeln!(text, "| `{}` | {reason} |", method.name).expect("a string takes all");
        }
    }
    text
}
