use std::sync::Arc;

use godwit_fault_disk::{Counted, DiskError, Fault, FaultDisk, Lasting, Survival};
use proptest::prelude::*;

use super::*;
use crate::disk::{Disk, MAX_CACHED_FILES};
use crate::fixtures::{MAGIC, coin, undo_record};

const DIR: &str = "/blocks";
const PREV: BlockHash = BlockHash::from_bytes([0xab; 32]);

fn fresh() -> (FaultDisk, StoreDisk) {
    let fault = FaultDisk::new();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    disk.create_dir_all(Path::new(DIR)).unwrap();
    (fault, disk)
}

fn files(disk: &StoreDisk, ends: &[(u32, u64)]) -> UndoFiles {
    UndoFiles::new(disk, Path::new(DIR), ends.iter().copied().collect())
}

/// All steps of an append, as the chain takes them one by one.
fn append(files: &UndoFiles, file: u32, record: &UndoRecord) -> Result<UndoPosition, StoreError> {
    let position = files.reserve(file, record);
    files.note(files.write(position, record)?);
    Ok(position)
}

fn path(file: u32) -> PathBuf {
    Path::new(DIR).join(format!("rev{file:05}.dat"))
}

fn encode(spent: &[Vec<Coin>]) -> UndoRecord {
    undo_record(&PREV, spent, &pool())
}

fn pool() -> BufferPool {
    BufferPool::new(crate::BLOCK_BUFFERS)
}

fn record_of(n: u32) -> UndoRecord {
    encode(&[vec![coin(n)]])
}

fn groups(undo: &BlockUndo) -> Vec<Vec<Coin>> {
    undo.transactions().map(<[Coin]>::to_vec).collect()
}

/// Core's VARINT, one digit at a time (`serialize.h`, `WriteVarInt`).
fn naive_var_int(mut n: u64) -> Vec<u8> {
    let mut digits = vec![(n & 0x7f) as u8];
    while n > 0x7f {
        n = (n >> 7) - 1;
        digits.insert(0, (n & 0x7f) as u8 | 0x80);
    }
    digits
}

/// Core's `CompressAmount`, by trial division.
fn naive_amount(n: u64) -> u64 {
    if n == 0 {
        return 0;
    }
    let e = (0..9).take_while(|e| n.is_multiple_of(10u64.pow(e + 1))).count() as u32;
    let rest = n / 10u64.pow(e);
    match e {
        9 => 1 + (rest - 1) * 10 + 9,
        _ => 1 + (rest / 10 * 9 + rest % 10 - 1) * 10 + u64::from(e),
    }
}

/// `CTxOutCompressor`'s script for the forms that need no elliptic curve.
fn naive_script(script: &[u8]) -> Vec<u8> {
    match script {
        [0x76, 0xa9, 20, hash @ .., 0x88, 0xac] if hash.len() == 20 => [&[0], hash].concat(),
        [0xa9, 20, hash @ .., 0x87] if hash.len() == 20 => [&[1], hash].concat(),
        raw => [naive_var_int(raw.len() as u64 + 6), raw.to_vec()].concat(),
    }
}

/// The whole record, from the description of the format.
fn naive(spent: &[Vec<Coin>]) -> Vec<u8> {
    let mut data = naive_compact_size(spent.len());
    for coins in spent {
        data.extend(naive_compact_size(coins.len()));
        for coin in coins {
            let code = u64::from(coin.height) * 2 + u64::from(coin.coinbase);
            data.extend(naive_var_int(code));
            if coin.height > 0 {
                data.push(0);
            }
            data.extend(naive_var_int(naive_amount(coin.value as u64)));
            data.extend(naive_script(&coin.script_pubkey));
        }
    }
    let checksum = sha256d(&[PREV.as_bytes(), &data[..]].concat());
    let len = (data.len() as u32).to_le_bytes();
    [&MAGIC[..], &len, &data, &checksum].concat()
}

fn naive_compact_size(n: usize) -> Vec<u8> {
    match n {
        0..=252 => vec![n as u8],
        253..=0xffff => [&[253], &(n as u16).to_le_bytes()[..]].concat(),
        _ => [&[254], &(n as u32).to_le_bytes()[..]].concat(),
    }
}

