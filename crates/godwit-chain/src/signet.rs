//! Checks the signature of a signet block with the script engine (BIP325).

use godwit_consensus::{SOLUTION_FLAGS, SignetSpend};
use godwit_script::{ScriptError, SpentOutput, verify_transaction};

/// Whether the block's solution satisfies the challenge.
///
/// # Errors
///
/// The engine's own failure, which says nothing about the block.
pub(crate) fn check_solution(spend: &SignetSpend<'_>) -> Result<bool, ScriptError> {
    let challenge = SpentOutput { value: 0, script_pubkey: spend.challenge };
    match verify_transaction(&spend.to_sign, std::iter::once(challenge), SOLUTION_FLAGS) {
        Ok(()) => Ok(true),
        Err(ScriptError::Rejected { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
