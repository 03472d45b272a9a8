//! The cost of blocks whose coins are not in memory: godwit and bitcoind import the same blocks, which spend
//! old coins at random, onto the same set of coins, with a tenth of the memory that the set takes.
//!
//! The set is made once, by godwit; bitcoind's directory is the one that `godwit hand-over` makes of it. Each
//! run begins with a copy, an empty page cache, and a control group that counts page cache too. The
//! disk is measured in the same round, by reads of the same files.

mod copy;
mod disk;
mod group;
mod report;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::arguments::Words;
use crate::datadir::{self, WorkDir};
use crate::exit_code;
use crate::failure::Failure;
use crate::machine::Machine;
use crate::measured::{Measured, measure};
use crate::node::{Node, UtxoSet};
use crate::programs::{NodeSettings, Programs, finish, last_words, option};
use crate::rounds::in_turn;
use copy::copy_datadir;
use disk::{Disk, Queue, Rate};
use group::Group;
use report::Report;

const USAGE: &str = "\
usage: cold-vs-core -chain=DIR -godwit=BIN -bitcoind=BIN -out=DIR [-rounds=N] [-memory=MIB] [-dbcache=MIB]
         [-bitcoind-options=-A=B,-C=D,...]

DIR holds what `godwit-sim cold` writes, and what it prints as cold.json; data directories are made and
removed there. A bitcoin-cli lies beside bitcoind. Wants root, for the page cache and control groups of the
memory controller. Rounds: 6. Memory of a program with its page cache: 512. -dbcache of both: 100.";

/// Fewer give no interval.
const DEFAULT_ROUNDS: usize = 6;
const DEFAULT_MEMORY: u64 = 512;
const DEFAULT_DBCACHE: u64 = 100;
/// `-dbcache` in MiB while the set is made.
const BASE_DBCACHE: u64 = 3_000;
/// What bitcoind gets so that it does not look at its newest blocks first, which would read some
/// hundred thousand coins.
const NO_CHECKS: [&str; 2] = ["-checkblocks=1", "-checklevel=0"];

/// What `godwit-sim cold` printed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct ColdChain {
    /// Coins that coins.dat makes.
    coins: u64,
    /// Height of its last block.
    height: u32,
    /// Coins that spends.dat spends.
    spends: u64,
    /// Height of its last block.
    end_height: u32,
    /// Hash of its last block.
    end: String,
    /// Bytes of its blocks.
    spend_bytes: u64,
}

impl ColdChain {
    fn ends_with(&self, set: &UtxoSet) -> bool {
        (set.height, &set.bestblock) == (self.end_height, &self.end)
    }
}

/// One import.
#[derive(Clone, Debug, Serialize)]
struct Import {
    #[serde(flatten)]
    measured: Measured,
    /// Most bytes of the control group.
    group_peak: u64,
    /// What the disk did meanwhile.
    queue: Queue,
}

/// One import of the blocks.
#[derive(Clone, Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    import: Import,
    /// Seconds from start to exit with a file that has no blocks.
    idle_seconds: f64,
}

impl Run {
    /// Seconds that the blocks took.
    fn seconds(&self) -> f64 {
        (self.import.measured.seconds - self.idle_seconds).max(f64::MIN_POSITIVE)
    }
}

/// Each program once, and the disk.
#[derive(Clone, Debug, Serialize)]
struct Round {
    first: Node,
    /// One read after the other, and 64 threads.
    disk: [Rate; 2],
    godwit: Run,
    bitcoind: Run,
}

#[derive(Clone, Debug, PartialEq)]
struct Arguments {
    chain: PathBuf,
    godwit: PathBuf,
    bitcoind: PathBuf,
    out: PathBuf,
    rounds: usize,
    memory: u64,
    dbcache: u64,
    bitcoind_options: Vec<String>,
}

impl Arguments {
    /// `None` for anything that [`USAGE`] does not say.
    fn parse(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut words = Words::of(arguments)?;
        let arguments = Self {
            chain: words.path("chain")?,
            godwit: words.path("godwit")?,
            bitcoind: words.path("bitcoind")?,
            out: words.path("out")?,
            rounds: words.number("rounds", DEFAULT_ROUNDS)?,
            memory: words.number("memory", DEFAULT_MEMORY)?,
            dbcache: words.number("dbcache", DEFAULT_DBCACHE)?,
            bitcoind_options: words.options("bitcoind-options")?,
        };
        words.are_used().then_some(arguments)
    }
}

