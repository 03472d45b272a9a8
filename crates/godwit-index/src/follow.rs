//! How an index follows the active chain, including branches that the chain left meanwhile.

use std::fmt;
use std::sync::Arc;

use godwit_chain::{
    BlockReader, BlockUnreadable, Chain, NodeId, StoredBlock, StoredData, is_unvalidated,
    left_blocks, lowest_for_indexes,
};
use godwit_primitives::{Block, Params};
use godwit_store::{BlockUndo, ChainPoint, StoreError};

use crate::detours::{Goal, goal};
use crate::error::IndexError;
use crate::position::Position;
use crate::status::Status;

/// Blocks that are gone through with one question to the chain.
const BLOCKS_AT_ONCE: u32 = 64;

/// What decides where an index has to go.
#[derive(Clone, Debug)]
pub struct IndexState {
    position: Position,
    /// Of the blocks that the chain has left, how many it has to do with no more.
    seen: Option<u64>,
    wants_spent: bool,
    is_damaged: bool,
}

/// Where an index has to go.
pub enum Step {
    /// The active chain ends in its last block, or in one before that: then it waits there, since the chain
    /// may come up to it again.
    AtTip {
        /// So many blocks were left until now.
        left: u64,
    },
    /// This block of the active chain is not stored, or lost; or the chain has not come to it.
    Missing { height: u32 },
    /// The next block belongs to the history below a snapshot: it has not come, or what it spends is not
    /// known before it is validated.
    Unvalidated,
    /// Back to before genesis: the index is damaged, or the chain does not know the blocks that it has. All
    /// blocks are there, and have to be kept from now on.
    Rebuild,
    /// The chain does not know the blocks that the index has, and has deleted those that it would be built
    /// again from.
    Unknown,
    /// To these blocks.
    Blocks(NextBlocks),
}

/// Blocks of the active chain, or of one that it has left, the lowest first.
pub struct NextBlocks {
    /// What they follow: the last block that index and chain share, if there is one.
    from: Option<ChainPoint>,
    /// The height above which the index will need the active chain's blocks, if it is above that now or
    /// comes back to it from a branch.
    goes_back_to: Option<u32>,
    /// Where they lead.
    is_detour: bool,
    /// Of the blocks that the chain has left, how many the index has to do with no more.
    seen: Option<u64>,
    blocks: Vec<(ChainPoint, Option<StoredBlock>)>,
    /// Nothing of the active chain is above them.
    are_last: bool,
    reader: BlockReader,
    params: Arc<Params>,
}

impl NextBlocks {
    /// None, after this one.
    fn back_to(chain: &Chain, id: NodeId, seen: Option<u64>) -> Self {
        let node = chain.tree().node(id);
        let from = ChainPoint { hash: node.hash, height: node.height };
        Self {
            from: Some(from),
            // It may be one that the chain has left.
            goes_back_to: Some(fork_height(chain, id)),
            is_detour: false,
            seen,
            blocks: Vec::new(),
            are_last: chain.tree().is_ancestor(chain.tip(), id),
            reader: StoredData::of(chain).reader(),
            params: Arc::clone(chain.params()),
        }
    }
}

impl Step {
    /// The height above which blocks have to be kept for it, if the index is above that now, or beside.
    pub fn goes_back_to(&self) -> Option<u32> {
        match self {
            Self::Rebuild => Some(0),
            Self::Blocks(next) => next.goes_back_to,
            _ => None,
        }
    }
}

/// Tells an index where to go. Only arithmetic in memory.
pub fn next(chain: &Chain, state: &IndexState) -> Step {
    let (position, tree) = (&state.position, chain.tree());
    let can_rebuild = lowest_for_indexes(chain) == 0;
    if state.is_damaged && can_rebuild {
        return Step::Rebuild;
    }
    let from = match position.best() {
        None => None,
        Some(best) => {
            let Some(known) = last_known(chain, position) else {
                // A chain that is being made again may come to them.
                let lowest = position.points().back().map_or(0, |point| point.height);
                return match chain.tip_point().height < lowest {
                    true => Step::Missing { height: lowest },
                    false if can_rebuild => Step::Rebuild,
                    false => Step::Unknown,
                };
            };
            // A crash took those above from the chain. Who asks how far the index is names its last block, of
            // which nothing could be said.
            if tree.node(known).hash != best.hash {
                return Step::Blocks(NextBlocks::back_to(chain, known, state.seen));
            }
            Some(known)
        }
    };
    towards(chain, state, from, &goal(chain, from, state.seen))
}

/// The last block of an index that the chain knows.
fn last_known(chain: &Chain, position: &Position) -> Option<NodeId> {
    position.points().iter().find_map(|point| chain.tree().find(&point.hash))
}

