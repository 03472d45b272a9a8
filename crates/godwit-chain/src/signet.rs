//! The signature under which a signet block may stand, checked by the script engine (BIP325).

use godwit_consensus::{SOLUTION_FLAGS, SignetSpend};
use godwit_script::{SpentOutput, verify_transaction};

/// Whether a block's solution spends the challenge. An engine failure counts as no: it is rare, and a
/// block that was refused for it is judged again when it is offered again.
pub(crate) fn check_solution(spend: &SignetSpend<'_>) -> bool {
    let challenge = SpentOutput { value: 0, script_pubkey: spend.challenge };
    verify_transaction(&spend.to_sign, std::iter::once(challenge), SOLUTION_FLAGS).is_ok()
}
