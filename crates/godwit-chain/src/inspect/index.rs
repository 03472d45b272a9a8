//! Checks that a directory's block index is whole, and rebuilds it if it is not.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_primitives::network::Params;
use godwit_store::disk::Disk;
use godwit_store::error::{Damage, Remedy};
use godwit_store::inspect::pruned::{keeps_pruned, lacks_pruned, read_pruned, tell_pruned};
use godwit_store::inspect::{Found, Inspection, Watch};
use godwit_store::{BLOCK_BUFFERS, NetworkId, Rebuild, Store, StoreOptions};

use super::InspectOptions;
use crate::error::ChainError;
use crate::index::{BlockIndex, Body, Loading};
use crate::reindex::reindex;
use crate::tree::NodeId;

/// What an index says of the blocks that were connected.
#[derive(Default)]
pub(super) struct CheckedTree {
    /// The height below which blocks were pruned; `None` where the index is not whole.
    pub(super) pruned_below: Option<u32>,
    /// Those that are stored, and have no undo record. An index that was made again from damaged files, or
    /// from siblings that are alike, lacks some.
    pub(super) without_undo: BTreeSet<BlockHash>,
}

/// Whether every entry of the index has its parent there, and what the last commit names is there too.
pub(super) fn check_tree(
    inspection: &Inspection,
    params: &Arc<Params>,
    watch: &mut dyn Watch,
) -> Result<CheckedTree, ChainError> {
    let mut loading = Loading::new(Arc::clone(params));
    inspection.for_each_block(|hash, record| {
        loading.add(hash, record);
        Ok(())
    })?;
    let state = inspection.state();
    let verified = loading.finish(state.utxo_tip.as_ref(), state.assumed).and_then(|index| {
        let last = match state.verified_tip {
            Some(tip) => index.find(&tip.hash)?,
            None => index.tip(),
        };
        let without_undo = check_places(inspection, &index, [last, index.tip()], watch)?;
        check_pruned(inspection, &index, watch)?;
        Ok(CheckedTree { pruned_below: Some(pruned_below(&index)), without_undo })
    });
    match verified {
        Err(ChainError::DamagedIndex(_)) => {
            let damage = Damage::Disagreement("the block index refers to a block that it lacks");
            let (path, remedy) = (inspection.database_path(), inspection.index_remedy());
            watch.found(Found { path, offset: 0, bytes: 0, damage, remedy });
            Ok(CheckedTree::default())
        }
        other => other,
    }
}

/// Whether all blocks up to the last one that was verified, and up to the coins' own, have a place unless
/// they were pruned. Returns those of them that have one, and no undo record.
fn check_places(
    inspection: &Inspection,
    index: &BlockIndex,
    [verified, coins]: [NodeId; 2],
    watch: &mut dyn Watch,
) -> Result<BTreeSet<BlockHash>, ChainError> {
    let (mut no_block, mut without_undo) = (false, BTreeSet::new());
    // A crash while files are deleted may leave blocks whose undo file is gone, until they are pruned too.
    let needs_undo = inspection.has_whole_history();
    let base = index.assumed().map(|assumed| assumed.base.hash);
    // The coins may be those of a branch that was left.
    let fork = index.tree().fork(verified, coins);
    for (mut walk, end) in [(verified, index.tree().genesis()), (coins, fork)] {
        // Genesis is stored nowhere, and a snapshot's block and those below it need not be.
        while let node = index.node(walk)
            && walk != end
            && base != Some(node.hash)
            && let Some(parent) = node.parent()
        {
            no_block |= Body::of(index, walk) == Body::Absent;
            if needs_undo && node.position.is_some() && node.undo.is_none() {
                without_undo.insert(node.hash);
            }
            walk = parent;
        }
    }
    if no_block {
        let remedy = match inspection.has_block_files()? {
            true => Remedy::Peers,
            false => inspection.index_remedy(),
        };
        let damage = Damage::Disagreement("blocks that were connected are not stored");
        let path = inspection.database_path();
        watch.found(Found { path, offset: 0, bytes: 0, damage, remedy });
    }
    Ok(without_undo)
}

/// Whether what is kept of pruned blocks beside the index is what the index has of them.
fn check_pruned(
    inspection: &Inspection,
    index: &BlockIndex,
    watch: &mut dyn Watch,
) -> Result<(), ChainError> {
    if !keeps_pruned(inspection)? {
        return Ok(());
    }
    let tree = index.tree();
    let mut is_kept = vec![false; tree.len()];
    let damage = read_pruned(inspection, &mut |block| {
        let known = tree.find(&block.header.block_hash());
        if let Some(id) = known.filter(|id| tree.node(*id).tx_count == block.tx_count) {
            is_kept[id.index() as usize] = true;
        }
    })?;
    let is_pruned = |place| Body::of(index, tree.at(place)) == Body::Pruned;
    let lacks = |place: u32| is_pruned(place) && !is_kept[place as usize];
    let lacks_one = || (0..tree.len() as u32).any(lacks).then(|| lacks_pruned(inspection));
    match damage.or_else(lacks_one) {
        Some(damage) => Ok(tell_pruned(inspection, damage, watch)?),
        None => Ok(()),
    }
}

/// The height below which blocks were pruned; 0 where none was.
fn pruned_below(index: &BlockIndex) -> u32 {
    let ids = (0..index.tree().len() as u32).map(|place| index.tree().at(place));
    let pruned = ids.filter(|id| Body::of(index, *id) == Body::Pruned);
    pruned.map(|id| index.height(id) + 1).max().unwrap_or(0)
}

/// Makes a block index again that is damaged, and everything else that opening the store repairs.
pub(super) fn index_again(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    network: NetworkId,
    options: &mut InspectOptions,
) -> Result<(), ChainError> {
    let store_options = StoreOptions {
        dir: dir.to_owned(),
        network,
        // The control file has the key: without it nothing is repaired here.
        new_hash_key: [0; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::IndexAlone,
        stop: Arc::clone(&options.start.stop),
    };
    let (store, found) = Store::open(Arc::clone(disk), store_options)?;
    match store.lost() {
        Some(_) => reindex(&store, &options.params, options.threads, &found, &mut options.start),
        None => Ok(()),
    }
}
