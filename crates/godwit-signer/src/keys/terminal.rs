//! Prompts at the terminal without echo.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use godwit_program::HeldSignals;
use godwit_secret::{Declassified, Releasable, SecretBytes, between_steps, run_on_secret_stack};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcdrain,
    tcflush, tcgetattr, tcsetattr,
};

use super::failure::KeysFailure;

/// Longest line, in bytes. The kernel keeps 4095 and silently drops the rest.
const MAX_LINE: usize = 4094;

/// Cursor to the beginning, screen and scrolled lines erased (ECMA-48, and `3J` of xterm).
const CLEAR: &[u8] = b"\x1b[H\x1b[2J\x1b[3J";

const INTERRUPT: u8 = 3;
const END: u8 = 4;
/// Assigned to special functions of the terminal to disable them: no key makes this byte.
const NO_KEY: u8 = 0;
const BACKSPACE: [u8; 2] = [8, 127];
const KILL_LINE: u8 = 21;
const TAB: u8 = 9;

/// The controlling terminal, whatever the standard streams are.
pub(crate) struct Terminal {
    file: File,
}

/// Restores the terminal's state when it is dropped.
struct Restore<'a> {
    file: &'a File,
    state: Termios,
}

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.file, OptionalActions::Flush, &self.state) {
            eprintln!(
                "godwit-signer: warning: the terminal does not show what is typed ({error}); stty sane \
                 mends it"
            );
        }
    }
}

impl Terminal {
    pub(crate) fn open() -> Result<Self, KeysFailure> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty");
        Ok(Self { file: file.map_err(KeysFailure::NoTerminal)? })
    }

    /// A terminal other than the controlling one.
    pub(crate) fn of_file(file: File) -> Self {
        Self { file }
    }

    /// Shows a line.
    pub(super) fn say(&self, line: &str) -> Result<(), KeysFailure> {
        (&self.file).write_all(format!("{line}\n").as_bytes()).map_err(KeysFailure::Read)
    }

    /// Clears the screen and, if the terminal can, the lines that were scrolled out of it.
    pub(super) fn clear(&self) -> Result<(), KeysFailure> {
        (&self.file).write_all(CLEAR).map_err(KeysFailure::Read)
    }

    /// For showing a secret without any buffer.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Shows a text, then asks a question whose answer is not secret, with echo. Anything typed before the
    /// question is ignored, even if the text before it was still being written.
    pub(crate) fn answer(&self, shown: &str, question: &str) -> Result<String, KeysFailure> {
        self.say(shown)?;
        let no_terminal = |error: Errno| KeysFailure::NoTerminal(error.into());
        tcdrain(&self.file).map_err(no_terminal)?;
        tcflush(&self.file, QueueSelector::IFlush).map_err(no_terminal)?;
        (&self.file).write_all(question.as_bytes()).map_err(KeysFailure::Read)?;
        let mut line = Vec::new();
        let mut reader = BufReader::new(&self.file).take(MAX_LINE as u64);
        reader.read_until(b'\n', &mut line).map_err(KeysFailure::Read)?;
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    }

    /// Reads a line that is not shown. The terminal hands over whole lines: only then, and without echo,
    /// does the kernel wipe its buffer behind what it hands over (`zero_buffer` in its `n_tty.c`). Keys that
    /// would interrupt the program end the prompt.
    pub(crate) fn ask(&mut self, what: &str) -> Result<SecretBytes, KeysFailure> {
        // A signal that ended the process now would leave the user a terminal without echo.
        let signals = HeldSignals::begin().map_err(KeysFailure::NoTerminal)?;
        let state = tcgetattr(&self.file).map_err(|error| KeysFailure::NoTerminal(error.into()))?;
        let mut silent = state.clone();
        silent.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
        silent.local_modes |= LocalModes::ICANON | LocalModes::ISIG;
        // A character is taken back whole.
        silent.input_modes |= InputModes::ICRNL | InputModes::IUTF8;
        for key in [SpecialCodeIndex::VQUIT, SpecialCodeIndex::VSUSP, SpecialCodeIndex::VEOF] {
            silent.special_codes[key] = NO_KEY;
        }
        // A line ends with this byte at once, and is handed over with the characters typed before it.
        silent.special_codes[SpecialCodeIndex::VEOL] = END;
        let restore = Restore { file: &self.file, state };
        tcsetattr(&self.file, OptionalActions::Flush, &silent)
            .map_err(|error| KeysFailure::NoTerminal(error.into()))?;
        (&self.file).write_all(format!("{what}: ").as_bytes()).map_err(KeysFailure::Read)?;
        let line = run_on_secret_stack(|| typed_line(&self.file, &signals))?;
        (&self.file).write_all(b"\n").map_err(KeysFailure::Read)?;
        drop(restore);
        drop(signals);
        line
    }
}

