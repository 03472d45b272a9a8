//! Results on standard output.

use std::fmt;
use std::io::{self, Write};

use serde_json::Value;

use crate::exit::Exit;

/// Standard output could not be written.
#[derive(Debug)]
pub struct OutputError(pub io::Error);

impl OutputError {
    pub fn exit(&self) -> Exit {
        Exit::of_write(&self.0, Exit::Failure)
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output cannot be written: {}", self.0)
    }
}

/// Prints JSON, indented: people read it, too.
pub fn print_json(value: &Value) -> Result<Exit, OutputError> {
    writeln!(io::stdout(), "{value:#}").map_err(OutputError)?;
    Ok(Exit::Success)
}

/// Prints a text with exactly one line feed at its end.
pub fn print_text(text: &str) -> Result<Exit, OutputError> {
    writeln!(io::stdout(), "{}", text.trim_end()).map_err(OutputError)?;
    Ok(Exit::Success)
}
