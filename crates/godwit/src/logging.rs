//! Writes log lines to `debug.log` and to the console.
//!
//! It does so on a thread of its own, so that logging never waits for a disk or for a reader of standard
//! output. Lines that do not fit into the queue are dropped and counted, and the log says how many are
//! missing. Lines in the queue are lost when the process is killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded};
use godwit_api::LogCategories;
use godwit_store::disk::open_stored;
use indicatif::MultiProgress;
use log::{Level, LevelFilter, Log, Metadata, Record};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::log_format::{LOG_FILE, format_line};

/// Most lines that wait to be written.
const LOG_LINES: usize = 8_192;

/// Most bytes of those lines: they may quote what a peer sent.
const LOG_BYTES: usize = 4 << 20;

/// Whose debugging lines are logged: `logging` of JSON-RPC changes it.
pub(crate) static CATEGORIES: LogCategories = LogCategories::none();

/// Longest wait of a flush. After a panic or a signal the other threads go on meanwhile, so the
/// process must end soon.
const FLUSH_WAIT: Duration = Duration::from_millis(200);

/// Which of the log's lines the console shows as well. A long job takes [`Console::Lines`] when its
/// [`MultiProgress`] `is_hidden`, because standard error is no terminal.
pub(crate) enum Console {
    /// Every line, on standard output: for a long job without a terminal.
    Lines,
    /// Warnings and errors, on standard error. Standard output is for a command's result; on a
    /// terminal, the progress bar makes room for the line.
    Warnings(MultiProgress),
}

/// Starts logging in this process. Drop the returned guard when the process ends.
///
/// # Errors
///
/// When `debug.log` in `directory` cannot be opened for appending (it is created with mode 0600), or
/// the system gives no thread.
///
/// # Panics
///
/// When called a second time.
pub(crate) fn start(directory: &Path, console: Console) -> io::Result<Logging> {
    let file = open(&directory.join(LOG_FILE))?;
    let (logger, logging) = Logger::start(Writer { file, console, file_failed: false })?;
    log::set_logger(Box::leak(Box::new(logger))).expect("main starts the log once");
    log::set_max_level(LevelFilter::Info);
    Ok(logging)
}

/// A pipe that somebody reads is as good as a file: `/dev/stderr` of a container is one.
fn open(path: &Path) -> io::Result<File> {
    if path.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        // Without a reader this fails; and lines wait for one that is slow.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        if let Ok(pipe) = OpenOptions::new().append(true).custom_flags(flags).open(path) {
            fcntl_setfl(&pipe, fcntl_getfl(&pipe)? - OFlags::NONBLOCK)?;
            return Ok(pipe);
        }
    }
    open_stored(OpenOptions::new().create(true).append(true).mode(0o600), path)
}

/// Dropping it waits until every queued line is written.
pub(crate) struct Logging {
    lines: Sender<Entry>,
    waiting: Arc<AtomicUsize>,
    lost: Arc<AtomicUsize>,
}

impl Logging {
    /// Logs to the file alone why the process ends: on the console it is said otherwise.
    pub(crate) fn last(&self, level: Level, message: &str) {
        self.tell_of_lost();
        let line = format_line(seconds_since_1970(), level, message);
        let (Ok(()) | Err(_)) = self.lines.send(Entry::OfFile(line));
    }

    fn tell_of_lost(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let line = format_line(seconds_since_1970(), Level::Warn, &lines_are_missing(lost));
            self.waiting.fetch_add(line.capacity(), Ordering::Relaxed);
            let (Ok(()) | Err(_)) = self.lines.send(Entry::Line(Level::Warn, line));
        }
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        self.tell_of_lost();
        let (done, written) = bounded(1);
        if self.lines.send(Entry::Flush(done)).is_ok() {
            let (Ok(()) | Err(_)) = written.recv();
        }
    }
}

enum Entry {
    Line(Level, String),
    /// The console does not show it, nor that the file takes it no more.
    OfFile(String),
    /// A flush: answered when every line queued before it is written.
    Flush(Sender<()>),
}

struct Logger {
    lines: Sender<Entry>,
    /// Bytes of the lines that wait.
    waiting: Arc<AtomicUsize>,
    /// Lines that were dropped since the log last said how many are missing.
    lost: Arc<AtomicUsize>,
}

