//! Results on standard output.

use std::io::Write;

use serde_json::Value;

use crate::exit::Exit;
use crate::failure::Failure;

/// JSON for a reader and for a program.
pub(crate) fn print_json(value: &Value) -> Result<Exit, Failure> {
    writeln!(std::io::stdout(), "{value:#}").map_err(Failure::Output)?;
    Ok(Exit::Success)
}
