use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::{MerkleRoot, OutPoint, Transaction, TxIn, TxOut};
use godwit_stream::DataStream;

use super::search::SEARCH_WINDOW;
use super::*;
use crate::error::NetworkId;
use crate::fixtures::{MAGIC, block, framed, header};

const DIR: &str = "/blocks";

fn fresh() -> (FaultDisk, StoreDisk) {
    let fault = FaultDisk::new();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new(DIR)).unwrap();
    (fault, disk)
}

fn disk_of(fault: &FaultDisk) -> StoreDisk {
    StoreDisk::new(Arc::new(fault.clone()))
}

fn open(
    disk: &StoreDisk,
    committed: Option<(u32, u32)>,
    max: u32,
) -> (BlockFiles, Vec<RecoveredBlock>) {
    let ends = committed.into_iter().map(|(file, blocks)| (file, FileEnds { blocks, undo: 0 }));
    BlockFiles::open(disk, Path::new(DIR), MAGIC, &ends.collect(), max, &AtomicBool::default())
        .unwrap()
}

fn path(file: u32) -> PathBuf {
    Path::new(DIR).join(format!("blk{file:05}.dat"))
}

fn pool() -> BufferPool {
    BufferPool::new(crate::BLOCK_BUFFERS)
}

/// All steps of an append, as the chain takes them one by one.
fn append(files: &BlockFiles, block: &[u8]) -> Result<BlockPosition, StoreError> {
    let position = files.reserve(block.len())?;
    files.note(files.write(position, block)?);
    Ok(position)
}

fn read(files: &BlockFiles, position: BlockPosition) -> Vec<u8> {
    files.read(position, &pool()).unwrap().as_slice().to_vec()
}

#[test]
fn a_block_is_written_again_to_its_place_and_to_no_other() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, 6_000);
    let blocks = [block(1, 100), block(2, 5_000), block(3, 900), block(4, 800)];
    let positions = blocks.each_ref().map(|block| append(&files, block).unwrap());
    assert_eq!((positions[0].file, positions[3].file), (0, 1));
    let good = [0, 1].map(|file| fault.contents(&path(file)).unwrap());
    let rewrite_all = || {
        for (block, at) in blocks.iter().zip(positions) {
            files.rewrite(at, block).unwrap();
        }
        fault.crash(Survival::Nothing);
    };
    fault.overwrite(&path(0), vec![0xff; good[0].len()]);
    fault.overwrite(&path(1), good[1][..300].to_vec());
    rewrite_all();
    assert_eq!([0, 1].map(|file| fault.contents(&path(file)).unwrap()), good, "durable");
    disk.remove(&path(0)).unwrap();
    rewrite_all();
    assert_eq!([0, 1].map(|file| fault.contents(&path(file)).unwrap()), good, "durable");
}

#[test]
fn a_block_of_a_file_that_was_pruned_is_not_written_again() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, 5_500);
    let blocks = [block(1, 5_000), block(2, 900)];
    let positions = blocks.each_ref().map(|block| append(&files, block).unwrap());
    assert_eq!((positions[0].file, positions[1].file), (0, 1));
    files.remove(0).unwrap();
    files.rewrite(positions[0], &blocks[0]).unwrap();
    assert_eq!(fault.contents(&path(0)), None);
    // The last one has no successor that says that it was there.
    disk.remove(&path(1)).unwrap();
    files.rewrite(positions[1], &blocks[1]).unwrap();
    assert_eq!(fault.contents(&path(1)), Some(framed(&blocks[1])));
}

#[test]
fn records_are_framed_as_core_frames_them() {
    let (fault, disk) = fresh();
    let (files, recovered) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    assert_eq!(recovered, []);
    let blocks = [block(1, 100), block(2, 80), block(3, 5000)];
    let positions = blocks.each_ref().map(|block| append(&files, block).unwrap());
    assert_eq!(positions[1], BlockPosition { file: 0, offset: 116, len: 80 });
    let expected = blocks.each_ref().map(|block| framed(block)).concat();
    assert_eq!(fault.contents(&path(0)).unwrap(), expected);
    for (block, position) in blocks.iter().zip(positions) {
        assert_eq!(read(&files, position), *block);
    }
}

