//! `verify -audit` on whole directories: those that are as validation left them, and those that lie.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use godwit_chain::{
    AuditOptions, Audited, ChainError, CoinFault, CoinsMemory, Dispute, InspectOptions, Inspected,
    RepairPace, ScriptOptions, StartOptions, Verdict, inspect,
};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::network::{Network, Params};
use godwit_primitives::sha256::sha256d;
use godwit_store::StoreError;
use godwit_store::UndoPosition;
use godwit_store::disk::{Disk, RealDisk};
use godwit_store::error::Remedy;
use godwit_store::exec::Threads;
use godwit_store::inspect::{Found, Stage, Watch};
use godwit_testdata::{read, shared_data};

use crate::datadir::{self, clock, import_file, submit};
use crate::pruned_branches::branch;
use crate::pruning::{BLOCKS, DIR, ONE_BLOCK, open, submit_all};
use crate::reindex::{FILE_SIZE, contents, database};

#[derive(Default)]
struct Notes {
    found: Vec<Found>,
    steps: u32,
    stop_after: Option<u32>,
    stop: Arc<AtomicBool>,
}

impl Watch for Notes {
    fn found(&mut self, found: Found) {
        self.found.push(found);
    }

    fn progress(&mut self, _: Stage, done: u64, total: u64) {
        assert!(done <= total, "{done} of {total}");
        self.steps += 1;
        if self.is_stopped() {
            self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop_after.is_some_and(|after| self.steps >= after)
    }
}

fn run(
    disk: Arc<dyn Disk>,
    dir: &Path,
    network: Network,
    threads: usize,
    repair: bool,
    notes: &mut Notes,
) -> Result<Inspected, ChainError> {
    let options = InspectOptions {
        params: Arc::new(Params::new(network)),
        executor: Arc::new(Threads::default()),
        threads,
        repair,
        memory: CoinsMemory::Fixed(16 << 20),
        pace: RepairPace::default(),
        start: StartOptions { stop: Arc::clone(&notes.stop), ..StartOptions::default() },
        audit: Some(AuditOptions { key: [0x5a; 16], scripts: ScriptOptions::default() }),
    };
    inspect(&disk, dir, options, notes)
}

fn audit(disk: &FaultDisk, threads: usize, repair: bool) -> (Audited, Vec<Found>) {
    let (mut notes, dir) = (Notes::default(), Path::new(DIR));
    let disk = Arc::new(disk.clone());
    let inspected = run(disk, dir, Network::Regtest, threads, repair, &mut notes).unwrap();
    (inspected.audit.unwrap(), notes.found)
}

/// A directory with all coins written, some blocks of a branch that was left, and one that never won.
fn datadir() -> (FaultDisk, u32) {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    submit_all(&mut chain, &BLOCKS[..150]);
    for block in branch(&BLOCKS[..150], 140, 4) {
        assert!(matches!(submit(&mut chain, &block), Verdict::Stored), "a branch with less work");
    }
    for block in branch(&BLOCKS[..150], 145, 20) {
        submit(&mut chain, &block);
    }
    chain.settle(clock()).unwrap();
    let tip = chain.tip_point().height;
    assert_eq!(tip, 165);
    chain.flush().unwrap();
    chain.close().unwrap();
    (disk, tip)
}

#[test]
fn a_datadir_audits_clean_on_any_number_of_threads() {
    let (disk, tip) = datadir();
    let before = crate::inspect::contents(&disk);
    let mut proofs = Vec::new();
    for threads in [1, 2, 3, 16] {
        let (audited, found) = audit(&disk, threads, threads == 3);
        let Audited::Proven(proof) = audited else { panic!("{audited:?}, {found:?}") };
        assert_eq!((proof.tip.height, found), (tip, Vec::new()));
        assert_eq!(proof.outputs - proof.inputs, proof.coins);
        assert_eq!(proof.without_scripts, 0);
        proofs.push(proof);
    }
    assert!(proofs.windows(2).all(|pair| pair[0] == pair[1]));
    assert!(crate::inspect::contents(&disk) == before, "nothing is changed");
    assert_eq!(open(&disk, None, FILE_SIZE).tip_point(), proofs[0].tip);
}

/// The coins on disk are those of a branch that was left, and the index that was made again lacks the undo
/// record of one of its blocks.
#[test]
fn an_undo_record_that_the_coins_own_branch_lacks_refutes_nothing() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS[..150]);
    chain.flush().unwrap();
    let stale = chain.tree().node(chain.tip()).undo.unwrap().file;
    for block in branch(&BLOCKS[..150], 145, 10) {
        submit(&mut chain, &block);
    }
    assert_eq!(chain.tip_point().height, 155);
    datadir::end_after_checkpoint(chain);
    disk.remove(&Path::new(DIR).join(format!("blocks/rev{stale:05}.dat"))).unwrap();
    disk.remove(&database()).unwrap();
    let chain = open(&disk, None, ONE_BLOCK);
    assert_eq!((chain.tip_point().height, chain.tree().node(chain.tip()).undo), (150, None));
    drop(chain);
    let (audited, found) = audit(&disk, 2, false);
    let remedies: Vec<Remedy> = found.iter().map(|found| found.remedy).collect();
    assert_eq!(remedies, [Remedy::Repair]);
    assert!(matches!(audited, Audited::Unproven(_)), "{audited:?}");
}

