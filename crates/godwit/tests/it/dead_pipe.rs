//! Nobody reads what the program prints: in `godwit … | tee log` one Ctrl-C ends both.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::thread;

use godwit::exit::Exit;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::blocks::{small_chain, write_dat};
use crate::node::Node;

/// The end of a pipe that nobody reads.
fn dead_pipe() -> OwnedFd {
    let (_, writer) = io::pipe().expect("a pipe");
    writer.into()
}

/// The end of a terminal that programs have, and who looks at the other one until all of them have ended.
fn terminal() -> (File, thread::JoinHandle<Vec<u8>>) {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&screen).and_then(|()| unlockpt(&screen)).expect("a terminal");
    let name = ptsname(&screen, Vec::new()).expect("a terminal");
    let end = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let viewer = thread::spawn(move || {
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        // The system says by an error that nobody has the other end.
        while let Ok(count @ 1..) =
            File::from(screen.try_clone().expect("a handle")).read(&mut bytes)
        {
            seen.extend(&bytes[..count]);
        }
        seen
    });
    (File::from(end.expect("a terminal")), viewer)
}

#[test]
fn a_result_that_nobody_reads_ends_no_run_as_a_bug() {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, &small_chain()[..5]);
    let on_terminal = |words: &[&dyn AsRef<OsStr>]| {
        let (end, viewer) = terminal();
        let mut command = node.command(words);
        command.env("TERM", "xterm").stdin(Stdio::null()).stdout(dead_pipe()).stderr(end);
        let status = command.status().expect("the program starts");
        drop(command);
        let seen = viewer.join().expect("no panic");
        (status.code(), String::from_utf8_lossy(&seen).into_owned())
    };
    let success = Some(Exit::Success.code().into());
    let (code, seen) = on_terminal(&[&"import", &path]);
    assert_eq!(code, success, "{seen}");
    let (code, seen) =
        on_terminal(&[&"-connect=0", &"-listen=0", &"-server=0", &"-stopatheight=1"]);
    assert_eq!(code, success, "{seen}");
    let log = node.log();
    assert!(log.contains("Node stopped: "), "{log}");
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let node = Node::new("regtest");
    for (words, exit) in [
        (&["-dbcahce=5"][..], Exit::Configuration),
        (&["-dbcache=x"], Exit::Configuration),
        (&["import", "absent.dat"], Exit::Failure),
    ] {
        let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
        let mut command = node.command(&words);
        let status = command.stdout(dead_pipe()).stderr(dead_pipe()).status();
        assert_eq!(status.expect("the program starts").code(), Some(exit.code().into()));
    }
}