#[test]
fn a_file_ends_before_its_maximal_size() {
    // As Core: a record that would make the file exactly as long as the maximum goes to the next.
    for (last, file) in [(391, 0), (392, 1), (393, 1)] {
        let (_, disk) = fresh();
        let (files, _) = open(&disk, None, 1000);
        assert_eq!(append(&files, &block(1, 584)).unwrap().file, 0);
        let position = append(&files, &block(2, last + 8)).unwrap();
        assert_eq!(position.file, file, "{last}");
        assert_eq!(position.offset, if file == 0 { 600 } else { 8 });
        assert_eq!(read(&files, position), block(2, last + 8));
    }
}

#[test]
fn a_file_that_is_left_early_is_as_one_that_is_full() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    // There is nothing to leave.
    files.begin_file();
    assert_eq!(append(&files, &block(1, 100)).unwrap().file, 0);
    (0..2).for_each(|_| files.begin_file());
    let position = append(&files, &block(2, 100)).unwrap();
    assert_eq!((position.file, position.offset), (1, 8));
    assert_eq!(files.full_files(), [(0, 108)].into());
    fault.crash(Survival::All);
    let (files, recovered) = open(&disk_of(&fault), None, MAX_BLOCK_FILE_SIZE);
    assert_eq!(recovered.iter().map(|block| block.position.file).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(append(&files, &block(3, 100)).unwrap().offset, 116);
}

#[test]
fn the_longest_block_is_stored_and_a_longer_one_refused() {
    let (_, disk) = fresh();
    let (files, _) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    let longest = block(1, MAX_BLOCK_SERIALIZED_SIZE as usize);
    let position = append(&files, &longest).unwrap();
    assert!(read(&files, position) == longest);
    let longer = block(1, MAX_BLOCK_SERIALIZED_SIZE as usize + 1);
    assert_eq!(append(&files, &longer), Err(StoreError::RecordTooLarge { len: 4_000_001 }));
    assert_eq!(append(&files, &block(2, 80)).unwrap().offset, 8 + 4_000_000 + 8);
}

#[test]
fn sync_tells_each_file_that_grew_once() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, 500);
    assert_eq!(files.sync(files.take_appended()), Ok(vec![]));
    for nonce in 0..5 {
        append(&files, &block(nonce, 192)).unwrap();
    }
    assert_eq!(files.sync(files.take_appended()), Ok(vec![(0, 400), (1, 400), (2, 200)]));
    assert_eq!(files.sync(files.take_appended()), Ok(vec![]));
    append(&files, &block(5, 100)).unwrap();
    assert_eq!(files.sync(files.take_appended()), Ok(vec![(2, 308)]));
    fault.crash(Survival::Nothing);
    assert_eq!(fault.contents(&path(2)).unwrap().len(), 308);
}

#[test]
fn uncommitted_records_are_handed_back_across_files() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, 500);
    let positions: Vec<_> = (0..7).map(|n| append(&files, &block(n, 192)).unwrap()).collect();
    drop(files);
    for committed in 0..positions.len() {
        let end = positions[committed];
        let (files, recovered) = open(&disk, Some((end.file, end.offset + end.len)), 500);
        let expected: Vec<_> = (committed as u32 + 1..7)
            .map(|n| RecoveredBlock { position: positions[n as usize], header: header(n) })
            .collect();
        assert_eq!(recovered, expected);
        assert_eq!(append(&files, &block(9, 100)).unwrap().file, 3);
        let tail = files.sync(files.take_appended()).unwrap();
        assert_eq!(tail.last(), Some(&(3, 308)), "recovered bytes are synced too");
        // Back to what it was for the next round.
        fault.overwrite(&path(3), framed(&block(6, 192)));
    }
}