#[test]
fn real_chains_audit_clean() {
    let Some(shared) = shared_data() else { return };
    let chains = [
        ("mainnet_0_299.dat.zst", Network::Main),
        ("testnet3_1_2500.dat.zst", Network::Testnet3),
        ("signet_0_60.dat.zst", Network::Signet),
        ("regtest_0_150.dat.zst", Network::Regtest),
    ];
    for (name, network) in chains {
        let temp = tempfile::tempdir().unwrap();
        let (file, dir) = (temp.path().join("chain.dat"), temp.path().join("datadir"));
        std::fs::write(&file, read(shared.join("chains").join(name))).unwrap();
        let mut chain = datadir::open(&dir, network);
        import_file(&mut chain, &file, |_, _| {});
        let (stats, tip) = (chain.utxo_stats().unwrap(), chain.tip_point());
        chain.close().unwrap();
        let mut notes = Notes::default();
        let inspected = run(Arc::new(RealDisk), &dir, network, 2, false, &mut notes).unwrap();
        let Some(Audited::Proven(proof)) = inspected.audit else { panic!("{name}: {inspected:?}") };
        assert_eq!((proof.tip, proof.coins), (tip, stats.totals.txouts), "{name}");
        assert_eq!(notes.found, [], "{name}");
    }
}

/// An undo record of a block that spends something: height, file, place, and the hash before it.
fn record(disk: &FaultDisk) -> (u32, PathBuf, UndoPosition, [u8; 32]) {
    let (stored, _) = contents(disk);
    let undo = |n: usize| stored[n].2.expect("it was connected");
    let places = (1..stored.len()).filter(|n| undo(*n).len > 30);
    let n = places.min_by_key(|n| undo(*n).len).expect("some block spends");
    let path = Path::new(DIR).join(format!("blocks/rev{:05}.dat", undo(n).file));
    (n as u32 + 1, path, undo(n), stored[n - 1].0.to_bytes())
}

/// With a checksum that holds.
fn flip(bytes: &mut [u8], at: UndoPosition, prev: &[u8; 32], bit: usize) {
    let (start, end) = (at.offset as usize, at.offset as usize + at.len as usize);
    bytes[start + bit / 8] ^= 1 << (bit % 8);
    let checksum = sha256d(&[&prev[..], &bytes[start..end]].concat());
    bytes[end..end + 32].copy_from_slice(&checksum);
}

#[test]
fn each_flipped_bit_of_an_undo_record_is_refuted_though_its_checksum_holds() {
    let (disk, _) = datadir();
    let (height, path, at, prev) = record(&disk);
    // What opening has written since then.
    let good = disk.contents(&path).unwrap();
    let (mut refuted, mut damaged, mut named) = (0, 0, 0);
    // Each bit of a byte in its turn, and several of each field.
    for bit in (0..8 * at.len as usize).step_by(3) {
        let bad = disk.copy();
        let mut bytes = good.clone();
        flip(&mut bytes, at, &prev, bit);
        bad.overwrite(&path, bytes);
        match audit(&bad, 1, false) {
            (Audited::Refuted { disputes, .. }, found) => {
                assert_eq!(found, [], "bit {bit}");
                let is_of_it = |dispute: &Dispute| match dispute {
                    Dispute::Claim { block, .. } => block.height == height,
                    Dispute::Coin { fault: CoinFault::Claimed { spent_at, .. }, .. } => {
                        *spent_at == height
                    }
                    _ => false,
                };
                let other = disputes.iter().find(|dispute| !is_of_it(dispute));
                assert!(!disputes.is_empty() && other.is_none(), "bit {bit}: {other:?}");
                named += usize::from(disputes.iter().any(|d| matches!(d, Dispute::Coin { .. })));
                refuted += 1;
            }
            (Audited::Unproven(_), found) => {
                assert_eq!(found.len(), 1, "bit {bit}");
                damaged += 1;
            }
            (Audited::Proven(_), _) => panic!("bit {bit} was not seen"),
        }
    }
    println!("of block {height}: {refuted} refuted, {damaged} damaged, {named} with the coin");
    assert!(refuted > 100 && damaged > 0 && named > 100);
}