/// The meaning of a key, without the character that it may stand for.
enum Typed {
    EndOfLine,
    Interrupt,
    End,
    KillLine,
    Backspace,
    /// Another key that makes no character.
    Control,
    Character,
}

impl Releasable for Typed {}

impl Typed {
    fn of(key: u8) -> Self {
        match key {
            b'\n' | b'\r' => Self::EndOfLine,
            INTERRUPT => Self::Interrupt,
            END => Self::End,
            KILL_LINE => Self::KillLine,
            key if BACKSPACE.contains(&key) => Self::Backspace,
            key if key < b' ' && key != TAB => Self::Control,
            _ => Self::Character,
        }
    }
}

fn typed_line(mut file: &File, signals: &HeldSignals) -> Result<SecretBytes, KeysFailure> {
    let mut line = SecretBytes::new();
    loop {
        let pressed = key_before_signal(file, signals).map_err(KeysFailure::Read)?;
        if !pressed || line.read_from(&mut file, 1)? == 0 {
            return Err(KeysFailure::Aborted);
        }
        let end = line.len() - 1;
        match line.expose_secret(|line| Typed::of(line[end])) {
            Typed::EndOfLine => {
                line.truncate(end);
                between_steps("a line is typed");
                return Ok(line);
            }
            Typed::Interrupt => return Err(KeysFailure::Aborted),
            Typed::End if end == 0 => return Err(KeysFailure::Aborted),
            Typed::KillLine => line.clear(),
            Typed::Backspace => {
                let kept = |line: &[u8]| Declassified(without_last_character(&line[..end]));
                let kept = line.expose_secret(kept).0;
                line.truncate(kept);
            }
            // The user cannot see that an arrow or control key was added, and could never type the
            // passphrase again.
            Typed::End | Typed::Control => return Err(KeysFailure::NoCharacter),
            Typed::Character if end == MAX_LINE => return Err(KeysFailure::TooLongForTerminal),
            Typed::Character => {}
        }
    }
}

/// Waits for a key; `false` when a signal arrives first.
fn key_before_signal(terminal: &File, signals: &HeldSignals) -> io::Result<bool> {
    let arrived = signals.as_fd();
    let mut sources = [PollFd::new(terminal, PollFlags::IN), PollFd::new(&arrived, PollFlags::IN)];
    loop {
        match poll(&mut sources, None) {
            Ok(_) => return Ok(sources[1].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Length in bytes of a UTF-8 text without its last character.
fn without_last_character(text: &[u8]) -> usize {
    let continues = |byte: &&u8| **byte & 0xc0 == 0x80;
    text.len().saturating_sub(1 + text.iter().rev().take_while(continues).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_character_goes_whole() {
        for (text, left) in [("", ""), ("a", ""), ("aé", "a"), ("é漢", "é"), ("🐦", "")] {
            assert_eq!(without_last_character(text.as_bytes()), left.len(), "{text}");
        }
        assert_eq!(without_last_character(&[0x80, 0x80]), 0, "no character at all");
    }
}
