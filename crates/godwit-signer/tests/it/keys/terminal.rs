//! Questions at a terminal, which `script` makes.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use godwit_program::Exit;
use godwit_sim::programs::Datadir;
use rustix::process::{Pid, Signal, kill_process};

use super::{keys, list};
use crate::signer;

/// The word that a question asks for.
const WORD: &str = "the word";

/// A command at a terminal of its own.
struct Session {
    child: Child,
    keyboard: ChildStdin,
    screen: ChildStdout,
    seen: String,
}

impl Session {
    /// `None`, with a line that says so, where there is no `script`.
    fn start(place: &Datadir, words: &str) -> Option<Self> {
        Self::of_shell(&format!("exec {}", line(place, words)))
    }

    /// A line of the shell. A program that is not run by `exec` shares the signals of its keyboard with the
    /// shell, and some shells end by them with a code of their own.
    fn of_shell(line: &str) -> Option<Self> {
        let mut command = Command::new("script");
        command.env("SHELL", "/bin/sh");
        command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else {
            godwit_testdata::skip("there is no program script to make a terminal");
            return None;
        };
        let keyboard = child.stdin.take().expect("it is a pipe");
        let screen = child.stdout.take().expect("it is a pipe");
        Some(Self { child, keyboard, screen, seen: String::new() })
    }

    /// Reads until the screen shows `text` for the next time, and types.
    fn answer(&mut self, text: &str, keys: &str) {
        self.wait_for(text);
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
    }

    /// Answers a question that asks for a word of its own; [`WORD`] stands for that.
    fn decide(&mut self, question: &str, answer: &str) {
        self.wait_for(question);
        let word = format!("{}\r", self.wait_for(" and Enter: "));
        let keys = if answer == WORD { &word } else { answer };
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
    }

    /// What the screen shows up to `text`.
    fn wait_for(&mut self, text: &str) -> &str {
        let start = self.seen.len();
        while !self.seen[start..].contains(text) {
            let mut byte = [0];
            let count = self.screen.read(&mut byte).expect("a pipe");
            assert_eq!(count, 1, "{text:?} is not asked: {}", self.seen);
            self.seen.push(char::from(byte[0]));
        }
        self.seen[start..].trim_end_matches(text)
    }

    /// Everything that the screen showed, and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut rest = Vec::new();
        self.screen.read_to_end(&mut rest).expect("a pipe");
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        let status = self.child.wait().expect("it ends");
        (self.seen, status.code())
    }

    /// The command ends with this message on the screen, and has failed.
    fn fails(self, message: &str) {
        self.ends(Exit::Failure, message);
    }

    fn ends(self, exit: Exit, message: &str) {
        let (screen, status) = self.end();
        assert_eq!(status, code(exit), "{screen}");
        assert!(screen.contains(message), "{screen}");
    }
}

/// A command of `keys`, as a shell reads it.
fn line(place: &Datadir, words: &str) -> String {
    let program = place.command(&[]);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let options: Vec<String> = program.get_args().map(quoted).collect();
    format!("{} keys {words} {}", quoted(program.get_program()), options.join(" "))
}

fn code(exit: Exit) -> Option<i32> {
    Some(exit.code().into())
}

#[test]
fn what_is_typed_is_not_shown() {
    let place = signer("regtest");
    let Some(mut session) = Session::start(&place, "create -label=typed") else { return };
    // With a slip of the finger, and another one at the second time.
    session.answer("Passphrase of the new key file", "hidX\u{7f}den\r");
    session.answer("again: ", "wrong\u{15}hidden\r");
    // Three of the six letters go on from the one before.
    session.wait_for("It has 14 bits at best");
    session.wait_for("nobody has.\r\n");
    let words = session.wait_for("\r\n").to_owned();
    assert_eq!(words.split(' ').count(), 24, "{words}");
    // A key without a character costs an attempt, and they are shown again.
    session.answer("they disappear: ", "\u{1b}[A\r");
    session.answer("Type the words that you have written down: ", "\u{1b}[A\r");
    session.wait_for("These are other words.");
    session.wait_for("nobody has.\r\n");
    assert_eq!(session.wait_for("\r\n"), words);
    session.answer("they disappear: ", "\r");
    let between = session.wait_for("Type the words that you have written down: ");
    assert!(
        between.ends_with("\r\n\u{1b}[H\u{1b}[2J\u{1b}[3J"),
        "the screen is cleared: {between:?}"
    );
    session.answer("", &format!("{words}\r"));
    let (screen, status) = session.end();
    assert_eq!(status, code(Exit::Success), "{screen}");
    assert_eq!(screen.matches(&words).count(), 2, "shown twice: {screen}");
    assert!(screen.contains("\"label\": \"typed\""), "{screen}");
    let screen = screen.replace(&words, "");
    for part in ["hid", "wrong\r", "denX"] {
        assert!(!screen.contains(part), "{part} is on the screen: {screen}");
    }
    let listed = keys(&place, &["list"], &["hidden"]).expect(Exit::Success).json();
    assert_eq!(listed[0]["label"], "typed");
}

#[test]
fn a_mistyped_or_aborted_passphrase_makes_no_file() {
    let place = signer("regtest");
    let Some(mut session) = Session::start(&place, "create") else { return };
    session.answer("key file", "one\r");
    session.answer("again: ", "two\r");
    session.fails("the two entries differ");
    let mut session = Session::start(&place, "create").expect("as before");
    session.answer("key file", "one\u{3}");
    session.ends(Exit::Interrupted, "aborted; nothing was done");
    assert!(!super::key_file(&place).exists());
}