#[test]
fn a_record_torn_at_any_byte_is_cut_off_and_overwritten() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    let kept = [block(1, 300), block(2, 80)];
    let positions = kept.each_ref().map(|block| append(&files, block).unwrap());
    let end = positions[1].offset + positions[1].len;
    let last = framed(&block(3, 120));
    let intact = fault.contents(&path(0)).unwrap();
    for cut in 0..last.len() {
        fault.overwrite(&path(0), [&intact[..], &last[..cut]].concat());
        let (files, recovered) = open(&disk, Some((0, 308)), MAX_BLOCK_FILE_SIZE);
        assert_eq!(recovered, [RecoveredBlock { position: positions[1], header: header(2) }]);
        assert_eq!(fault.contents(&path(0)).unwrap().len(), end as usize, "cut at {cut}");
        let again = append(&files, &block(3, 120)).unwrap();
        assert_eq!(again.offset, end + FRAME_SIZE);
        assert_eq!(fault.contents(&path(0)).unwrap(), [&intact[..], &last[..]].concat());
    }
}

#[test]
fn garbage_behind_the_last_record_is_cut_off_and_that_before_one_is_not() {
    let good = framed(&block(1, 100));
    let wrong_magic = [&[0xfa, 0xbf, 0xb5, 0xdb][..], &good[4..]].concat();
    let too_short = [&MAGIC[..], &79u32.to_le_bytes(), &[1; 79]].concat();
    let too_long = [&MAGIC[..], &4_000_001u32.to_le_bytes(), &vec![1; 4_000_001]].concat();
    for garbage in [wrong_magic, too_short, too_long, vec![0; 500], MAGIC.repeat(40), vec![7]] {
        let (fault, disk) = fresh();
        fault.overwrite(&path(0), [&good[..], &garbage].concat());
        let (files, recovered) = open(&disk, Some((0, 108)), MAX_BLOCK_FILE_SIZE);
        assert_eq!(recovered, []);
        assert_eq!(fault.contents(&path(0)).unwrap(), good);
        assert_eq!(append(&files, &block(2, 100)).unwrap().offset, 116);

        let kept = [&good[..], &garbage, &framed(&block(2, 90)), &good].concat();
        fault.overwrite(&path(0), [&kept[..], &garbage].concat());
        let (files, recovered) = open(&disk, Some((0, 108)), MAX_BLOCK_FILE_SIZE);
        let headers: Vec<_> = recovered.iter().map(|found| found.header).collect();
        assert_eq!(headers, [header(2), header(1)], "{} bytes of garbage", garbage.len());
        assert_eq!(read(&files, recovered[0].position), block(2, 90));
        assert_eq!(fault.contents(&path(0)).unwrap(), kept);
        let next = append(&files, &block(3, 100)).unwrap();
        assert_eq!(next.offset as usize, kept.len() + 8);
    }
}

/// Of a download that a power cut ended, and of which the drive has lost a sector: one start after the
/// other, with and without blocks that follow.
#[test]
fn a_torn_tail_that_cannot_be_read_stays_and_blocks_go_to_the_next_file() {
    let torn = framed(&block(9, 9_000));
    for (kept, lost) in [(0, 0..1), (0, 4096..4608), (2, 700..701), (2, 8192..8704)] {
        let (fault, disk) = fresh();
        let records = [block(1, 300), block(2, 80)][..kept]
            .iter()
            .map(|block| framed(block))
            .collect::<Vec<_>>()
            .concat();
        let left = [&records[..], &torn[..8_800]].concat();
        fault.overwrite(&path(0), left.clone());
        fault.lose_sectors(&path(0), lost);
        let end = records.len() as u32;
        let committed = (kept > 0).then_some((0, 308));
        for _ in 0..2 {
            let (files, recovered) = open(&disk, committed, 1_000_000);
            assert_eq!(recovered.len(), kept.saturating_sub(1));
            assert_eq!((files.last_file(), fault.contents(&path(0))), ((1, 0), Some(left.clone())));
        }
        let (files, _) = open(&disk, committed, 1_000_000);
        let position = append(&files, &block(3, 500)).unwrap();
        assert_eq!(position, BlockPosition { file: 1, offset: 8, len: 500 });
        assert_eq!(read(&files, position), block(3, 500));
        let ends = files.sync(files.take_appended()).unwrap();
        let all = [(0, end), (1, 508)];
        assert_eq!(ends, all[usize::from(kept == 0)..]);
        drop(files);
        // Neither before the commit that names the block nor behind it is anything cut.
        for committed in [committed, Some((1, 508))] {
            let (files, _) = open(&disk, committed, 1_000_000);
            assert_eq!(
                (files.last_file(), fault.contents(&path(0))),
                ((1, 508), Some(left.clone()))
            );
        }
        // The drive has found the sector again.
        fault.overwrite(&path(0), left);
        let (_, recovered) = open(&disk, committed, 1_000_000);
        assert_eq!(recovered.last().map(|found| found.position), Some(position));
        assert_eq!(fault.contents(&path(0)).unwrap().len() as u32, end);
    }
}

