//! The chains that are synced: generated, stamped up to now. One is short and has every script type,
//! the other one is long.

use std::path::Path;
use std::sync::LazyLock;
use std::time::SystemTime;

use godwit_primitives::muhash::MuHash3072;
use godwit_primitives::{BlockHash, OutPoint, Txid};
use godwit_sim::chain::{generate, generated};
use godwit_sim::lock::Lock;
use godwit_sim::miner::COINBASE_MATURITY;
use godwit_sim::plan::{ChainPlan, FanOut, Stretch};
use godwit_sim::reference::{Key, ReferenceCoin, ReferenceUtxo};
use godwit_sim::summary::Summary;

use super::block;
use crate::blocks::{header, write_dat};

/// The chain and its coins by the generator's own account.
pub(super) struct RecentChain {
    /// From height 1 on.
    pub(super) blocks: Vec<Vec<u8>>,
    pub(super) summary: Summary,
    /// MuHash of the coins, as bitcoind prints it.
    pub(super) muhash: String,
    /// A coin that a taproot key locks, and its satoshi.
    pub(super) taproot: (OutPoint, i64),
    /// Two coins that anyone can spend.
    pub(super) bare: [(OutPoint, i64); 2],
}

/// The plan's last full blocks sweep all coins that need no key; tests need a few.
const UNSPENT: FanOut = FanOut { blocks: 1, locks: &[(1, Lock::P2trKey)], bare: 1, giant: 0 };

/// Made once for all tests. Its last block is stamped with the time of that.
pub(super) fn recent() -> &'static RecentChain {
    static CHAIN: LazyLock<RecentChain> = LazyLock::new(make);
    &CHAIN
}

fn make() -> RecentChain {
    let mut plan = ChainPlan::small(1);
    plan.stretches.push(Stretch::FanOut(UNSPENT));
    let plan = plan.ending_at(now()).expect("later than genesis");
    let (mut blocks, mut utxo) = (Vec::new(), ReferenceUtxo::new());
    let summary = generate(&plan, |block| {
        utxo.connect(block.bytes, block.height).expect("the chain is consistent");
        blocks.push(block.bytes.to_vec());
        Ok(())
    });
    let summary = summary.expect("the plan is sound");
    let muhash = muhash(&utxo);
    let is_taproot = |script: &[u8]| script.len() == 34 && script.starts_with(&[0x51, 32]);
    // Eight bytes, OP_DROP, OP_TRUE.
    let is_bare = |script: &[u8]| script.len() == 11 && script.ends_with(&[0x75, 0x51]);
    let taproot = coins(&utxo, &summary, is_taproot)[0];
    let bare = coins(&utxo, &summary, is_bare);
    RecentChain { blocks, summary, muhash, taproot, bare: [bare[0], bare[1]] }
}

/// The spendable coins with a script, in the same order for the same chain.
fn coins(
    utxo: &ReferenceUtxo,
    summary: &Summary,
    has_script: impl Fn(&[u8]) -> bool,
) -> Vec<(OutPoint, i64)> {
    let spendable =
        |coin: &ReferenceCoin| !coin.coinbase || coin.height + COINBASE_MATURITY <= summary.height;
    let mut found: Vec<_> = utxo
        .iter()
        .filter(|(_, coin)| spendable(coin) && has_script(&coin.script_pubkey))
        .map(|((txid, vout), coin)| {
            let value = i64::try_from(coin.value).expect("an amount fits");
            (OutPoint { txid: Txid::from_bytes(*txid), vout: *vout }, value)
        })
        .collect();
    found.sort();
    found
}

/// The coins in Bitcoin Core's form (kernel/coinstats.cpp, `TxOutSer`), hashed as a set.
fn muhash(utxo: &ReferenceUtxo) -> String {
    let mut hash = MuHash3072::new();
    let mut bytes = Vec::new();
    for (key, coin) in utxo.iter() {
        bytes.clear();
        serialise(key, coin, &mut bytes);
        hash.insert(&bytes);
    }
    BlockHash::from_bytes(hash.finalize()).to_string()
}

fn serialise((txid, vout): &Key, coin: &ReferenceCoin, out: &mut Vec<u8>) {
    out.extend(txid);
    out.extend(vout.to_le_bytes());
    out.extend((coin.height * 2 + u32::from(coin.coinbase)).to_le_bytes());
    out.extend(coin.value.to_le_bytes());
    let length = u8::try_from(coin.script_pubkey.len()).expect("no script of the plan is long");
    assert!(length < 0xfd, "its compact size is one byte");
    out.push(length);
    out.extend(&coin.script_pubkey);
}