/// The height above which an index at this position has to read blocks of the active chain: its last block
/// may be one that the chain has left. `None` where the chain knows none of its blocks.
pub fn resumes_above(chain: &Chain, position: &Position) -> Option<u32> {
    last_known(chain, position).map(|known| fork_height(chain, known))
}

/// The height of the last block that the active chain shares with the one that ends in this.
fn fork_height(chain: &Chain, id: NodeId) -> u32 {
    let tree = chain.tree();
    tree.node(tree.fork(id, chain.tip())).height
}

/// To the goal, from the last block of the index that the chain knows.
fn towards(chain: &Chain, state: &IndexState, known: Option<NodeId>, goal: &Goal) -> Step {
    let Goal { block: goal, is_detour, seen } = *goal;
    let tree = chain.tree();
    let from = known.map(|known| {
        let fork = tree.node(tree.fork(known, goal));
        ChainPoint { hash: fork.hash, height: fork.height }
    });
    let (first, end) = (from.map_or(0, |from| from.height + 1), tree.node(goal).height);
    if first > end {
        return Step::AtTip { left: left_blocks(chain).count() };
    }
    let last = end.min(first + BLOCKS_AT_ONCE - 1);
    let mut id = tree.ancestor(goal, last).expect("not above the goal");
    let mut blocks = Vec::with_capacity((last - first) as usize + 1);
    let mut is_to_come = false;
    for _ in first..=last {
        let node = tree.node(id);
        let point = ChainPoint { hash: node.hash, height: node.height };
        // In the end that of the first one.
        is_to_come = is_unvalidated(chain, id);
        let is_usable = !(state.wants_spent && is_to_come);
        blocks.push((point, StoredData::of(chain).block(id).filter(|_| is_usable)));
        id = node.parent().unwrap_or(id);
    }
    blocks.reverse();
    let is_there =
        |(point, stored): &(ChainPoint, Option<StoredBlock>)| point.height == 0 || stored.is_some();
    let there = blocks.iter().take_while(|block| is_there(block)).count();
    if there == 0 {
        return match is_to_come {
            true => Step::Unvalidated,
            false => Step::Missing { height: first },
        };
    }
    blocks.truncate(there);
    let are_last = !is_detour && blocks.last().is_some_and(|(point, _)| point.height == end);
    let back = from.map_or(0, |from| from.height);
    let goes_back_to = match is_detour {
        true => Some(back.min(fork_height(chain, goal))),
        false => (from != state.position.best()).then_some(back),
    };
    let (reader, params) = (StoredData::of(chain).reader(), Arc::clone(chain.params()));
    Step::Blocks(NextBlocks {
        from,
        goes_back_to,
        is_detour,
        seen,
        blocks,
        are_last,
        reader,
        params,
    })
}

/// What differs from index to index.
pub trait Index {
    /// For the log.
    const NAME: &'static str;
    /// Whether it wants the coins that blocks spend.
    const WANTS_SPENT: bool;

    fn status(&self) -> &Status;

    fn position(&self) -> Position;

    /// Height of the last block that it does not have to read again after a crash.
    fn durable_height(&self) -> u32;

    /// Goes back to an ancestor of its last block; to before genesis, if that is `None`.
    ///
    /// # Errors
    ///
    /// As for all calls here: its files fail, or are damaged.
    fn rewind(&mut self, to: Option<ChainPoint>) -> Result<(), IndexError>;

    /// Takes in the block after its last one. `spent` is empty where it is not wanted.
    fn connect(
        &mut self,
        point: ChainPoint,
        block: &Block,
        spent: &BlockUndo,
    ) -> Result<(), IndexError>;

    /// Does a part of what may be done later; whether there may be more.
    fn maintain(&mut self) -> Result<bool, IndexError>;

    /// Whether so much of that is left that it comes before the next block.
    fn is_behind(&self) -> bool {
        false
    }

    /// Makes all that it has durable.
    fn commit(&mut self) -> Result<(), IndexError>;

    /// A reader has found damage.
    fn is_damaged(&self) -> bool;

    /// Forgets all.
    fn clear(&mut self) -> Result<(), IndexError>;
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next step may be due already.
    GoesOn,
    /// There is nothing to do until the chain moves.
    Waits,
    /// A block cannot be read: the chain is to be told.
    Unreadable(BlockUnreadable),
    /// A block still cannot be read, although the chain was told: a copy is not expected.
    StaysUnreadable,
    /// What a block spent cannot be read. Unlike a block, that is not fetched again.
    LacksUndo,
}

