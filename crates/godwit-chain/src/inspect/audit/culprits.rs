//! Which coins do not agree: a second reading keeps those of the ranges whose sums are wrong, and puts what
//! created, spent and kept each of them side by side.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use godwit_primitives::{Coin, OutPoint};
use godwit_store::StoreError;
use godwit_store::inspect::{Stage, Watch};
use godwit_store::utxo::{HashedOutPoint, Layers};

use crate::error::ChainError;
use crate::shares::in_shares;
use crate::structure::Structured;

use super::ledger::{Claims, Place, for_each_claimed, for_each_created, for_each_inside};
use super::sums::bucket;
use super::{Audit, BUCKET_BITS, BUCKETS, Blocks, Counts, Dispute, StoredBlock, for_each_coin};

/// Coins that are kept side by side, about 120 bytes each; those of the first range in any case.
const RECORDS: u64 = 2_000_000;

/// What of a coin does not agree. Heights are of the blocks that created and that spent it, a coin is in the
/// form in which it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoinFault {
    /// The store has it, and no block created it as a coin.
    Invented { kept: Box<[u8]> },
    /// The store lacks it.
    Missing { created: Box<[u8]>, at: u32 },
    /// The store has it, and a block spent it.
    Kept { spent_at: u32 },
    /// The store has it twice.
    Doubled,
    /// The store has another one than a block created.
    Changed { created: Box<[u8]>, kept: Box<[u8]> },
    /// The undo record of the block that spends it has another one than a block created.
    Claimed { created: Box<[u8]>, claimed: Box<[u8]>, spent_at: u32 },
    /// A block spends it, and no block created it as a coin.
    NeverCreated { claimed: Box<[u8]>, spent_at: u32 },
    /// Two blocks spend it, or one does twice.
    SpentTwice { first: u32, second: u32 },
}

impl CoinFault {
    /// The block whose undo record it concerns.
    pub(super) fn claimed_at(&self) -> Option<u32> {
        match self {
            Self::Claimed { spent_at, .. } | Self::NeverCreated { spent_at, .. } => Some(*spent_at),
            _ => None,
        }
    }

    /// The block that is wrong itself: what it spends is said by its inputs, not by its undo record.
    pub(super) fn suspect(&self) -> Option<u32> {
        match self {
            Self::NeverCreated { spent_at, .. } => Some(*spent_at),
            Self::SpentTwice { second, .. } => Some(*second),
            _ => None,
        }
    }
}

/// A coin as it is stored, for a line of text.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Bytes of a script that are shown.
        const SCRIPT: usize = 40;
        let Ok(Coin { value, script_pubkey, height, coinbase }) = Coin::from_compressed(self.0)
        else {
            return f.write_str("what is no coin");
        };
        let of = if coinbase { "a coinbase at " } else { "" };
        write!(f, "{value} satoshi of {of}height {height} with script ")?;
        for byte in script_pubkey.iter().take(SCRIPT) {
            write!(f, "{byte:02x}")?;
        }
        if script_pubkey.len() > SCRIPT { write!(f, "...") } else { Ok(()) }
    }
}

/// A coin beside the one that was created: what is shown of both may be equal, and their bytes not.
struct Beside<'a> {
    other: &'a [u8],
    created: &'a [u8],
}

impl fmt::Display for Beside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [other, created] = [self.other, self.created].map(|coin| Shown(coin).to_string());
        match other == created {
            true => write!(f, "{other}, and what was created looks the same in other bytes"),
            false => write!(f, "{other}, and what was created is {created}"),
        }
    }
}

impl fmt::Display for CoinFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invented { kept } => {
                write!(f, "the store has {}, which no block created as a coin", Shown(kept))
            }
            Self::Missing { created, at } => write!(
                f,
                "the store lacks it: block {at} created {}, and none spent it",
                Shown(created)
            ),
            Self::Kept { spent_at } => write!(f, "the store has it, and block {spent_at} spent it"),
            Self::Doubled => f.write_str("the store has it twice"),
            Self::Changed { created, kept } => {
                write!(f, "the store has {}", Beside { other: kept, created })
            }
            Self::Claimed { created, claimed, spent_at } => {
                let beside = Beside { other: claimed, created };
                write!(f, "the undo record of block {spent_at} has {beside}")
            }
            Self::NeverCreated { claimed, spent_at } => write!(
                f,
                "block {spent_at} spends it, its undo record has {}, and no block created it as a coin",
                Shown(claimed)
            ),
            Self::SpentTwice { first, second } => {
                write!(f, "blocks {first} and {second} spend it")
            }
        }
    }
}

