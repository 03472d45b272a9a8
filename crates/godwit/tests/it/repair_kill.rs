//! `godwit verify -repair` that is killed while it makes lost coins and undo records again, and started
//! again: it goes on from its checkpoint, and ends as if nobody had disturbed it.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use godwit::exit::Exit;
use godwit_sim::rng::Rng;

use crate::damaged_index::copy;
use crate::kill::{print, reference};
use crate::node::Node;
use crate::rebuild::files_of_coins;
use crate::running::Running;
use crate::verify::coins_line;

/// In MiB, of which the lost coins need several times as much: they are gathered in several readings.
const CACHE: &str = "-dbcache=24";

/// Between two looks at what a repair has done.
const POLL: Duration = Duration::from_micros(200);

/// Longer than the time between two checkpoints (`RepairPace`).
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(62);

/// A place from which a repair says that it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GoesOn {
    /// `None` at the end of a reading.
    height: Option<u64>,
    /// Bytes of blocks that were read before, and of all.
    done: u64,
    total: u64,
}

/// When to interrupt a repair.
#[derive(Clone, Copy, Debug)]
enum When {
    /// In the middle of a reading: behind a third of what is left of it.
    Scan,
    /// While a checkpoint is written.
    Checkpoint,
    /// Behind a checkpoint.
    Saved,
    /// While a run is written.
    Run,
    /// Behind the commit that names it.
    Commit,
}

/// A directory whose coins are all lost, and some undo records.
struct Damaged {
    node: Node,
    /// Bytes of the block files.
    blocks: u64,
}

/// A repair under way.
struct Repair<'a> {
    damaged: &'a Damaged,
    running: Running<'a>,
    started: SystemTime,
    /// It has no checkpoint to go on from.
    is_first: bool,
    /// Bytes that it had read when a reading began, and those of blocks that this one had to read.
    reading: Option<(u64, u64)>,
    /// Bytes that it has read.
    read: u64,
}

/// What an interrupted repair had come to.
#[derive(Debug)]
struct Interrupted {
    goes_on: Option<GoesOn>,
    /// It was in the middle of a reading.
    in_scan: bool,
}

impl Damaged {
    fn new(seed: u64) -> Self {
        let reference = reference();
        let node = {
            let _alone = reference.serve_alone();
            copy(&reference.node)
        };
        for path in files_of_coins(&node) {
            fs::remove_file(path).expect("it is there");
        }
        let rng = &mut Rng::new(seed);
        for undo in files(&node, "rev") {
            let mut bytes = fs::read(&undo).expect("an undo file");
            for _ in 0..3 {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1;
            }
            fs::write(&undo, bytes).expect("the same file");
        }
        let len = |path: &PathBuf| fs::metadata(path).expect("a block file").len();
        let blocks = files(&node, "blk").iter().map(len).sum();
        Self { node, blocks }
    }

    fn checkpoint(&self) -> PathBuf {
        self.node.network_dir().join("repair.checkpoint")
    }

    fn begin(&self) -> Repair<'_> {
        let (started, is_first) = (SystemTime::now(), !self.checkpoint().exists());
        let running = Running::start(&self.node, &[&"verify", &"-repair", &CACHE]);
        Repair { damaged: self, running, started, is_first, reading: None, read: 0 }
    }

    /// Kills a repair; what it had come to, or `None` when it ended before.
    fn kill(&self, when: When) -> Option<Interrupted> {
        let mut repair = self.begin();
        let is_time = repair.wait_for(when);
        let interrupted = (is_time && repair.running.kill()).then(|| repair.interrupted());
        print(&format!("killed {when:?}: {interrupted:?}\n"));
        interrupted
    }

    /// Brings the repair to its end.
    fn ends_whole(&self) {
        let ended = self.node.run(&[&"verify", &"-repair", &CACHE]).expect(Exit::Success);
        assert!(ended.stdout.contains("Repair: goes on"), "{ended:?}");
        assert!(ended.stdout.contains(" of them before it was interrupted)"), "{ended:?}");
        let stats = &reference().stats;
        assert_eq!(ended.stdout.lines().last(), Some(coins_line(stats).as_str()), "{ended:?}");
        assert!(!self.checkpoint().exists());
        let ended = self.node.run(&[&"verify"]).expect(Exit::Success);
        assert!(ended.stdout.contains(" Damage: none."), "{ended:?}");
        assert_eq!(&self.node.stats(), stats);
    }
}

