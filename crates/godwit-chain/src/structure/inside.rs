//! Which outputs of a block its own later transactions spend: a fifth of all. They never enter the coins
//! store.

use godwit_store::utxo::{CompressedCoins, HashedOutPoint};

/// The outputs of the transactions so far, by their keys. Open addressing over the keyed hash, whose key
/// nobody knows who makes a block.
pub(super) struct OwnOutputs {
    /// Upper half of a key, number of an output plus one; 0 for an empty slot.
    slots: Vec<u64>,
    /// By output: whether it can be spent and is not.
    unspent: Vec<bool>,
}

fn tag(key: u64) -> u64 {
    key & !u64::from(u32::MAX)
}

impl OwnOutputs {
    /// For a block of so many outputs.
    pub(super) fn new(outputs: usize) -> Self {
        let slots = vec![0; (2 * outputs + 1).next_power_of_two()];
        Self { slots, unspent: Vec::with_capacity(outputs) }
    }

    fn slot_of(&self, key: u64) -> usize {
        // Not the bits of the tag.
        key as usize & (self.slots.len() - 1)
    }

    /// Adds the outputs that were created since the last call. One that cannot be spent is in no slot.
    pub(super) fn add_created(&mut self, creates: &[HashedOutPoint], outputs: &CompressedCoins) {
        for (n, created) in creates.iter().enumerate().skip(self.unspent.len()) {
            let is_spendable = outputs.has(n);
            self.unspent.push(is_spendable);
            if is_spendable {
                let mut slot = self.slot_of(created.key);
                while self.slots[slot] != 0 {
                    slot = (slot + 1) & (self.slots.len() - 1);
                }
                self.slots[slot] = tag(created.key) | (n as u64 + 1);
            }
        }
    }

    /// Spends an output of an earlier transaction: its number, if there is one and it is unspent.
    #[inline]
    pub(super) fn spend(
        &mut self,
        creates: &[HashedOutPoint],
        spent: &HashedOutPoint,
    ) -> Option<u32> {
        let mut slot = self.slot_of(spent.key);
        while self.slots[slot] != 0 {
            let n = (self.slots[slot] as u32 - 1) as usize;
            if tag(self.slots[slot]) == tag(spent.key)
                && creates[n].outpoint == spent.outpoint
                && self.unspent[n]
            {
                self.unspent[n] = false;
                return Some(n as u32);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Numbers of the outputs that can be spent and are not.
    pub(super) fn left(&self) -> Vec<u32> {
        (0..).zip(&self.unspent).filter(|(_, unspent)| **unspent).map(|(n, _)| n).collect()
    }
}
