//! Whole directories whose coins, undo records or blocks are not what validation leaves, though no checksum
//! shows it.

use std::path::Path;

use godwit_fault_disk::FaultDisk;
use godwit_primitives::sha256::sha256d;
use godwit_store::UndoPosition;
use godwit_store::disk::Disk;
use godwit_store::exec::Threads;

use super::*;
use crate::chain::tests::{chain, give, poll_until};
use crate::chain::{Chain, Poll};
use crate::inspect::{Found, InspectOptions, Inspected, RepairPace, inspect};
use crate::options::{CoinsMemory, StartOptions};

struct Nobody;

impl Watch for Nobody {
    fn found(&mut self, found: Found) {
        panic!("{found}");
    }

    fn progress(&mut self, _: Stage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

fn audited(disk: &FaultDisk, params: Params, repair: bool) -> Audited {
    let options = InspectOptions {
        params: Arc::new(params),
        executor: Arc::new(Threads::default()),
        threads: 3,
        repair,
        memory: CoinsMemory::Fixed(16 << 20),
        pace: RepairPace::default(),
        start: StartOptions::default(),
        audit: Some(AuditOptions { key: [1; 16], scripts: ScriptOptions::default() }),
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let Inspected { audit, .. } = inspect(&disk, Path::new("/node"), options, &mut Nobody).unwrap();
    audit.unwrap()
}

fn regtest() -> Params {
    Params::new(Network::Regtest)
}

/// A directory whose runs are sound, and have other coins than the blocks gave.
fn lying_disk(lie: impl FnOnce(&mut Chain, &UtxoHasher)) -> FaultDisk {
    let (disk, blocks) = (FaultDisk::new(), blocks());
    let mut chain = chain(&disk);
    let (last, others) = blocks.split_last().unwrap();
    others.iter().zip(0..).for_each(|(block, ticket)| give(&mut chain, block, ticket));
    poll_until(&mut chain, |_, poll| poll == Poll::Idle).1.unwrap();
    chain.flush().unwrap();
    let hasher = chain.hasher();
    lie(&mut chain, &hasher);
    give(&mut chain, last, 0);
    poll_until(&mut chain, |_, poll| poll == Poll::Idle).1.unwrap();
    chain.flush().unwrap();
    chain.close().unwrap();
    disk
}

fn lying(lie: impl FnOnce(&mut Chain, &UtxoHasher)) -> Audited {
    audited(&lying_disk(lie), regtest(), false)
}

#[test]
fn coins_that_the_store_lacks_invents_or_changes_are_named_with_their_partition() {
    assert!(matches!(lying(|_, _| {}), Audited::Proven(_)));
    let made = Made::new();
    // Created before the lie is told, and spent by nobody.
    let older = |coin: &Coin| (coin.height as usize) < made.blocks.len() - 3;
    let newest = made.coins.iter().filter(|(_, coin)| older(coin)).max_by_key(|(_, c)| c.height);
    let (outpoint, coin) = newest.expect("not all coins are of the last blocks");
    let (outpoint, created) = (*outpoint, encoded(coin));
    let expect = |audited: Audited, expected: OutPoint, fault: CoinFault| {
        let Audited::Refuted { disputes, more: 0, remade: 0, suspects: 0 } = audited else {
            panic!("{audited:?}")
        };
        let [Dispute::Coin { outpoint, partition, fault: told }] = &disputes[..] else {
            panic!("{disputes:?}")
        };
        assert_eq!((*outpoint, told), (expected, &fault));
        assert!(*partition < PARTITIONS, "{partition}");
    };
    let missing = lying(|chain, hasher| {
        chain.coins.spend(&hasher.hash(outpoint)).unwrap().unwrap();
    });
    let at = coin.height;
    expect(missing, outpoint, CoinFault::Missing { created: created.clone().into(), at });
    let mut other = created.clone();
    *other.last_mut().unwrap() ^= 1;
    let changed = lying(|chain, hasher| {
        chain.coins.insert(&hasher.hash(outpoint), [&other, &[]], true);
    });
    let fault = CoinFault::Changed { created: created.clone().into(), kept: other.clone().into() };
    expect(changed, outpoint, fault);
    let nowhere = OutPoint { vout: 9, txid: Txid::from_bytes([0xee; 32]) };
    let invented = lying(|chain, hasher| {
        chain.coins.insert(&hasher.hash(nowhere), [&created, &[]], true);
    });
    expect(invented, nowhere, CoinFault::Invented { kept: created.into() });
}

/// By these rules the coinbases of many blocks are worth too much.
fn with_less_subsidy() -> Params {
    let mut params = regtest();
    params.subsidy_halving_interval = 50;
    params
}

/// Blocks that break a rule with coins that are true: no undo record is made again, and none would help.
#[test]
fn a_block_that_is_refuted_by_what_was_created_is_itself_the_suspect() {
    let disk = lying_disk(|_, _| {});
    let path = Path::new("/node/blocks/rev00000.dat");
    let before = disk.contents(path).unwrap();
    let mut counts = Vec::new();
    for repair in [false, true] {
        let audited = audited(&disk, with_less_subsidy(), repair);
        let Audited::Refuted { disputes, more, remade: 0, suspects } = audited else {
            panic!("{audited:?}")
        };
        let of_rule = |dispute: &Dispute| {
            matches!(dispute, Dispute::Claim { fault: ClaimError::Rule(_), .. })
        };
        assert!(disputes.iter().all(of_rule), "{disputes:?}");
        assert_eq!((suspects as u64, suspects > 0), (disputes.len() as u64 + more, true));
        counts.push(suspects);
    }
    assert_eq!(counts[0], counts[1]);
    assert!(disk.contents(path).unwrap() == before);
    // Beside a coin that is wrong, only a repair knows whether the undo records are right.
    let outpoint = OutPoint { vout: 9, txid: Txid::from_bytes([0xee; 32]) };
    let disk = lying_disk(|chain, hasher| {
        chain.coins.insert(&hasher.hash(outpoint), [&[2, 9, 7, 0x51], &[]], true);
    });
    for (repair, expected) in [(false, 0), (true, counts[0])] {
        let audited = audited(&disk, with_less_subsidy(), repair);
        let is_expected = matches!(
            audited,
            Audited::Refuted { remade: 0, suspects, .. } if suspects == expected
        );
        assert!(is_expected, "{repair}: {audited:?}");
    }
}

/// Changes a byte of an undo record, whose checksum holds again.
fn flip(disk: &FaultDisk, at: UndoPosition, prev: &BlockHash, byte: usize) {
    let path = Path::new("/node/blocks").join(format!("rev{:05}.dat", at.file));
    let mut bytes = disk.contents(&path).unwrap();
    let record = at.offset as usize..at.offset as usize + at.len as usize;
    bytes[record.start + byte] ^= 1;
    let checksum = sha256d(&[&prev.to_bytes()[..], &bytes[record.clone()]].concat());
    bytes[record.end..record.end + 32].copy_from_slice(&checksum);
    disk.overwrite(&path, bytes);
}

/// The record says of a coinbase that it is none, which breaks no rule: only the sums tell. Its coin comes
/// behind all that are told.
#[test]
fn an_undo_record_is_made_again_whatever_else_is_told_before_it() {
    let made = Made::new();
    let is_one = |n: &usize| made.blocks[*n].1.coins.first().is_some_and(|coin| coin.coinbase);
    let n = (0..made.blocks.len() - 2).rev().find(is_one).expect("some block spends a coinbase");
    let (block, claims) = &made.blocks[n];
    // Behind the numbers of transactions and inputs, of one byte each, the number of height and coinbase.
    let code = claims.coins[0].height * 2 + 1;
    let byte = 2 + usize::from(code >= 128);
    let counts = [block.view().tx_count(), block.view().tx(1).input_count()];
    assert!(code < 128 + 128 * 128 && counts.iter().all(|count| *count < 253), "{counts:?}");
    let (mut undo, mut spent) = (None, None);
    let disk = lying_disk(|chain, hasher| {
        let id = chain.tree().find(&block.hash()).unwrap();
        undo = chain.tree().node(id).undo;
        let outpoint = block.spends()[0].outpoint;
        spent = Some(outpoint);
        let last = hasher.hash(outpoint).key;
        let invented = (0..).map(|vout| OutPoint { vout, txid: Txid::from_bytes([0xee; 32]) });
        let invented = invented.map(|outpoint| hasher.hash(outpoint));
        for coin in invented.filter(|coin| coin.key < last).take(DISPUTES + 1) {
            chain.coins.insert(&coin, [&[2, 9, 7, 0x51], &[]], true);
        }
    });
    flip(&disk, undo.expect("it was connected"), &block.header().prev_blockhash, byte);
    let audited_once = audited(&disk, regtest(), true);
    let Audited::Refuted { disputes, more, remade, suspects } = audited_once else {
        panic!("{audited_once:?}")
    };
    assert_eq!((disputes.len(), more, remade, suspects), (DISPUTES, 2, 1, 0));
    let spent = spent.unwrap();
    let is_named = |dispute: &Dispute| {
        matches!(dispute, Dispute::Claim { .. })
            || matches!(dispute, Dispute::Coin { outpoint, .. } if *outpoint == spent)
    };
    assert!(!disputes.iter().any(is_named));
    let again = audited(&disk, regtest(), true);
    assert!(matches!(again, Audited::Refuted { more: 1, remade: 0, suspects: 0, .. }), "{again:?}");
}