/// A damaged byte in a frame, or a page that is gone, costs the blocks that it is in and no others.
#[test]
fn a_damaged_frame_hides_its_own_block_alone() {
    let blocks: Vec<Vec<u8>> = (0..60).map(|n| framed(&block(n, 3000))).collect();
    let intact = blocks.concat();
    let frame = 3008;
    let is_lost = |harm: std::ops::Range<usize>, n: usize| {
        // What a body holds is not looked at.
        harm.start < n * frame + 8 && n * frame < harm.end
    };
    for harm in [0..1, 5 * frame + 2..5 * frame + 3, 7 * frame + 6..7 * frame + 7, 4096..8192] {
        let (fault, disk) = fresh();
        let mut bad = intact.clone();
        bad[harm.clone()].iter_mut().for_each(|byte| *byte ^= 0x5a);
        fault.overwrite(&path(0), bad.clone());
        let (_, recovered) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        let found: Vec<usize> =
            recovered.iter().map(|found| found.position.offset as usize / frame).collect();
        let expected: Vec<usize> = (0..60).filter(|n| !is_lost(harm.clone(), *n)).collect();
        assert_eq!(found, expected, "{harm:?}");
        assert_eq!(fault.contents(&path(0)), Some(bad), "nothing is cut");
    }
}

/// A real block: its transactions tell where it ends.
fn real_block(nonce: u32) -> Vec<u8> {
    let input = TxIn {
        prevout: OutPoint::NULL,
        script_sig: vec![3, nonce as u8, 0, 0],
        sequence: u32::MAX,
        witness: Vec::new(),
    };
    let output = |n: u8| TxOut { value: 5, script_pubkey: vec![n; 300] };
    let outputs = (0..40).map(output).collect();
    let coinbase = Transaction { version: 2, inputs: vec![input], outputs, lock_time: 0 };
    let (root, _) = merkle_root([coinbase.txid().to_bytes()]);
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&BlockHeader { merkle_root: MerkleRoot::from_bytes(root), ..header(nonce) });
    bytes.write_compact_size(1);
    bytes.put(&coinbase);
    bytes.as_slice().to_vec()
}

#[test]
fn c5_a_block_whose_frame_alone_is_damaged_is_found_and_gets_it_back() {
    let blocks: Vec<Vec<u8>> = (0..6).map(real_block).collect();
    let intact: Vec<u8> = blocks.iter().flat_map(|block| framed(block)).collect();
    let len = blocks[0].len() + 8;
    let places = (0..6).flat_map(|n| (0..8).map(move |byte| n * len + byte));
    let all = places.clone().step_by(9).map(|at| (at..at + 1, 6));
    let whole = (0..6).map(|n| (n * len..n * len + 8, 6));
    // Without the root of its transactions there is no telling.
    let more = [(2 * len + 7..2 * len + 90, 5)];
    for (harm, found) in all.chain(whole).chain(more) {
        let (fault, disk) = fresh();
        let mut bad = intact.clone();
        bad[harm.clone()].iter_mut().for_each(|byte| *byte ^= 0x41);
        fault.overwrite(&path(0), bad.clone());
        let (_, recovered) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        let expected: Vec<(u32, u32)> = (0..6)
            .filter(|n| found == 6 || *n != 2)
            .map(|n| ((n * len) as u32 + 8, blocks[n].len() as u32))
            .collect();
        let got: Vec<(u32, u32)> =
            recovered.iter().map(|found| (found.position.offset, found.position.len)).collect();
        assert_eq!(got, expected, "{harm:?}");
        fault.crash(Survival::Nothing);
        let kept = if found == 6 { &intact } else { &bad };
        assert!(fault.contents(&path(0)).as_ref() == Some(kept), "{harm:?}");
    }
}

