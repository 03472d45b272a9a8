//! Verifies finished inputs with Bitcoin Core's engine.

use bitcoin::consensus::encode;
use godwit_engine::{PreparedTx, SpentOutput};
use godwit_keys::psbt::Psbt;
use godwit_primitives::ScriptFlags;

use super::failure::PsbtFailure;

/// Verifies every input that has its final scripts, under all of today's rules. Where the output
/// that an input spends is unknown, signatures cannot be verified; standard error says so.
pub(super) fn finished_inputs(psbt: &Psbt) -> Result<(), PsbtFailure> {
    let spent = match psbt.spent_outputs() {
        Ok(spent) => spent,
        Err((index, objection)) => {
            eprintln!("godwit-signer: scripts are not verified: input {index}: {objection}");
            return Ok(());
        }
    };
    let (transaction, finished) = psbt.so_far();
    if transaction.input.is_empty() {
        return Ok(());
    }
    let spent = spent.iter().map(|output| SpentOutput {
        value: output.value.to_sat() as i64,
        script_pubkey: output.script_pubkey.as_bytes(),
    });
    let bytes = encode::serialize(&transaction);
    let prepared = PreparedTx::new(&bytes, spent).map_err(PsbtFailure::Script)?;
    for index in finished {
        prepared.verify_input(index, ScriptFlags::ALL).map_err(PsbtFailure::Script)?;
    }
    Ok(())
}
