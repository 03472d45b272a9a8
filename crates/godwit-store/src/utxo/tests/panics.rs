//! A background thread that panics fails the store: nobody waits for it, and nobody else panics.

use super::super::fixtures::{coin, hasher, outpoint};
use super::*;
use crate::error::StoreError;
use godwit_fault_disk::PanickingDisk;

/// Runs large enough for an fsync on the way, until a merge was due.
fn live(store: &mut UtxoStore) -> Result<(), StoreError> {
    for block in 0..9u64 {
        for n in 0..2_000 {
            add(store, &outpoint(block * 2_000 + n), &coin(n), false);
        }
        let seal = store.rotate_blocking()?;
        store.wait_flushed(seal)?;
        let (id, _) = store.manifest(seal);
        store.committed(id)?;
        store.wait_merges()?;
    }
    Ok(())
}

#[test]
fn a_background_thread_that_panics_fails_the_store() {
    // The fsync beside a flush ends the flush.
    for (thread, failed) in
        [("utxo-flush", "utxo-flush"), ("utxo-merge", "utxo-merge"), ("utxo-sync", "utxo-flush")]
    {
        let disk = PanickingDisk::new(Arc::new(FaultDisk::new()), thread);
        let manifest = Manifest::empty(1, &hasher());
        let open = |manifest: &Manifest| {
            let disk = StoreDisk::new(Arc::new(disk.clone()));
            UtxoStore::open(&disk, Path::new(DIR), hasher(), manifest, CONFIG, &executor())
        };
        live(&mut open(&manifest).unwrap()).unwrap();
        disk.arm();
        let mut store = open(&manifest).unwrap();
        let panicked = Err(StoreError::Panicked { thread: failed });
        assert_eq!(live(&mut store), panicked, "{thread}");
        add(&mut store, &outpoint(1_000_000), &coin(0), false);
        assert_eq!(store.poll(), panicked);
        assert_eq!(store.wait_merges(), panicked);
        assert_eq!(store.rotate_blocking().map(drop), panicked);
    }
}