/// Records are found wherever they are within what is read at once.
#[test]
fn a_record_is_found_behind_a_gap_of_any_length() {
    let window = SEARCH_WINDOW as usize;
    for gap in [1, 2, 3, 4, window - 4, window - 3, window - 1, window, window + 1, 3 * window + 2]
    {
        let (fault, disk) = fresh();
        fault.overwrite(&path(0), [&vec![1; gap], &framed(&block(1, 100))[..]].concat());
        let (_, recovered) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        let position = BlockPosition { file: 0, offset: gap as u32 + 8, len: 100 };
        assert_eq!(recovered, [RecoveredBlock { position, header: header(1) }], "{gap}");
    }
}

/// Its blocks have rotted then, as those of any other file, and appending goes on behind them.
#[test]
fn c5_a_last_file_that_is_missing_or_too_short_gets_its_length_back() {
    let record = framed(&block(1, 100));
    let unharmed = |fault: &FaultDisk| fault.overwrite(&path(2), record.clone());
    type Harm<'a> = &'a dyn Fn(&FaultDisk);
    let harms: [(Harm<'_>, usize); 4] = [
        (&|fault| fault.overwrite(&path(3), record.clone()), 108),
        (&|fault| fault.overwrite(&path(3), record[..107].to_vec()), 107),
        (&|fault| fault.overwrite(&path(3), Vec::new()), 0),
        (&|_| (), 0),
    ];
    for (harm, left) in harms {
        let (fault, disk) = fresh();
        unharmed(&fault);
        harm(&fault);
        let ends = [2, 3].map(|file| (file, FileEnds { blocks: 108, undo: 0 })).into();
        let (files, recovered) =
            BlockFiles::open(&disk, Path::new(DIR), MAGIC, &ends, 1000, &AtomicBool::default())
                .unwrap();
        assert_eq!((recovered, files.last_file()), (Vec::new(), (3, 108)));
        fault.crash(Survival::Nothing);
        let mut expected = record[..left].to_vec();
        expected.resize(108, 0);
        assert_eq!(fault.contents(&path(3)), Some(expected), "{left}");
        assert_eq!(append(&files, &block(2, 100)).unwrap().offset, 116);
    }
    // A directory with nothing at all is no place to write to.
    let (fault, disk) = fresh();
    let ends = [(3, FileEnds { blocks: 108, undo: 0 })].into();
    let opened =
        BlockFiles::open(&disk, Path::new(DIR), MAGIC, &ends, 1000, &AtomicBool::default());
    let missing = StoreError::damaged(&path(3), 0, Damage::MissingFile);
    assert_eq!(opened.err(), Some(missing));
    assert_eq!(fault.contents(&path(3)), None);
}

#[test]
fn reading_beyond_a_file_fails_without_closing_the_store() {
    let (_, disk) = fresh();
    let (files, _) = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    let position = append(&files, &block(1, 100)).unwrap();
    assert!(files.read(BlockPosition { len: 101, ..position }, &pool()).is_err());
    assert!(files.read(BlockPosition { len: u32::MAX, ..position }, &pool()).is_err());
    assert!(
        files.read(BlockPosition { file: 1, ..position }, &pool()).is_err_and(|e| e.is_not_found())
    );
    assert_eq!(read(&files, position), block(1, 100));
}

/// One thread appends, as the chain does: places are written to in the order of their reservation.
#[test]
fn blocks_are_read_while_others_are_appended_and_synced() {
    const BLOCKS: u32 = 180;
    let (_, disk) = fresh();
    let (files, _) = open(&disk, None, 20_000);
    let (files, synced) = (&files, AtomicBool::new(false));
    let nth = |n: u32| block(n, 500 + 17 * n as usize);
    std::thread::scope(|scope| {
        let (mut appended, readers): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (sender, receiver) = mpsc::channel();
                let reader = scope.spawn(move || {
                    let positions: Vec<BlockPosition> = receiver
                        .into_iter()
                        .zip(0..)
                        .inspect(|(position, n)| assert_eq!(read(files, *position), nth(*n)))
                        .map(|(position, _)| position)
                        .collect();
                    // Also from files that have grown full since, and are open no more.
                    for (position, n) in positions.iter().zip(0..) {
                        assert_eq!(read(files, *position), nth(n));
                    }
                    positions.len()
                });
                (sender, reader)
            })
            .unzip();
        scope.spawn(|| {
            while !synced.load(Ordering::Acquire) {
                files.sync(files.take_appended()).unwrap();
            }
        });
        for n in 0..BLOCKS {
            let position = append(files, &nth(n)).unwrap();
            appended.iter().for_each(|reader| reader.send(position).unwrap());
        }
        appended.clear();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), BLOCKS as usize);
        }
        synced.store(true, Ordering::Release);
    });
}

