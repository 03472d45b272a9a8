//! A passphrase typed at a terminal, which this process holds both ends of.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::thread;

use godwit_secret::{Declassified, SecretSlice, SecretString};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::CheckError;
use super::case::Case;
use crate::keys::terminal::Terminal;

/// What ends the question, so that what is typed before is not thrown away.
const PROMPT_END: u8 = b' ';

pub(super) fn type_a_passphrase(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let passphrase = case.passphrase("typed passphrase")?;
    let (keyboard, terminal) = pair()?;
    let typed = thread::scope(|scope| {
        scope.spawn(|| type_when_asked(&keyboard, &passphrase));
        Terminal::of_file(terminal).ask("Passphrase")
    })?;
    case.unlocked()?;
    match SecretSlice::from(&typed) == SecretSlice::from(&passphrase) {
        true => Ok(()),
        false => Err(case.unexpected()),
    }
}

/// A fault here ends the question: the terminal has nobody on the other side.
fn type_when_asked(mut keyboard: &File, passphrase: &SecretString) -> io::Result<()> {
    let mut shown = [0];
    while shown[0] != PROMPT_END {
        keyboard.read_exact(&mut shown)?;
    }
    let write = |text: &str| Declassified(rustix::io::write(keyboard, text.as_bytes()));
    passphrase.expose_secret(write).0?;
    rustix::io::write(keyboard, b"\r")?;
    Ok(())
}

/// The two ends of a terminal.
fn pair() -> io::Result<(File, File)> {
    let keyboard: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&keyboard)?;
    unlockpt(&keyboard)?;
    let name = ptsname(&keyboard, Vec::new())?;
    let terminal = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    Ok((File::from(keyboard), File::from(terminal)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Waits until the terminal has shown this.
    fn wait_for(mut keyboard: &File, text: &str) {
        let mut shown = String::new();
        while !shown.ends_with(text) {
            let mut byte = [0];
            keyboard.read_exact(&mut byte).expect("the other end is open");
            shown.push(byte[0].into());
        }
    }

    #[test]
    fn what_was_typed_before_a_question_is_no_answer_to_it() {
        for answer in ["no", "yes", "\u{fffd}es"] {
            let (keyboard, terminal) = pair().expect("a terminal");
            (&keyboard).write_all(b"yes\n").expect("there is room");
            wait_for(&keyboard, "yes\r\n");
            let given = thread::scope(|scope| {
                scope.spawn(|| {
                    wait_for(&keyboard, "Sure? ");
                    // One that is no text is another answer, and no fault.
                    let typed = answer.replace('\u{fffd}', "");
                    let strange: &[u8] = if typed == answer { b"" } else { b"\xff" };
                    (&keyboard).write_all(&[strange, typed.as_bytes(), b"\n"].concat())
                });
                Terminal::of_file(terminal).answer("Look.", "Sure? ")
            });
            assert_eq!(given.expect("it is answered"), answer);
        }
    }

    /// More than a terminal takes before somebody reads, so that its end is not yet written when the answer
    /// to what is expected behind it has been typed.
    #[test]
    fn what_was_typed_while_a_text_was_written_is_no_answer_to_the_question_behind_it() {
        let text = "a line of a long review\n".repeat(10_000);
        let (keyboard, terminal) = pair().expect("a terminal");
        let given = thread::scope(|scope| {
            scope.spawn(|| {
                wait_for(&keyboard, "a line of a long review\r\n");
                (&keyboard).write_all(b"yes\n").expect("there is room");
                wait_for(&keyboard, "Sure? ");
                (&keyboard).write_all(b"no\n").expect("there is room");
            });
            Terminal::of_file(terminal).answer(&text, "Sure? ")
        });
        assert_eq!(given.expect("it is answered"), "no");
    }
}
