//! A panic of any thread is one line and exit code 70, at once.
//!
//! Two ways to make a named thread of the program panic without a hook in it. Where the thread asks the C
//! library for the time, for bytes of a file or for a name, or writes, a preloaded library lies to it, so
//! that the standard library's own assertion fails; that is the very program that ships. The others run in a
//! process of this test, with the program's panic hook and a disk that panics.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit::exit::Exit;
use godwit_chain::{
    BadRecord, Chain, ChainOptions, CoinsMemory, ImportObserver, SCRUB_BYTES_PER_SECOND, import,
    plan,
};
use godwit_fault_disk::{PANIC, PanickingDisk};
use godwit_primitives::{Network, Params};
use godwit_program::panics;
use godwit_store::disk::RealDisk;
use godwit_store::exec::Threads;
use godwit_store::scan::{BlockFileScanner, SkippedBytes};
use godwit_store::utxo::CacheMinima;
use rustix::process::{Pid, Signal, kill_process};

use crate::blocks::{small_chain, write_dat};
use crate::node::{Ended, Node};
use crate::sync::free_port;

/// Lies to the thread of one name from its n-th question on: an impossible time, more bytes than were
/// asked for, a name that is not found; or, once, that it wrote more bytes than there were.
const LIAR: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int lies(void) {
    static int asked;
    const char *thread = getenv("LIE_TO"), *after = getenv("LIE_AFTER");
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    if (!thread || strcmp(name, thread)) return 0;
    return __sync_add_and_fetch(&asked, 1) > (after ? atoi(after) : 0);
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (lies()) time->tv_nsec = 2000000000;
    return result;
}
ssize_t pread64(int file, void *bytes, size_t count, off64_t offset) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    return lies() ? (ssize_t)count + 1 : real(file, bytes, count, offset);
}
static int lies_about_writing(void) {
    static int told;
    return getenv("LIE_ABOUT_WRITING") && lies() && !__sync_fetch_and_add(&told, 1);
}
ssize_t write(int file, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    return lies_about_writing() ? (ssize_t)count + 1 : real(file, bytes, count);
}
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
    return lies_about_writing() ? (ssize_t)count + 1 : real(file, bytes, count, offset);
}
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
    (void)name, (void)service, (void)hints, (void)found;
    return EAI_NONAME;
}
"#;

/// The liar, compiled once by the compiler that links this test; `None` and a line where it cannot be
/// preloaded.
fn liar(dir: &Path) -> Option<PathBuf> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        godwit_testdata::skip("the C library of another system is not lied about");
        return None;
    }
    let (source, library) = (dir.join("liar.c"), dir.join("liar.so"));
    fs::write(&source, LIAR).expect("a temporary file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl");
    let output = compiler.output().expect("what links Rust compiles C");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}

/// Whatever a thread waits for, it is not this.
const LONGEST: Duration = Duration::from_secs(120);

/// Runs a command to its end, which it may not reach by itself.
fn end_of(mut command: Command) -> Ended {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let id = Pid::from_child(&child);
    let (done, ended) = std::sync::mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        let late = ended
            .recv_timeout(LONGEST)
            .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout);
        if late {
            kill_process(id, Signal::KILL).expect("a child that is not waited for yet");
        }
    });
    let output = {
        let stdout = child.stdout.take().expect("piped");
        let reader = thread::spawn(move || std::io::read_to_string(stdout).expect("text"));
        let stderr = std::io::read_to_string(child.stderr.take().expect("piped")).expect("text");
        let status = child.wait().expect("it ends");
        Ended { code: status.code(), stdout: reader.join().expect("it reads"), stderr }
    };
    drop(done);
    guard.join().expect("it waits");
    output
}

#[track_caller]
fn assert_bug(ended: &Ended, thread: &str) {
    assert_eq!(ended.code, Some(Exit::Bug.code().into()), "{thread}: {ended:?}");
    let begins = format!("godwit: a bug: thread {thread}");
    assert!(ended.stderr.starts_with(&begins), "{thread}: {ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{thread}: {ended:?}");
}

struct Liar {
    library: PathBuf,
}

impl Liar {
    /// Runs a command of the program, one thread of which is lied to.
    fn run(&self, mut command: Command, thread: &str, after: u32) -> Ended {
        // They do nothing else; of the others this would hit the line that is looked for.
        if ["godwit-log", "godwit-peers"].contains(&thread) {
            command.env("LIE_ABOUT_WRITING", "1");
        }
        command.env("LD_PRELOAD", &self.library).env("LIE_TO", thread);
        end_of({
            command.env("LIE_AFTER", after.to_string()).env_remove("RUST_BACKTRACE");
            command
        })
    }
}