#[test]
fn only_core_names_are_block_files() {
    for (name, number) in [
        ("blk00000.dat", Some(0)),
        ("dir/blk00042.dat", Some(42)),
        ("blk100000.dat", Some(100_000)),
        ("blk0001.dat", None),
        ("blk+0001.dat", None),
        ("blk99999999999.dat", None),
        ("rev00001.dat", None),
        ("blk00001.dat.bak", None),
        ("xor.dat", None),
    ] {
        assert_eq!(block_file_number(Path::new(name)), number, "{name}");
    }
}

#[test]
fn files_before_the_last_one_may_be_gone() {
    let (fault, disk) = fresh();
    fault.overwrite(&path(7), framed(&block(1, 100)));
    let end = |blocks| FileEnds { blocks, undo: 0 };
    let open = |ends: &BTreeMap<u32, FileEnds>| {
        BlockFiles::open(&disk, Path::new(DIR), MAGIC, ends, 150, &AtomicBool::default()).unwrap().0
    };
    let mut ends = BTreeMap::from([(0, FileEnds::PRUNED), (6, FileEnds::PRUNED), (7, end(108))]);
    let files = open(&ends);
    assert_eq!((files.last_file(), files.full_files()), ((7, 108), BTreeMap::new()));
    let position = append(&files, &block(2, 100)).unwrap();
    assert_eq!((position.file, files.full_files()), (8, [(7, 108)].into()));
    // Undo data alone do not make a file the last one, and the number of a pruned one is not used.
    ends.insert(9, FileEnds { blocks: 0, undo: 5 });
    fault.overwrite(&path(8), Vec::new());
    assert_eq!(open(&ends).last_file(), (8, 0));
    ends.extend([(7, FileEnds::PRUNED), (8, FileEnds::PRUNED)]);
    disk.remove(&path(7)).unwrap();
    disk.remove(&path(8)).unwrap();
    assert_eq!(append(&open(&ends), &block(3, 100)).unwrap().file, 9);
}

#[test]
fn a_removed_file_is_neither_counted_nor_read() {
    let (fault, disk) = fresh();
    let (files, _) = open(&disk, None, 150);
    let positions = [1, 2, 3].map(|n| append(&files, &block(n, 100)).unwrap());
    assert_eq!(read(&files, positions[0]), block(1, 100));
    files.sync(files.take_appended()).unwrap();
    files.remove(0).unwrap();
    assert!(fault.contents(&path(0)).is_none());
    assert!(files.read(positions[0], &pool()).is_err_and(|error| error.is_not_found()));
    assert_eq!(read(&files, positions[1]), block(2, 100));
    assert_eq!((files.full_files(), files.last_file()), ([(1, 108)].into(), (2, 108)));
}

