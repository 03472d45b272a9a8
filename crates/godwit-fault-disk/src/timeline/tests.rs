use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use godwit_disk::exec::{Executor, Priority, WorkerPool};
use godwit_disk::{Disk, DiskFile, OpenMode};

use super::*;
use crate::{Content, FaultDisk, InlineExecutor, Latency, Pace};

const MILLISECOND: Duration = Duration::from_millis(1);
const DIRS: [&str; 2] = ["/d", "/e"];
const JOBS: u64 = 6;

fn instant() -> Pace {
    Pace::Timed(Duration::ZERO..=Duration::ZERO)
}

fn file(disk: &FaultDisk, path: &str) -> Arc<dyn DiskFile> {
    disk.open(Path::new(path), OpenMode::ReadWrite).unwrap()
}

/// One directory with one file, of which `old` is durable; the disk's operations take 10 ms each.
fn timed_file() -> (InlineExecutor, FaultDisk, Arc<dyn DiskFile>) {
    let executor = InlineExecutor::new(1, instant());
    let disk = FaultDisk::timed(&executor, Latency::constant(10 * MILLISECOND));
    disk.create_dir_all(Path::new("/d")).unwrap();
    let file = file(&disk, "/d/f");
    file.write_all_at(0, b"old").unwrap();
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    (executor, disk, file)
}

fn run(pool: &dyn WorkerPool, job: impl FnOnce() + Send + 'static) {
    let job = move || -> godwit_disk::exec::Report {
        job();
        Box::new(|| {})
    };
    pool.push(Priority::Urgent, "test", Box::new(job));
}

#[test]
fn a_crash_comes_in_the_middle_of_a_job() {
    // A write that is under way is torn.
    for (at, expected) in [(5, &b"nld"[..]), (13, b"newe"), (25, b"newest")] {
        let (executor, disk, file) = timed_file();
        let pool = executor.start("test", 1, [1, 0]).unwrap();
        run(&*pool, move || {
            file.write_all_at(0, b"new").unwrap();
            file.write_all_at(3, b"est").unwrap();
        });
        executor.run_until(at * MILLISECOND);
        executor.kill();
        disk.crash(Survival::All);
        let found = disk.contents(Path::new("/d/f")).unwrap();
        assert_eq!(found, expected, "at {at} ms");
    }
    // Of the same, what is synced when the power goes.
    for (at, expected) in [(15, b"old"), (25, b"new")] {
        let (executor, disk, file) = timed_file();
        let pool = executor.start("test", 1, [1, 0]).unwrap();
        run(&*pool, move || {
            file.write_all_at(0, b"new").unwrap();
            file.sync().unwrap();
        });
        executor.run_until(at * MILLISECOND);
        disk.crash(Survival::Nothing);
        assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), expected, "at {at} ms");
    }
}

#[test]
fn a_sync_makes_durable_what_others_had_done_when_it_began() {
    // A write and the creation of a file are done after 10 ms; the syncs begin at 0 and at 15 ms.
    for (pause, is_durable) in [(0, false), (15, true)] {
        let executor = InlineExecutor::new(1, instant());
        let time = |ms: u32| ms * MILLISECOND..=ms * MILLISECOND;
        let latency = Latency::Drawn { read: time(pause), write: time(10), sync: time(30) };
        let disk = FaultDisk::timed(&executor, latency);
        disk.create_dir_all(Path::new("/d")).unwrap();
        let (read, written) = (file(&disk, "/d/read"), file(&disk, "/d/f"));
        read.write_all_at(0, b"x").unwrap();
        written.write_all_at(0, b"old").unwrap();
        written.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        let pool = executor.start("test", 4, [4, 0]).unwrap();
        let (synced, creating, syncing) = (Arc::clone(&written), disk.clone(), disk.clone());
        let read_too = Arc::clone(&read);
        run(&*pool, move || written.write_all_at(0, b"new").unwrap());
        run(&*pool, move || drop(file(&creating, "/d/new")));
        run(&*pool, move || {
            read.read_exact_at(0, &mut [0]).unwrap();
            synced.sync().unwrap();
        });
        run(&*pool, move || {
            read_too.read_exact_at(0, &mut [0]).unwrap();
            syncing.sync_dir(Path::new("/d")).unwrap();
        });
        executor.run_until(50 * MILLISECOND);
        assert_eq!(executor.ended("test"), 4);
        disk.crash(Survival::Nothing);
        let expected = if is_durable { b"new" } else { b"old" };
        assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), expected);
        assert_eq!(disk.contents(Path::new("/d/new")).is_some(), is_durable);
    }
}

fn message(action: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).expect_err("it panics");
    *panic.downcast::<String>().expect("a formatted message")
}

