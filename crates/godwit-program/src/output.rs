//! Results on standard output.

use std::fmt;
use std::io::{self, Write};

use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
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

/// Fails where the program was started without standard output: what is written goes nowhere then, and
/// nothing says so. Rust has opened `/dev/null` in its place, for reading and writing. A shell opens it for
/// writing alone: that is what the user wants.
pub fn check_that_output_is_open() -> Result<(), OutputError> {
    let stdout = io::stdout();
    let failed = |error: Errno| OutputError(error.into());
    let found = fstat(&stdout).map_err(failed)?;
    let is_null =
        FileType::from_raw_mode(found.st_mode).is_char_device() && found.st_rdev == null_device();
    let is_both_ways = fcntl_getfl(&stdout).map_err(failed)? & OFlags::RWMODE == OFlags::RDWR;
    if is_null && is_both_ways { Err(failed(Errno::BADF)) } else { Ok(()) }
}

/// Number of `/dev/null` on Linux (`admin-guide/devices.txt`).
fn null_device() -> u64 {
    rustix::fs::makedev(1, 3)
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