impl Repair<'_> {
    /// Waits for a moment; `false` when the repair ends before.
    fn wait_for(&mut self, when: When) -> bool {
        let dir = self.damaged.node.network_dir();
        while self.running.is_alive() {
            let Some(read) = self.bytes_read() else { break };
            self.read = read;
            let is_now = match when {
                When::Scan => self.is_in_scan(),
                When::Checkpoint => self.is_new(&dir.join("repair.checkpoint.new")),
                When::Saved => self.is_new(&self.damaged.checkpoint()),
                When::Run => {
                    let files = files_of_coins(&self.damaged.node);
                    files.iter().any(|file| is_run(file) && self.is_new(file))
                }
                When::Commit => {
                    let files = ["godwit.control0", "godwit.control1"];
                    files.iter().any(|name| self.is_new(&dir.join(name)))
                }
            };
            if is_now {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }

    /// Whether a third is read of what was left of a reading.
    fn is_in_scan(&mut self) -> bool {
        if self.reading.is_none() {
            self.reading = self.bytes_to_read().map(|left| (self.read, left));
        }
        self.reading.is_some_and(|(before, left)| self.read - before > left / 3)
    }

    /// Bytes that a reading is about to read, once it is known to begin.
    fn bytes_to_read(&mut self) -> Option<u64> {
        let all = self.damaged.blocks;
        match self.goes_on() {
            None => self.is_first.then_some(all),
            Some(GoesOn { done, total, .. }) if done < total => Some(total - done),
            // Behind the end of one, when what that gathered is written.
            Some(_) => self.running.log().0.contains("more readings of all blocks").then_some(all),
        }
    }

    /// Bytes that the process has read; `None` once it has ended.
    fn bytes_read(&self) -> Option<u64> {
        let io = fs::read_to_string(format!("/proc/{}/io", self.running.pid().as_raw_nonzero()));
        io.ok()?.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
    }

    /// Whether a file was written since the start.
    fn is_new(&self, path: &Path) -> bool {
        let modified = |metadata: Metadata| metadata.modified().expect("files have a time");
        fs::metadata(path).is_ok_and(|metadata| modified(metadata) > self.started)
    }

    fn goes_on(&mut self) -> Option<GoesOn> {
        let log = self.running.log().0;
        let (_, line) = log.lines().find_map(|line| line.split_once("Repair: goes on"))?;
        // Perhaps it is not written to its end.
        let (line, _) = line.split_once(" bytes of this reading")?;
        let number = |text: &str| text.split(' ').next().and_then(|number| number.parse().ok());
        let height =
            line.split_once(" at height ").and_then(|(_, rest)| number(&rest.replace(';', " ")));
        let (_, bytes) = line.split_once("; ")?;
        let total = bytes.split_once(" of ").and_then(|(_, rest)| number(rest))?;
        Some(GoesOn { height, done: number(bytes)?, total })
    }

    /// What it had come to, after it has ended.
    fn interrupted(&mut self) -> Interrupted {
        let is_in = |(before, left)| (left / 4..left).contains(&(self.read - before));
        Interrupted { in_scan: self.reading.is_some_and(is_in), goes_on: self.goes_on() }
    }
}

/// Whether a file is a run, and no scratch file, whose number is a long one.
fn is_run(file: &Path) -> bool {
    let name = file.file_name().expect("a name").to_string_lossy();
    name.ends_with(".run") && name.len() == "0000000000.run".len()
}

/// Block or undo files.
fn files(node: &Node, kind: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.network_dir().join("blocks")).expect("the blocks' directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with(kind) && name.ends_with(".dat")
    };
    paths.filter(is_one).collect()
}

#[test]
fn a_repair_that_is_killed_goes_on_where_it_was() {
    let damaged = Damaged::new(41);
    let kill = |when| damaged.kill(when).unwrap_or_else(|| panic!("it ended before {when:?}"));
    let first = kill(When::Scan);
    assert!(first.in_scan && first.goes_on.is_none(), "{first:?}");
    // Nothing is written down in the first minute, but at a stop.
    let again = kill(When::Scan);
    assert!(again.in_scan && again.goes_on.is_none(), "{again:?}");
    let mut stopped = damaged.begin();
    assert!(stopped.wait_for(When::Scan));
    let (_, status) = stopped.running.terminate();
    assert_eq!(status.code(), Some(Exit::Interrupted.code().into()), "{}", damaged.node.log());
    // From that place, each time.
    let at: Vec<Interrupted> = (0..2).map(|_| kill(When::Scan)).collect();
    let place = at[0].goes_on.expect("it was stopped in a reading");
    assert!(place.height.is_some_and(|height| height > 1) && place.done > 0, "{place:?}");
    assert!(at.iter().all(|at| at.in_scan && at.goes_on == Some(place)), "{at:?}");
    // While the first reading's end is written down, behind that, while its coins are written, and named.
    let goes_on = |when| kill(when).goes_on.unwrap_or_else(|| panic!("{when:?}: it begins anew"));
    let unfinished = goes_on(When::Checkpoint);
    assert_eq!(unfinished, place, "what was written down before");
    // What that kill has left is the last checkpoint or the new one, whole.
    let saved = goes_on(When::Saved);
    assert!(saved == place || saved.done > place.done, "{saved:?}");
    let at_the_end = goes_on(When::Run);
    assert!(at_the_end.done > place.done, "{at_the_end:?}");
    goes_on(When::Commit);
    // In another reading.
    let later = kill(When::Scan);
    assert!(later.in_scan && later.goes_on.is_some(), "{later:?}");
    damaged.ends_whole();
}

/// Nobody tells it to stop: it has written down by itself what it came to.
#[test]
#[ignore = "a minute"]
fn a_kill_costs_a_repair_what_it_read_in_a_minute() {
    let damaged = Damaged::new(43);
    let mut repair = damaged.begin();
    assert!(repair.wait_for(When::Scan));
    repair.running.hold(CHECKPOINT_INTERVAL);
    assert!(repair.wait_for(When::Saved) && repair.running.kill());
    let interrupted = damaged.kill(When::Scan).expect("it is in the middle");
    let place = interrupted.goes_on.expect("it was written down");
    assert!(place.height.is_some() && place.done > damaged.blocks / 4, "{place:?}");
    damaged.ends_whole();
}
