//! Looks at the last blocks of the chain again, on any thread, while the chain goes on: Core's `verifychain`
//! (`validation.cpp`, `CVerifyDB`).
//!
//! It goes down from a tip whose coins a [`CoinsView`] holds. If coins are checked, each block is taken back
//! in memory: what it created must be among the coins, unchanged, and what its undo record says that it spent
//! must not be there, and is added. Coins are read from their files without filters and with indexes read
//! anew: memory is not trusted.
//!
//! Core then connects the blocks again, from the lowest up. Here the rules over coins and the scripts of a
//! block are checked when it is taken back, with the coins that it gives back, which are the same. Scripts
//! run in Core's engine alone.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use godwit_consensus::{Reject, is_bip30_unspendable, script_flags};
use godwit_primitives::network::Deployment;
use godwit_primitives::{BlockHash, BlockHeader, Coin, CoinView, HEADER_SIZE, OutPoint};
use godwit_script::ScriptError;
use godwit_store::utxo::{CompressedCoins, HashedOutPoint, Searched, UtxoHasher};
use godwit_store::{BlockUndo, ChainPoint, StoreError};
use godwit_stream::SpanReader;

use crate::apply::{BlockRules, codes};
use crate::chain::Chain;
use crate::coins_view::CoinsView;
use crate::goal::script_reason;
use crate::inspect::audit::ClaimError;
use crate::inspect::audit::scripts::{ScriptQueue, Unknown, Waiting};
use crate::options::{ScriptEngine, ScriptOptions};
use crate::reads::{BlockReader, BlockUnreadable, StoredBlock};
use crate::stored_data::StoredData;
use crate::structure::{Received, Structured, structure};
use crate::tree::NodeId;

/// Memory of a coin that was given back, beside a long script.
const PER_COIN: usize = 2 * (size_of::<OutPoint>() + size_of::<Coin>());

/// How thoroughly; each level includes those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckLevel {
    /// The block's bytes are read.
    Read,
    /// It keeps the rules that need no other block.
    Rules,
    /// Its undo record is read.
    Undo,
    /// It is taken back.
    Coins,
    /// It keeps the rules over coins, and its scripts hold.
    Scripts,
}

/// What is known of a block before it is read.
pub struct BlockInPlace {
    id: NodeId,
    point: ChainPoint,
    stored: StoredBlock,
    rules: BlockRules,
    runs_scripts: bool,
}

/// What is not as it was left.
#[derive(Debug)]
pub enum RecheckFault {
    /// The block cannot be read.
    Unreadable(BlockUnreadable),
    /// Its bytes are those of another one.
    OtherBlock,
    Rule(Reject),
    /// There is no undo record, or not one of this block.
    NoUndo,
    /// The undo record or the coins cannot be read.
    Store(StoreError),
    /// An output is not among the coins as the block created it.
    Created(OutPoint),
    /// A coin that it spent is there, or is not the output that its own transaction created.
    Spent(OutPoint),
    /// With the coins of its undo record it would break a rule.
    Claim(ClaimError),
    /// The engine failed; says nothing about the block.
    Engine(ScriptError),
    /// The caller has no more time.
    Stopped,
}

/// See the module's documentation.
pub struct Recheck {
    reader: BlockReader,
    hasher: UtxoHasher,
    level: CheckLevel,
    scripts: Option<ScriptQueue>,
    coins: Option<TakenBack>,
}

/// Coins as of the block that was taken back last.
struct TakenBack {
    view: CoinsView,
    /// Those that blocks gave back and that no lower one has created yet.
    given_back: HashMap<OutPoint, Coin>,
    /// Memory of long scripts among them.
    scripts: usize,
}

/// What the chain knows of a block; `None` where it is not stored, or lost.
pub fn block_in_place(chain: &Chain, id: NodeId) -> Option<BlockInPlace> {
    let (index, params) = (&chain.index, &chain.env.params);
    let stored = StoredData::of(chain).block(id)?;
    let (node, point) = (index.node(id), index.point(id));
    let rules = BlockRules {
        height: node.height,
        flags: script_flags(node.height, &node.hash, params),
        sequence_locks: params.is_active(Deployment::Csv, node.height),
        // Its outputs were among the coins, and are taken out.
        no_overwrite: false,
        prev_median_time_past: index.tree().median_time_past(node.parent()?),
        params: Arc::clone(params),
    };
    let runs_scripts = script_reason(index, params, chain.goal.assume_valid(), id).is_some();
    Some(BlockInPlace { id, point, stored, rules, runs_scripts })
}

/// Median times past of blocks below another one, which are asked for by their heights.
pub fn median_times(chain: &Chain, id: NodeId, heights: &[u32]) -> Vec<u32> {
    let tree = chain.tree();
    let at = |height: &u32| tree.ancestor(id, *height).expect("below the block");
    heights.iter().map(|height| tree.median_time_past(at(height))).collect()
}