/// Half of the small chain, with its coins on disk.
fn with_half_a_chain(path: &Path) -> Node {
    let node = Node::new("regtest");
    let half = small_chain().len() / 2 + 60;
    let stop = format!("-stopatheight={half}");
    node.run(&[&"import", &path, &stop, &"-dbcache=4"]).expect(Exit::Success);
    node
}

#[test]
fn a_panic_of_any_thread_of_an_import_ends_it_with_one_line() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = liar(temp.path()) else { return };
    let (liar, path) = (Liar { library }, temp.path().join("chain.dat"));
    write_dat(&path, small_chain());
    // The main thread has the name of the program.
    for (lied_to, thread, after) in [
        ("godwit", "main panicked", 400),
        ("godwit-commit", "godwit-commit panicked", 0),
        ("godwit-append", "godwit-append panicked", 0),
        ("godwit-log", "godwit-log panicked", 0),
        ("godwit-worker-0", "godwit-worker-0 panicked", 0),
        ("utxo-flush", "utxo-flush panicked", 0),
    ] {
        let node = match lied_to {
            "godwit" => Node::new("regtest"),
            _ => with_half_a_chain(&path),
        };
        let ended = liar.run(node.command(&[&"import", &path, &"-dbcache=4"]), lied_to, after);
        assert_bug(&ended, thread);
        // As after a kill, the same command goes on.
        node.import(&path);
        assert_eq!(node.stats(), crate::import::small_chain_stats(), "{thread}");
    }
}

#[test]
fn a_panic_of_a_scan_of_the_coins_ends_the_command_with_one_line() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = liar(temp.path()) else { return };
    let (liar, path) = (Liar { library }, temp.path().join("chain.dat"));
    write_dat(&path, small_chain());
    let node = Node::new("regtest");
    node.import(&path);
    let ended = liar.run(node.command(&[&"utxo", &"stats"]), "godwit-stats-0", 0);
    assert_bug(&ended, "godwit-stats-0 panicked");
}

#[test]
fn a_panic_of_a_share_of_verify_ends_the_command_with_one_line() {
    if thread::available_parallelism().is_ok_and(|threads| threads.get() == 1) {
        godwit_testdata::skip("with one processor the main thread verifies alone");
        return;
    }
    let temp = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = liar(temp.path()) else { return };
    let (liar, path) = (Liar { library }, temp.path().join("chain.dat"));
    write_dat(&path, small_chain());
    let node = Node::new("regtest");
    node.import(&path);
    let ended = liar.run(node.command(&[&"verify"]), "godwit-share", 0);
    assert_bug(&ended, "godwit-share panicked");
    node.run(&[&"verify"]).expect(Exit::Success);
}

/// Asks for a block that never comes, until the process has ended: the server is not there at once.
fn ask_for_a_block(port: u16, ended: &AtomicBool) {
    let body = r#"{"method":"waitfornewblock","params":[100000]}"#;
    // Base64 of u:p.
    let head = "POST / HTTP/1.1\r\nHost: node\r\nAuthorization: Basic dTpw\r\nConnection: close";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    while !ended.load(Ordering::SeqCst) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            // Answers do not matter, nor that there is none.
            drop(stream.write_all(request.as_bytes()));
            drop(stream.read_to_end(&mut Vec::new()));
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_panic_of_the_rpc_server_or_of_a_method_ends_the_node_with_one_line() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = liar(temp.path()) else { return };
    let liar = Liar { library };
    for (lied_to, thread) in
        [("godwit-api", "godwit-api panicked"), ("godwit-rpc-0", "godwit-rpc-0 panicked")]
    {
        let (node, port) = (Node::new("regtest"), free_port());
        let rpc_port = format!("-rpcport={port}");
        let words: [&dyn AsRef<OsStr>; 6] = [
            &"-noconnect",
            &"-listen=0",
            &rpc_port,
            &"-rpcuser=u",
            &"-rpcpassword=p",
            &"-rpcthreads=1",
        ];
        let has_ended = AtomicBool::new(false);
        let ended = thread::scope(|scope| {
            scope.spawn(|| ask_for_a_block(port, &has_ended));
            let ended = liar.run(node.command(&words), lied_to, 0);
            has_ended.store(true, Ordering::SeqCst);
            ended
        });
        assert_bug(&ended, thread);
    }
}

#[test]
fn a_panic_of_the_sockets_or_of_a_lookup_ends_the_node_with_one_line() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = liar(temp.path()) else { return };
    let liar = Liar { library };
    let listening = [&"-noconnect" as &dyn AsRef<OsStr>, &"-listen=0"];
    // In plain and on a locked stack.
    for option in ["-v2transport=0", "-v2transport=1"] {
        let node = Node::new("regtest");
        let mut words = listening.to_vec();
        let connect = "-addnode=127.0.0.1:1";
        words.extend([&option as &dyn AsRef<OsStr>, &connect]);
        let ended = liar.run(node.command(&words), "godwit-net", 0);
        assert_bug(&ended, "godwit-net panicked");
    }
    let node = Node::new("regtest");
    let words: [&dyn AsRef<OsStr>; 2] = [&"-connect=nobody.invalid", &"-listen=0"];
    let ended = liar.run(node.command(&words), "godwit-dns", 0);
    assert_bug(&ended, "godwit-dns panicked");
}

