//! What one thread has counted of blocks and coins, in any order, and what is wrong with one block's claims
//! by themselves. No I/O: tests hand it blocks that they make.

use godwit_consensus::Reject;
use godwit_primitives::{Coin, CoinView, Txid};
use godwit_store::BlockUndo;
use godwit_store::utxo::{CoinCode, CompressedCoins, HashedOutPoint};

use crate::apply::{BlockRules, MedianTimePast};
use crate::structure::{Inside, Structured};

use super::sums::{Mac, Side, Sums};

/// The coins that the undo record of a block says that it spent, one for each input: as they are, and as the
/// store had them.
pub(in crate::inspect) struct Claims {
    pub(super) coins: Vec<Coin>,
    pub(super) stored: CompressedCoins,
}

impl Claims {
    /// The claims of an undo record. Where its numbers are not those that godwit writes, coins are as if they
    /// were: then it is disputed for that alone.
    pub(super) fn new(undo: BlockUndo, stored: Option<CompressedCoins>) -> Self {
        let coins = undo.into_coins();
        let stored = stored.unwrap_or_else(|| {
            let mut stored = CompressedCoins::with_capacity(coins.len());
            stored.extend(&coins);
            stored
        });
        Self { coins, stored }
    }
}

/// Where a block stands in its chain.
pub(super) struct Place<'a> {
    pub(super) rules: BlockRules,
    /// Asked for heights below the block's.
    pub(super) median_time_past: &'a MedianTimePast<'a>,
    /// Another block's coinbase has replaced that of this one.
    pub(super) overwritten: bool,
}

/// What is wrong with an undo record although its checksum holds. It refutes what the record claims, and says
/// nothing about the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// It has numbers that godwit never writes.
    OldForm,
    /// The coin of an input is not the output of the block itself that it spends.
    Inside { input: usize },
    /// The coin of an input is said to be of a height at which it could not be spent yet.
    Early { input: usize, height: u32 },
    /// With its coins the block would break this rule.
    Rule(Reject),
    /// With its coins the script of this input would not hold.
    Script { tx: usize, input: usize },
}

impl ClaimError {
    /// Whether it refutes the block itself where the coins of the record are those that were created.
    pub(super) fn is_of_block_if_claims_are_true(&self) -> bool {
        match self {
            Self::OldForm | Self::Inside { .. } => false,
            Self::Early { .. } | Self::Rule(_) | Self::Script { .. } => true,
        }
    }
}

/// How much was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) blocks: u64,
    /// Inputs and outputs of the sums: those of one block that cancel are none of them.
    pub(super) inputs: u64,
    pub(super) outputs: u64,
    pub(super) coins: u64,
    /// Inputs that spend outputs of their own block.
    pub(super) inside: u64,
    pub(super) without_scripts: u64,
}

impl Counts {
    fn merge(&mut self, other: Self) {
        let Self { blocks, inputs, outputs, coins, inside, without_scripts } = other;
        self.blocks += blocks;
        self.inputs += inputs;
        self.outputs += outputs;
        self.coins += coins;
        self.inside += inside;
        self.without_scripts += without_scripts;
    }
}

/// See the module's documentation.
pub(super) struct Ledger {
    pub(super) sums: Sums,
    /// Of each block, with its height.
    pub(super) coinbases: Vec<(Txid, u32)>,
    pub(super) counts: Counts,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self { sums: Sums::new(), coinbases: Vec::new(), counts: Counts::default() }
    }

    /// Counts a block with the coins that it is said to have spent, and tells what is wrong with these by
    /// themselves. It is counted either way: what the sums say then is of more use.
    pub(super) fn take_block(
        &mut self,
        mac: &Mac,
        place: &Place<'_>,
        block: &Structured,
        claims: &Claims,
    ) -> Result<(), ClaimError> {
        let height = place.rules.height;
        self.counts.blocks += 1;
        self.counts.inside += block.inside().len() as u64;
        self.coinbases.push((block.view().txids()[0], height));
        for_each_created(block, place, |coin, stored| {
            self.counts.outputs += 1;
            self.sums.add(mac, coin, stored, Side::Created);
        });
        for_each_claimed(block, claims, |coin, stored| {
            self.counts.inputs += 1;
            self.sums.add(mac, coin, [stored, &[]], Side::Gone);
        });
        check_order(block, claims, height)?;
        let coin = |input: usize| CoinView::from(&claims.coins[input]);
        let checked = place.rules.check(block, coin, place.median_time_past);
        checked.map_err(ClaimError::Rule)
    }

    /// Counts a coin of the store.
    pub(super) fn take_coin(&mut self, mac: &Mac, coin: &HashedOutPoint, stored: &[u8]) {
        self.counts.coins += 1;
        self.sums.add(mac, coin, [stored, &[]], Side::Gone);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.sums.merge(&other.sums);
        self.coinbases.extend(other.coinbases);
        self.counts.merge(other.counts);
    }
}