/// What the program does.
pub fn main() -> ExitCode {
    let Some(arguments) = Arguments::parse(std::env::args_os().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    exit_code("cold-vs-core", run(&arguments))
}

/// What all runs share.
struct Setup<'a> {
    arguments: &'a Arguments,
    chain: &'a ColdChain,
    programs: Programs,
    work: &'a WorkDir,
    disk: Disk,
    /// The directories that runs get copies of.
    godwit: PathBuf,
    bitcoind: PathBuf,
    /// A file without blocks.
    nothing: PathBuf,
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let summary = arguments.chain.join("cold.json");
    let file = File::open(&summary).map_err(|error| Failure::File(summary.clone(), error))?;
    let chain: ColdChain =
        serde_json::from_reader(file).map_err(|error| Failure::Json(summary.clone(), error))?;
    let mut bitcoind_options: Vec<String> = NO_CHECKS.map(str::to_owned).to_vec();
    bitcoind_options.extend(arguments.bitcoind_options.iter().cloned());
    let programs = Programs {
        godwit: arguments.godwit.clone(),
        bitcoind: arguments.bitcoind.clone(),
        godwit_options: vec![],
        bitcoind_options,
        probes: false,
    };
    let work = WorkDir::beside(&summary, "cold-vs-core")?;
    let nothing = work.file("nothing.dat");
    File::create(&nothing).map_err(|error| Failure::File(nothing.clone(), error))?;
    let [godwit, bitcoind] = make_bases(arguments, &programs, &work, &nothing)?;
    let disk = Disk::under(&Node::network_dir(&godwit).join(Node::Godwit.utxo_dir()))?;
    let mut report = Report {
        machine: Machine::here(),
        versions: [programs.version(Node::Godwit)?, programs.version(Node::Bitcoind)?],
        options: programs.bitcoind_options.clone(),
        memory: arguments.memory,
        dbcache: arguments.dbcache,
        set_bytes: [
            datadir::DiskUse::of(Node::Godwit, &godwit)?.utxo,
            datadir::DiskUse::of(Node::Bitcoind, &bitcoind)?.utxo,
        ],
        chain: chain.clone(),
        set: None,
        rounds: vec![],
    };
    let setup =
        Setup { arguments, chain: &chain, programs, work: &work, disk, godwit, bitcoind, nothing };
    for n in 0..arguments.rounds {
        let (round, set) = setup.run_round(n)?;
        report.set = report.set.or(set);
        println!(
            "{}/{}: disk {:.0} and {:.0} reads a second, godwit {:.1} s, bitcoind {:.1} s",
            n + 1,
            arguments.rounds,
            round.disk[0].reads_per_second,
            round.disk[1].reads_per_second,
            round.godwit.seconds(),
            round.bitcoind.seconds()
        );
        report.rounds.push(round);
        report.write(&arguments.out)?;
    }
    work.remove()
}

/// Makes the set of coins: godwit's directory, and that of bitcoind from a copy of it, since a directory that
/// was handed over is of no more use to godwit. LevelDB puts its tables in order before they are measured.
fn make_bases(
    arguments: &Arguments,
    programs: &Programs,
    work: &WorkDir,
    nothing: &Path,
) -> Result<[PathBuf; 2], Failure> {
    let godwit = work.fresh("base-godwit")?;
    let settings = NodeSettings { datadir: &godwit, dbcache: BASE_DBCACHE, assumevalid: "0" };
    let coins = arguments.chain.join("coins.dat");
    finish(&mut programs.import(Node::Godwit, &settings, &coins), &godwit)?;
    let (handed, bitcoind) = (work.file("base-handed"), work.file("base-bitcoind"));
    copy_datadir(&godwit, &handed)?;
    let mut command = Command::new(&programs.godwit);
    command.args(["hand-over", "-chain=regtest"]).arg(option("datadir", &handed));
    finish(command.arg(option("to", &bitcoind)), &handed)?;
    datadir::remove(&handed)?;
    let settings = NodeSettings { datadir: &bitcoind, dbcache: BASE_DBCACHE, assumevalid: "0" };
    let mut command = programs.import(Node::Bitcoind, &settings, nothing);
    finish(command.arg("-forcecompactdb"), &bitcoind)?;
    Ok([godwit, bitcoind])
}