#[test]
fn a_panic_of_the_thread_that_writes_peers_ends_the_node_with_one_line() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = liar(temp.path()) else { return };
    let (liar, path) = (Liar { library }, temp.path().join("chain.dat"));
    write_dat(&path, small_chain());
    let node = with_half_a_chain(&path);
    // It stops at once, and writes the book.
    let words: [&dyn AsRef<OsStr>; 3] = [&"-noconnect", &"-listen=0", &"-stopatheight=1"];
    let ended = liar.run(node.command(&words), "godwit-peers", 0);
    assert_bug(&ended, "godwit-peers panicked");
    node.run(&words).expect(Exit::Success);
}

const CHILD: &str = "GODWIT_PANICKING_THREAD";

struct Unwatched;

impl ImportObserver for Unwatched {
    fn now(&self) -> i64 {
        NOW
    }

    fn progress(&mut self, chain: &mut Chain) {
        drop(chain.take_events());
    }

    fn bad_record(&mut self, bad: &BadRecord) {
        unreachable!("the chain is valid: {bad:?}")
    }

    fn skipped_bytes(&mut self, _: &Path, skipped: &SkippedBytes) {
        unreachable!("the file has nothing else: {skipped:?}")
    }
}

/// After every block of the tests.
const NOW: i64 = 2_000_000_000;

/// Runs and merges after a few blocks.
const SMALL_CACHE: CacheMinima =
    CacheMinima { budget: 192 << 10, active: 80 << 10, io_buffer: 4 << 10, arena_step: 4 << 10 };

/// What has something to do only when everything else is done.
const SCRUB: &str = "godwit-scrub";

/// In a process of its own: imports with the program's hook, and looks at what was stored.
fn import_on_panicking_disk(thread: &'static str, dir: &Path) -> ! {
    panics::end_at_once("godwit", godwit_store::expects_panic);
    let disk = PanickingDisk::new(Arc::new(RealDisk), thread);
    let options = ChainOptions {
        cache_minima: SMALL_CACHE,
        scrub: Some(SCRUB_BYTES_PER_SECOND),
        ..ChainOptions::new(
            Arc::new(Params::new(Network::Regtest)),
            Arc::new(Threads::default()),
            2,
            CoinsMemory::Fixed(SMALL_CACHE.budget),
        )
    };
    let data = dir.join("data");
    let mut chain =
        Chain::open(Arc::new(disk.clone()), data, options, [7; 16], NOW).expect("it opens");
    if thread != SCRUB {
        disk.arm();
    }
    let magic = chain.params().magic;
    let file = BlockFileScanner::open(chain.disk(), &dir.join("chain.dat"), magic).expect("a file");
    let stop = Arc::new(AtomicBool::new(false));
    let plan = plan(&mut chain, vec![file], &mut Unwatched, &stop).expect("no local fault");
    let ended = import(&mut chain, plan, &mut Unwatched, &stop).map(drop);
    if let Err(error) = ended.and_then(|()| chain.flush()) {
        eprintln!("the import ended: {error}");
    }
    disk.arm();
    // While the tip is young, which it is not at `NOW`.
    let now = i64::from(chain.tree().node(chain.tip()).header.time) + 3_600;
    // Not at once: the thread's end is to be the end.
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        drop(chain.poll(now));
        thread::sleep(Duration::from_millis(10));
    }
    process::exit(1)
}

#[test]
fn a_panic_of_the_reader_a_flush_a_merge_or_the_scrub_ends_the_process_with_one_line() {
    let test =
        "panics::a_panic_of_the_reader_a_flush_a_merge_or_the_scrub_ends_the_process_with_one_line";
    let threads = ["godwit-reader", "utxo-flush", "utxo-merge", SCRUB];
    if let Ok(named) = env::var(CHILD) {
        let thread = threads.into_iter().find(|thread| *thread == named).expect("one of them");
        let dir = env::current_dir().expect("the parent has set it");
        import_on_panicking_disk(thread, &dir);
    }
    for thread in threads {
        let temp = tempfile::tempdir().expect("a temporary directory");
        write_dat(&temp.path().join("chain.dat"), small_chain());
        let mut command = Command::new(env::current_exe().expect("a test binary has a path"));
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(CHILD, thread).env_remove("RUST_BACKTRACE").current_dir(temp.path());
        let ended = end_of(command);
        assert_bug(&ended, thread);
        assert!(ended.stderr.contains(PANIC), "{ended:?}");
    }
}
