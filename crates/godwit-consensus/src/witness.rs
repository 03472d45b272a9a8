//! The witness commitment (BIP141).
//!
//! Source: Core `validation.cpp` (`CheckWitnessMalleation`), `consensus/validation.h`
//! (`GetWitnessCommitmentIndex`), `consensus/merkle.cpp` (`BlockWitnessMerkleRoot`).

use godwit_primitives::merkle::witness_merkle_root;
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{BlockView, TxView};

use crate::reject::{Reject, RejectReason, ensure};

/// How the script of a commitment starts: OP_RETURN, a push of 36 bytes, the four bytes of BIP141.
const COMMITMENT_HEADER: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Length of the shortest script that commits: the header and 32 bytes.
const COMMITMENT_SIZE: usize = 38;

/// Number of the coinbase output that commits to the witnesses: the last whose script starts as a
/// commitment does and has at least 38 bytes.
pub fn commitment_output(coinbase: TxView<'_>) -> Option<usize> {
    coinbase
        .outputs()
        .enumerate()
        .filter(|(_, output)| commitment(output.script_pubkey).is_some())
        .map(|(i, _)| i)
        .last()
}

/// The committed hash, where `script` is a commitment.
fn commitment(script: &[u8]) -> Option<&[u8]> {
    script.get(..COMMITMENT_SIZE)?.strip_prefix(&COMMITMENT_HEADER)
}

/// The rules about the witnesses of a block, in which `segwit` (BIP141) is active or not. The block
/// has a transaction.
pub fn check_witnesses(block: BlockView<'_>, segwit: bool) -> Result<(), Reject> {
    let coinbase = block.tx(0);
    let committed = if segwit {
        coinbase.outputs().filter_map(|output| commitment(output.script_pubkey)).last()
    } else {
        None
    };
    match committed {
        Some(committed) => commitment_matches(block, reserved_value(coinbase)?, committed),
        None => no_witness(block),
    }
}

/// A coinbase that commits has a witness of one item of 32 bytes (`bad-witness-nonce-size`).
fn reserved_value(coinbase: TxView<'_>) -> Result<&[u8], Reject> {
    let witness = coinbase.witnesses().next();
    let value = witness.filter(|witness| witness.len() == 1).and_then(|w| w.items().next());
    value.filter(|value| value.len() == 32).ok_or(Reject::new(RejectReason::BadWitnessNonceSize))
}

/// The commitment is the double SHA-256 of the root of the wtxids, the coinbase's taken as zero, and
/// of the reserved value (`bad-witness-merkle-match`).
fn commitment_matches(
    block: BlockView<'_>,
    reserved_value: &[u8],
    committed: &[u8],
) -> Result<(), Reject> {
    // A repetition that leaves this root unchanged repeats txids too: found with the merkle root.
    let root = witness_merkle_root(block.wtxids().iter().skip(1).map(|wtxid| wtxid.to_bytes()));
    let mut preimage = [0; 64];
    preimage[..32].copy_from_slice(&root);
    preimage[32..].copy_from_slice(reserved_value);
    ensure(sha256d(&preimage) == committed, RejectReason::BadWitnessMerkleMatch)
}

/// A block that does not commit to witnesses has none (`unexpected-witness`).
fn no_witness(block: BlockView<'_>) -> Result<(), Reject> {
    ensure(!block.has_witness(), RejectReason::UnexpectedWitness)
}
