//! Reserving, writing, noting, committing and crashing in any order that one append job and one
//! connector can bring about, against lists.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::{UndoPosition, WrittenBlock, WrittenUndo};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A block arrives.
    Block,
    /// The next block that has no undo record is connected.
    Undo,
    /// The append job writes this many of what was reserved.
    Write(u8),
    /// The connector learns of this many writes.
    Note(u8),
    Commit,
    /// The machine goes down, and comes back.
    Crash(u8),
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        8 => Just(Step::Block),
        6 => Just(Step::Undo),
        8 => (1u8..4).prop_map(Step::Write),
        8 => (1u8..4).prop_map(Step::Note),
        3 => Just(Step::Commit),
        2 => (0u8..3).prop_map(Step::Crash),
    ];
    prop::collection::vec((step, any::<u64>()), 1..80)
}

/// What an append job gets.
enum Reserved {
    Block(u32, BlockPosition),
    Undo(u32, UndoPosition, UndoRecord),
}

enum Returned {
    Block(u32, WrittenBlock),
    Undo(u32, WrittenUndo),
}

struct World {
    fault: FaultDisk,
    store: Store,
    reserved: VecDeque<Reserved>,
    returned: VecDeque<Returned>,
    /// Blocks without an undo record, in the order of arrival.
    unconnected: VecDeque<u32>,
    /// What the index has in memory, by number, and what the last commit has named.
    index: BTreeMap<u32, BlockRecord>,
    committed: BTreeMap<u32, BlockRecord>,
    /// Blocks whose bytes were written and that no commit has named, in order.
    behind: Vec<(u32, BlockPosition)>,
    next: u32,
    /// How many of the first ones behind were found after the last crash: with the next commit the
    /// committed end lies behind them.
    recovered: usize,
    /// All places that blocks were ever written to.
    written: BTreeSet<BlockPosition>,
    found_again: usize,
}

fn block_numbered(n: u32) -> Vec<u8> {
    block(n, 80 + (n as usize * 271) % 900)
}

fn undo_coins(n: u32) -> [Vec<Coin>; 1] {
    [(0..n % 5).map(|input| coin(n * 10 + input)).collect()]
}

impl World {
    fn new() -> Self {
        let fault = FaultDisk::new();
        let (store, _) = open(&fault).unwrap();
        Self {
            fault,
            store,
            reserved: VecDeque::new(),
            returned: VecDeque::new(),
            unconnected: VecDeque::new(),
            index: BTreeMap::new(),
            committed: BTreeMap::new(),
            behind: Vec::new(),
            next: 0,
            recovered: 0,
            written: BTreeSet::new(),
            found_again: 0,
        }
    }

    fn step(&mut self, step: Step, seed: u64) {
        match step {
            Step::Block => {
                self.next += 1;
                let len = block_numbered(self.next).len();
                let position = self.store.reserve_block(len, false).unwrap();
                self.reserved.push_back(Reserved::Block(self.next, position));
            }
            Step::Undo => self.connect(),
            Step::Write(count) => (0..count).for_each(|_| self.write_next()),
            Step::Note(count) => (0..count).for_each(|_| self.note_next()),
            Step::Commit => self.commit(),
            Step::Crash(kind) => self
                .crash([Survival::All, Survival::Nothing, Survival::Part(seed)][usize::from(kind)]),
        }
        let open = self.store.first_open_file();
        assert!(self.reserved.iter().all(|reserved| match reserved {
            Reserved::Block(_, position) => position.file >= open,
            Reserved::Undo(..) => true,
        }));
        assert!(self.returned.iter().all(|returned| match returned {
            Returned::Block(_, written) => written.position().file >= open,
            Returned::Undo(..) => true,
        }));
    }

    fn connect(&mut self) {
        let Some(n) = self.unconnected.pop_front() else { return };
        let position = self.index[&n].position.unwrap();
        let (spent, prev) = (undo_coins(n), header(n).prev_blockhash);
        let undo = undo_record(&prev, &spent, self.store.block_buffers());
        let place = self.store.reserve_undo(position, &undo);
        self.reserved.push_back(Reserved::Undo(n, place, undo));
    }