/// Its end would say that it was pruned.
#[test]
fn a_file_whose_only_record_was_torn_is_not_told_of() {
    let (fault, disk) = fresh();
    fault.overwrite(&path(0), framed(&block(1, 100))[..50].to_vec());
    let (files, recovered) = open(&disk, None, 150);
    assert_eq!((recovered, files.last_file()), (vec![], (0, 0)));
    assert_eq!(files.sync(files.take_appended()), Ok(vec![]));
}

/// The ninth file costs an fsync of the first; a file that is removed is open no longer.
#[test]
fn few_files_stay_open_behind_the_last() {
    let (_, disk) = fresh();
    let (files, _) = open(&disk, None, 1000);
    let left = || -> Vec<u32> { files.writer().left.iter().map(|(file, _)| *file).collect() };
    for n in 0..8 {
        assert_eq!(append(&files, &block(n, 900)).unwrap().file, n);
    }
    assert_eq!(left(), [0, 1, 2, 3, 4, 5, 6]);
    append(&files, &block(8, 900)).unwrap();
    assert_eq!(left(), [1, 2, 3, 4, 5, 6, 7]);
    files.remove(3).unwrap();
    assert_eq!(left(), [1, 2, 4, 5, 6, 7]);
    let appended = files.take_appended();
    let open = |file: &u32| appended.files[file].handle.is_some();
    assert!(!open(&0) && (1..=8).all(|file| open(&file)), "it was synced when the ninth came");
}

/// Whose file and frame are any: a directory that grew from a snapshot has later blocks first.
#[test]
fn c5_a_first_block_whose_frame_is_damaged_is_seen_in_any_file() {
    let genesis = header(1).prev_blockhash.to_bytes();
    let network = NetworkId { magic: MAGIC, genesis };
    let elsewhere = NetworkId { magic: MAGIC, genesis: [1; 32] };
    let first = real_block(1);
    let mut later = block(2, 200);
    later[4..36].fill(9);
    for file in [0, 3] {
        for harmed in 0..9 {
            let (fault, disk) = fresh();
            fault.overwrite(&path(0), framed(&later));
            let mut bytes = framed(&first);
            if harmed < 8 {
                bytes[harmed] ^= 0x41;
            }
            let before = fault.contents(&path(file)).unwrap_or_default();
            fault.overwrite(&path(file), [before, bytes, framed(&later)].concat());
            let contents = fault.contents(&path(file));
            let has_first = |network| has_first_block(&disk, Path::new(DIR), network).unwrap();
            assert!(has_first(&network), "file {file}, byte {harmed}");
            assert!(!has_first(&elsewhere));
            assert!(fault.contents(&path(file)) == contents, "nothing is written");
        }
    }
    let (fault, disk) = fresh();
    assert!(!has_first_block(&disk, Path::new(DIR), &network).unwrap());
    fault.overwrite(&path(0), framed(&later));
    assert!(!has_first_block(&disk, Path::new(DIR), &network).unwrap());
}

/// No node has as many: there is a number behind each that is a block file's.
#[test]
fn a_file_whose_number_is_too_high_is_no_block_file() {
    for number in [MAX_BLOCK_FILES, u32::MAX - 1, u32::MAX] {
        let (fault, disk) = fresh();
        fault.overwrite(&path(number), framed(&block(1, 100)));
        let (files, recovered) = open(&disk, None, 6_000);
        assert_eq!(recovered, []);
        assert_eq!(append(&files, &block(2, 5_900)).unwrap().file, 0);
        assert_eq!(append(&files, &block(3, 5_900)).unwrap().file, 1);
    }
    let (fault, disk) = fresh();
    fault.overwrite(&path(MAX_BLOCK_FILES - 1), framed(&block(1, 5_900)));
    let (files, recovered) = open(&disk, None, 6_000);
    assert_eq!(recovered.len(), 1);
    assert_eq!(append(&files, &block(2, 5_900)).unwrap().file, MAX_BLOCK_FILES);
}