impl RecentChain {
    pub(super) fn height(&self) -> u64 {
        u64::from(self.summary.height)
    }

    pub(super) fn tip(&self) -> &[u8] {
        self.blocks.last().expect("a chain has blocks")
    }

    /// A mined block on the tip with a transaction whose only fault is its Schnorr signature.
    pub(super) fn invalid_taproot_spend(&self) -> Vec<u8> {
        let (outpoint, satoshi) = self.taproot;
        let signature = vec![7; 64];
        let spend = block::spend(outpoint, satoshi, vec![signature]);
        block::on(self.tip(), self.summary.height + 1, 1, &[spend])
    }

    /// A mined block on the tip with a transaction that is valid.
    pub(super) fn honest_successor(&self) -> Vec<u8> {
        let (outpoint, satoshi) = self.bare[0];
        let spend = block::spend(outpoint, satoshi, Vec::new());
        block::on(self.tip(), self.summary.height + 1, 2, &[spend])
    }

    /// Writes a block file.
    pub(super) fn write(&self, path: &Path) {
        write_dat(path, &self.blocks);
    }
}

/// A chain of more blocks than anybody asks for or tells of at once, and another end of it.
pub(super) struct LongChain {
    /// From height 1 on.
    pub(super) blocks: Vec<Vec<u8>>,
    /// From [`FORK`] on, longer than the other one.
    pub(super) branch: Vec<Vec<u8>>,
}

/// Empty blocks at the end of the long chain.
const LONG_TAIL: u32 = 5_000;

/// The last block that the two ends of the long chain share. What lies behind it is more than a node
/// of ours once remembered, and its headers fit one answer to the locator of the other end: btcd 0.26
/// does not ask on after 2,000 headers with less work than its own chain has (netsync/manager.go,
/// `handleHeadersMsg`).
pub(super) const FORK: u32 = 4_140;

/// By so many blocks the branch is longer.
const LONGER_BY: u32 = 100;

/// Seconds between the blocks of the branch, so that it ends before the chain does, and after
/// yesterday.
const BRANCH_SPACING: u32 = 500;

/// Made once for all tests.
pub(super) fn long() -> &'static LongChain {
    static CHAIN: LazyLock<LongChain> = LazyLock::new(|| {
        let plan = ChainPlan { empty_tail: LONG_TAIL, ..ChainPlan::small(2) };
        let plan = plan.ending_at(now()).expect("later than genesis");
        let blocks = generated(&plan);
        let height = plan.height();
        let mut branch = Vec::new();
        for height in FORK + 1..=height + LONGER_BY {
            let parent = branch.last().unwrap_or(&blocks[FORK as usize - 1]);
            let block = block::after(BRANCH_SPACING, parent, height, 3, &[]);
            branch.push(block);
        }
        LongChain { blocks, branch }
    });
    &CHAIN
}

impl LongChain {
    /// Hash of the last block.
    pub(super) fn tip(&self) -> String {
        hash(self.blocks.last().expect("a chain has blocks"))
    }

    /// Hash of the last block of the branch.
    pub(super) fn branch_tip(&self) -> String {
        hash(self.branch.last().expect("a branch has blocks"))
    }
}

/// Seconds since 1970.
fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is not 1970");
    now.as_secs().try_into().expect("it is not 2106")
}

/// Hash of a block as nodes print it.
pub(super) fn hash(block: &[u8]) -> String {
    header(block).block_hash().to_string()
}

#[test]
fn the_chain_spends_every_script_type_and_is_recent() {
    let RecentChain { blocks, summary, .. } = recent();
    let locks = [
        Lock::P2pk,
        Lock::P2pkh,
        Lock::BareMultisig,
        Lock::P2shMultisig,
        Lock::P2shP2wpkh,
        Lock::P2wpkh,
        Lock::P2wshMultisig,
        Lock::P2trKey,
        Lock::P2trScript,
        Lock::Inscription(0),
        Lock::Cltv(0),
        Lock::Csv(0),
        Lock::LargeScript,
        Lock::Bare,
    ];
    for lock in locks {
        assert!(summary.counts.input_types.contains_key(lock.name()), "{lock:?}");
    }
    assert_eq!(blocks.len() as u64, recent().height());
    assert_eq!(hash(recent().tip()), summary.tip);
    assert!(now() - summary.tip_time < 3600);
}