fn any_script() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<[u8; 20]>().prop_map(|h| [&[0x76, 0xa9, 20], &h[..], &[0x88, 0xac]].concat()),
        any::<[u8; 20]>().prop_map(|h| [&[0xa9, 20], &h[..], &[0x87]].concat()),
        any::<[u8; 32]>().prop_map(|h| [&[0x51, 32], &h[..]].concat()),
        prop::collection::vec(0u8..0x20, 0..300),
        (9990usize..=10_000).prop_map(|len| vec![0x51; len]),
    ]
}

fn any_coin() -> impl Strategy<Value = Coin> {
    let value =
        prop_oneof![0i64..2_100_000_000_000_000, (0i64..21_000_000).prop_map(|n| n * 100_000_000)];
    let height = prop_oneof![Just(0u32), Just(1), 0u32..0x7fff_ffff];
    (value, any_script(), height, any::<bool>()).prop_map(|(value, script, height, coinbase)| {
        Coin { value, script_pubkey: script.into_iter().collect(), height, coinbase }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn equals_the_naive_encoding_and_round_trips(
        spent in prop::collection::vec(prop::collection::vec(any_coin(), 0..5), 0..12),
    ) {
        let record = encode(&spent);
        prop_assert_eq!(record.as_slice(), naive(&spent));
        let (_, disk) = fresh();
        let files = files(&disk, &[]);
        let position = append(&files, 3, &record).unwrap();
        let undo = files.read(position, &PREV).unwrap();
        prop_assert_eq!(groups(&undo), spent.clone());
        prop_assert_eq!(undo.coins(), spent.concat());
        prop_assert_eq!(undo.into_coins(), spent.concat());
    }
}

#[test]
fn counts_cross_the_compact_size_boundaries() {
    for count in [252, 253, 65_535, 65_536] {
        for spent in [vec![vec![coin(7); count]], vec![vec![coin(8)]; count]] {
            let record = encode(&spent);
            assert!(record.as_slice() == naive(&spent), "{count}");
            let (_, disk) = fresh();
            let files = files(&disk, &[]);
            let position = append(&files, 0, &record).unwrap();
            assert!(groups(&files.read(position, &PREV).unwrap()) == spent, "{count}");
        }
    }
}

#[test]
fn a_block_without_spends_has_an_empty_record() {
    let record = encode(&[]);
    assert_eq!(record.as_slice().len(), 8 + 1 + 32);
    assert_eq!(record.as_slice(), naive(&[]));
    let (_, disk) = fresh();
    let files = files(&disk, &[]);
    let position = append(&files, 0, &record).unwrap();
    assert_eq!(position, UndoPosition { file: 0, offset: 8, len: 1 });
    assert_eq!(files.read(position, &PREV).unwrap(), BlockUndo::default());
}

#[test]
fn records_follow_one_another_in_the_file_of_their_block() {
    let (fault, disk) = fresh();
    let files = files(&disk, &[]);
    let written =
        [(5, 1), (0, 2), (5, 3)].map(|(file, n)| (n, append(&files, file, &record_of(n))));
    for (n, position) in written {
        let undo = files.read(position.unwrap(), &PREV).unwrap();
        assert_eq!(undo.coins(), [coin(n)]);
    }
    let expected = [1, 3].map(|n| naive(&[vec![coin(n)]])).concat();
    assert_eq!(fault.contents(&path(5)).unwrap(), expected);
}

#[test]
fn any_damaged_byte_is_noticed() {
    let (fault, disk) = fresh();
    let before = files(&disk, &[]);
    let position = append(&before, 0, &encode(&[vec![coin(1), coin(2)], vec![coin(3)]])).unwrap();
    let intact = fault.contents(&path(0)).unwrap();
    let damaged = |damage| Err(StoreError::damaged(&path(0), position.offset, damage));
    for at in position.offset as usize..intact.len() {
        let mut bytes = intact.clone();
        bytes[at] ^= 1;
        fault.overwrite(&path(0), bytes);
        assert_eq!(files(&disk, &[]).read(position, &PREV), damaged(Damage::Checksum), "{at}");
    }
    for len in 0..intact.len() {
        fault.overwrite(&path(0), intact[..len].to_vec());
        assert_eq!(files(&disk, &[]).read(position, &PREV), damaged(Damage::Short), "{len}");
    }
    fault.overwrite(&path(0), intact);
    let other = BlockHash::from_bytes([0xac; 32]);
    assert_eq!(files(&disk, &[]).read(position, &other), damaged(Damage::Checksum));
    let lying = UndoPosition { len: u32::MAX, offset: u64::MAX, ..position };
    assert!(files(&disk, &[]).read(lying, &PREV).is_err());
    files(&disk, &[]).read(position, &PREV).unwrap();
}

/// Bytes whose checksum is right but which are no undo data, as a faulty writer would leave them.
#[test]
fn checksummed_nonsense_does_not_decode() {
    let decode_error = |error| Damage::Decode(error);
    for (data, damage) in [
        (vec![], decode_error(DecodeError::UnexpectedEnd)),
        (vec![1], decode_error(DecodeError::UnexpectedEnd)),
        (vec![0, 0], Damage::TrailingBytes),
        (vec![253, 1, 0], decode_error(DecodeError::NonCanonicalCompactSize)),
        (vec![254, 0, 0, 0, 2], decode_error(DecodeError::UnexpectedEnd)),
        (vec![254, 1, 0, 0, 2], decode_error(DecodeError::CompactSizeTooLarge)),
        (vec![1, 254, 0, 0, 0, 2], decode_error(DecodeError::UnexpectedEnd)),
    ] {
        let checksum = sha256d(&[PREV.as_bytes(), &data[..]].concat());
        let (fault, disk) = fresh();
        fault.overwrite(&path(0), [&[0; 8], &data[..], &checksum].concat());
        let position = UndoPosition { file: 0, offset: 8, len: data.len() as u32 };
        let expected = Err(StoreError::damaged(&path(0), 8, damage));
        assert_eq!(files(&disk, &[]).read(position, &PREV), expected, "{data:?}");
    }
}

#[test]
fn what_no_commit_has_named_is_cut_off_when_the_file_is_written_to() {
    let (fault, disk) = fresh();
    let before = files(&disk, &[]);
    append(&before, 0, &record_of(1)).unwrap();
    let ends = before.sync(before.take_appended()).unwrap();
    append(&before, 0, &encode(&[vec![coin(2); 50]])).unwrap();
    drop(before);
    fault.crash(Survival::All);

    let disk = StoreDisk::new(Arc::new(fault.clone()));
    let after = files(&disk, &ends);
    let position = append(&after, 0, &record_of(3)).unwrap();
    assert_eq!(position.offset, ends[0].1 + 8);
    let expected = [1, 3].map(|n| naive(&[vec![coin(n)]])).concat();
    assert_eq!(fault.contents(&path(0)).unwrap(), expected);
}

/// One of another directory, or of another network, that has taken the name of one that is written to.
#[test]
fn a_file_of_another_directory_is_refused_and_stays() {
    let (fault, disk) = fresh();
    let own = files(&disk, &[]);
    append(&own, 0, &record_of(7)).unwrap();
    let ends = own.sync(own.take_appended()).unwrap();
    let end = ends[0].1 as usize;
    let intact = fault.contents(&path(0)).unwrap();
    let written = |bytes: Vec<u8>| {
        fault.overwrite(&path(0), bytes);
        append(&files(&StoreDisk::new(Arc::new(fault.clone())), &ends), 0, &record_of(3))
    };
    let foreign: Vec<Vec<u8>> = [8, 1, 2].map(|n| naive(&[vec![coin(n); 2]])).into();
    assert!(foreign.iter().all(|record| record.len() != end));
    let foreign = foreign.concat();
    let mut other_network = foreign.clone();
    for place in (0..=foreign.len() - 4).filter(|place| foreign[*place..].starts_with(&MAGIC)) {
        other_network[place..place + 4].fill(0xf9);
    }
    for bytes in [foreign.clone(), other_network, naive(&[vec![coin(8); 2]])] {
        let error = written(bytes.clone()).unwrap_err();
        assert_eq!(error.unusable_path(), Some(&*path(0)), "{error}");
        assert!(error.to_string().contains(&format!("across byte {end},")), "{error}");
        assert_eq!(fault.contents(&path(0)), Some(bytes));
    }
    // As a crash leaves it, whatever has rotted before.
    let mut rotten = intact.clone();
    rotten[5] ^= 1;
    let zeros = vec![0; end];
    for begin in [intact, rotten, zeros] {
        for left in [&foreign[..], &foreign[..foreign.len() - 1], &foreign[..5]] {
            written([&begin[..], left].concat()).unwrap();
            let kept = [&begin[..], &naive(&[vec![coin(3)]])].concat();
            assert_eq!(fault.contents(&path(0)), Some(kept));
        }
    }
}

#[test]
fn c5_a_file_that_is_missing_or_too_short_is_written_to_from_its_committed_end_on() {
    for left in [None, Some(0), Some(1), Some(60)] {
        let (fault, disk) = fresh();
        let before = files(&disk, &[]);
        let positions = [1, 2].map(|n| append(&before, 0, &record_of(n)).unwrap());
        let ends = before.sync(before.take_appended()).unwrap();
        drop(before);
        let mut bytes = fault.contents(&path(0)).unwrap();
        match left {
            None => fault.remove(&path(0)).unwrap(),
            Some(left) => {
                bytes.truncate(left);
                fault.overwrite(&path(0), bytes);
            }
        }
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        let after = files(&disk, &ends);
        let position = append(&after, 0, &record_of(3)).unwrap();
        assert_eq!(position.offset, ends[0].1 + 8, "{left:?}");
        after.sync(after.take_appended()).unwrap();
        drop(after);
        // Its name as well.
        fault.crash(Survival::Nothing);
        let reopened = files(&StoreDisk::new(Arc::new(fault)), &[]);
        assert_eq!(reopened.read(position, &PREV).unwrap().coins(), [coin(3)], "{left:?}");
        let lost = reopened.read(positions[1], &PREV).unwrap_err();
        assert!(matches!(lost, StoreError::Damaged { .. }), "{left:?}: {lost}");
    }
}

/// Which of the records a search finds that knows records by their checksums.
fn found(disk: &StoreDisk) -> Vec<UndoPosition> {
    let (undo, mut found) = (files(disk, &[]), Vec::new());
    let take = &mut |record| match undo.read(record, &PREV) {
        Ok(_) => {
            found.push(record);
            Ok(true)
        }
        Err(StoreError::Damaged { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    undo.records(0, MAGIC, take).unwrap();
    found
}

#[test]
fn c5_records_behind_a_damaged_frame_are_found_and_those_whose_frame_alone_is_damaged() {
    let (fault, disk) = fresh();
    let written = files(&disk, &[]);
    let positions: Vec<UndoPosition> = (0..5)
        .map(|n| append(&written, 0, &encode(&[vec![coin(n + 7); 1 + n as usize]])).unwrap())
        .collect();
    assert_eq!(found(&disk), positions);
    let intact = fault.contents(&path(0)).unwrap();
    for (n, at) in positions.iter().enumerate() {
        let start = at.offset as usize - 8;
        let end = start + OVERHEAD as usize + at.len as usize;
        for bytes in
            [start..start + 8, start + 1..start + 2, start + 4..start + 5, start + 7..start + 8]
        {
            let mut bad = intact.clone();
            bad[bytes.clone()].iter_mut().for_each(|byte| *byte ^= 0x15);
            fault.overwrite(&path(0), bad);
            assert_eq!(found(&disk), positions, "{bytes:?}");
        }
        // With the data, one record is gone.
        let others = [&positions[..n], &positions[n + 1..]].concat();
        for bytes in [start + 8..start + 9, start..start + 20, start..end, end - 1..end] {
            let mut bad = intact.clone();
            bad[bytes.clone()].iter_mut().for_each(|byte| *byte ^= 0x15);
            fault.overwrite(&path(0), bad);
            assert_eq!(found(&disk), others, "{bytes:?}");
        }
        fault.overwrite(&path(0), intact[..end - 1].to_vec());
        assert_eq!(found(&disk), positions[..n], "cut in record {n}");
    }
}

#[test]
fn a_record_is_put_back_but_not_beside_the_file_that_is_appended_to() {
    let (fault, disk) = fresh();
    let written = files(&disk, &[]);
    let position = append(&written, 0, &record_of(1)).unwrap();
    let good = fault.contents(&path(0));
    fault.overwrite(&path(0), vec![0; good.as_ref().unwrap().len()]);
    assert_eq!(written.restore(position, &record_of(1)), Ok(true));
    assert_eq!(fault.contents(&path(0)), good);
    fault.remove(&path(0)).unwrap();
    assert_eq!(written.restore(position, &record_of(1)), Ok(false));
    assert_eq!(fault.contents(&path(0)), None, "it would hide what is appended");
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    assert_eq!(files(&disk, &[]).restore(position, &record_of(1)), Ok(true));
    assert_eq!(fault.contents(&path(0)), good);
}

/// Of two files that have each other's names, and of no others.
#[test]
fn records_that_are_in_another_file_are_recognised() {
    let (fault, disk) = fresh();
    let undo = files(&disk, &[]);
    let placed: Vec<_> =
        (1..=6).map(|n| (append(&undo, n / 4, &record_of(n)).unwrap(), PREV)).collect();
    drop(undo);
    let refused = |wrong: &[_]| {
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        files(&disk, &[]).refuse_misplaced(wrong)
    };
    refused(&placed).unwrap();
    let [first, second] = [0, 1].map(|file| fault.contents(&path(file)).unwrap());
    fault.overwrite(&path(0), second);
    // A copy of a file that is where it belongs hides nothing.
    refused(&placed[..3]).unwrap();
    fault.overwrite(&path(1), first);
    // A scrub may have come to the records of one file alone.
    for (wrong, found, own) in [(&placed[..], 0, 1), (&placed[..3], 1, 0), (&placed[3..], 0, 1)] {
        let error = refused(wrong).unwrap_err();
        assert_eq!(error.unusable_path(), Some(&*path(found)), "{error}");
        assert!(error.to_string().contains(&format!("rev{own:05}.dat")), "{error}");
    }
    // The file that cannot be opened may be the one that has them.
    for nth in 1..=2 {
        let (broken, error) = (fault.copy(), DiskError::Device);
        let (counted, lasting) = (Counted::Opens, Lasting::Once);
        broken.plan(Fault { counted, nth, error, lasting, forgets: false });
        let disk = StoreDisk::new(Arc::new(broken.clone()));
        let searched = files(&disk, &[]).refuse_misplaced(&placed[..3]);
        assert!(matches!(searched, Err(StoreError::Io(_))), "{searched:?}");
        assert!(broken.has_failed());
    }
}

/// All of them are looked for in one go through the files, of which few may stay open, and what has another
/// length is not read.
#[test]
fn many_records_are_looked_for_in_many_files_at_once() {
    let (fault, disk) = fresh();
    let undo = files(&disk, &[]);
    let count = MAX_CACHED_FILES as u32 + 2;
    // In every second file the records are as long as the wrong ones.
    let record = |file, n| encode(&[vec![coin(n); 1 + file as usize % 2]]);
    let append = |file, n| append(&undo, file, &record(file, n)).unwrap();
    let (mut wrong, mut of_length) = (Vec::new(), 0);
    for n in 0..20 {
        wrong.push((append(0, n), PREV));
        let others: Vec<_> = (1..count).map(|file| append(file, 1000 + n)).collect();
        of_length += others.iter().filter(|at| at.len == wrong[0].0.len).count() as u64;
    }
    drop(undo);
    fault.overwrite(&path(0), vec![0; fault.contents(&path(0)).unwrap().len()]);
    let counts = || [Counted::Opens, Counted::Reads].map(|counted| fault.count(counted));
    let before = counts();
    let disk = StoreDisk::new(Arc::new(fault.clone()));
    let placed = files(&disk, &[]).refuse_misplaced(&wrong);
    placed.unwrap();
    let [opens, reads] = counts();
    assert_eq!(opens - before[0], count.into());
    let lengths = wrong.len() as u64 * u64::from(count - 1);
    assert_eq!(reads - before[1], lengths + of_length);
}

#[test]
fn more_files_than_are_kept_open_are_all_durable_after_a_sync() {
    let (fault, disk) = fresh();
    let written = files(&disk, &[]);
    let count = 3 * MAX_OPEN_UNDO_FILES as u32;
    let positions: Vec<_> =
        (0..2 * count).map(|n| (n, append(&written, n % count, &record_of(n)).unwrap())).collect();
    let ends = written.sync(written.take_appended()).unwrap();
    assert_eq!(ends.len() as u32, count);
    assert_eq!(written.sync(written.take_appended()).unwrap(), []);
    drop(written);
    fault.crash(Survival::Nothing);

    let disk = StoreDisk::new(Arc::new(fault));
    let reopened = files(&disk, &ends);
    for (n, position) in positions {
        assert_eq!(reopened.read(position, &PREV).unwrap().coins(), [coin(n)]);
    }
}

/// Records of `rev00000.dat` as Bitcoin Core 31.99 wrote it for testnet3's blocks 385 and 392. (All
/// 2,500 of that file were compared once, when this was written.)
#[test]
fn equals_records_that_core_wrote() {
    let cases = [
        (
            "00000000422a860453edda71f5ff84bd0f42024625d2214b761f360b5fd85920",
            "0b11090753000000010385000083f849019eb21980dc9d413d8eac27314938b9da920ee53e85000083b22101\
             09f70b896169c37981d2b54b371df0d81a136a2c85000082eb7901e371782582a4addb541362c55565d2cdf5\
             6f64984d27eadbeed6bf0a8e738172cdec1f96fb0bdacd22a174e67208138d30175944",
            vec![vec![
                (9_011_000_000, 384, false, "a9149eb21980dc9d413d8eac27314938b9da920ee53e87"),
                (8_011_000_000, 384, false, "a91409f70b896169c37981d2b54b371df0d81a136a2c87"),
                (7_011_000_000, 384, false, "a914e371782582a4addb541362c55565d2cdf56f649887"),
            ]],
        ),
        (
            "0000000015832a2efc3165586be2ea16615abb9c5b5338c82de8e548e1990f56",
            "0b110907420000000201805f003203ba5005bc23e3217618c9d31e4bd1f2f46831195d453173e18de5d3e130\
             2c5b0801850c008215007e9b2dac278a1b1d10e697bc29a3603c0b2e37a4ac4d6a3d8bb048f1ddb222eb9d96\
             17feab03d7ba909e30c2e59455d043827892",
            vec![
                vec![(
                    5_000_000_000,
                    111,
                    true,
                    "2103ba5005bc23e3217618c9d31e4bd1f2f46831195d453173e18de5d3e1302c5b08ac",
                )],
                vec![(450_000, 390, false, "76a9147e9b2dac278a1b1d10e697bc29a3603c0b2e37a488ac")],
            ],
        ),
    ];
    for (prev, record, spent) in cases {
        let prev: BlockHash = prev.parse().unwrap();
        let bytes = hex::decode(record).unwrap();
        let len = u32::from_le_bytes(bytes[4..8].try_into().unwrap());
        let coin = |(value, height, coinbase, script): (i64, u32, bool, &str)| Coin {
            value,
            script_pubkey: hex::decode(script).unwrap().into_iter().collect(),
            height,
            coinbase,
        };
        let spent: Vec<Vec<Coin>> =
            spent.into_iter().map(|tx| tx.into_iter().map(coin).collect()).collect();

        let magic = [0x0b, 0x11, 0x09, 0x07];
        let (mut coins, counts) = (CompressedCoins::default(), spent.iter().map(Vec::len));
        coins.extend(spent.iter().flatten());
        let ours = UndoRecord::encode(magic, &prev, &coins, counts, &pool()).unwrap();
        assert_eq!(ours.as_slice(), bytes);
        let (fault, disk) = fresh();
        fault.overwrite(&path(0), bytes);
        let position = UndoPosition { file: 0, offset: 8, len };
        assert_eq!(groups(&files(&disk, &[]).read(position, &prev).unwrap()), spent);
    }
}