/// What happens to a coin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Created(u32),
    Spent(u32),
    Kept,
}

/// A coin in one role.
pub(super) struct Record {
    coin: HashedOutPoint,
    role: Role,
    stored: Box<[u8]>,
}

impl Record {
    pub(super) fn new(coin: &HashedOutPoint, role: Role, stored: [&[u8]; 2]) -> Self {
        Self { coin: *coin, role, stored: stored.concat().into() }
    }
}

/// Ranges that are searched.
struct Wanted(Vec<bool>);

impl Wanted {
    fn new(ranges: &[u16]) -> Self {
        let mut wanted = vec![false; BUCKETS];
        ranges.iter().for_each(|range| wanted[usize::from(*range)] = true);
        Self(wanted)
    }

    fn has(&self, coin: &HashedOutPoint) -> bool {
        self.0[bucket(coin)]
    }
}

/// The partition of a store with so many, a power of two.
fn partition(bucket: usize, partitions: usize) -> usize {
    (bucket * partitions) >> BUCKET_BITS
}

impl Audit {
    /// Reads what is stored once more, and disputes what does not agree in the ranges that are wrong.
    pub(super) fn search(
        &self,
        blocks: &Blocks<'_>,
        layers: &Arc<Layers>,
        wrong: &[u16],
        counts: Counts,
        watch: &mut dyn Watch,
    ) -> Result<(), ChainError> {
        let partitions = layers.partitions();
        let Counts { inputs, outputs, coins, inside, .. } = counts;
        let each = (inputs + outputs + coins + 2 * inside) / BUCKETS as u64;
        let few = (RECORDS / each.max(1)).clamp(1, wrong.len() as u64) as usize;
        let (searched, others) = wrong.split_at(few);
        let wanted = Wanted::new(searched);
        let mut records = Vec::new();
        blocks.for_each_batch(&blocks.stored, Stage::Culprits, watch, |_, batch| {
            let read = |stored: &StoredBlock| self.records(blocks, stored, &wanted);
            records.extend(in_shares(batch, blocks.threads, read)?.into_iter().flatten());
            Ok(())
        })?;
        let mut concerned: Vec<usize> =
            searched.iter().map(|range| partition(usize::from(*range), partitions)).collect();
        concerned.dedup();
        let kept = in_shares(&concerned, blocks.threads, |partition| {
            let mut kept = Vec::new();
            for_each_coin(layers, *partition, &blocks.stop, |outpoint, stored| {
                let coin = self.hasher.hash(outpoint);
                if wanted.has(&coin) {
                    kept.push(Record::new(&coin, Role::Kept, [stored, &[]]));
                }
            })?;
            Ok(kept)
        })?;
        records.extend(kept.into_iter().flatten());
        let found = disputes(records, partitions);
        if found.is_empty() {
            self.dispute(Dispute::Elusive);
        }
        found.into_iter().for_each(|dispute| self.dispute(dispute));
        let mut parts: BTreeMap<usize, usize> = BTreeMap::new();
        for range in others {
            *parts.entry(partition(usize::from(*range), partitions)).or_default() += 1;
        }
        parts
            .into_iter()
            .for_each(|(partition, ranges)| self.dispute(Dispute::Part { partition, ranges }));
        Ok(())
    }

    /// What a block creates and is said to spend, of the ranges that are wanted.
    fn records(
        &self,
        blocks: &Blocks<'_>,
        stored: &StoredBlock,
        wanted: &Wanted,
    ) -> Result<Vec<Record>, ChainError> {
        let Some((id, point)) = self.id(stored) else { return Ok(Vec::new()) };
        // Both were read before, and were what was written.
        let unread = |error| match error {
            StoreError::Damaged { .. } => Ok(Vec::new()),
            error => Err(ChainError::from(error)),
        };
        let block = match blocks.read(stored) {
            Ok(block) => block,
            Err(error) => return unread(error),
        };
        let Some(undo) = stored.undo else { return Ok(Vec::new()) };
        let (undo, coins) = match blocks.inspection.read_stored_undo(undo, &stored.prev) {
            Ok(read) => read,
            Err(error) => return unread(error),
        };
        let claims = Claims::new(undo, coins);
        let mut records = Vec::new();
        self.with_place(id, point.height, |place| {
            for_each_role(&block, place, &claims, |coin, role, stored| {
                if wanted.has(coin) {
                    records.push(Record::new(coin, role, stored));
                }
            });
        });
        Ok(records)
    }
}