#[test]
fn a_turn_that_waits_for_the_disk_is_a_fault_which_names_the_file() {
    let (executor, disk, file) = timed_file();
    executor.arm();
    let found = message(|| file.write_all_at(0, b"x").unwrap());
    assert_eq!(found, "a turn waits for the disk: write /d/f");
    let found = message(|| drop(disk.list(Path::new("/d"))));
    assert_eq!(found, "a turn waits for the disk: list /d");
    // A job may.
    let pool = executor.start("test", 1, [1, 0]).unwrap();
    run(&*pool, move || file.write_all_at(0, b"new").unwrap());
    assert!(executor.finish_one());
    executor.disarm();
    assert!(disk.list(Path::new("/d")).is_ok());
    executor.arm();
    executor.kill();
    disk.crash(Survival::All);
    assert_eq!(disk.contents(Path::new("/d/f")).unwrap(), b"new");
}

#[test]
fn a_job_reads_nothing_that_another_one_is_still_to_write() {
    for (offset, is_apart) in [(0, false), (5, false), (6, true)] {
        let (executor, _, file) = timed_file();
        file.set_len(20).unwrap();
        let pool = executor.start("test", 2, [2, 0]).unwrap();
        let found = Arc::new(Mutex::new(None));
        for writes in [true, false] {
            let (file, found) = (Arc::clone(&file), Arc::clone(&found));
            run(&*pool, move || {
                if writes && found.lock().unwrap().is_none() {
                    file.write_all_at(0, b"newest").unwrap();
                    *found.lock().unwrap() = Some(String::new());
                } else if !writes {
                    // Whichever is first: this one looks when the other one has begun.
                    let read = || file.read_exact_at(offset, &mut [0; 4]).unwrap();
                    let panic = catch_unwind(AssertUnwindSafe(read)).err();
                    let panic = panic.map(|panic| *panic.downcast::<String>().unwrap());
                    *found.lock().unwrap() = Some(panic.unwrap_or_default());
                }
            });
            executor.run_until(Duration::ZERO);
        }
        let found = found.lock().unwrap().take().unwrap();
        let expected = "read /d/f: another job is still to write there";
        assert_eq!(found, if is_apart { "" } else { expected }, "offset {offset}");
    }
}