    fn write_next(&mut self) {
        match self.reserved.pop_front() {
            None => {}
            Some(Reserved::Block(n, position)) => {
                let written = self.store.write_block(position, &block_numbered(n)).unwrap();
                self.behind.push((n, position));
                self.written.insert(position);
                self.returned.push_back(Returned::Block(n, written));
            }
            Some(Reserved::Undo(n, position, undo)) => {
                let written = self.store.write_undo(position, &undo).unwrap();
                self.returned.push_back(Returned::Undo(n, written));
            }
        }
    }

    fn note_next(&mut self) {
        match self.returned.pop_front() {
            None => {}
            Some(Returned::Block(n, written)) => {
                let position = Some(written.position());
                self.store.note_written(written);
                self.index.insert(n, BlockRecord { position, ..record(n, n) });
                self.unconnected.push_back(n);
            }
            Some(Returned::Undo(n, written)) => {
                self.index.get_mut(&n).unwrap().undo = Some(written.position());
                self.store.note_written(written);
            }
        }
    }

    fn commit(&mut self) {
        let entry = |record: &BlockRecord| (record.header.block_hash(), *record);
        let blocks = self.index.values().map(entry).collect();
        let appended = self.store.take_appended();
        self.store.commit(Commit { appended, blocks, ..Commit::default() }).unwrap();
        self.committed = self.index.clone();
        let committed = &self.committed;
        self.behind.drain(..std::mem::take(&mut self.recovered));
        self.behind.retain(|(n, _)| !committed.contains_key(n));
    }

    fn crash(&mut self, survival: Survival) {
        self.fault.crash(survival);
        let (store, recovered) = open(&self.fault).unwrap();
        self.store = store;
        (self.reserved, self.returned) = (VecDeque::new(), VecDeque::new());
        self.check();
        let places: Vec<_> = recovered.iter().map(|block| block.position).collect();
        assert!(places.is_sorted() && places.iter().all(|place| self.written.contains(place)));
        if let Survival::All = survival {
            assert!(self.behind.iter().map(|(_, position)| position).eq(&places));
        }
        self.behind = recovered.iter().map(|it| (it.header.nonce, it.position)).collect();
        self.recovered = self.behind.len();
        self.found_again += self.recovered;
        self.index = self.committed.clone();
        for (n, position) in &self.behind {
            // The frame is right; the caller looks at the bytes before it believes them.
            if self.store.read_block(*position).unwrap().as_slice() == block_numbered(*n) {
                let position = Some(*position);
                self.index.insert(*n, BlockRecord { position, ..record(*n, *n) });
            }
        }
        let unconnected = self.index.values().filter(|record| record.undo.is_none());
        self.unconnected = unconnected.map(|record| record.height).collect();
    }

    /// The database has what was committed, and what it names can be read.
    fn check(&self) {
        let mut found = BTreeMap::new();
        let visited = self.store.for_each_block(|_, record| {
            found.insert(record.height, record);
            Ok(())
        });
        visited.unwrap();
        assert_eq!(found, self.committed);
        for (n, record) in &self.committed {
            let bytes = self.store.read_block(record.position.unwrap()).unwrap();
            assert_eq!(bytes.as_slice(), block_numbered(*n));
            if let Some(undo) = record.undo {
                let spent = self.store.read_undo(undo, &record.header.prev_blockhash).unwrap();
                assert_eq!(spent.coins(), undo_coins(*n).concat());
            }
        }
    }
}

fn run(steps: Vec<(Step, u64)>) -> World {
    let mut world = World::new();
    for (step, seed) in steps {
        world.step(step, seed);
    }
    world.crash(Survival::Nothing);
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn a_crash_loses_nothing_that_a_commit_has_named(steps in steps()) {
        run(steps);
    }
}

/// The same with one long history, in which all that is to be tested does happen.
#[test]
fn a_long_history_of_appends_fills_files_and_finds_blocks_again() {
    let mut steps = Vec::new();
    for n in 0..4_000u64 {
        let step = match (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) % 31 {
            0..10 => Step::Block,
            10..16 => Step::Undo,
            16..23 => Step::Write(2),
            23..29 => Step::Note(2),
            29 => Step::Commit,
            _ => Step::Crash((n % 3) as u8),
        };
        steps.push((step, n));
    }
    let world = run(steps);
    println!("{} committed, {} found again", world.committed.len(), world.found_again);
    assert!(world.committed.len() > 100 && world.found_again > 10);
    assert!(world.store.first_open_file() > 20);
}