#[test]
fn secrets_are_asked_for_one_after_another() {
    let place = signer("regtest");
    keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    let Some(mut session) = Session::start(&place, "import -bip39passphrase") else { return };
    session.answer("Passphrase of /", "pass\r");
    session.answer("Mnemonic, extended private key, WIF or descriptor: ", super::WORDS);
    session.keyboard.write_all(b"\r").expect("it reads");
    session.answer("Passphrase of the mnemonic: ", "é\r");
    session.answer("again: ", "é\r");
    let (screen, status) = session.end();
    assert_eq!(status, code(Exit::Success), "{screen}");
    assert!(!screen.contains("abandon"), "{screen}");
    assert_eq!(list(&place).len(), 2);
}

#[test]
fn a_key_without_a_character_makes_no_passphrase() {
    let place = signer("regtest");
    for keys in ["one\u{1b}[A\r", "one\u{4}\r", "\u{0}\r"] {
        let Some(mut session) = Session::start(&place, "create") else { return };
        session.answer("key file", keys);
        session.fails("stands for no character; nothing was done");
    }
    assert!(!super::key_file(&place).exists());
}

#[test]
fn a_signal_at_a_question_leaves_a_terminal_that_shows_what_is_typed() {
    let place = signer("regtest");
    for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let program = line(&place, "create");
        let shell = format!(
            "sh -c 'echo \"pid $$.\"; exec \"$0\" \"$@\"' {program}; echo \"ended $?\"; stty -a"
        );
        let Some(mut session) = Session::of_shell(&shell) else { return };
        session.wait_for("pid ");
        let pid = session.wait_for(".").parse().expect("a number");
        session.wait_for("key file");
        session.wait_for(": ");
        let pid = Pid::from_raw(pid).expect("not zero");
        kill_process(pid, signal).expect("it is there");
        let (screen, _) = session.end();
        assert!(screen.contains("aborted; nothing was done"), "{signal:?}: {screen}");
        assert!(screen.contains(&format!("ended {}", Exit::Interrupted.code())), "{screen}");
        assert!(screen.contains(" echo ") && screen.contains(" icanon "), "{signal:?}: {screen}");
    }
    assert!(!super::key_file(&place).exists());
}

#[test]
fn words_that_nobody_can_repeat_are_not_kept() {
    let place = signer("regtest");
    let Some(mut session) = Session::start(&place, "create") else { return };
    session.answer("Passphrase of the new key file", "hidden\r");
    session.answer("again: ", "hidden\r");
    for _ in 0..3 {
        session.answer("they disappear: ", "\r");
        session.answer("Type the words that you have written down: ", "abandon about\r");
    }
    session.wait_for("the words that were shown are void");
    session.fails("the words that were typed are not those that were shown");
    assert!(!super::key_file(&place).exists());
    // Nor are those that somebody has turned away from.
    let mut session = Session::start(&place, "create").expect("as before");
    session.answer("Passphrase of the new key file", "hidden\r");
    session.answer("again: ", "hidden\r");
    session.answer("they disappear: ", "\u{3}");
    session.wait_for("\u{1b}[3J");
    session.wait_for("the words that were shown are void");
    session.ends(Exit::Interrupted, "aborted; nothing was done");
    assert!(!super::key_file(&place).exists());
}

#[test]
fn an_entry_is_removed_when_the_user_says_so() {
    let place = signer("regtest");
    let entry = keys(&place, &["create", "-label=kept"], &["pass"]).expect(Exit::Success).json();
    let words = format!("remove {}", super::id(&entry));
    for (answer, left) in [("no\r", 1), ("yes\r", 1), (WORD, 0)] {
        // What is removed is shown where it is asked for, wherever standard error goes.
        let line = format!("{} 2>/dev/null", line(&place, &words));
        let Some(mut session) = Session::of_shell(&line) else { return };
        session.answer("Passphrase of ", "pass\r");
        session.wait_for("\"label\": \"kept\"");
        session.decide("Remove this entry and its keys? Type ", answer);
        let (screen, status) = session.end();
        assert_eq!(status == code(Exit::Success), left == 0, "{screen}");
        assert_eq!(list(&place).len(), left, "{screen}");
    }
}

/// The user is asked for his word, and only that word will do; what it is about is shown beside the question,
/// wherever standard error goes.
#[test]
fn a_psbt_is_signed_when_the_user_says_so() {
    let place = signer("regtest");
    let psbt = crate::psbt::file_to_sign(&place);
    let program = place.command(&[]);
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let options: Vec<String> = program.get_args().map(quoted).collect();
    let line = format!(
        "exec {} psbt sign {} -keys={} -unprovenamounts {} 2>",
        quoted(program.get_program()),
        psbt.display(),
        place.beside("test.keys").display(),
        options.join(" ")
    );
    for (answer, exit) in [
        (WORD, Exit::Success),
        ("yes\r", Exit::Failure),
        ("0\r", Exit::Failure),
        ("\r", Exit::Failure),
        ("\u{3}", Exit::Interrupted),
    ] {
        let log = place.beside("log");
        let Some(mut session) = Session::of_shell(&format!("{line}{}", log.display())) else {
            return;
        };
        session.answer("Passphrase of ", "a passphrase of this test\r");
        session.wait_for("output 0: 0.19999000 BTC to bcrt1");
        session.wait_for("net: 0.20000000 BTC leave");
        session.decide("Sign this? Type ", answer);
        let (screen, status) = session.end();
        assert_eq!(status, code(exit), "{screen}");
        let said = std::fs::read_to_string(&log).expect("it is there");
        assert_eq!(said.contains("signed input 0 with"), exit == Exit::Success, "{said}");
        assert_eq!(said.contains("you did not agree"), exit == Exit::Failure, "{said}");
        assert!(!said.contains("output 0"), "shown once: {said}");
    }
}
