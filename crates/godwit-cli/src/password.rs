//! Reads a secret from standard input, unseen on a terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use godwit_program::{complain, show};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Shows what is typed again when it is dropped.
struct Unseen(Termios);

impl Unseen {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &quiet)?;
        Ok(Self(before))
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(io::stdin(), OptionalActions::Now, &self.0) {
            complain(&format!("Warning: the terminal may not show what is typed: {error}"));
        }
    }
}

/// The next line, for an option.
pub(crate) fn read(option: &str, prompt: &str) -> Result<String, String> {
    let failed = |_| format!("-{option} specified but failed to read from standard input");
    let unseen = match io::stdin().is_terminal() {
        true => {
            drop(write!(io::stderr(), "{prompt}> "));
            Some(Unseen::begin().map_err(failed)?)
        }
        false => None,
    };
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line).map_err(failed)?;
    if unseen.is_some() {
        show("");
    }
    if count == 0 {
        return Err(failed(io::ErrorKind::UnexpectedEof.into()));
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(line)
}