impl Setup<'_> {
    fn run_round(&self, n: usize) -> Result<(Round, Option<UtxoSet>), Failure> {
        let disk = [self.disk.rate(1)?, self.disk.rate(64)?];
        let (first, (godwit, ours), (bitcoind, theirs)) =
            in_turn(n, |node| self.run_one(node, n == 0))?;
        let set = match ours.zip(theirs) {
            Some((ours, theirs)) if ours != theirs => {
                return Err(Failure::Disagree(Box::new((ours, theirs))));
            }
            Some((ours, _)) if !self.chain.ends_with(&ours) => {
                return Err(Failure::NotTheChain(Box::new(ours)));
            }
            sets => sets.map(|(ours, _)| ours),
        };
        Ok((Round { first, disk, godwit, bitcoind }, set))
    }

    /// `look`: whether the coins are looked at afterwards.
    fn run_one(&self, node: Node, look: bool) -> Result<(Run, Option<UtxoSet>), Failure> {
        let (idle, _) = self.import(node, &self.nothing, false)?;
        let spends = self.arguments.chain.join("spends.dat");
        let (import, set) = self.import(node, &spends, look)?;
        Ok((Run { import, idle_seconds: idle.measured.seconds }, set))
    }

    fn import(
        &self,
        node: Node,
        blocks: &Path,
        look: bool,
    ) -> Result<(Import, Option<UtxoSet>), Failure> {
        let base = match node {
            Node::Godwit => &self.godwit,
            Node::Bitcoind => &self.bitcoind,
        };
        let datadir = self.work.file(&node.to_string());
        copy_datadir(base, &datadir)?;
        self.work.sync()?;
        disk::drop_page_cache()?;
        let dbcache = self.arguments.dbcache;
        let settings = NodeSettings { datadir: &datadir, dbcache, assumevalid: "0" };
        let command = self.programs.import(node, &settings, blocks);
        let words = last_words(&datadir);
        let stderr = File::create(&words).map_err(|error| Failure::File(words.clone(), error))?;
        let group = Group::new(self.arguments.memory << 20)?;
        let mut inside = group.command(&command);
        inside.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let watch = self.disk.watch();
        let measured = measure(&mut inside);
        let queue = watch.stop()?;
        let group_peak = group.remove()?;
        let (status, measured) = measured?;
        if !status.success() {
            return Err(Failure::Exit(self.programs.path(node).to_owned(), status, words));
        }
        let set = look.then(|| self.programs.utxo_set(node, &datadir)).transpose()?;
        datadir::remove(&datadir)?;
        self.work.sync()?;
        Ok((Import { measured, group_peak, queue }, set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_ends_with_its_last_block() {
        let chain = ColdChain {
            coins: 1,
            height: 1,
            spends: 1,
            end_height: 9,
            end: "aa".into(),
            spend_bytes: 1,
        };
        let ends = |height, bestblock: &str| {
            chain.ends_with(&UtxoSet {
                height,
                bestblock: bestblock.into(),
                txouts: 1,
                bogosize: 1,
                muhash: "bb".into(),
                total_amount: 1.into(),
            })
        };
        assert_eq!([ends(9, "aa"), ends(8, "aa"), ends(9, "ab")], [true, false, false]);
    }

    #[test]
    fn paths_and_what_has_a_default() {
        let parse = |words: &[&str]| Arguments::parse(words.iter().map(OsString::from));
        let all = ["-chain=c", "--godwit=/g", "-bitcoind=/b", "-out=d"];
        let arguments = parse(&all).unwrap();
        let defaults = (arguments.rounds, arguments.memory, arguments.dbcache);
        assert_eq!(defaults, (6, 512, 100));
        let more = [&all[..], &["-rounds=2", "-memory=600", "-bitcoind-options=-a=b"]].concat();
        let arguments = parse(&more).unwrap();
        assert_eq!((arguments.rounds, arguments.memory), (2, 600));
        assert_eq!(arguments.bitcoind_options, ["-a=b"]);
        for wrong in ["-rounds=0", "-memory=x", "-chain=", "-bitcoind-options=a", "-x=1"] {
            assert_eq!(parse(&[&all[..], &[wrong]].concat()), None, "{wrong}");
        }
        assert_eq!(parse(&all[1..]), None);
    }
}
