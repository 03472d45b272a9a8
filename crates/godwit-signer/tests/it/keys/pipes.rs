//! Descriptors behind which there is no file: named pipes, and a device that takes nothing.

use std::fs;
use std::process::{Command, Stdio};

use godwit_program::Exit;
use godwit_sim::programs::Ended;

use super::{id, keys};
use crate::signer;

/// A program that has written a secret closes its end before the signer looks.
#[test]
fn named_pipes_are_descriptors_too() {
    let place = signer("regtest");
    let program = place.command(&[&"keys", &"create", &"-passphrase-fd=9", &"-mnemonic-fd=4"]);
    let script = "mkfifo pass words && { printf pass >pass & writer=$!; cat words >shown & } && \
                  exec 9<pass 4>words && wait $writer && exec timeout 60 \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program.get_program());
    command.args(program.get_args()).current_dir(place.beside(""));
    let ended = Ended::of(command.stdin(Stdio::null()).output().expect("a shell"));
    let entry = ended.expect(Exit::Success).json();
    // It has ended: it had standard error as well.
    let shown = fs::read_to_string(place.beside("shown")).expect("written");
    let exported = keys(&place, &["export", &id(&entry)], &["pass"]).expect(Exit::Success);
    assert_eq!(exported.stdout, shown);
}

/// The words are in the key file by then.
#[test]
fn words_that_find_no_room_are_not_lost() {
    let place = signer("regtest");
    fs::write(place.beside("pass"), "pass").expect("a file");
    let program = place.command(&[&"keys", &"create", &"-passphrase-fd=9", &"-mnemonic-fd=4"]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 9<pass 4>/dev/full", "sh"]).arg(program.get_program());
    command.args(program.get_args()).current_dir(place.beside(""));
    let ended = Ended::of(command.stdin(Stdio::null()).output().expect("a shell"));
    let said = ended.expect(Exit::DiskFull).stderr;
    let listed = keys(&place, &["list"], &["pass"]).expect(Exit::Success).json();
    let id = id(&listed[0]);
    assert!(said.contains(&format!("keys export {id} writes its words")), "{said}");
}