impl Logger {
    fn start(mut writer: Writer<impl Write + Send + 'static>) -> io::Result<(Self, Logging)> {
        let (lines, waiting_lines) = bounded(LOG_LINES);
        let waiting = Arc::<AtomicUsize>::default();
        let logger = Self { lines, waiting: Arc::clone(&waiting), lost: Arc::default() };
        let logging = Logging {
            lines: logger.lines.clone(),
            waiting: Arc::clone(&waiting),
            lost: Arc::clone(&logger.lost),
        };
        let run = move || writer.write_all(&waiting_lines, &waiting);
        Builder::new().name("godwit-log".into()).spawn(run)?;
        Ok((logger, logging))
    }

    /// Queues a line; `false` if there was no room.
    fn push(&self, level: Level, message: &str) -> bool {
        let line = format_line(seconds_since_1970(), level, message);
        let bytes = line.capacity();
        if self.waiting.fetch_add(bytes, Ordering::Relaxed) < LOG_BYTES
            && self.lines.try_send(Entry::Line(level, line)).is_ok()
        {
            return true;
        }
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        false
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        match metadata.level() {
            Level::Debug => CATEGORIES.of_line(metadata.target()).is_some(),
            level => level <= Level::Info,
        }
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.push(Level::Warn, &lines_are_missing(lost)) {
            self.lost.fetch_add(lost + 1, Ordering::Relaxed);
        } else if !self.push(record.level(), &message(record)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything is written, or for [`FLUSH_WAIT`]: a process that ends by a signal or
    /// a panic has to end, however slow the disk is.
    fn flush(&self) {
        let deadline = Instant::now() + FLUSH_WAIT;
        let (done, written) = bounded(1);
        if self.lines.send_deadline(Entry::Flush(done), deadline).is_ok() {
            let (Ok(()) | Err(_)) = written.recv_deadline(deadline);
        }
    }
}

/// The text of a line; a debugging line has its category in front, as in Core.
fn message(record: &Record<'_>) -> String {
    let category = match record.level() {
        Level::Debug => CATEGORIES.of_line(record.target()),
        _ => None,
    };
    match category {
        Some(category) => format!("[{category}] {}", record.args()),
        None => record.args().to_string(),
    }
}

fn lines_are_missing(lost: usize) -> String {
    format!("{lost} lines were not logged here: they came faster than they could be written.")
}

/// The state that the log's thread owns.
struct Writer<W> {
    file: W,
    console: Console,
    /// The file could not be written. Reported once: every later line would fail in the same way.
    file_failed: bool,
}

impl<W: Write> Writer<W> {
    fn write_all(&mut self, lines: &Receiver<Entry>, waiting: &AtomicUsize) {
        for entry in lines {
            match entry {
                Entry::Line(level, line) => {
                    self.write(level, &line);
                    waiting.fetch_sub(line.capacity(), Ordering::Relaxed);
                }
                Entry::OfFile(line) => drop(self.file.write_all(line.as_bytes())),
                // The caller of `flush` may have given up.
                Entry::Flush(done) => drop(done.send(())),
            }
        }
    }

    fn write(&mut self, level: Level, line: &str) {
        self.write_console(level, line);
        if let Err(error) = self.file.write_all(line.as_bytes())
            && !self.file_failed
        {
            self.file_failed = true;
            self.write_console(Level::Error, &format!("{LOG_FILE} cannot be written: {error}\n"));
        }
    }

    /// Ignores errors: a console that was closed is no reason to stop, and nothing can be reported
    /// to it.
    fn write_console(&self, level: Level, line: &str) {
        match &self.console {
            Console::Lines => drop(io::stdout().write_all(line.as_bytes())),
            Console::Warnings(bars) if level <= Level::Warn => {
                bars.suspend(|| drop(io::stderr().write_all(line.as_bytes())));
            }
            Console::Warnings(_) => {}
        }
    }
}

fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::Mutex;

    use indicatif::ProgressDrawTarget;
    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn quiet() -> Console {
        Console::Warnings(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()))
    }

    fn writer<W>(file: W) -> Writer<W> {
        Writer { file, console: quiet(), file_failed: false }
    }

    fn log_info(logger: &Logger, message: &str) {
        logger.log(&Record::builder().level(Level::Info).args(format_args!("{message}")).build());
    }

    fn messages(text: &str) -> Vec<&str> {
        text.lines().filter_map(|line| line.split_once("Z ")).map(|(_, rest)| rest).collect()
    }

    #[test]
    fn the_file_is_private_and_appended_to() {
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let path = directory.path().join(LOG_FILE);
        for message in ["first\x1b", "second"] {
            let file = open(&path).expect("a writable log");
            let (logger, _logging) = Logger::start(writer(file)).expect("a thread");
            log_info(&logger, message);
        }
        let text = std::fs::read_to_string(&path).expect("a log");
        assert_eq!(messages(&text), ["first\\x1b", "second"]);
        let mode = path.metadata().expect("a log").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(open(&directory.path().join("absent/x")).is_err());
    }

