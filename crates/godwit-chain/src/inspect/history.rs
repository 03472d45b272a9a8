//! The coins of the history below a loaded snapshot, while it is validated. Nothing depends on them:
//! where parity does not repair them, they are given up, and the history is validated from genesis again.

use godwit_store::StoreError;
use godwit_store::error::Remedy;
use godwit_store::inspect::{Found, Inspection, Watch};
use godwit_store::utxo::{CoinsInspection, CoinsRepair, RunsInspected};

use super::InspectOptions;
use crate::error::ChainError;

/// Inspects their runs, and returns how many there are.
pub(super) fn inspect(
    inspection: &Inspection,
    options: &InspectOptions,
    watch: &mut dyn Watch,
) -> Result<u64, ChainError> {
    let (runs, found) = match inspection.history_coins(&options.executor) {
        Ok(None) => return Ok(0),
        Ok(Some(coins)) => {
            let found = inspect_runs(inspection, &coins, options, watch)?;
            (coins.runs() as u64, found)
        }
        Err(error) => (0, vec![Found::of(error, Remedy::Validation)?]),
    };
    let is_given_up =
        options.repair && found.iter().any(|found| found.remedy == Remedy::Validation);
    if is_given_up {
        inspection.commit_history(None)?;
    }
    for found in found {
        let remedy = if is_given_up { Remedy::Done } else { found.remedy };
        watch.found(Found { remedy, ..found });
    }
    Ok(runs)
}

/// What nobody was told of yet: in a repair, what parity has not repaired.
fn inspect_runs(
    inspection: &Inspection,
    coins: &CoinsInspection,
    options: &InspectOptions,
    watch: &mut dyn Watch,
) -> Result<Vec<Found>, StoreError> {
    let RunsInspected { lost, mut untold } = coins.inspect_runs(watch)?;
    if untold.is_empty() || lost.needs_blocks() {
        return Ok(untold);
    }
    // Filters and block indexes follow from the entries, which are all there.
    let (memory, stop) = (options.memory.beside(0), &options.start.stop);
    let mut repair = CoinsRepair::begin(coins, &lost, memory, stop)?;
    repair.copy_intact(&mut |manifest| inspection.commit_history(Some(manifest)))?;
    untold.iter_mut().for_each(|found| found.remedy = Remedy::Done);
    Ok(untold)
}
