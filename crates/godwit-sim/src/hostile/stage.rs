//! The chain that a suite's cases are built on, and the coins they spend.

use bitcoin::consensus::serialize;
use bitcoin::{Amount, Block, OutPoint, ScriptBuf, Sequence, Transaction, TxOut, absolute};

use super::{ChainOptions, HostileCase, Suite, Verdict};
use crate::keys::KeyRing;
use crate::lock::{self, Coin, KEYS_PER_COIN, Lock, Locking};
use crate::miner::{self, Tip};
use crate::rng::Rng;
use crate::spend;

/// Blocks below the first that spends a coinbase.
const MATURING: u32 = 110;
const START_TIME: u32 = 1_700_000_000;
const BARE_COINS: usize = 600;
/// Value of every coin of the base.
pub(super) const COIN_VALUE: u64 = 100_000;
/// Any number will do; this one is part of every hostile block.
const SEED: u64 = 300;

/// A chain under construction. Cloning a stage clones the chain.
#[derive(Clone)]
pub(super) struct Stage {
    name: &'static str,
    options: ChainOptions,
    base: Vec<Vec<u8>>,
    cases: Vec<HostileCase>,
    /// The active chain from genesis on.
    chain: Vec<Tip>,
    /// Unspent anyone-can-spend coins of the base.
    bare: Vec<Coin>,
    /// Coinbase outputs by height, which anyone can spend.
    coinbases: Vec<Coin>,
    next_key: u64,
    next_extra: u64,
}

impl Stage {
    /// A chain of matured coinbases and a block that splits one into many coins.
    pub(super) fn new() -> Stage {
        let mut stage = Stage {
            name: "base",
            options: ChainOptions::default(),
            base: Vec::new(),
            cases: Vec::new(),
            chain: vec![Tip { time: START_TIME, ..miner::genesis_tip() }],
            bare: Vec::new(),
            coinbases: Vec::new(),
            next_key: 0,
            next_extra: 0,
        };
        for _ in 0..MATURING {
            let block = stage.sealed(vec![]);
            stage.extend_base(&block);
        }
        let coin = stage.coinbase_coin(1);
        let locks = vec![Lock::Bare; BARE_COINS];
        stage.bare = stage.fund(&coin, &locks);
        stage
    }

    /// Makes the blocks that follow differ from those of another copy of the chain.
    pub(super) fn skip_extra_nonces(&mut self) {
        self.next_extra += 1 << 32;
    }

    /// A copy of this chain for the suite of that name.
    pub(super) fn named(&self, name: &'static str) -> Stage {
        Stage { name, ..self.clone() }
    }

    /// The same chain on a node with those options.
    pub(super) fn with_options(self, options: ChainOptions) -> Stage {
        Stage { options, ..self }
    }

    pub(super) fn options(&self) -> &ChainOptions {
        &self.options
    }

    pub(super) fn into_suite(self) -> Suite {
        Suite { name: self.name, options: self.options, base: self.base, cases: self.cases }
    }

    /// The keys of all coins.
    pub(super) fn keys() -> KeyRing {
        KeyRing::new(SEED, 0)
    }

    pub(super) fn tip(&self) -> Tip {
        self.chain[self.chain.len() - 1]
    }

    /// Height of the block to be made.
    pub(super) fn height(&self) -> u32 {
        self.tip().height + 1
    }

    pub(super) fn at(&self, height: u32) -> Tip {
        self.chain[height as usize]
    }

    /// Median time past of the tip: the lower bound of the next block's time (BIP113).
    pub(super) fn median_time(&self) -> u32 {
        self.median_time_at(self.tip().height)
    }

