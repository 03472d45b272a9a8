//! Real blocks with one thing changed, worked anew under an easy target: each change has its reason.

use godwit_consensus::{Reject, RejectReason, check_block};
use godwit_primitives::merkle::witness_merkle_root;
use godwit_primitives::network::{Deployment, Network, Params};
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{
    Block, BlockHeader, COIN, Coin, MAX_MONEY, MerkleRoot, OutPoint, Transaction, TxOut,
};

use crate::blocks::{RealBlock, Spent, check_in_place, connect_in_place, real_blocks};
use crate::kernel;

/// A block to change.
struct Draft {
    header: BlockHeader,
    txs: Vec<Transaction>,
    height: u32,
    params: Params,
    spent: Spent,
    /// Instead of the right merkle root.
    root: Option<MerkleRoot>,
    /// Whether the witness commitment is made to fit.
    commit: bool,
    /// Whether to look for a nonce.
    work: bool,
}

type Mutation = (&'static str, RejectReason, fn(&mut Draft));

impl Draft {
    fn new(real: &RealBlock) -> Self {
        let easy = Params::new(Network::Regtest);
        let mut header = *real.block.header();
        header.bits = easy.genesis.bits;
        Self {
            header,
            txs: real.block.view().txs().map(|tx| tx.to_owned()).collect(),
            height: real.height.unwrap(),
            params: Params { pow_limit: easy.pow_limit, ..real.params.clone() },
            spent: real.spent.clone().unwrap(),
            root: None,
            commit: true,
            work: true,
        }
    }

    /// The last output of the coinbase that commits to witnesses.
    fn commitment(&mut self) -> Option<&mut TxOut> {
        let header = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
        let outputs = self.txs.first_mut()?.outputs.iter_mut().rev();
        let mut commits = outputs
            .filter(|out| out.script_pubkey.len() >= 38 && out.script_pubkey.starts_with(&header));
        commits.next()
    }

    fn recommit(&mut self) {
        let Some(reserved) = self.txs.first().and_then(|tx| tx.inputs[0].witness.first()) else {
            return;
        };
        let others = self.txs[1..].iter().map(|tx| tx.wtxid().to_bytes());
        let hash = sha256d(&[&witness_merkle_root(others)[..], reserved].concat());
        if let Some(output) = self.commitment() {
            output.script_pubkey[6..38].copy_from_slice(&hash);
        }
    }

    fn finish(mut self) -> (Vec<u8>, Self) {
        if self.commit {
            self.recommit();
        }
        self.header.merkle_root = self.root.unwrap_or_else(|| kernel::root_of(&self.txs));
        self.header.nonce = 0;
        if self.work {
            kernel::mine(&mut self.header, &self.params);
        }
        (kernel::block_bytes(&self.header, &self.txs), self)
    }

    /// The fees, or the first rule broken; Core's `CheckBlock` has to agree on the class.
    fn judge(self, what: &str) -> Result<i64, Reject> {
        let (bytes, mut draft) = self.finish();
        let block = Block::from_bytes(&bytes).unwrap();
        let alone = check_block(block.view(), &draft.params, |_| unreachable!("no signet block"));
        let class = alone.err().map(|reject| reject.class);
        assert_eq!(class, kernel::check_on_regtest(&bytes), "{what}");
        alone?;
        check_in_place(&block, draft.height, &draft.params)?;
        connect_in_place(&block, draft.height, &draft.params, &mut draft.spent)
    }

    /// Makes room for what a mutation adds. The block then ends early, which no rule before the
    /// coinbase's amount sees.
    fn shorten(&mut self) {
        while kernel::block_bytes(&self.header, &self.txs).len() > 900_000 && self.txs.len() > 3 {
            self.txs.truncate(self.txs.len() * 7 / 8);
        }
    }

    /// The coin that the first input of transaction `n` spends.
    fn coin(&mut self, n: usize) -> &mut Coin {
        let prevout = self.txs[n].inputs[0].prevout;
        self.spent.coins.get_mut(&prevout).expect("not created in the block itself")
    }
}

/// What CheckBlock rejects.
const ALONE: &[Mutation] = &[
    ("no work", RejectReason::HighHash, |d| {
        d.header.bits = 0x0300_0001;
        d.work = false;
    }),
    ("another root", RejectReason::BadTxnMrklRoot, |d| d.root = Some(MerkleRoot::ZERO)),
    ("another transaction", RejectReason::BadTxnMrklRoot, |d| {
        d.root = Some(kernel::root_of(&d.txs));
        d.txs[1].version ^= 1;
    }),
    ("the last transaction again", RejectReason::BadTxnsDuplicate, |d| {
        let odd = (d.txs.len() - 1) | 1;
        d.txs.truncate(odd);
        d.root = Some(kernel::root_of(&d.txs));
        d.txs.push(d.txs[odd - 1].clone());
        d.commit = false;
    }),
    ("no transactions", RejectReason::BadBlkLength, |d| d.txs.clear()),
    ("too many bytes", RejectReason::BadBlkLength, |d| {
        d.txs[1].outputs[0].script_pubkey = vec![0; 1_000_000];
    }),
    ("no coinbase", RejectReason::BadCbMissing, |d| {
        d.txs.remove(0);
    }),
    ("two coinbases", RejectReason::BadCbMultiple, |d| {
        let mut second = d.txs[0].clone();
        second.lock_time ^= 1;
        d.txs[1] = second;
    }),
    ("neither inputs nor outputs", RejectReason::VinEmpty, |d| {
        d.txs[1].inputs.clear();
        d.txs[1].outputs.clear();
    }),
    ("no outputs", RejectReason::VoutEmpty, |d| d.txs[1].outputs.clear()),
    ("a negative output", RejectReason::VoutNegative, |d| d.txs[1].outputs[0].value = -1),
    ("a huge output", RejectReason::VoutTooLarge, |d| d.txs[1].outputs[0].value = MAX_MONEY + 1),
    ("huge outputs together", RejectReason::TxoutTotalTooLarge, |d| {
        d.shorten();
        let rich = TxOut { value: MAX_MONEY, script_pubkey: vec![] };
        d.txs[1].outputs = vec![rich.clone(), rich];
    }),
    ("an input twice", RejectReason::InputsDuplicate, |d| {
        d.shorten();
        let again = d.txs[1].inputs[0].clone();
        d.txs[1].inputs.push(again);
    }),
    ("a long coinbase script", RejectReason::BadCbLength, |d| {
        d.shorten();
        d.txs[0].inputs[0].script_sig.resize(101, 0);
    }),
    ("a short coinbase script", RejectReason::BadCbLength, |d| {
        d.txs[0].inputs[0].script_sig.truncate(1);
    }),
    ("a null outpoint", RejectReason::PrevoutNull, |d| {
        d.shorten();
        let mut null = d.txs[1].inputs[0].clone();
        null.prevout = OutPoint::NULL;
        d.txs[1].inputs.push(null);
    }),
    ("too many signature operations", RejectReason::BadBlkSigops, |d| {
        d.shorten();
        d.txs[1].outputs[0].script_pubkey = vec![0xae; 1_001];
    }),
];

/// What ContextualCheckBlock rejects at any height.
const IN_PLACE: &[Mutation] = &[("a lock time", RejectReason::TxnsNonfinal, |d| {
    d.txs[1].lock_time = u32::MAX;
    d.txs[1].inputs[0].sequence = 0;
})];

/// Under BIP34.
const BIP34: &[Mutation] = &[("another height", RejectReason::BadCbHeight, |d| d.height += 1)];

/// Under segwit, for a block that has witnesses.
const SEGWIT: &[Mutation] = &[
    ("no reserved value", RejectReason::BadWitnessNonceSize, |d| {
        d.txs[0].inputs[0].witness.clear();
    }),
    ("two reserved values", RejectReason::BadWitnessNonceSize, |d| {
        d.txs[0].inputs[0].witness.push(vec![0; 32]);
    }),
    ("another reserved value", RejectReason::BadWitnessMerkleMatch, |d| {
        d.txs[0].inputs[0].witness[0][31] ^= 1;
        d.commit = false;
    }),
    ("another witness", RejectReason::BadWitnessMerkleMatch, |d| {
        let tx = d.txs[1..].iter_mut().find(|tx| tx.has_witness()).unwrap();
        let input = tx.inputs.iter_mut().find(|input| !input.witness.is_empty()).unwrap();
        input.witness.push(vec![1]);
        d.commit = false;
    }),
    ("no commitment", RejectReason::UnexpectedWitness, |d| {
        while let Some(output) = d.commitment() {
            output.script_pubkey[5] ^= 1;
        }
    }),
    ("too much weight", RejectReason::BadBlkWeight, |d| {
        d.txs[1].inputs[0].witness.push(vec![0; 4_000_000]);
    }),
];

/// What the coins reject at any height.
const OVER_COINS: &[Mutation] = &[
    ("a missing coin", RejectReason::InputsMissingOrSpent, |d| {
        let prevout = d.txs[1].inputs[0].prevout;
        d.spent.coins.remove(&prevout);
    }),
    ("a coin spent twice", RejectReason::InputsMissingOrSpent, |d| {
        let last = d.txs.len() - 1;
        d.txs[last].inputs[0].prevout = d.txs[1].inputs[0].prevout;
    }),
    ("a young coinbase coin", RejectReason::PrematureSpendOfCoinbase, |d| {
        let height = d.height - 99;
        let coin = d.coin(1);
        coin.coinbase = true;
        coin.height = height;
    }),
    ("a huge coin", RejectReason::InputValuesOutOfRange, |d| d.coin(1).value = MAX_MONEY + 1),
    ("a negative coin", RejectReason::InputValuesOutOfRange, |d| d.coin(1).value = -1),
    ("more out than in", RejectReason::InBelowOut, |d| {
        // The first input may not be the only one.
        d.txs[1].outputs[0].value = 20_000_000 * COIN;
    }),
    ("a coinbase that claims more", RejectReason::BadCbAmount, |d| {
        d.txs[0].outputs[0].value += 1_000 * COIN;
    }),
    ("hidden signature operations", RejectReason::BadBlkSigops, |d| {
        d.shorten();
        let p2sh = [&[0xa9, 0x14][..], &[7; 20], &[0x87]].concat();
        d.coin(1).script_pubkey = p2sh.into_iter().collect();
        let mut script_sig = vec![0x4d, 0xe9, 0x03];
        script_sig.extend([0xae; 1_001]);
        d.txs[1].inputs[0].script_sig = script_sig;
    }),
];

/// Under BIP68.
const BIP68: &[Mutation] = &[
    ("a young coin by height", RejectReason::TxnsNonfinal, |d| {
        d.txs[1].version = 2;
        d.txs[1].inputs[0].sequence = 11;
        d.coin(1).height = d.height - 10;
    }),
    ("a young coin by time", RejectReason::TxnsNonfinal, |d| {
        d.txs[1].version = 2;
        d.txs[1].inputs[0].sequence = 1 << 22 | 2;
        d.spent.times.insert(d.height - 11, d.header.time - 1_023);
        d.coin(1).height = d.height - 10;
    }),
];

/// Where BIP34 does not imply BIP30.
const BIP30: &[Mutation] = &[("an output that exists", RejectReason::Bip30, |d| {
    let outpoint = OutPoint { txid: d.txs[1].txid(), vout: 0 };
    let coin = d.coin(1).clone();
    d.spent.coins.insert(outpoint, coin);
})];

fn try_all(real: &RealBlock, mutations: &[Mutation]) -> usize {
    for (what, reason, mutate) in mutations {
        let what = format!("{}: {what}", real.name);
        let mut draft = Draft::new(real);
        mutate(&mut draft);
        let rejected = draft.judge(&what).expect_err(&what);
        assert_eq!(rejected, Reject::new(*reason), "{what}");
    }
    mutations.len()
}

#[test]
fn single_changes_have_their_reasons() {
    let Some(blocks) = real_blocks() else { return };
    let (mut changed, mut tried) = (0, 0);
    for real in &blocks {
        // Small blocks and those whose coins' heights are unknown have no room for every change.
        let suits = real.block.view().tx_count() > 3 && real.params.network == Network::Main;
        let (true, Some(height), Some(_)) = (suits, real.height, &real.spent) else { continue };
        let unchanged = Draft::new(real).judge(&real.name);
        assert!(unchanged.is_ok(), "{}: {unchanged:?}", real.name);
        changed += 1;
        tried += try_all(real, ALONE) + try_all(real, IN_PLACE) + try_all(real, OVER_COINS);
        if real.params.is_active(Deployment::HeightInCoinbase, height) {
            tried += try_all(real, BIP34);
        } else {
            tried += try_all(real, BIP30);
        }
        if real.params.is_active(Deployment::Csv, height) {
            tried += try_all(real, BIP68);
        }
        if real.block.view().has_witness() {
            tried += try_all(real, SEGWIT);
        }
    }
    println!("{changed} blocks, {tried} changes");
    assert_eq!((changed, tried), (12, 362));
}
