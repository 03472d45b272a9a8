//! One case: a harm, what the program does, and whether that was right.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use godwit::exit::Exit;
use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;
use rustix::process::{Pid, Signal, kill_process};

use super::directory::{files, kind, restore};
use super::harm::{Harm, Sources, taken_blocks};
use super::world::{Master, Masters, Peer, World, missing};
use crate::network_kill::Relay;
use crate::node::{Ended, Node};
use crate::verify::coins_line;

/// After this long a command hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// Commands that may be needed one after the other.
const MOST_COMMANDS: usize = 4;

/// A block that is slow to come may be asked of another peer, and once more.
const MOST_ASKED: usize = 3;

/// Of 1,000 cases of files that `verify` does not read, those in a large directory that it looks at before a
/// node.
const VERIFIED_PERMILLE: u32 = 125;

/// What has a node read its blocks, and so fetch what it would fetch some day.
const FETCHED: &str = "-reindex-chainstate";

/// What is drawn from a seed.
pub(super) struct Case {
    pub(super) kind: String,
    /// The harm that is tried first.
    pub(super) first_harm: usize,
    pub(super) seed: u64,
}

/// From where the program starts, and what it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// It has everything.
    Tip,
    /// It has everything, and leaves some of it for a better branch.
    Branch,
    /// It has everything, and applies all blocks again.
    Replay,
    /// It has a part.
    Half,
    /// It has a part, of which no commit has named all.
    Killed,
}

impl Start {
    const ALL: [Self; 5] = [Self::Tip, Self::Branch, Self::Replay, Self::Half, Self::Killed];

    fn master(self, masters: &Masters) -> &Master {
        match self {
            Self::Half => &masters.half,
            Self::Killed => &masters.killed,
            _ => &masters.whole,
        }
    }
}

/// Where cases take place, one after the other.
pub(super) struct Work {
    node: Node,
}

impl Work {
    pub(super) fn new() -> Self {
        Self { node: Node::new("regtest") }
    }
}

