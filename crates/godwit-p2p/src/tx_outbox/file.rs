//! The content of `outbox.dat`. Its format is in `docs/formats.md`.

use godwit_primitives::{BlockHash, TxView, money_range};

use super::{AGAIN_WHEN_FETCHED, Entry, MAX_OUTBOX, MAX_OUTBOX_BYTES, OutboxTx, TxOutbox};
use crate::saved_file::{self, SavedFileError};

/// Added to the length of a transaction in `outbox.dat`, if a peer has asked for it.
const FETCHED: u32 = 1 << 31;

/// The same, if blocks were left that may have had what it spends.
const LACKING: u32 = 1 << 30;

/// Added to the virtual bytes of a transaction in `outbox.dat`, if its signature operations decide them,
/// although its own weight comes to as many.
const DENSE: u64 = 1 << 63;

/// In place of a block's hash in `outbox.dat`.
const NO_BLOCK: BlockHash = BlockHash::from_bytes([0; 32]);

impl TxOutbox {
    /// The content of `outbox.dat` for the network with this magic.
    pub fn to_bytes(&self, magic: [u8; 4]) -> Vec<u8> {
        saved_file::seal(magic, |out| {
            out.write_u32(self.entries.len() as u32);
            for Entry { tx, block, was_fetched, may_lack_inputs, .. } in self.entries.values() {
                out.write_i64(tx.time);
                out.write_u32(tx.height);
                out.write_i64(tx.fee);
                out.write_u64(tx.vsize | if tx.is_dense() { DENSE } else { 0 });
                let (hash, height) = block.unwrap_or((NO_BLOCK, 0));
                out.put(&hash);
                out.write_u32(height);
                let fetched = if *was_fetched { FETCHED } else { 0 };
                let lacking = if *may_lack_inputs { LACKING } else { 0 };
                out.write_u32(tx.bytes.len() as u32 | fetched | lacking);
                out.write(&tx.bytes);
            }
        })
    }

    /// An outbox from the content of `outbox.dat`. What was in a block that is not in the active chain, as
    /// `is_active` says, waits again.
    ///
    /// # Errors
    ///
    /// When the content is not that of an undamaged file of this network and version.
    pub fn from_bytes(
        bytes: &[u8],
        magic: [u8; 4],
        is_active: impl Fn(&BlockHash) -> bool,
    ) -> Result<Self, SavedFileError> {
        let mut reader = saved_file::open(bytes, magic)?;
        let mut outbox = Self::default();
        for _ in 0..reader.u32()? {
            let (time, height) = (reader.i64()?, reader.u32()?);
            let (fee, size) = (reader.i64()?, reader.u64()?);
            let vsize = size & !DENSE;
            let (hash, block_height) = (reader.get::<BlockHash>()?, reader.u32()?);
            let length = reader.u32()?;
            let bytes = reader.bytes((length & !(FETCHED | LACKING)) as usize)?;
            let tx = TxView::parse(bytes)?;
            if tx.bytes().len() != bytes.len() || !money_range(fee) || vsize == 0 {
                return Err(SavedFileError::Inconsistent);
            }
            let mut tx = OutboxTx::new(tx, fee, vsize, time, height);
            if size & DENSE != 0 {
                tx.weight = vsize.saturating_mul(4);
            }
            let conflicts =
                tx.view().inputs().any(|input| outbox.spenders.contains_key(&input.prevout));
            if conflicts
                || outbox.by_txid.contains_key(&tx.txid)
                || outbox.entries.len() >= MAX_OUTBOX
                || outbox.memory + tx.memory() > MAX_OUTBOX_BYTES
            {
                return Err(SavedFileError::Inconsistent);
            }
            let is_in_block = is_active(&hash);
            outbox.insert(tx, is_in_block.then_some((hash, block_height)));
            let Some(mut entry) = outbox.entries.last_entry() else { continue };
            let entry = entry.get_mut();
            let was_left = !is_in_block && hash != NO_BLOCK;
            entry.may_lack_inputs = was_left || length & LACKING != 0;
            if length & FETCHED != 0 {
                entry.was_fetched = true;
                let [first, second, ..] = entry.tx.txid.to_bytes();
                let part = f64::from(u16::from_le_bytes([first, second])) / f64::from(u16::MAX);
                entry.due = AGAIN_WHEN_FETCHED.mul_f64(1.0 + part / 2.0);
            }
        }
        match reader.is_empty() {
            true => Ok(outbox),
            false => Err(SavedFileError::Inconsistent),
        }
    }
}