    #[test]
    fn the_last_line_is_written_behind_all_others() {
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let path = directory.path().join(LOG_FILE);
        let (logger, logging) =
            Logger::start(writer(open(&path).expect("a log"))).expect("a thread");
        log_info(&logger, "first");
        logging.last(Level::Error, "the\x1b end");
        drop(logging);
        let text = std::fs::read_to_string(&path).expect("a log");
        assert_eq!(messages(&text), ["first", "[error] the\\x1b end"]);
    }

    #[test]
    fn a_pipe_is_a_log_if_somebody_reads_it_and_not_waited_for() {
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let path = directory.path().join(LOG_FILE);
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        assert!(open(&path).is_err(), "nobody reads it");
        let mut both_ends = File::options().read(true).write(true).open(&path).expect("it is ours");
        let link = directory.path().join("link");
        symlink(&path, &link).expect("a link");
        for name in [&path, &link] {
            let mut log = open(name).expect("somebody reads it");
            assert!(!fcntl_getfl(&log).expect("its flags").contains(OFlags::NONBLOCK));
            log.write_all(b"a line").expect("it is read");
            let mut read = [0; 6];
            both_ends.read_exact(&mut read).expect("the line");
            assert_eq!(&read, b"a line");
        }
    }

    #[test]
    fn a_full_disk_is_noted_and_survived() {
        let mut writer = writer(open(Path::new("/dev/full")).expect("it opens"));
        assert!(!writer.file_failed);
        writer.write(Level::Info, "lost\n");
        assert!(writer.file_failed);
        writer.write(Level::Info, "lost too\n");
    }

    /// Writes nothing before the gate is open.
    struct Gated {
        gate: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Open is a closed channel.
            let (Ok(()) | Err(_)) = self.gate.recv();
            self.written.lock().expect("no panic").extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (Sender<()>, Arc<Mutex<Vec<u8>>>, Writer<Gated>) {
        let ((open_gate, gate), written) = (bounded(0), Arc::default());
        let file = Gated { gate, written: Arc::clone(&written) };
        (open_gate, written, writer(file))
    }

    /// How many lines the log lacks of `logged` ones that begin with their number: it says so where they
    /// are missing.
    fn missing(text: &str, logged: usize) -> usize {
        let number = |text: &str| -> usize {
            let first = text.split(' ').next().and_then(|number| number.parse().ok());
            first.unwrap_or_else(|| panic!("{text} begins with no number"))
        };
        let (mut kept, mut missing) = (0, 0);
        for message in messages(text) {
            match message.strip_prefix("[warning] ") {
                Some(warning) => missing += number(warning),
                None => {
                    assert_eq!(number(message), kept + missing);
                    kept += 1;
                }
            }
        }
        assert_eq!(kept + missing, logged);
        missing
    }

    #[test]
    fn who_logs_waits_for_no_disk_and_the_log_says_what_it_lacks() {
        let (open_gate, written, writer) = gated();
        let (logger, logging) = Logger::start(writer).expect("a thread");
        for n in 0..10_000 {
            log_info(&logger, &format!("{n} of many"));
        }
        drop(open_gate);
        logger.flush();
        log_info(&logger, "10000 is the last");
        drop(logging);
        let text = String::from_utf8(written.lock().expect("no panic").clone()).expect("text");
        let missing = missing(&text, 10_001);
        assert!((10_000 - LOG_LINES - 1..=10_000 - LOG_LINES).contains(&missing), "{missing}");
    }

    #[test]
    fn the_lines_that_wait_are_bounded_in_bytes() {
        let (open_gate, written, writer) = gated();
        let (logger, logging) = Logger::start(writer).expect("a thread");
        let line_bytes = LOG_BYTES / 16;
        let long = "x".repeat(line_bytes - 100);
        for n in 0..100 {
            log_info(&logger, &format!("{n} {long}"));
        }
        assert!(logger.waiting.load(Ordering::Relaxed) <= LOG_BYTES + 2 * line_bytes);
        drop(open_gate);
        logger.flush();
        log_info(&logger, "100 is the last");
        drop(logging);
        let text = String::from_utf8(written.lock().expect("no panic").clone()).expect("text");
        let missing = missing(&text, 101);
        assert!((80..=95).contains(&missing), "{missing}");
    }
}