    /// Median of the times of the eleven blocks up to `height`.
    pub(super) fn median_time_at(&self, height: u32) -> u32 {
        let last = height as usize;
        let mut times: Vec<u32> =
            self.chain[last.saturating_sub(10)..=last].iter().map(|tip| tip.time).collect();
        if last <= 10 {
            // The stage starts its clock late; the real genesis block is older.
            times[0] = miner::genesis_tip().time;
        }
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// An anyone-can-spend coin that no other case uses.
    pub(super) fn bare(&mut self) -> Coin {
        self.bare.pop().expect("the base makes more coins than the cases use")
    }

    /// The coinbase output of the block at `height`.
    pub(super) fn coinbase_coin(&self, height: u32) -> Coin {
        let found = self.coinbases.iter().find(|coin| coin.height == height);
        found.cloned().expect("the stage mined that block")
    }

    /// A transaction that moves anyone-can-spend coins to one such output, without a fee.
    pub(super) fn move_coins(&mut self, coins: &[Coin]) -> Transaction {
        let value = coins.iter().map(|coin| coin.value).sum();
        let output = self.output(value, Lock::Bare);
        unsigned(coins, vec![output])
    }

    /// A transaction that moves one fresh coin.
    pub(super) fn any_tx(&mut self) -> Transaction {
        let coin = self.bare();
        self.move_coins(&[coin])
    }

    /// A signed P2WPKH spend: the simplest transaction with a witness.
    pub(super) fn any_witness_tx(&mut self) -> Transaction {
        let coin = self.funded(Lock::P2wpkh);
        let output = self.output(coin.value, Lock::Bare);
        self.signed(&[coin], vec![output])
    }

    pub(super) fn signed(&self, coins: &[Coin], outputs: Vec<TxOut>) -> Transaction {
        let mut tx = spend::unsigned(coins, outputs);
        spend::sign(&mut tx, coins, &Stage::keys());
        tx
    }

    /// A new output of that type, whose key is not used again.
    pub(super) fn output(&mut self, value: u64, lock: Lock) -> TxOut {
        let key = self.new_key();
        let script_pubkey = lock::script_pubkey(&Stage::keys(), lock, key);
        TxOut { value: Amount::from_sat(value), script_pubkey }
    }

    pub(super) fn new_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key += KEYS_PER_COIN;
        key
    }

    /// Splits `coin` into coins of those types in a block of its own, which joins the base.
    pub(super) fn fund(&mut self, coin: &Coin, locks: &[Lock]) -> Vec<Coin> {
        let keys = Stage::keys();
        let owned: Vec<(Lock, u64, Locking)> = locks
            .iter()
            .map(|lock| {
                let key = self.new_key();
                (*lock, key, lock::locking(&keys, *lock, key))
            })
            .collect();
        let value = COIN_VALUE.min(coin.value / locks.len() as u64);
        let outputs = owned
            .iter()
            .map(|(_, _, locking)| TxOut {
                value: Amount::from_sat(value),
                script_pubkey: locking.script_pubkey.clone(),
            })
            .collect();
        let tx = unsigned(std::slice::from_ref(coin), outputs);
        let txid = tx.compute_txid();
        let height = self.height();
        let block = self.sealed(vec![tx]);
        self.extend(&block);
        (0u32..)
            .zip(owned)
            .map(|(vout, (lock, key, Locking { script_pubkey, revealed }))| {
                let outpoint = OutPoint { txid, vout };
                Coin { outpoint, value, height, lock, key, script_pubkey, revealed }
            })
            .collect()
    }

    /// One coin of that type, in a block that is part of the case or base.
    pub(super) fn funded(&mut self, lock: Lock) -> Coin {
        let coin = self.bare();
        self.fund(&coin, &[lock]).remove(0)
    }

    /// An unmined block on the tip: a coinbase that claims the subsidy, then `txs`.
    pub(super) fn draft(&mut self, txs: Vec<Transaction>) -> Block {
        let tip = self.tip();
        self.draft_on(&tip, txs)
    }

    /// The same on any parent.
    pub(super) fn draft_on(&mut self, parent: &Tip, txs: Vec<Transaction>) -> Block {
        let height = parent.height + 1;
        let key = self.new_key();
        let script = lock::script_pubkey(&Stage::keys(), Lock::Bare, key);
        self.next_extra += 1;
        let coinbase = miner::coinbase(height, self.next_extra, miner::subsidy(height), script);
        miner::draft(parent, std::iter::once(coinbase).chain(txs).collect())
    }

