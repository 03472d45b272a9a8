//! The record of one block.

use godwit_primitives::muhash::Quotient;
use godwit_primitives::{Amount, BlockHash};
use godwit_stream::{DataStream, DecodeError, SpanReader};

/// Bytes of a record.
pub(super) const RECORD_SIZE: usize = 32 + Quotient::SIZE + 4 * 8 + 7 * 8;

/// The coins after a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetTotals {
    /// Unspent outputs.
    pub txouts: u64,
    /// Core's size that does not depend on a database.
    pub bogosize: u64,
    /// Their sum, in satoshi.
    pub amount: Amount,
    /// What was created up to then and never was a coin, in satoshi.
    pub unspendable: Amount,
}

/// What a block moved, in satoshi. Sums over a block wrap at 64 bits, as in Core's answers; no chain has so
/// much money that they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockAmounts {
    /// The coins that it spent.
    pub prevout_spent: Amount,
    /// The coins of its coinbase.
    pub coinbase: Amount,
    /// The coins of its other transactions.
    pub new_outputs_ex_coinbase: Amount,
    pub unspendables: Unspendables,
}

/// What a block moved to where nobody can spend it, in satoshi.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unspendables {
    /// The subsidy of the first block, which never was a coin.
    pub genesis_block: Amount,
    /// The subsidy of a block whose coinbase was repeated before it was spent.
    pub bip30: Amount,
    /// Outputs with a script that cannot succeed.
    pub scripts: Amount,
    /// Subsidy and fees that the miner left.
    pub unclaimed_rewards: Amount,
}

impl Unspendables {
    pub fn total(&self) -> Amount {
        let Self { genesis_block, bip30, scripts, unclaimed_rewards } = *self;
        genesis_block.wrapping_add(bip30).wrapping_add(scripts).wrapping_add(unclaimed_rewards)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) block: BlockHash,
    pub(super) set: Quotient,
    pub(super) totals: SetTotals,
    pub(super) amounts: BlockAmounts,
}

impl Record {
    pub(super) fn encode(&self) -> DataStream {
        let SetTotals { txouts, bogosize, amount, unspendable } = self.totals;
        let BlockAmounts { prevout_spent, coinbase, new_outputs_ex_coinbase, unspendables } =
            self.amounts;
        let Unspendables { genesis_block, bip30, scripts, unclaimed_rewards } = unspendables;
        let mut out = DataStream::new();
        out.put(&self.block);
        out.write(&self.set.0);
        out.put(&txouts);
        out.put(&bogosize);
        for amount in [
            amount,
            unspendable,
            prevout_spent,
            coinbase,
            new_outputs_ex_coinbase,
            genesis_block,
            bip30,
            scripts,
            unclaimed_rewards,
        ] {
            out.write_i64(amount);
        }
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = SpanReader::new(bytes);
        Ok(Self {
            block: reader.get()?,
            set: Quotient(reader.array()?),
            totals: SetTotals {
                txouts: reader.u64()?,
                bogosize: reader.u64()?,
                amount: reader.i64()?,
                unspendable: reader.i64()?,
            },
            amounts: BlockAmounts {
                prevout_spent: reader.i64()?,
                coinbase: reader.i64()?,
                new_outputs_ex_coinbase: reader.i64()?,
                unspendables: Unspendables {
                    genesis_block: reader.i64()?,
                    bip30: reader.i64()?,
                    scripts: reader.i64()?,
                    unclaimed_rewards: reader.i64()?,
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut set = [0; Quotient::SIZE];
        set.iter_mut().zip(1..=u8::MAX).for_each(|(byte, n)| *byte = n);
        let record = Record {
            block: BlockHash::from_bytes([3; 32]),
            set: Quotient(set),
            totals: SetTotals { txouts: 1, bogosize: u64::MAX, amount: 2, unspendable: 3 },
            amounts: BlockAmounts {
                prevout_spent: i64::MIN,
                coinbase: 4,
                new_outputs_ex_coinbase: 5,
                unspendables: Unspendables {
                    genesis_block: 6,
                    bip30: 7,
                    scripts: 8,
                    unclaimed_rewards: i64::MAX,
                },
            },
        };
        let bytes = record.encode();
        assert_eq!(bytes.as_slice().len(), RECORD_SIZE);
        assert_eq!(Record::decode(bytes.as_slice()), Ok(record));
        assert!(Record::decode(&bytes.as_slice()[1..]).is_err());
    }
}
