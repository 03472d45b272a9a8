//! The way of an index along the active chain.

use std::fmt;
use std::sync::Arc;

use godwit_chain::{BlockReader, BlockUnreadable, Chain, NodeId, Places, StoredBlock};
use godwit_primitives::{Block, Params};
use godwit_store::{BlockUndo, ChainPoint, StoreError};

use crate::error::IndexError;
use crate::position::Position;
use crate::status::Status;

/// Blocks that are gone through with one question to the chain.
const BLOCKS_AT_ONCE: u32 = 64;

/// Where an index has to go.
pub enum Step {
    /// The active chain ends in its last block, or in one before that: then it waits there, since the chain
    /// may come up to it again.
    AtTip,
    /// This block of the active chain is not stored, or lost; or the chain has not come to it.
    Missing { height: u32 },
    /// The chain does not know the blocks that the index has.
    Unknown,
    /// To these blocks.
    Blocks(NextBlocks),
}

/// Blocks of the active chain, the lowest first.
pub struct NextBlocks {
    /// What they follow: the last block that index and chain share, if there is one.
    from: Option<ChainPoint>,
    blocks: Vec<(ChainPoint, Option<StoredBlock>)>,
    /// Nothing of the active chain is above them.
    are_last: bool,
    reader: BlockReader,
    params: Arc<Params>,
}

/// Tells an index at this position where to go. Only arithmetic in memory.
pub fn next(chain: &Chain, position: &Position) -> Step {
    let (tree, tip) = (chain.tree(), chain.tip());
    let tip_height = tree.node(tip).height;
    let from = match position.best() {
        None => None,
        Some(_) => {
            let known = position.points().iter().find_map(|point| tree.find(&point.hash));
            let Some(known) = known else {
                // A chain that is being made again may come to them.
                let lowest = position.points().back().map_or(0, |point| point.height);
                return match tip_height < lowest {
                    true => Step::Missing { height: lowest },
                    false => Step::Unknown,
                };
            };
            let fork = tree.node(tree.fork(known, tip));
            Some(ChainPoint { hash: fork.hash, height: fork.height })
        }
    };
    let first = from.map_or(0, |from| from.height + 1);
    if first > tip_height {
        return Step::AtTip;
    }
    let last = tip_height.min(first + BLOCKS_AT_ONCE - 1);
    let mut id = tree.ancestor(tip, last).expect("not above the tip");
    let mut blocks = Vec::with_capacity((last - first) as usize + 1);
    for _ in first..=last {
        let node = tree.node(id);
        let point = ChainPoint { hash: node.hash, height: node.height };
        blocks.push((point, Places::of(chain).block(id)));
        id = node.parent().unwrap_or(id);
    }
    blocks.reverse();
    let is_there =
        |(point, stored): &(ChainPoint, Option<StoredBlock>)| point.height == 0 || stored.is_some();
    let there = blocks.iter().take_while(|block| is_there(block)).count();
    if there == 0 {
        return Step::Missing { height: first };
    }
    blocks.truncate(there);
    let are_last = blocks.last().is_some_and(|(point, _)| point.height == tip_height);
    let (reader, params) = (Places::of(chain).reader(), Arc::clone(chain.params()));
    Step::Blocks(NextBlocks { from, blocks, are_last, reader, params })
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
    fn go_back(&mut self, to: Option<ChainPoint>) -> Result<(), IndexError>;

    /// Takes in the block after its last one. `spent` is empty where it is not wanted.
    fn connect(
        &mut self,
        point: ChainPoint,
        block: &Block,
        spent: &BlockUndo,
    ) -> Result<(), IndexError>;

    /// Does a part of what may be done later; whether there may be more.
    fn tend(&mut self) -> Result<bool, IndexError>;

    /// Whether so much of that is left that it comes before the next block.
    fn lags(&self) -> bool;

    /// Makes all that it has durable.
    fn commit(&mut self) -> Result<(), IndexError>;

    /// A reader has found damage.
    fn is_damaged(&self) -> bool;

    /// Forgets all.
    fn clear(&mut self) -> Result<(), IndexError>;
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next step may be due already.
    GoesOn,
    /// There is nothing to do until the chain moves.
    Waits,
    /// A block cannot be read at present; if its bytes are damaged, the chain is to be told.
    Unreadable(Option<NodeId>),
    /// What a block spent cannot be read. Unlike a block, that is not fetched again.
    LacksUndo,
}

