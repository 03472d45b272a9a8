//! Results on standard output.

use std::fmt;
use std::io::{self, Write};

use serde_json::Value;

use crate::escape::Escaped;
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

/// Prints a line on standard output for whoever looks on. Nobody may: `tee` ends with the Ctrl-C that ends
/// the program. What was done stays done then, and so the exit code.
pub fn show(line: &str) {
    write_or_drop(io::stdout(), line);
}

/// Prints a line on standard error. Its control characters are escaped: it may repeat what stands in a file,
/// or what a server says. One that cannot be written is lost: the exit code tells what it would.
pub fn complain(line: &str) {
    write_or_drop(io::stderr(), &Escaped(line).to_string());
}

/// In one piece, so that lines of several threads do not mix. `println!` would panic where it fails.
fn write_or_drop(mut to: impl Write, line: &str) {
    drop(to.write_all(format!("{line}\n").as_bytes()));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe or disk that takes so many bytes more.
    struct Room(usize, Vec<u8>);

    impl Write for Room {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0 - self.1.len());
            self.1.extend(&bytes[..taken]);
            if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_nobody_reads_is_dropped() {
        for (room, written) in [(0, ""), (2, "ab"), (3, "abc"), (4, "abc\n"), (9, "abc\n")] {
            let mut to = Room(room, Vec::new());
            write_or_drop(&mut to, "abc");
            assert_eq!(to.1, written.as_bytes(), "{room}");
        }
    }
}
