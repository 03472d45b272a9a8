//! What can still be read of a segment some of whose blocks are lost.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{KeySpan, check, partition_span};
use crate::error::StoreError;
use crate::utxo::entry::Entry;
use crate::utxo::layers::UtxoContext;
use crate::utxo::lost_coins::LostCoins;
use crate::utxo::run::file::Blocks;
use crate::utxo::run::format::BlockKind;
use crate::utxo::run::segment::Segment;
use crate::utxo::run::writer::RunWriter;
use crate::utxo::sort::Scratch;
use crate::utxo::stop::WorkError;

/// The entries that are there, and where entries are missing.
pub(super) struct Salvaged {
    pub(super) kept: Option<Arc<Segment>>,
    pub(super) holes: Vec<KeySpan>,
}

/// Copies what is there to a scratch run. `None`: what is there is no segment, and nothing of it is believed.
/// Where a block is lost, the segment's sum says nothing of the others: one for which its parity does not
/// vouch counts as lost, since it may be of another time.
pub(super) fn salvage(
    context: &UtxoContext,
    segment: &Segment,
    lost: &LostCoins,
    scratch: &mut Scratch,
    stop: &AtomicBool,
) -> Result<Option<Salvaged>, StoreError> {
    let mut reading = Reading {
        context,
        partition: segment.meta.partition,
        last: None,
        in_hole: false,
        holes: Vec::new(),
        is_sound: true,
    };
    let kept = scratch.write(|writer| reading.copy(segment, lost, writer, stop))?;
    let Reading { holes, is_sound, .. } = reading;
    Ok(is_sound.then_some(Salvaged { kept, holes }))
}

struct Reading<'a> {
    context: &'a UtxoContext,
    partition: u8,
    last: Option<(u64, godwit_primitives::OutPoint)>,
    /// Behind the last entry that was read some are missing.
    in_hole: bool,
    holes: Vec<KeySpan>,
    is_sound: bool,
}

impl Reading<'_> {
    fn copy(
        &mut self,
        segment: &Segment,
        lost: &LostCoins,
        writer: &mut RunWriter<'_>,
        stop: &AtomicBool,
    ) -> Result<(), WorkError> {
        let (run, file) = (&segment.run, segment.run.open()?);
        let (mut blocks, mut long, mut left) = (Blocks::default(), Vec::new(), 0);
        for number in segment.meta.first_block..segment.meta.filter_block() {
            check(stop)?;
            if !lost.is_vouched_for(run.id, number) {
                (self.in_hole, left) = (true, 0);
                continue;
            }
            match run.read(&file, number..number + 1, &mut blocks) {
                Err(StoreError::Damaged { .. }) => {
                    (self.in_hole, left) = (true, 0);
                    continue;
                }
                read => read?,
            }
            let block = blocks.get(number);
            match block.kind {
                // The rest of an entry is not there.
                BlockKind::Entries if left > 0 => self.is_sound = false,
                BlockKind::Entries if block.span > 1 => {
                    (long, left) = (block.payload.to_vec(), block.span - 1);
                }
                BlockKind::Entries => {
                    let mut rest = block.payload;
                    while let Some(entry) = Entry::first_of(rest) {
                        self.push(entry, writer)?;
                        rest = &rest[entry.bytes().len()..];
                    }
                    self.is_sound &= rest.is_empty();
                }
                // The rest of an entry whose beginning is lost.
                BlockKind::Overflow if left == 0 => self.is_sound &= self.in_hole,
                BlockKind::Overflow => {
                    long.extend_from_slice(block.payload);
                    left -= 1;
                    if left == 0 {
                        match Entry::first_of(&long) {
                            Some(entry) => self.push(entry, writer)?,
                            None => self.is_sound = false,
                        }
                    }
                }
                _ => self.is_sound = false,
            }
        }
        self.is_sound &= left == 0;
        if self.in_hole {
            self.end_hole(partition_span(self.partition, self.context.partition_bits).last);
        }
        Ok(())
    }

    fn push(&mut self, entry: Entry<'_>, writer: &mut RunWriter<'_>) -> Result<(), WorkError> {
        let Ok(outpoint) = entry.outpoint() else {
            self.is_sound = false;
            return Ok(());
        };
        let key = self.context.hasher.key(&outpoint);
        let in_order = self.last.is_none_or(|last| last < (key, outpoint));
        let in_partition = self.context.partition_of(key) == usize::from(self.partition);
        self.is_sound &= in_order && in_partition && entry.coin().is_ok();
        if self.in_hole {
            self.end_hole(key);
        }
        self.last = Some((key, outpoint));
        writer.push(key, entry)
    }

    /// What is missing lies between the entry before and the one that follows, whose keys it may share.
    fn end_hole(&mut self, last: u64) {
        let begin = partition_span(self.partition, self.context.partition_bits).first;
        let first = self.last.map_or(begin, |(key, _)| key);
        self.holes.push(KeySpan { first, last });
        self.in_hole = false;
    }
}