/// What an index has waited for, and the log has said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacked {
    Block(u32),
    Undo(u32),
}

/// An index on its way.
pub struct Follower<I> {
    index: I,
    said: Option<Lacked>,
}

impl<I: Index> Follower<I> {
    pub fn new(index: I) -> Self {
        Self { index, said: None }
    }

    /// Where it is.
    pub fn position(&self) -> Position {
        self.index.position()
    }

    /// Height of the last block that it does not have to read again after a crash.
    pub fn durable_height(&self) -> u32 {
        self.index.durable_height()
    }

    /// Goes a step, or the part of it that is possible until `ends` says so. What is damaged is built again.
    ///
    /// # Errors
    ///
    /// The index cannot go on.
    pub fn take(&mut self, step: Step, ends: &dyn Fn() -> bool) -> Result<Outcome, IndexError> {
        let damaged = self.index.is_damaged();
        let taken = if damaged { self.rebuild() } else { self.try_take(step, ends) };
        let taken = match taken {
            Err(error) if error.is_damage() => {
                log::error!("The {}: {error}.", I::NAME);
                self.rebuild()
            }
            taken => taken,
        };
        if taken.is_err() {
            self.index.status().stop();
        }
        taken
    }

    fn rebuild(&mut self) -> Result<Outcome, IndexError> {
        log::warn!("The {} is built again from the beginning.", I::NAME);
        self.index.status().begin_again();
        self.index.clear()?;
        Ok(Outcome::GoesOn)
    }

    fn try_take(&mut self, step: Step, ends: &dyn Fn() -> bool) -> Result<Outcome, IndexError> {
        match step {
            Step::AtTip => {
                if self.index.status().set_caught_up() {
                    let height = self.index.position().best().map_or(0, |best| best.height);
                    log::info!("{} is enabled at height {height}", I::NAME);
                }
                let more = self.index.tend()?;
                Ok(if more { Outcome::GoesOn } else { Outcome::Waits })
            }
            Step::Unknown => self.rebuild(),
            Step::Missing { height } => {
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

    fn go(&mut self, next: &NextBlocks, ends: &dyn Fn() -> bool) -> Result<Outcome, IndexError> {
        if self.index.position().best() != next.from {
            self.index.go_back(next.from)?;
        }
        let mut outcome = Outcome::GoesOn;
        for (point, stored) in &next.blocks {
            while !ends() && self.index.lags() && self.index.tend()? {}
            if ends() {
                break;
            }
            match read(next, stored.as_ref(), I::WANTS_SPENT) {
                Ok((block, spent)) => self.index.connect(*point, &block, &spent)?,
                Err(Unread::Block(damaged)) => {
                    outcome = Outcome::Unreadable(damaged);
                    break;
                }
                Err(Unread::Undo(error)) => {
                    let height = point.height;
                    let why = error.map_or_else(String::new, |error| format!(": {error}"));
                    self.say_once(
                        Lacked::Undo(height),
                        format_args!("the undo record of block {height} cannot be read{why}"),
                    );
                    outcome = Outcome::LacksUndo;
                    break;
                }
            }
        }
        self.index.status().set_best(self.index.position().best());
        // Far behind the chain, all of it is done at once. Who waits for the chain's next block does not wait
        // for a merge of gigabytes: a part for each block is more than they bring.
        let parts = if next.are_last { next.blocks.len() } else { usize::MAX };
        for _ in 0..parts {
            if ends() || !self.index.tend()? {
                break;
            }
        }
        Ok(outcome)
    }

    /// Makes all durable that it has, at a clean end.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    pub fn close(mut self) -> Result<(), IndexError> {
        self.index.commit()
    }
}

/// What of a block cannot be read.
enum Unread {
    /// The block itself; if its bytes are damaged, this one.
    Block(Option<NodeId>),
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
    let bytes = next.reader.block(stored).map_err(|unreadable| match unreadable {
        BlockUnreadable::Damaged(id) => Unread::Block(Some(id)),
        BlockUnreadable::Gone => Unread::Block(None),
    })?;
    let block = Block::decode(bytes).map_err(|_| Unread::Block(None))?;
    if !wants_spent {
        return Ok((block, BlockUndo::default()));
    }
    let undo = next.reader.undo(stored).map_err(|error| Unread::Undo(Some(error)))?;
    undo.map(|undo| (block, undo)).ok_or(Unread::Undo(None))
}