fn codes(height: u32) -> [CoinCode; 2] {
    [false, true].map(|coinbase| CoinCode::new(height, coinbase))
}

/// Hands over each coin that a block creates and does not spend itself.
pub(super) fn for_each_created(
    block: &Structured,
    place: &Place<'_>,
    mut each: impl FnMut(&HashedOutPoint, [&[u8]; 2]),
) {
    let codes = codes(place.rules.height);
    for n in block.created().iter().map(|n| *n as usize) {
        let (output, coinbase) = block.output(n);
        if coinbase && place.overwritten {
            continue;
        }
        let output = output.expect("what cannot be spent is no coin");
        each(&block.creates()[n], [codes[usize::from(coinbase)].as_slice(), output]);
    }
}

/// Hands over what is claimed of each coin that a block spends and does not create.
pub(super) fn for_each_claimed(
    block: &Structured,
    claims: &Claims,
    mut each: impl FnMut(&HashedOutPoint, &[u8]),
) {
    let mut spends = block.spends().iter();
    for_each_input(block, |input, inside| {
        if inside.is_none() {
            let coin = spends.next().expect("each other input spends a coin");
            each(coin, claims.stored.get(input).unwrap_or_default());
        }
    });
}

/// Hands over each coin that a block both creates and spends.
pub(super) fn for_each_inside(
    block: &Structured,
    height: u32,
    mut each: impl FnMut(&HashedOutPoint, [&[u8]; 2]),
) {
    let codes = codes(height);
    for n in block.inside().iter().map(|own| own.output as usize) {
        if let (Some(output), coinbase) = block.output(n) {
            each(&block.creates()[n], [codes[usize::from(coinbase)].as_slice(), output]);
        }
    }
}

fn for_each_input(block: &Structured, mut each: impl FnMut(usize, Option<&Inside>)) {
    let mut inside = block.inside().iter().peekable();
    for input in 0..block.input_count() {
        each(input, inside.next_if(|own| own.input as usize == input));
    }
}

/// A coin that the block creates is claimed as it is, and all others are older than the block. So what the
/// sums do not see, the order in which coins are created and spent, is right.
fn check_order(block: &Structured, claims: &Claims, height: u32) -> Result<(), ClaimError> {
    let codes = codes(height);
    let mut fault = None;
    for_each_input(block, |input, inside| {
        let is_right = match inside {
            Some(own) => {
                let (output, coinbase) = block.output(own.output as usize);
                let code = codes[usize::from(coinbase)].as_slice();
                let stored = claims.stored.get(input).unwrap_or_default();
                stored.strip_prefix(code) == output && output.is_some()
            }
            None => claims.coins[input].height < height,
        };
        if !is_right && fault.is_none() {
            fault = Some(match inside {
                Some(_) => ClaimError::Inside { input },
                None => ClaimError::Early { input, height: claims.coins[input].height },
            });
        }
    });
    fault.map_or(Ok(()), Err)
}

impl std::fmt::Display for ClaimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OldForm => f.write_str("it has numbers that godwit never writes"),
            Self::Inside { input } => {
                write!(f, "its coin {input} is not the output of the block itself that is spent")
            }
            Self::Early { input, height } => {
                write!(f, "its coin {input} is said to be of height {height}, too late to be spent")
            }
            Self::Rule(reject) => {
                write!(f, "with its coins the block would break a rule: {reject}")
            }
            Self::Script { tx, input } => write!(
                f,
                "with its coins the script of input {input} of transaction {tx} of the block does not hold"
            ),
        }
    }
}