/// What an index has waited for, and the log or the chain has been told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacked {
    Block(u32),
    /// A block that is stored, and whether what was written is lost.
    Bytes(NodeId, bool),
    Undo(u32),
    History,
}

/// What a follower knows of damage to its index.
#[derive(Debug)]
enum Damage {
    /// Nothing; or what a reader has found since.
    Unknown,
    /// A reader has found it: the next step tells whether the index can be built again.
    Found,
    /// It cannot, and the log has said so.
    Lasting,
    /// Its own way leads over it.
    OnTheWay(IndexError),
}

/// An index on its way.
pub struct Follower<I> {
    index: I,
    said: Option<Lacked>,
    damage: Damage,
}

impl<I: Index> Follower<I> {
    pub fn new(index: I) -> Self {
        Self { index, said: None, damage: Damage::Unknown }
    }

    /// What [`next`] has to know of it.
    pub fn state(&self) -> IndexState {
        let is_on_the_way = matches!(self.damage, Damage::OnTheWay(_));
        IndexState {
            position: self.index.position(),
            seen: self.index.status().place().1,
            wants_spent: I::WANTS_SPENT,
            is_damaged: is_on_the_way || self.index.is_damaged(),
        }
    }

    /// Where it is.
    pub fn position(&self) -> Position {
        self.index.position()
    }

    /// Height of the last block that it does not have to read again after a crash.
    pub fn durable_height(&self) -> u32 {
        self.index.durable_height()
    }

    /// Goes a step, or the part of it that is possible until `ends` says so. Where damage is found, the next
    /// step is [`Step::Rebuild`], if all blocks are there. Otherwise nothing is deleted, and the index goes
    /// on as far as the damage is not in its way.
    ///
    /// # Errors
    ///
    /// The index cannot go on.
    pub fn take(&mut self, step: Step, ends: &dyn Fn() -> bool) -> Result<Outcome, IndexError> {
        let taken = match (step, std::mem::replace(&mut self.damage, Damage::Unknown)) {
            (Step::Rebuild, damage) => self.rebuild(&damage),
            (_, Damage::OnTheWay(error)) => Err(error),
            (_, Damage::Unknown) if self.index.is_damaged() => {
                self.damage = Damage::Found;
                Ok(Outcome::GoesOn)
            }
            (step, damage) => self.take_beside(step, damage, ends),
        };
        if taken.is_err() {
            self.index.status().stop();
        }
        taken
    }

    /// Goes a step beside what damage there is.
    fn take_beside(
        &mut self,
        step: Step,
        damage: Damage,
        ends: &dyn Fn() -> bool,
    ) -> Result<Outcome, IndexError> {
        self.damage = match damage {
            Damage::Found => {
                log::error!(
                    "The {} is damaged, and blocks that it would be built again from are deleted: it goes on \
                     without what is damaged.",
                    I::NAME
                );
                Damage::Lasting
            }
            damage => damage,
        };
        match self.try_take(step, ends) {
            Err(error) if error.is_damage() => {
                self.damage = Damage::OnTheWay(error);
                Ok(Outcome::GoesOn)
            }
            taken => taken,
        }
    }

    fn rebuild(&mut self, damage: &Damage) -> Result<Outcome, IndexError> {
        if let Damage::OnTheWay(error) = damage {
            log::error!("The {}: {error}.", I::NAME);
        }
        log::warn!("The {} is built again from the beginning.", I::NAME);
        self.index.status().begin_again();
        self.index.clear()?;
        Ok(Outcome::GoesOn)
    }

    fn try_take(&mut self, step: Step, ends: &dyn Fn() -> bool) -> Result<Outcome, IndexError> {
        match step {
            Step::AtTip { left } => {
                if self.index.status().set_caught_up(left) {
                    let height = self.index.position().best().map_or(0, |best| best.height);
                    log::info!("{} is enabled at height {height}", I::NAME);
                }
                let more = self.index.maintain()?;
                Ok(if more { Outcome::GoesOn } else { Outcome::Waits })
            }
            Step::Rebuild => self.rebuild(&Damage::Unknown),
            Step::Unknown => Err(IndexError::UnknownBlocks),
            Step::Unvalidated => {
                self.index.status().go_on(false);
                if self.said.replace(Lacked::History) != Some(Lacked::History) {
                    log::info!("The {} waits for the history below the snapshot.", I::NAME);
                }
                Ok(Outcome::Waits)
            }
            Step::Missing { height } => {
                self.index.status().go_on(false);
                self.say_once(Lacked::Block(height), format_args!("block {height} is not stored"));
                Ok(Outcome::Waits)
            }
            Step::Blocks(next) => self.go(&next, ends),
        }
    }

