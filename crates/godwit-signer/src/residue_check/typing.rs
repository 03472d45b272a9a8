//! A passphrase typed at a terminal, which this process holds both ends of.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::thread;

use godwit_secret::{SecretSlice, SecretString};
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
    passphrase.expose_secret(|text| rustix::io::write(keyboard, text.as_bytes()))?;
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
