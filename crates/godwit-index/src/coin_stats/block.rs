//! What one block does to the set of coins (Core `CoinStatsIndex::CustomAppend`).

use godwit_chain::{insert_coin, remove_coin};
use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::{Amount, BlockView, Coin, OutPoint, TxView, coin};
use godwit_store::BlockUndo;

use super::record::{BlockAmounts, SetTotals};

/// What the amounts depend on beside the block itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockContext {
    pub(super) height: u32,
    pub(super) subsidy: Amount,
    /// Its coinbase was repeated before it was spent: its coins count as those of the later one.
    pub(super) is_overwritten: bool,
}

/// The coins after a block, and what has changed.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) set: MuHash3072,
    /// Coins more than before.
    pub(super) txouts: i64,
    pub(super) bogosize: i64,
    pub(super) amounts: BlockAmounts,
}

impl Moved {
    /// `set` are the coins before the block, `spent` those that it spent.
    pub(super) fn by(
        context: BlockContext,
        block: BlockView<'_>,
        spent: &BlockUndo,
        set: MuHash3072,
    ) -> Self {
        let mut moved = Self { set, txouts: 0, bogosize: 0, amounts: BlockAmounts::default() };
        // The outputs of the first block never became coins.
        if context.height == 0 {
            moved.amounts.unspendables.genesis_block = context.subsidy;
            return moved;
        }
        if context.is_overwritten {
            moved.amounts.unspendables.bip30 = context.subsidy;
        }
        for (number, (tx, txid)) in block.txs().zip(block.txids()).enumerate() {
            let is_coinbase = number == 0;
            if is_coinbase && context.is_overwritten {
                continue;
            }
            for (vout, output) in (0..).zip(tx.outputs()) {
                let (value, script) = (output.value, output.script_pubkey);
                if coin::is_unspendable(script) {
                    add(&mut moved.amounts.unspendables.scripts, value);
                    continue;
                }
                let (height, script_pubkey) = (context.height, script.into());
                let coin = Coin { value, script_pubkey, height, coinbase: is_coinbase };
                moved.create(&OutPoint { txid: *txid, vout }, &coin);
            }
        }
        for (tx, coins) in block.txs().skip(1).zip(spent.transactions()) {
            moved.spend(tx, coins);
        }
        moved.amounts.unspendables.unclaimed_rewards = moved.left_over(context.subsidy);
        moved
    }

    /// The totals after the block, by those before it.
    pub(super) fn totals(&self, before: SetTotals) -> SetTotals {
        let amounts = &self.amounts;
        let created = amounts.coinbase.wrapping_add(amounts.new_outputs_ex_coinbase);
        SetTotals {
            txouts: before.txouts.wrapping_add_signed(self.txouts),
            bogosize: before.bogosize.wrapping_add_signed(self.bogosize),
            amount: before.amount.wrapping_add(created).wrapping_sub(amounts.prevout_spent),
            unspendable: before.unspendable.wrapping_add(amounts.unspendables.total()),
        }
    }

    fn create(&mut self, outpoint: &OutPoint, coin: &Coin) {
        let amounts = &mut self.amounts;
        let sum = match coin.coinbase {
            true => &mut amounts.coinbase,
            false => &mut amounts.new_outputs_ex_coinbase,
        };
        add(sum, coin.value);
        insert_coin(&mut self.set, outpoint, coin);
        self.txouts += 1;
        self.bogosize += coin::bogo_size(coin.script_pubkey.len()) as i64;
    }

    fn spend(&mut self, tx: TxView<'_>, coins: &[Coin]) {
        for (input, coin) in tx.inputs().zip(coins) {
            add(&mut self.amounts.prevout_spent, coin.value);
            remove_coin(&mut self.set, &input.prevout, coin);
            self.txouts -= 1;
            self.bogosize -= coin::bogo_size(coin.script_pubkey.len()) as i64;
        }
    }

    /// Of what the miner could have taken, what the block gave to nobody. Not beyond the subsidy and the
    /// fees, so it is right although the sums may wrap.
    fn left_over(&self, subsidy: Amount) -> Amount {
        let BlockAmounts { prevout_spent, coinbase, new_outputs_ex_coinbase, unspendables } =
            self.amounts;
        let given = [coinbase, new_outputs_ex_coinbase, unspendables.total()];
        given.into_iter().fold(prevout_spent.wrapping_add(subsidy), Amount::wrapping_sub)
    }
}

fn add(sum: &mut Amount, value: Amount) {
    *sum = sum.wrapping_add(value);
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{Block, Network, Params};

    use super::super::record::Unspendables;
    use super::*;

    fn of_genesis(context: BlockContext) -> Moved {
        let genesis = Params::new(Network::Main).genesis_block();
        let block = Block::from_bytes(&genesis).expect("it is compiled in");
        Moved::by(context, block.view(), &BlockUndo::default(), MuHash3072::new())
    }

    #[test]
    fn a_coinbase_that_is_not_one_of_coins_leaves_the_set_as_it_is() {
        const SUBSIDY: Amount = 50 * 100_000_000;
        let of = |height, is_overwritten| {
            of_genesis(BlockContext { height, subsidy: SUBSIDY, is_overwritten })
        };
        let genesis = Unspendables { genesis_block: SUBSIDY, ..Unspendables::default() };
        let bip30 = Unspendables { bip30: SUBSIDY, ..Unspendables::default() };
        for (moved, unspendables) in [(of(0, false), genesis), (of(91_722, true), bip30)] {
            assert_eq!((moved.txouts, moved.bogosize), (0, 0));
            let nothing = BlockAmounts::default();
            assert_eq!(moved.amounts, BlockAmounts { unspendables, ..nothing });
            assert_eq!(moved.set.finalize(), MuHash3072::new().finalize());
        }
        let usual = of(91_842, false);
        assert_eq!((usual.txouts, usual.bogosize), (1, 50 + 67));
        assert_eq!(usual.amounts, BlockAmounts { coinbase: SUBSIDY, ..BlockAmounts::default() });
        // It takes less than it might.
        let more =
            of_genesis(BlockContext { height: 5, subsidy: SUBSIDY + 3, is_overwritten: false });
        assert_eq!(more.amounts.unspendables.unclaimed_rewards, 3);
    }
}
