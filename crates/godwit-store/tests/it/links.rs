//! Block and undo files that are links to another disk, which is not mounted.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_store::disk::RealDisk;
use godwit_store::inspect::{Found, Inspection, Stage, Watch};
use godwit_store::utxo::CompressedCoins;
use godwit_store::{
    BLOCK_BUFFERS, BlockPosition, Commit, NetworkId, Rebuild, Store, StoreError, StoreOptions,
    UndoPosition, UndoRecord,
};

const NETWORK: NetworkId = NetworkId { magic: [1, 2, 3, 4], genesis: [5; 32] };
const BLOCK: [u8; 150] = [7; 150];
/// One block in each file.
const FILE_SIZE: u32 = 200;

fn open(dir: &Path) -> Result<Store, StoreError> {
    let options = StoreOptions {
        dir: dir.to_owned(),
        network: NETWORK,
        new_hash_key: [6; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    Store::open_with_file_size(Arc::new(RealDisk), options, FILE_SIZE).map(|(store, _)| store)
}

fn undo(store: &Store) -> UndoRecord {
    let (coins, counts) = (CompressedCoins::default(), std::iter::empty());
    UndoRecord::encode(store.magic(), &BlockHash::ZERO, &coins, counts, store.block_buffers())
        .expect("a small record")
}

/// A block with its undo record.
fn append(store: &Store) -> (BlockPosition, UndoPosition) {
    let position = store.reserve_block(BLOCK.len(), false).expect("a small block");
    store.note_written(store.write_block(position, &BLOCK).expect("it is written"));
    let record = undo(store);
    let place = store.reserve_undo(position, &record);
    store.note_written(store.write_undo(place, &record).expect("it is written"));
    (position, place)
}

struct Nobody;

impl Watch for Nobody {
    fn found(&mut self, _: Found) {}

    fn progress(&mut self, _: Stage, _: u64, _: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// What it holds would be fetched and made again, and written to the empty mount point, on another disk.
#[test]
fn nothing_goes_on_without_a_block_or_undo_file_whose_disk_is_not_mounted() {
    for name in ["blk00000.dat", "rev00000.dat"] {
        let temp = tempfile::tempdir().expect("a directory");
        let (dir, mount) = (temp.path().join("node"), temp.path().join("mount"));
        fs::create_dir(&mount).expect("a directory");
        let store = open(&dir).expect("it opens");
        let (block, place) = append(&store);
        append(&store);
        let commit = Commit { appended: store.take_appended(), ..Commit::default() };
        store.commit(commit).expect("it is committed");
        let (path, elsewhere) = (dir.join("blocks").join(name), mount.join(name));
        let bytes = fs::read(&path).expect("it is there");
        fs::remove_file(&path).expect("it is there");
        symlink(&elsewhere, &path).expect("a link");
        let is_told = |error: Option<StoreError>, what: &str| {
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(
                text.ends_with("where there is no file: is its disk mounted?"),
                "{what}: {text}"
            );
            assert!(!elsewhere.exists(), "{what}");
        };
        if name.starts_with("blk") {
            is_told(store.rewrite_block(block, &BLOCK).err(), "while it runs");
        } else {
            // One that is appended to is found to have lost its name.
            assert_ne!(store.restore_undo(place, &undo(&store)), Ok(true));
            assert!(!elsewhere.exists());
        }
        drop(store);
        is_told(open(&dir).err(), "at the start");
        let disk = Arc::new(RealDisk);
        let inspection =
            Inspection::open(disk, &dir, NETWORK, true, &mut Nobody).expect("it opens");
        let listed = inspection.block_files().and_then(|_| inspection.undo_files());
        is_told(listed.err(), "where it is verified");
        drop(inspection);
        fs::write(&elsewhere, bytes).expect("a file");
        drop(open(&dir).expect("its disk is mounted"));
    }
}