/// A case under way.
pub(super) struct Trial<'a> {
    world: &'a World,
    masters: &'a Masters,
    node: &'a Node,
    case: &'a Case,
    rng: Rng,
    start: Start,
    /// What it is about, for whoever reads of a failure.
    what: String,
    file: PathBuf,
    harm: Harm,
    /// Blocks that it may ask for.
    allowed: HashSet<BlockHash>,
    commands: Vec<String>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        world: &'a World,
        masters: &'a Masters,
        work: &'a Work,
        case: &'a Case,
    ) -> Self {
        Self {
            world,
            masters,
            node: &work.node,
            case,
            rng: Rng::new(case.seed),
            start: Start::Tip,
            what: String::new(),
            file: PathBuf::new(),
            harm: Harm::Missing,
            allowed: HashSet::new(),
            commands: Vec::new(),
        }
    }

    /// What made it whole again; `None` where there is nothing to be harmed.
    pub(super) fn run(mut self) -> Result<Option<(Harm, String)>, String> {
        if !self.strike() {
            return Ok(None);
        }
        match self.judge() {
            Ok(()) => Ok(Some((self.harm, self.way()))),
            Err(why) => Err(format!("{}: {why}; commands: {:?}", self.what, self.commands)),
        }
    }

    fn way(&self) -> String {
        match self.commands.is_empty() {
            true => "by itself".to_owned(),
            false => self.commands.join(", then "),
        }
    }

    fn strike(&mut self) -> bool {
        self.start = Start::ALL[self.rng.below(Start::ALL.len() as u64) as usize];
        let of_kind = |start: Start, masters: &Masters| -> Vec<PathBuf> {
            let mut files = files(&start.master(masters).node.network_dir());
            files.retain(|file| kind(file) == self.case.kind);
            files
        };
        if of_kind(self.start, self.masters).is_empty() {
            self.start = Start::Tip;
        }
        let master = self.start.master(self.masters);
        let candidates = of_kind(self.start, self.masters);
        self.file = candidates[self.rng.below(candidates.len() as u64) as usize].clone();
        restore(self.node, &master.node.network_dir());
        let sources = Sources {
            earlier: self.masters.half.node.network_dir(),
            whole: self.masters.whole.node.network_dir(),
            other: self.masters.other.network_dir(),
        };
        let harms = Harm::ALL.len();
        let struck = (0..harms).find_map(|n| {
            let harm = Harm::ALL[(self.case.first_harm + n) % harms];
            let place = harm.strike(&self.node.network_dir(), &self.file, &sources, &mut self.rng);
            place.map(|place| (harm, place))
        });
        let Some((harm, place)) = struck else { return false };
        self.harm = harm;
        let (file, seed) = (self.file.display(), self.case.seed);
        self.what = format!("{file}: {harm:?}{place}, {:?}, seed {seed}", self.start);
        let best = &self.best().hashes;
        self.allowed = missing(&master.stored, best);
        if self.case.kind == "blk.dat" {
            let (taken, behind) = self.taken();
            self.allowed.extend(taken);
            // Of what no commit has named, what connects to nothing is of no use.
            if self.start == Start::Killed {
                self.allowed.extend(behind);
            }
        }
        true
    }

    fn taken(&self) -> (HashSet<BlockHash>, HashSet<BlockHash>) {
        let before = self.start.master(self.masters).node.network_dir().join(&self.file);
        taken_blocks(&before, &self.node.network_dir().join(&self.file))
    }

    fn best(&self) -> &'a Peer {
        match self.start {
            Start::Branch => &self.world.branch,
            _ => &self.world.chain,
        }
    }

    fn judge(&mut self) -> Result<(), String> {
        // It takes seconds to find nothing where there is nothing to find.
        let is_small = self.world.assumed.is_none();
        if self.is_verified() || is_small || self.rng.chance(VERIFIED_PERMILLE) {
            let found = self.command(&["verify"])?;
            self.check_found(&found)?;
        }
        let option = (self.start == Start::Replay).then_some("-reindex-chainstate");
        let mut ended = self.sync(option)?;
        while let Some(command) = self.named_by(&ended)? {
            ended = self.obey(&command)?;
        }
        // What it did not need is damaged still.
        loop {
            let ended = self.command(&["verify"])?;
            if ended.code == Some(Exit::Success.code().into()) {
                let line = coins_line(&self.best().stats);
                return match ended.stdout.lines().last() == Some(line.as_str()) {
                    true => Ok(()),
                    false => Err(format!("not {line}: {ended:?}")),
                };
            }
            expect(&ended, Exit::Damaged)?;
            let mut command = remedy(&ended.stdout).ok_or(format!("no remedy: {ended:?}"))?;
            // Coins are made again from blocks whose witnesses alone are damaged, and without blocks that
            // were left.
            if command == FETCHED && self.commands.iter().any(|done| done == FETCHED) {
                command = "-reindex";
            }
            let obeyed = self.obey(command).map_err(|why| format!("{why}: {ended:?}"))?;
            if obeyed.code != Some(Exit::Success.code().into()) {
                expect(&obeyed, Exit::Damaged)?;
            }
        }
    }

    /// What `verify` says of the directory as it was damaged.
    fn check_found(&self, found: &Ended) -> Result<(), String> {
        let code = |exit: Exit| found.code == Some(exit.code().into());
        if !code(Exit::Success) && !code(Exit::Damaged) {
            return Err(format!("verify: {found:?}"));
        }
        let is_named = found.stdout.contains(&self.file.display().to_string());
        let must_be_found = match self.case.kind.as_str() {
            "blk.dat" | "rev.dat" => self.start != Start::Killed,
            // One of the commit before is what a crash leaves.
            "godwit.control" => self.harm != Harm::StalePage,
            ".run" | ".parity" | "xor.dat" => true,
            _ => false,
        };
        if must_be_found && self.harm != Harm::Stranger && !(is_named && code(Exit::Damaged)) {
            return Err(format!("verify did not find it: {found:?}"));
        }
        match self.is_verified() || code(Exit::Success) {
            true => Ok(()),
            false => Err(format!("verify found what is no damage: {found:?}")),
        }
    }

    /// Whether `verify` reads files of the kind.
    fn is_verified(&self) -> bool {
        ["blk.dat", "rev.dat", "godwit.control", ".run", ".parity", "xor.dat", "godwit.redb"]
            .contains(&self.case.kind.as_str())
    }

    /// Does what the program has named.
    fn obey(&mut self, command: &str) -> Result<Ended, String> {
        if self.commands.len() == MOST_COMMANDS {
            return Err("so many commands".to_owned());
        }
        self.commands.push(command.to_owned());
        if command == "verify -repair" {
            let ended = self.command(&["verify", "-repair"])?;
            return match ended.code {
                // What is left is for the node, and blocks that it lacks.
                Some(code)
                    if [Exit::Success, Exit::Damaged]
                        .map(|exit| i32::from(exit.code()))
                        .contains(&code) =>
                {
                    self.sync(None)
                }
                _ => Ok(ended),
            };
        }
        if command == "-reindex" && self.case.kind == "blk.dat" {
            let (_, behind) = self.taken();
            self.allowed.extend(behind);
        }
        self.sync(Some(command))
    }

    /// The command that a node which stopped has named; `None` if it ended well.
    fn named_by(&self, ended: &Ended) -> Result<Option<String>, String> {
        if ended.code == Some(Exit::Success.code().into()) {
            return Ok(None);
        }
        expect(ended, Exit::Damaged)?;
        let is_clear = ended.stderr.lines().count() == 1
            && ended.stderr.starts_with("godwit: ")
            && ended.stderr.contains(" at byte ");
        match remedy(&ended.stderr).filter(|_| is_clear) {
            Some(command) => Ok(Some(command.to_owned())),
            None => Err(format!("it names no file, place and command: {ended:?}")),
        }
    }

    /// Runs the node until it has the best chain; it may ask for what is allowed alone.
    fn sync(&mut self, option: Option<&str>) -> Result<Ended, String> {
        let mut relays = vec![Relay::start(self.world.chain.port)];
        if self.start == Start::Branch {
            relays.push(Relay::start(self.world.branch.port));
        }
        let mut words = ["-listen=0", "-par=1", "-v2transport=0"].map(str::to_owned).to_vec();
        words.push(format!("-stopatheight={}", self.best().height()));
        words.extend(self.world.assumed.map(|hash| format!("-assumevalid={hash}")));
        // With -connect nobody asks for anchors.
        let (peer, others) = match self.case.kind.as_str() {
            "anchors.dat" => ("-addnode", Some("-maxconnections=0")),
            _ => ("-connect", None),
        };
        words.extend(others.map(str::to_owned));
        words.extend(relays.iter().map(|relay| format!("{peer}={}", relay.address)));
        words.extend(option.map(str::to_owned));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ended = self.command(&words);
        // Whatever became of it: the relays end with it.
        let asked: Vec<BlockHash> =
            relays.into_iter().flat_map(|relay| relay.finish().asked).collect();
        let ended = ended?;
        let mut times: HashMap<BlockHash, usize> = HashMap::new();
        asked.iter().for_each(|hash| *times.entry(*hash).or_default() += 1);
        if let Some((hash, times)) = times.iter().find(|(_, times)| **times > MOST_ASKED) {
            return Err(format!("block {hash} was asked for {times} times: {ended:?}"));
        }
        let more = asked.iter().filter(|hash| !self.allowed.contains(hash)).count();
        match more {
            0 => Ok(ended),
            _ => Err(format!("{more} of {} blocks were asked for in vain: {ended:?}", asked.len())),
        }
    }

    fn command(&self, words: &[&str]) -> Result<Ended, String> {
        let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
        let mut command = self.node.command(&words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("the program starts");
        let pid = Pid::from_child(&child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(child.wait_with_output()));
        match receiver.recv_timeout(LIMIT) {
            Ok(output) => Ok(Ended::of(output.expect("it was started"))),
            Err(_) => {
                kill_process(pid, Signal::KILL).expect("a child is signalled");
                let ended = receiver.recv().expect("it is dead").expect("it was started");
                Err(format!("it hangs: {:?}", Ended::of(ended)))
            }
        }
    }
}

fn expect(ended: &Ended, exit: Exit) -> Result<(), String> {
    match ended.code == Some(exit.code().into()) {
        true => Ok(()),
        false => Err(format!("not {exit:?}: {ended:?}")),
    }
}

/// The command that a line names, or that makes a node read what it would fetch.
fn remedy(text: &str) -> Option<&'static str> {
    let remedies = [
        ("`godwit -reindex` makes", "-reindex"),
        ("`godwit -reindex-chainstate`", "-reindex-chainstate"),
        ("`godwit verify -repair`", "verify -repair"),
        ("fetches it again from a peer", FETCHED),
    ];
    remedies.into_iter().find(|(said, _)| text.contains(said)).map(|(_, command)| command)
}