    /// A valid block on the tip, if the transactions are.
    pub(super) fn sealed(&mut self, txs: Vec<Transaction>) -> Block {
        let mut block = self.draft(txs);
        miner::seal(&mut block);
        block
    }

    /// Begins a case.
    pub(super) fn case(&mut self, name: impl Into<String>) {
        let (name, blocks, expect) = (name.into(), Vec::new(), Vec::new());
        self.cases.push(HostileCase { name, blocks, expect });
    }

    /// Adds a block to the case. When it is accepted it becomes the tip; it must be on the tip.
    pub(super) fn submit(&mut self, block: &Block, expect: Verdict) {
        self.submit_bytes(serialize(block), expect);
        if expect.is_none() {
            self.adopt(block);
        }
    }

    /// Adds bytes to the case that do not change the tip.
    pub(super) fn submit_bytes(&mut self, bytes: Vec<u8>, expect: Verdict) {
        let case = self.cases.last_mut().expect("a case was begun");
        case.blocks.push(bytes);
        case.expect.push(expect);
    }

    /// A case of one valid block.
    pub(super) fn accept(&mut self, name: &str, block: &Block) {
        self.case(name);
        self.submit(block, None);
    }

    /// A case of one invalid block.
    pub(super) fn reject(&mut self, name: &str, block: &Block, reason: &'static str) {
        self.case(name);
        self.submit(block, Some(reason));
    }

    /// A case of one block, with either verdict.
    pub(super) fn judge(&mut self, name: &str, block: &Block, expect: Verdict) {
        self.case(name);
        self.submit(block, expect);
    }

    /// Makes `branch`, which continues the block at `fork`, the active chain.
    pub(super) fn reorganise(&mut self, fork: u32, branch: &[Block]) {
        self.chain.truncate(fork as usize + 1);
        self.coinbases.retain(|coin| coin.height <= fork);
        branch.iter().for_each(|block| self.adopt(block));
    }

    /// Valid empty blocks, as part of the case or, before the first, of the base.
    pub(super) fn mine_empty(&mut self, blocks: u32) {
        for _ in 0..blocks {
            let block = self.sealed(vec![]);
            self.extend(&block);
        }
    }

    /// Adds a valid block to the case, or to the base when there is no case yet.
    pub(super) fn extend(&mut self, block: &Block) {
        if self.cases.is_empty() {
            self.extend_base(block);
        } else {
            self.submit(block, None);
        }
    }

    fn extend_base(&mut self, block: &Block) {
        self.base.push(serialize(block));
        self.adopt(block);
    }

    fn adopt(&mut self, block: &Block) {
        assert_eq!(block.header.prev_blockhash, self.tip().hash, "not on the tip");
        let height = self.height();
        self.chain.push(self.tip().extended_by(block));
        let coinbase = &block.txdata[0];
        self.coinbases.push(Coin {
            outpoint: OutPoint { txid: coinbase.compute_txid(), vout: 0 },
            value: coinbase.output[0].value.to_sat(),
            height,
            lock: Lock::Bare,
            key: 0,
            script_pubkey: coinbase.output[0].script_pubkey.clone(),
            revealed: ScriptBuf::new(),
        });
    }
}

/// A transaction whose inputs need no signature, with final sequence numbers.
pub(super) fn unsigned(coins: &[Coin], outputs: Vec<TxOut>) -> Transaction {
    let mut tx = spend::unsigned(coins, outputs);
    tx.lock_time = absolute::LockTime::ZERO;
    tx.input.iter_mut().for_each(|input| input.sequence = Sequence::MAX);
    tx
}

/// An output that carries `length` bytes of script after an OP_RETURN and can never be spent.
pub(super) fn padding_output(length: usize) -> TxOut {
    let mut script = vec![0x6a; length.max(1)];
    Rng::new(length as u64).fill(&mut script[1..]);
    // One push-free opcode over and over: padding must not look like signature operations.
    script[1..].iter_mut().for_each(|byte| *byte = 0x61);
    TxOut { value: Amount::ZERO, script_pubkey: ScriptBuf::from_bytes(script) }
}