/// Hands over what a block creates and is said to spend. What it both creates and spends, which the sums
/// leave out, is there too: else a store that has it would seem to have what no block created.
pub(super) fn for_each_role(
    block: &Structured,
    place: &Place<'_>,
    claims: &Claims,
    mut each: impl FnMut(&HashedOutPoint, Role, [&[u8]; 2]),
) {
    let height = place.rules.height;
    for_each_created(block, place, |coin, stored| each(coin, Role::Created(height), stored));
    for_each_claimed(block, claims, |coin, stored| {
        each(coin, Role::Spent(height), [stored, &[]]);
    });
    for_each_inside(block, height, |coin, stored| {
        each(coin, Role::Created(height), stored);
        each(coin, Role::Spent(height), stored);
    });
}

/// What does not agree among coins of whole ranges, of a store with so many partitions.
pub(super) fn disputes(mut records: Vec<Record>, partitions: usize) -> Vec<Dispute> {
    records.sort_by_key(|record| (record.coin.key, record.coin.outpoint, record.role));
    let mut found = Vec::new();
    for same in records.chunk_by(|a, b| a.coin.outpoint == b.coin.outpoint) {
        let (outpoint, bucket): (OutPoint, usize) = (same[0].coin.outpoint, bucket(&same[0].coin));
        let partition = partition(bucket, partitions);
        let faults = Pairs::of(same).faults();
        found.extend(faults.into_iter().map(|fault| Dispute::Coin { outpoint, partition, fault }));
    }
    found
}

/// One outpoint: what created it, and for each of these what took it away.
struct Pairs<'a> {
    created: Vec<(&'a Record, Option<&'a Record>)>,
    /// What took away a coin that is none of those, or was taken away before.
    left: Vec<&'a Record>,
}

impl<'a> Pairs<'a> {
    fn of(records: &'a [Record]) -> Self {
        let is_created = |record: &&Record| matches!(record.role, Role::Created(_));
        let (created, gone): (Vec<&Record>, Vec<&Record>) = records.iter().partition(is_created);
        let mut created: Vec<_> = created.into_iter().map(|created| (created, None)).collect();
        let mut left = Vec::new();
        for gone in gone {
            let pair = created
                .iter_mut()
                .find(|(created, taken)| taken.is_none() && created.stored == gone.stored);
            match pair {
                Some((_, taken)) => *taken = Some(gone),
                None => left.push(gone),
            }
        }
        Self { created, left }
    }

    fn faults(mut self) -> Vec<CoinFault> {
        let mut faults = Vec::new();
        for gone in std::mem::take(&mut self.left) {
            let not_taken = self.created.iter_mut().find(|(_, taken)| taken.is_none());
            let other = not_taken.map(|pair| {
                pair.1 = Some(gone);
                pair.0
            });
            faults.push(self.fault(gone, other));
        }
        let missing = self.created.iter().filter(|(_, taken)| taken.is_none());
        faults.extend(missing.map(|(created, _)| {
            let Role::Created(at) = created.role else { unreachable!("it is of those") };
            CoinFault::Missing { created: created.stored.clone(), at }
        }));
        faults
    }

    /// What is wrong with something that took a coin away. `other` is a coin that nothing took away.
    fn fault(&self, gone: &Record, other: Option<&Record>) -> CoinFault {
        let same = self.created.iter().find(|(created, _)| created.stored == gone.stored);
        let taken_by = same.and_then(|(_, taken)| taken.map(|taken| taken.role));
        let any = other.or(self.created.first().map(|(created, _)| *created));
        let (stored, created) = (gone.stored.clone(), any.map(|any| any.stored.clone()));
        match (gone.role, taken_by, created) {
            (Role::Spent(second), Some(Role::Spent(first)), _) => {
                CoinFault::SpentTwice { first, second }
            }
            (Role::Spent(spent_at), _, Some(created)) => {
                CoinFault::Claimed { created, claimed: stored, spent_at }
            }
            (Role::Spent(spent_at), _, None) => {
                CoinFault::NeverCreated { claimed: stored, spent_at }
            }
            (_, Some(Role::Spent(spent_at)), _) => CoinFault::Kept { spent_at },
            (_, Some(_), _) => CoinFault::Doubled,
            (_, None, Some(created)) => CoinFault::Changed { created, kept: stored },
            (_, None, None) => CoinFault::Invented { kept: stored },
        }
    }
}