impl BlockInPlace {
    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn point(&self) -> ChainPoint {
        self.point
    }

    /// Bytes of block and undo record.
    pub fn size(&self) -> usize {
        self.stored.size() + self.stored.undo_size()
    }
}

impl Recheck {
    /// Of blocks of this chain; `view` has the coins of the first of them, if coins are to be looked at.
    pub fn new(chain: &Chain, level: CheckLevel, view: Option<CoinsView>) -> Self {
        let options = ScriptOptions {
            engine: ScriptEngine::Core,
            crosscheck_download: None,
            crosscheck_recent: None,
        };
        let of_view = |view| TakenBack { view, given_back: HashMap::new(), scripts: 0 };
        Self {
            reader: StoredData::of(chain).reader(),
            hasher: chain.env.hasher,
            level,
            scripts: (level == CheckLevel::Scripts).then(|| ScriptQueue::new(&options)),
            coins: view.filter(|_| level >= CheckLevel::Coins).map(of_view),
        }
    }

    /// Memory of the coins that are given back.
    pub fn memory(&self) -> usize {
        let of = |coins: &TakenBack| coins.given_back.capacity() * PER_COIN + coins.scripts;
        self.coins.as_ref().map_or(0, of)
    }

    /// Looks at no coins any more, nor at what needs them: their memory is short.
    pub fn forget_coins(&mut self) {
        (self.coins, self.scripts) = (None, None);
        self.level = self.level.min(CheckLevel::Undo);
    }

    /// Looks at a block, the parent of the one before. `times` is asked for median times past by heights.
    ///
    /// # Errors
    ///
    /// What was found, or that nothing can be.
    pub fn check(
        &mut self,
        block: &BlockInPlace,
        times: &mut dyn FnMut(Vec<u32>) -> Option<Vec<u32>>,
    ) -> Result<(), RecheckFault> {
        let bytes = self.reader.block(&block.stored).map_err(RecheckFault::Unreadable)?;
        if hash_of(bytes.as_slice()) != Some(block.point.hash) {
            return Err(RecheckFault::OtherBlock);
        }
        if self.level < CheckLevel::Rules {
            return Ok(());
        }
        let structured = match structure(bytes, &block.rules.params, &self.hasher, None) {
            Received::Structured(structured) => structured,
            Received::Undecodable => return Err(RecheckFault::OtherBlock),
            Received::Unjudged(error) => return Err(RecheckFault::Engine(error)),
            Received::Malformed { reject, .. } => return Err(RecheckFault::Rule(reject)),
        };
        if self.level < CheckLevel::Undo {
            return Ok(());
        }
        let undo = self.reader.undo(&block.stored).map_err(RecheckFault::Store)?;
        let Some(coins) = self.coins.as_mut() else { return Ok(()) };
        let spent = undo.filter(|undo| is_of(undo, &structured)).ok_or(RecheckFault::NoUndo)?;
        let spent = spent.into_coins();
        coins.take_back(block, &structured, &spent)?;
        let Some(scripts) = self.scripts.as_mut() else { return Ok(()) };
        check_rules(block, &structured, &spent, times)?;
        if !block.runs_scripts {
            return Ok(());
        }
        let owned = Arc::into_inner(structured).expect("it was just made");
        let waiting =
            Waiting { id: block.id, block: owned, coins: spent, flags: block.rules.flags };
        let mut faults = scripts.push(waiting)?;
        faults.extend(scripts.flush()?);
        faults.pop().map_or(Ok(()), |(_, fault)| Err(RecheckFault::Claim(fault)))
    }
}

fn hash_of(block: &[u8]) -> Option<BlockHash> {
    let header: BlockHeader = SpanReader::new(block.get(..HEADER_SIZE)?).get().ok()?;
    Some(header.block_hash())
}

/// Whether an undo record has a coin for each input of a block.
fn is_of(undo: &BlockUndo, block: &Structured) -> bool {
    undo.transactions().map(<[Coin]>::len).eq(block.spent_counts())
}