/// Something that a job does.
#[derive(Clone)]
enum Action {
    Write(usize, u64, Vec<u8>),
    SetLen(usize, u64),
    Sync(usize),
    Create(PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncDir(&'static str),
}

/// A disk with files that are there from the beginning: one for each job, and two that all write to.
struct Scene {
    disk: FaultDisk,
    files: Vec<Arc<dyn DiskFile>>,
}

impl Scene {
    fn new(disk: FaultDisk) -> Self {
        DIRS.iter().for_each(|dir| disk.create_dir_all(Path::new(dir)).unwrap());
        let paths = (0..JOBS + 2).map(|n| format!("{}/{n}", DIRS[n as usize % 2]));
        let files: Vec<_> = paths.map(|path| file(&disk, &path)).collect();
        for file in &files {
            file.write_all_at(0, &[1; 700]).unwrap();
            file.sync().unwrap();
        }
        DIRS.iter().for_each(|dir| disk.sync_dir(Path::new(dir)).unwrap());
        Self { disk, files }
    }

    fn act(&self, action: &Action) {
        match action {
            Action::Write(file, offset, data) => self.files[*file].write_all_at(*offset, data),
            Action::SetLen(file, len) => self.files[*file].set_len(*len),
            Action::Sync(file) => self.files[*file].sync(),
            Action::Create(path) => self.disk.open(path, OpenMode::ReadWrite).map(drop),
            Action::Remove(path) => self.disk.remove(path),
            Action::Rename(from, to) => self.disk.rename(from, to),
            Action::SyncDir(dir) => self.disk.sync_dir(Path::new(dir)),
        }
        .unwrap();
    }

    /// All that can be seen of it.
    fn contents(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let list = |dir: &&str| {
            let names = self.disk.list(Path::new(dir)).unwrap();
            names.into_iter().map(|name| Path::new(*dir).join(name)).collect::<Vec<_>>()
        };
        let paths = DIRS.iter().flat_map(list);
        paths.map(|path| (path.clone(), self.disk.contents(&path))).collect()
    }
}

/// What job `n` does: to its own file and names what it likes, to the shared ones in its own part.
fn actions(n: u64, random: &mut SplitMix) -> Vec<Action> {
    let own = PathBuf::from(format!("{}/own{n}", DIRS[random.below(2) as usize]));
    let renamed = PathBuf::from(format!("{}/new{n}", DIRS[random.below(2) as usize]));
    let mut names = vec![
        Action::Remove(renamed.clone()),
        Action::Rename(own.clone(), renamed),
        Action::Create(own),
    ];
    let count = 1 + random.below(8);
    let mut action = |random: &mut SplitMix| match random.below(6) {
        0 | 1 => {
            let shared = (JOBS + random.below(2)) as usize;
            let data = vec![random.next() as u8; random.below(1_500) as usize];
            Action::Write(shared, n * 2_000, data)
        }
        2 => Action::Sync(random.below(JOBS + 2) as usize),
        3 => Action::SetLen(n as usize, random.below(2_000)),
        4 => Action::SyncDir(DIRS[random.below(2) as usize]),
        _ => names.pop().unwrap_or(Action::Sync(n as usize)),
    };
    (0..count).map(|_| action(random)).collect()
}

/// An action with its beginning and end, in the order in which the closures ran.
type Log = Arc<Mutex<Vec<(Duration, Duration, Action)>>>;

/// Jobs run on a timed disk up to some instant.
fn timed_scene(seed: u64) -> (Scene, Log, Duration) {
    let mut random = SplitMix(seed);
    let most = |ms: u32| Duration::ZERO..=ms * MILLISECOND;
    // Of every four seeds one has a disk that takes no time.
    let ms = if seed.is_multiple_of(4) { 0 } else { 10 };
    let latency = Latency::Drawn { read: most(ms), write: most(ms), sync: most(2 * ms) };
    let executor = InlineExecutor::new(seed, Pace::Timed(most(5)));
    let scene = Scene::new(FaultDisk::timed(&executor, latency));
    let log = Log::default();
    let pool = executor.start("test", 3, [JOBS as usize, 0]).unwrap();
    for n in 0..JOBS {
        let actions = actions(n, &mut random);
        let (executor, log) = (executor.clone(), Arc::clone(&log));
        let scene = Scene { disk: scene.disk.clone(), files: scene.files.clone() };
        run(&*pool, move || {
            for action in actions {
                let from = executor.now();
                scene.act(&action);
                log.lock().unwrap().push((from, executor.now(), action));
            }
        });
    }
    let at = random.within(&most(80));
    executor.run_until(at);
    executor.kill();
    (scene, log, at)
}

/// What an instant means, done naively: a plain disk on which happens what was over by then, in the
/// order of time, and half of each write that was under way. A sync happens when it begins: what others do
/// while it is under way is not in it.
fn naive_scene(log: &Log, at: Duration, torn: &mut usize, dropped: &mut usize) -> Scene {
    let scene = Scene::new(FaultDisk::new());
    let mut log = log.lock().unwrap().clone();
    log.sort_by_key(|(from, to, action)| match action {
        Action::Sync(_) | Action::SyncDir(_) => *from,
        _ => *to,
    });
    let (over, mut under_way): (Vec<_>, Vec<_>) = log.into_iter().partition(|(_, to, _)| *to <= at);
    over.iter().for_each(|(_, _, action)| scene.act(action));
    *dropped += under_way.iter().filter(|(from, ..)| *from >= at).count();
    under_way.retain(|(from, ..)| *from < at);
    under_way.sort_by_key(|(from, ..)| *from);
    for (_, _, action) in under_way {
        if let Action::Write(file, offset, data) = action {
            scene.act(&Action::Write(file, offset, data[..data.len() / 2].to_vec()));
            *torn += 1;
        }
    }
    scene
}

#[test]
fn a_crash_at_an_instant_leaves_what_a_plain_disk_keeps_of_the_operations_before_it() {
    let (mut torn, mut dropped) = (0, 0);
    for seed in 0..400 {
        for survival in [Survival::All, Survival::Nothing, Survival::Part(seed)] {
            let (scene, log, at) = timed_scene(seed);
            let naive = naive_scene(&log, at, &mut torn, &mut dropped);
            scene.disk.crash(survival);
            naive.disk.crash(survival);
            assert!(scene.contents() == naive.contents(), "seed {seed}, {survival:?}");
        }
    }
    assert!(torn > 100 && dropped > 300, "{torn} torn, {dropped} never happened");
}

#[test]
fn the_journal_has_jobs_and_operations_with_their_content() {
    let (executor, _, file) = timed_file();
    let journal = executor.journal();
    journal.open();
    let pool = executor.start("test", 1, [1, 0]).unwrap();
    run(&*pool, move || {
        file.write_all_at(3, b"est").unwrap();
        file.read_exact_at(0, &mut [0; 6]).unwrap();
        file.sync().unwrap();
    });
    assert!(executor.finish_one());
    let found = journal.close();
    let expected = format!(
        "0.000000000 start test #1\n\
         0.000000000 disk #1 write /d/f at 3 {}\n\
         0.010000000 disk #1 read /d/f at 0 {}\n\
         0.020000000 disk #1 sync /d/f\n\
         0.030000000 end test #1\n",
        Content(b"est"),
        Content(b"oldest")
    );
    assert_eq!(found, expected);
}

#[test]
fn one_operation_stalls_and_the_next_does_not() {
    let (executor, disk, file) = timed_file();
    let pool = executor.start("test", 1, [1, 0]).unwrap();
    disk.plan_anomaly(crate::PlannedAnomaly {
        counted: crate::Counted::Writes,
        nth: 2,
        anomaly: crate::Anomaly::Stall(1_000 * MILLISECOND),
        seen: crate::Seen::AtOnce,
        seed: 0,
    });
    run(&*pool, move || {
        for _ in 0..3 {
            file.write_all_at(0, b"new").unwrap();
        }
    });
    executor.finish_one();
    assert_eq!(executor.now(), 1_030 * MILLISECOND);
    assert!(!disk.awaits_anomaly());
}