    fn say_once(&mut self, lacked: Lacked, what: fmt::Arguments<'_>) {
        if self.said.replace(lacked) != Some(lacked) {
            log::warn!("The {} waits: {what}.", I::NAME);
        }
    }

    /// The chain needs the record only to disconnect the block, and makes it again only then: until a scrub
    /// comes to it, a command is what helps.
    fn say_lacks_undo(&mut self, height: u32, error: Option<&StoreError>, reader: &BlockReader) {
        let why = error.map_or_else(String::new, |error| format!(": {error}"));
        let remedy = reader.undo_remedy(error);
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; {remedy}"));
        self.say_once(
            Lacked::Undo(height),
            format_args!("the undo record of block {height} cannot be read{why}{remedy}"),
        );
    }

    /// The chain is told once, and says it: if it has a copy fetched, it gives no place for the block until
    /// that is there.
    fn note_unreadable(&mut self, unreadable: BlockUnreadable) -> Outcome {
        let lacked = Lacked::Bytes(unreadable.id(), unreadable.is_lost());
        match self.said.replace(lacked) == Some(lacked) {
            true => Outcome::StaysUnreadable,
            false => Outcome::Unreadable(unreadable),
        }
    }

    fn go(&mut self, next: &NextBlocks, ends: &dyn Fn() -> bool) -> Result<Outcome, IndexError> {
        if !next.are_last {
            self.index.status().go_on(false);
        }
        self.index.status().set_seen(next.seen);
        if self.index.position().best() != next.from {
            self.index.rewind(next.from)?;
        }
        let mut outcome = Outcome::GoesOn;
        for (point, stored) in &next.blocks {
            while !ends() && self.index.is_behind() && self.index.maintain()? {}
            if ends() {
                break;
            }
            match read(next, stored.as_ref(), I::WANTS_SPENT) {
                Ok((block, spent)) => self.index.connect(*point, &block, &spent)?,
                // It is left out: the way to the tip does not lead over it.
                Err(_) if next.is_detour => {
                    self.index.status().set_seen(next.seen.map(|seen| seen + 1));
                    break;
                }
                Err(Unread::Block(unreadable)) => {
                    outcome = self.note_unreadable(unreadable);
                    break;
                }
                Err(Unread::NoBlock) => {
                    self.say_once(
                        Lacked::Block(point.height),
                        format_args!("what is stored as block {} is none", point.height),
                    );
                    outcome = Outcome::StaysUnreadable;
                    break;
                }
                Err(Unread::Undo(error)) => {
                    self.say_lacks_undo(point.height, error.as_ref(), &next.reader);
                    outcome = Outcome::LacksUndo;
                    break;
                }
            }
        }
        self.index.status().go_on(next.are_last && outcome == Outcome::GoesOn);
        self.index.status().set_best(self.index.position().best());
        // Far behind the chain, all of it is done at once. At the tip a caller may wait for the next block,
        // and must not wait for a merge of gigabytes: a part for each block is more than they bring.
        let is_near = next.are_last || next.is_detour;
        let parts = if is_near { next.blocks.len() } else { usize::MAX };
        for _ in 0..parts {
            if ends() || !self.index.maintain()? {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes all durable that it has, at a clean end.
    ///
    /// # Errors
    ///
    /// It cannot be written, or what it has is damaged.
    pub fn close(mut self) -> Result<(), IndexError> {
        match self.damage {
            Damage::OnTheWay(error) => Err(error),
            _ => self.index.commit(),
        }
    }
}

/// What of a block cannot be read.
enum Unread {
    /// The block itself.
    Block(BlockUnreadable),
    /// Its bytes, which are those that were written.
    NoBlock,
    /// What it spent: there is no record, or the record fails.
    Undo(Option<StoreError>),
}

/// A block and, if wanted, what it spent.
fn read(
    next: &NextBlocks,
    stored: Option<&StoredBlock>,
    wants_spent: bool,
) -> Result<(Block, BlockUndo), Unread> {
    let Some(stored) = stored else {
        let genesis = Block::from_bytes(&next.params.genesis_block());
        return Ok((genesis.expect("it is compiled in"), BlockUndo::default()));
    };
    let bytes = next.reader.block(stored).map_err(Unread::Block)?;
    let block = Block::decode(bytes).map_err(|_| Unread::NoBlock)?;
    if !wants_spent {
        return Ok((block, BlockUndo::default()));
    }
    let undo = next.reader.undo(stored).map_err(|error| Unread::Undo(Some(error)))?;
    undo.map(|undo| (block, undo)).ok_or(Unread::Undo(None))
}