/// The rules over coins of a block that spends these.
pub(crate) fn check_rules(
    block: &BlockInPlace,
    structured: &Structured,
    spent: &[Coin],
    times: &mut dyn FnMut(Vec<u32>) -> Option<Vec<u32>>,
) -> Result<(), RecheckFault> {
    let is_early = |coin: &Coin| coin.height > block.rules.height;
    if let Some(input) = spent.iter().position(is_early) {
        let height = spent[input].height;
        return Err(RecheckFault::Claim(ClaimError::Early { input, height }));
    }
    // Asked for the block before the one that created a coin.
    let heights: BTreeSet<u32> = match block.rules.sequence_locks {
        true => {
            let locked = structured.time_locked().iter();
            locked.map(|input| spent[*input as usize].height.saturating_sub(1)).collect()
        }
        false => BTreeSet::new(),
    };
    let heights = Vec::from_iter(heights);
    let found = match heights.is_empty() {
        true => Vec::new(),
        false => times(heights.clone()).ok_or(RecheckFault::Stopped)?,
    };
    let found: HashMap<u32, u32> = heights.into_iter().zip(found).collect();
    let median_time_past = |height: u32| found[&height];
    let coin = |input: usize| CoinView::from(&spent[input]);
    let checked = block.rules.check(structured, coin, &median_time_past);
    checked.map_err(|reject| RecheckFault::Claim(ClaimError::Rule(reject)))
}

impl TakenBack {
    /// Takes a block back that spent these coins.
    fn take_back(
        &mut self,
        block: &BlockInPlace,
        structured: &Structured,
        spent: &[Coin],
    ) -> Result<(), RecheckFault> {
        let created = structured.created().iter().map(|n| &structured.creates()[*n as usize]);
        let keys: Vec<HashedOutPoint> = created.chain(structured.spends()).copied().collect();
        let mut stored = Vec::new();
        self.view.layers.search_many(&keys, &mut stored).map_err(RecheckFault::Store)?;
        let ChainPoint { hash, height } = block.point;
        // BIP30 lets a transaction be repeated once its outputs are spent. The later coin is gone with its
        // block, which was taken back. Its height is believed: keys of all created coins would fill memory.
        let tip = self.view.tip().height;
        let is_gone = |coin: &Coin| height < coin.height && coin.height <= tip;
        let of_block = |searched: Searched| searched.newest.filter(|coin| !is_gone(coin));
        let mut stored = stored.into_iter().map(of_block);
        // A later coinbase took its place.
        let may_be_missing = is_bip30_unspendable(height, &hash);
        for n in structured.created() {
            let outpoint = structured.creates()[*n as usize].outpoint;
            let stored = stored.next().flatten();
            let given_back = self.given_back.remove(&outpoint);
            self.scripts -= given_back.as_ref().map_or(0, spilled);
            let coin = given_back.or(stored);
            if coin != created_coin(structured, *n, height) && !may_be_missing {
                return Err(RecheckFault::Created(outpoint));
            }
        }
        let mut inside = structured.inside().iter().peekable();
        let mut spends = structured.spends().iter();
        for (input, coin) in (0..).zip(spent) {
            if let Some(own) = inside.next_if(|own| own.input == input) {
                if Some(coin) != created_coin(structured, own.output, height).as_ref() {
                    return Err(RecheckFault::Spent(
                        structured.creates()[own.output as usize].outpoint,
                    ));
                }
                continue;
            }
            let outpoint = spends.next().expect("each other input spends a coin").outpoint;
            let stored = stored.next().flatten();
            let coin = coin.clone();
            self.scripts += spilled(&coin);
            if stored.is_some() || self.given_back.insert(outpoint, coin).is_some() {
                return Err(RecheckFault::Spent(outpoint));
            }
        }
        Ok(())
    }
}

/// Output `n` of a block as a coin.
fn created_coin(block: &Structured, n: u32, height: u32) -> Option<Coin> {
    let (output, coinbase) = block.output(n as usize);
    let mut coin = CompressedCoins::default();
    coin.push_output(&codes(height)[usize::from(coinbase)], output?);
    coin.coin(0)
}

/// Memory of a script that does not fit into its coin.
fn spilled(coin: &Coin) -> usize {
    if coin.script_pubkey.spilled() { coin.script_pubkey.capacity() } else { 0 }
}

impl From<Unknown> for RecheckFault {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Engine(error) => Self::Engine(error),
            Unknown::Contradicted(_) => unreachable!("nothing but Core's engine is asked"),
        }
    }
}

impl fmt::Display for RecheckFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(unreadable) => write!(f, "it cannot be read: {unreadable}"),
            Self::OtherBlock => f.write_str("its bytes are not those of the block"),
            Self::Rule(reject) => write!(f, "it breaks a rule: {reject}"),
            Self::NoUndo => f.write_str("there is no undo record of it"),
            Self::Store(error) => error.fmt(f),
            Self::Created(OutPoint { txid, vout }) => {
                write!(f, "its output {txid}:{vout} is not among the coins as it was created")
            }
            Self::Spent(OutPoint { txid, vout }) => {
                write!(f, "the coin {txid}:{vout}, which it spent, is there or is another one")
            }
            Self::Claim(fault) => write!(f, "its undo record: {fault}"),
            Self::Engine(error) => error.fmt(f),
            Self::Stopped => f.write_str("the node ends"),
        }
    }
}
