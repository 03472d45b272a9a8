//! Amounts of which a PSBT alone says what they are.

use bitcoin::psbt::PsbtSighashType;

use super::coins::{received, spend};
use super::*;
use crate::psbt::Warning;

#[test]
fn amounts_that_are_believed_are_warned_of() {
    let believed = |kinds: &[&str], change: fn(&mut bitcoin::Psbt)| {
        let mut psbt = spend(kinds);
        psbt.inputs[1].non_witness_utxo = None;
        change(&mut psbt);
        review(&received(&psbt)).warnings
    };
    let second = [Warning::UnprovenAmount(1)];
    // That it is taproot, or somebody else's, is told by the same field as its amount.
    assert_eq!(believed(&["wpkh(A/0)", "tr(A/1)"], |_| {}), second);
    let unknown = |psbt: &mut bitcoin::Psbt| psbt.inputs[1].witness_script = None;
    assert_eq!(believed(&["wpkh(A/0)", "wsh(pk(F/1))"], unknown), second);
    assert_eq!(believed(&["tr(A/0)", "wsh(pk(F/1))"], unknown), [], "taproot covers it");
    let others_may_join = |psbt: &mut bitcoin::Psbt| {
        psbt.inputs[0].sighash_type = Some(PsbtSighashType::from_u32(0x81));
    };
    assert_eq!(believed(&["tr(A/0)", "tr(A/1)"], others_may_join), second);
}