#[test]
fn a_refuted_claim_marks_no_block_and_is_repaired_from_the_blocks() {
    let (disk, tip) = datadir();
    let (height, path, at, prev) = record(&disk);
    let good = disk.contents(&path).unwrap();
    let mut bytes = good.clone();
    // The last byte of a script.
    flip(&mut bytes, at, &prev, 8 * at.len as usize - 1);
    disk.overwrite(&path, bytes);
    let (audited, found) = audit(&disk, 2, false);
    let Audited::Refuted { disputes, more: 0, remade: 0, suspects: 0 } = audited else {
        panic!("{audited:?}")
    };
    assert!((1..=2).contains(&disputes.len()) && found.is_empty(), "{disputes:?}, {found:?}");
    let of_block = disputes.iter().any(|dispute| {
        matches!(dispute, Dispute::Coin { fault: CoinFault::Claimed { spent_at, .. }, .. } if *spent_at == height)
    });
    assert!(of_block, "{disputes:?}");
    let (audited, _) = audit(&disk, 2, true);
    assert!(matches!(audited, Audited::Refuted { remade: 1, suspects: 0, .. }), "{audited:?}");
    assert!(disk.contents(&path).unwrap() == good, "it is as it was written first");
    let (audited, _) = audit(&disk, 2, false);
    assert!(matches!(audited, Audited::Proven(proof) if proof.tip.height == tip), "{audited:?}");
    let chain = open(&disk, None, FILE_SIZE);
    assert_eq!(chain.tip_point().height, tip);
    let tree = chain.tree();
    assert!(tree.failed_in_line(chain.tip()).is_empty());
}

#[test]
fn what_is_damaged_or_not_all_there_is_not_audited() {
    let pruned = FaultDisk::new();
    let mut chain = open(&pruned, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    chain.close().unwrap();
    let (audited, found) = audit(&pruned, 2, false);
    assert_eq!(found, []);
    assert!(matches!(&audited, Audited::Unproven(why) if why.contains("pruned")), "{audited:?}");

    let (disk, _) = datadir();
    let path = Path::new(DIR).join("blocks/blk00000.dat");
    let mut bytes = disk.contents(&path).unwrap();
    bytes[5_000] ^= 1;
    disk.overwrite(&path, bytes);
    let (audited, found) = audit(&disk, 2, false);
    assert_eq!((audited, found.len()), (Audited::Unproven("damage was found".to_owned()), 1));
}

#[test]
fn where_all_damage_was_repaired_another_audit_is_asked_for() {
    let (disk, _) = datadir();
    let (_, path, at, _) = record(&disk);
    let mut bytes = disk.contents(&path).unwrap();
    bytes[at.offset as usize] ^= 1;
    disk.overwrite(&path, bytes);
    let unproven = |why: &str| Audited::Unproven(why.to_owned());
    assert_eq!(audit(&disk, 2, false).0, unproven("damage was found"));
    let (audited, found) = audit(&disk, 2, true);
    let remedies: Vec<Remedy> = found.iter().map(|found| found.remedy).collect();
    assert_eq!(remedies, [Remedy::Done]);
    assert_eq!(audited, unproven("damage was found, and repaired; audit once more"));
    assert!(matches!(audit(&disk, 2, false).0, Audited::Proven(_)));
}

#[test]
fn an_audit_that_is_stopped_anywhere_says_nothing_and_changes_nothing() {
    let (disk, _) = datadir();
    let before = crate::inspect::contents(&disk);
    let (dir, network) = (Path::new(DIR), Network::Regtest);
    let mut whole = Notes::default();
    run(Arc::new(disk.clone()), dir, network, 2, false, &mut whole).unwrap();
    let mut stopped = 0;
    for after in 0..whole.steps {
        let mut notes = Notes { stop_after: Some(after), ..Notes::default() };
        match run(Arc::new(disk.clone()), dir, network, 2, false, &mut notes) {
            Err(ChainError::Store(StoreError::Stopped)) => stopped += 1,
            Err(error) => panic!("{error}"),
            Ok(inspected) => assert!(matches!(inspected.audit, Some(Audited::Proven(_)))),
        }
    }
    assert!(stopped > 2, "{stopped} of {}", whole.steps);
    assert!(crate::inspect::contents(&disk) == before);
}
