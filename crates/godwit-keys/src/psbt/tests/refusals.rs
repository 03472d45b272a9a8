//! What a careful signer refuses, each beside what it still signs.

use bitcoin::psbt::PsbtSighashType;
use bitcoin::{Weight, sighash::EcdsaSighashType};

use super::coins::{COIN, FEE, public_descriptor, received, sign, spend};
use super::*;
use crate::psbt::{Fee, FeeObjection, InputObjection, OutputObjection, Warning};

/// Signs a PSBT after a change with A's keys.
fn signed_after(
    kinds: &[&str],
    policy: &SignPolicy,
    change: impl FnOnce(&mut bitcoin::Psbt),
) -> Result<Vec<Signed>, SignError> {
    let mut psbt = spend(kinds);
    change(&mut psbt);
    let mut psbt = received(&psbt);
    let before = psbt.clone();
    let signed = sign(&mut psbt, "A", policy);
    if signed.is_err() {
        assert_eq!(psbt, before, "what is refused stays as it was");
    }
    signed
}

#[track_caller]
fn refused(kinds: &[&str], expected: SignError, change: impl FnOnce(&mut bitcoin::Psbt)) {
    assert_eq!(signed_after(kinds, &SignPolicy::default(), change), Err(expected));
}

#[track_caller]
fn objected(kinds: &[&str], objection: InputObjection, change: impl FnOnce(&mut bitcoin::Psbt)) {
    refused(kinds, SignError::Input(0, objection), change);
}

#[test]
fn a_fee_above_the_limit() {
    let limited = |fee| {
        let limits = FeeLimits { fee: Amount::from_sat(fee), ..FeeLimits::default() };
        signed_after(&["wpkh(A/0)"], &SignPolicy { fee: limits, ..SignPolicy::default() }, |_| {})
    };
    assert_eq!(limited(FEE).map(|signed| signed.len()), Ok(1));
    let (fee, limit) = (Amount::from_sat(FEE), Amount::from_sat(FEE - 1));
    assert_eq!(limited(FEE - 1), Err(SignError::Fee(FeeObjection::AboveLimit { fee, limit })));
}

#[test]
fn a_fee_rate_above_the_limit() {
    let rate = received(&spend(&["wpkh(A/0)"])).fee().expect("known").rate();
    let limited = |rate| {
        let limits = FeeLimits { rate, ..FeeLimits::default() };
        signed_after(&["wpkh(A/0)"], &SignPolicy { fee: limits, ..SignPolicy::default() }, |_| {})
    };
    assert!(limited(rate).is_ok());
    let limit = FeeRate::from_sat_per_kwu(rate.to_sat_per_kwu() - 1);
    assert_eq!(limited(limit), Err(SignError::Fee(FeeObjection::AboveRate { rate, limit })));
}

#[test]
fn fee_rates_are_rounded_up() {
    let rate = |amount, weight| {
        Fee {
            amount: Amount::from_sat(amount),
            inputs: Amount::ZERO,
            weight: Weight::from_wu(weight),
        }
        .rate()
        .to_sat_per_kwu()
    };
    assert_eq!([rate(1, 1000), rate(1, 1001), rate(0, 1), rate(7, 0)], [1, 1, 0, 7000]);
    assert_eq!(rate(u64::MAX, 1), u64::MAX);
}

#[test]
fn outputs_worth_more_than_the_inputs() {
    let with_outputs = |value| {
        signed_after(&["wpkh(A/0)"], &SignPolicy::default(), |psbt| {
            psbt.unsigned_tx.output[0].value = Amount::from_sat(value);
        })
    };
    assert!(with_outputs(COIN).is_ok());
    assert_eq!(with_outputs(COIN + 1), Err(SignError::Fee(FeeObjection::Negative)));
    let all = Amount::MAX_MONEY.to_sat();
    assert_eq!(with_outputs(all), Err(SignError::Fee(FeeObjection::Negative)));
    assert_eq!(with_outputs(all + 1), Err(SignError::Fee(FeeObjection::OutOfRange)));
}

#[test]
fn amounts_that_no_one_can_have() {
    let with_amount = |value| {
        signed_after(&["wpkh(A/0)"], &generous(), |psbt| {
            psbt.inputs[0].non_witness_utxo = None;
            psbt.inputs[0].witness_utxo.as_mut().expect("it is there").value =
                Amount::from_sat(value);
        })
    };
    let all = Amount::MAX_MONEY.to_sat();
    assert!(with_amount(all).is_ok());
    let objection = SignError::Input(0, InputObjection::AmountOutOfRange);
    assert_eq!(with_amount(all + 1), Err(objection));
}

#[test]
fn an_amount_that_disagrees_with_the_previous_transaction() {
    for kind in ["wpkh(A/0)", "pkh(A/0)", "tr(A/0)"] {
        objected(&[kind], InputObjection::OutputMismatch, |psbt| {
            psbt.inputs[0].witness_utxo.as_mut().expect("it is there").value += Amount::ONE_SAT;
        });
        // The lie is about somebody else's input: still nobody signs beside it.
        let policy = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
        let signed = signed_after(&["wpkh(A/0)", "wpkh(F/0)"], &policy, |psbt| {
            psbt.inputs[1].witness_utxo.as_mut().expect("it is there").value += Amount::ONE_SAT;
        });
        assert_eq!(signed, Err(SignError::Input(1, InputObjection::OutputMismatch)));
    }
}

#[test]
fn another_previous_transaction() {
    let mut psbt = spend(&["pkh(A/0)"]);
    let previous = psbt.inputs[0].non_witness_utxo.as_mut().expect("it is there");
    previous.output[0].value += Amount::ONE_SAT;
    let read = Psbt::decode(&psbt.serialize());
    assert!(
        matches!(read, Err(FormatError::Contradiction(0, InputObjection::PreviousTxidMismatch))),
        "{read:?}"
    );
    let mut psbt = spend(&["pkh(A/0)"]);
    psbt.unsigned_tx.input[0].previous_output.vout = 2;
    let read = Psbt::decode(&psbt.serialize());
    assert!(
        matches!(read, Err(FormatError::Contradiction(0, InputObjection::NoSuchOutput))),
        "{read:?}"
    );
}

#[test]
fn a_legacy_input_without_its_previous_transaction() {
    let without = |psbt: &mut bitcoin::Psbt| psbt.inputs[0].non_witness_utxo = None;
    for kind in ["pkh(A/0)", "pk(A/0)", "sh(multi(1,A/0,B/0))"] {
        objected(&[kind], InputObjection::MissingPreviousTransaction, without);
    }
    for kind in ["wpkh(A/0)", "sh(wpkh(A/0))", "wsh(pk(A/0))", "tr(A/0)"] {
        assert!(signed_after(&[kind], &SignPolicy::default(), without).is_ok(), "{kind}");
    }
}

#[test]
fn an_unproven_amount_beside_another_input_is_a_warning() {
    let warnings = |kinds: &[&str], proven: bool| {
        let mut psbt = spend(kinds);
        if !proven {
            psbt.inputs.iter_mut().for_each(|input| input.non_witness_utxo = None);
        }
        review(&received(&psbt)).warnings
    };
    assert_eq!(warnings(&["wpkh(A/0)"], false), []);
    assert_eq!(warnings(&["wpkh(A/0)", "wpkh(A/1)"], true), []);
    let both = [Warning::UnprovenAmount(0), Warning::UnprovenAmount(1)];
    assert_eq!(warnings(&["wpkh(A/0)", "sh(wsh(pk(A/1)))"], false), both);
    assert_eq!(warnings(&["tr(A/0)", "tr(A/1)"], false), []);
}

#[test]
fn an_unproven_amount_beside_a_signature_that_does_not_cover_it() {
    let signed = |kinds: &[&str], unproven: &[usize], policy: SignPolicy| {
        signed_after(kinds, &policy, |psbt| {
            unproven.iter().for_each(|index| psbt.inputs[*index].non_witness_utxo = None);
        })
        .map(|signed| signed.len())
    };
    let default = SignPolicy::default();
    let allowed = SignPolicy { unproven_amounts: true, ..default };
    let refused = |index| Err(SignError::UnprovenAmount(index));
    for kind in ["wpkh(A/1)", "sh(wpkh(A/1))", "wsh(multi(1,A/1,A/2))", "sh(wsh(pk(A/1)))"] {
        let kinds = ["pkh(A/0)", "tr(A/0)", kind];
        assert_eq!(signed(&kinds, &[2], default), refused(2), "{kind}");
        assert_eq!(signed(&kinds, &[1], default), refused(1), "{kind}: that it is taproot is told");
        assert!(signed(&kinds, &[1, 2], allowed).is_ok(), "{kind}");
        assert!(signed(&kinds, &[], default).is_ok(), "{kind}");
        assert_eq!(signed(&[kind, "tr(A/0)"], &[0, 1], default), refused(1), "{kind}");
        assert!(signed(&[kind, "tr(A/0)"], &[0], default).is_ok(), "{kind}: taproot covers it");
        assert!(signed(&[kind], &[0], default).is_ok(), "{kind}: its own signature covers it");
    }
    // What others sign is not theirs to lie about: it may be ours without its key sources.
    let foreign = SignPolicy { foreign_inputs: true, ..default };
    for kind in ["wpkh(F/0)", "tr(F/0)"] {
        assert_eq!(signed(&["wpkh(A/0)", kind], &[1], foreign), refused(1), "{kind}");
        assert_eq!(signed(&["pkh(A/0)", kind], &[1], foreign), refused(1), "{kind}");
        assert_eq!(signed(&["tr(A/0)", kind], &[1], foreign), Ok(1), "{kind}");
        assert_eq!(signed(&["wpkh(A/0)", kind], &[0], foreign), Ok(1), "{kind}");
    }
}

#[test]
fn an_unproven_amount_beside_a_taproot_signature_that_leaves_other_inputs_open() {
    let policy = SignPolicy { any_sighash: true, ..SignPolicy::default() };
    for (number, expected) in [(0x81, Err(SignError::UnprovenAmount(1))), (0x01, Ok(2))] {
        let signed = signed_after(&["tr(A/0)", "tr(A/1)"], &policy, |psbt| {
            psbt.inputs[1].non_witness_utxo = None;
            psbt.inputs[0].sighash_type = Some(PsbtSighashType::from_u32(number));
        });
        assert_eq!(signed.map(|signed| signed.len()), expected);
    }
}

/// The same transaction is shown twice, each time with another amount understated.
#[test]
fn two_signatures_under_two_lies_do_not_come_together() {
    for kinds in [["wpkh(A/0)", "wpkh(A/1)"], ["pkh(A/0)", "wpkh(A/1)"], ["wpkh(A/0)", "tr(A/1)"]] {
        let honest = spend(&kinds);
        let outcomes = [0, 1].map(|lied_about: usize| {
            let mut psbt = honest.clone();
            let input = &mut psbt.inputs[lied_about];
            input.non_witness_utxo = None;
            input.witness_utxo.as_mut().expect("it is there").value = Amount::ZERO;
            psbt.unsigned_tx.output[0].value = Amount::from_sat(COIN - FEE);
            sign(&mut received(&psbt), "A", &SignPolicy::default())
        });
        assert!(outcomes.iter().any(Result::is_err), "{kinds:?}: {outcomes:?}");
    }
}

#[test]
fn an_unusual_sighash_type() {
    let asking = |kind: &str, number: u32, any_sighash| {
        let policy = SignPolicy { any_sighash, ..SignPolicy::default() };
        signed_after(&[kind], &policy, |psbt| {
            psbt.inputs[0].sighash_type = Some(PsbtSighashType::from_u32(number));
        })
    };
    assert!(asking("wpkh(A/0)", 1, false).is_ok());
    for number in [0x02, 0x03, 0x81, 0x82, 0x83] {
        for kind in ["pkh(A/0)", "wpkh(A/0)", "tr(A/0)"] {
            let signed = asking(kind, number, false);
            assert!(matches!(signed, Err(SignError::UnusualSighash(0, _))), "{signed:?}");
            assert!(asking(kind, number, true).is_ok(), "{kind} {number}");
        }
    }
    for number in [0x00, 0x04, 0x84, 0x1_0001] {
        let signed = asking("wpkh(A/0)", number, true);
        let objection = InputObjection::UnknownSighash(number);
        assert_eq!(signed, Err(SignError::Input(0, objection)));
    }
    assert!(asking("tr(A/0)", 0, false).is_ok());
}

#[test]
fn a_signature_of_another_type_beside_ours() {
    let policy = SignPolicy { any_sighash: true, ..SignPolicy::default() };
    for kind in ["wsh(multi(2,A/3,B/3,F/3))", "tr(F/0,multi_a(2,A/10,B/10,F/10))"] {
        let beside = |theirs: u32, ours: u32| {
            let asked = |kind: u32| Some(PsbtSighashType::from_u32(kind));
            let mut psbt = spend(&[kind]);
            psbt.inputs[0].sighash_type = asked(theirs);
            let mut signed = received(&psbt);
            sign(&mut signed, "B", &policy).expect("it is B's");
            signed.fields.inputs[0].sighash_type = asked(ours);
            sign(&mut signed, "A", &policy).map(|signed| signed.len())
        };
        for (theirs, ours) in [(0x01, 0x81), (0x81, 0x01), (0x02, 0x03)] {
            let mismatch = Err(SignError::SighashMismatch(0));
            assert_eq!(beside(theirs, ours), mismatch, "{kind} {theirs} {ours}");
            assert_eq!(beside(ours, ours), Ok(1), "{kind} {ours}");
        }
    }
}

#[test]
fn sighash_single_without_an_output() {
    let policy = SignPolicy { any_sighash: true, ..SignPolicy::default() };
    for kind in ["pkh(A/1)", "wpkh(A/1)", "tr(A/1)"] {
        let single = |index: usize| {
            signed_after(&["wpkh(A/0)", kind], &policy, |psbt| {
                psbt.inputs[index].sighash_type = Some(EcdsaSighashType::Single.into());
            })
        };
        assert!(single(0).is_ok());
        let objection = InputObjection::SingleWithoutOutput;
        assert_eq!(single(1), Err(SignError::Input(1, objection)), "{kind}");
    }
}

#[test]
fn foreign_inputs() {
    let allowed = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
    let signed = |kinds: &[&str], policy: &SignPolicy| signed_after(kinds, policy, |_| {});
    let mixed = ["wpkh(A/0)", "wpkh(F/0)"];
    assert_eq!(signed(&mixed, &SignPolicy::default()), Err(SignError::Foreign(1)));
    assert_eq!(signed(&mixed, &allowed).map(|signed| signed.len()), Ok(1));
    assert_eq!(signed(&["wpkh(F/0)"], &SignPolicy::default()), Err(SignError::Foreign(0)));
    assert_eq!(signed(&["wpkh(F/0)"], &allowed), Err(SignError::NothingToSign));
    // One key of several is enough.
    assert!(signed(&["wsh(multi(2,A/0,F/0))"], &SignPolicy::default()).is_ok());
}

#[test]
fn an_unknown_output_of_another_input() {
    let policy = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
    let signed = signed_after(&["wpkh(A/0)", "wpkh(F/0)"], &policy, |psbt| {
        psbt.inputs[1].witness_utxo = None;
        psbt.inputs[1].non_witness_utxo = None;
    });
    assert_eq!(signed, Err(SignError::Fee(FeeObjection::UnknownAmount(1))));
    objected(&["wpkh(A/0)"], InputObjection::MissingOutput, |psbt| {
        psbt.inputs[0].witness_utxo = None;
        psbt.inputs[0].non_witness_utxo = None;
    });
}

#[test]
fn scripts_that_do_not_belong_to_the_output() {
    use InputObjection::*;
    let other = || public_descriptor("wsh(pk(A/9))").explicit_script().expect("it has one");
    let redeem = |psbt: &mut bitcoin::Psbt| psbt.inputs[0].redeem_script = Some(other());
    let witness = |psbt: &mut bitcoin::Psbt| psbt.inputs[0].witness_script = Some(other());
    for kind in ["sh(multi(1,A/0,B/0))", "sh(wpkh(A/0))", "wpkh(A/0)", "pkh(A/0)"] {
        objected(&[kind], RedeemScriptMismatch, redeem);
    }
    for kind in ["wsh(pk(A/0))", "sh(wsh(pk(A/0)))", "wpkh(A/0)"] {
        objected(&[kind], WitnessScriptMismatch, witness);
    }
    objected(&["sh(wpkh(A/0))"], MissingRedeemScript, |psbt| psbt.inputs[0].redeem_script = None);
    objected(&["wsh(pk(A/0))"], MissingWitnessScript, |psbt| psbt.inputs[0].witness_script = None);
}

#[test]
fn scripts_that_consensus_does_not_run() {
    use bitcoin::{ScriptBuf, opcodes::all::OP_NOP};
    // The key and OP_CHECKSIG, behind nothing in many bytes.
    let padded = |bytes: usize| {
        let key = public_descriptor("wsh(pk(A/0))").explicit_script().expect("it has one");
        let mut script = vec![OP_NOP.to_u8(); bytes - key.len()];
        script.extend(key.as_bytes());
        ScriptBuf::from_bytes(script)
    };
    let with = |kind: &str, script: &ScriptBuf, output: ScriptBuf| {
        signed_after(&[kind], &SignPolicy::default(), |psbt| {
            let input = &mut psbt.inputs[0];
            let previous = input.non_witness_utxo.as_mut().expect("it is there");
            previous.output[1].script_pubkey = output;
            input.witness_utxo = Some(previous.output[1].clone());
            psbt.unsigned_tx.input[0].previous_output.txid = previous.compute_txid();
            let inner = input.witness_script.as_mut().or(input.redeem_script.as_mut());
            *inner.expect("it has one") = script.clone();
        })
        .map(|signed| signed.len())
    };
    let wsh = |bytes| with("wsh(pk(A/0))", &padded(bytes), padded(bytes).to_p2wsh());
    let sh = |bytes| with("sh(pk(A/0))", &padded(bytes), padded(bytes).to_p2sh());
    assert_eq!((wsh(10_000), sh(520)), (Ok(1), Ok(1)));
    let refused = |objection| Err(SignError::Input(0, objection));
    assert_eq!(wsh(10_001), refused(InputObjection::WitnessScriptTooLong));
    assert_eq!(sh(521), refused(InputObjection::RedeemScriptTooLong));
}

#[test]
fn a_taproot_key_or_leaf_that_does_not_belong_to_the_output() {
    let other = spend(&["tr(A/9,pk(B/9))"]);
    objected(&["tr(A/8,pk(B/8))"], InputObjection::TaprootKeyMismatch, |psbt| {
        psbt.inputs[0].tap_internal_key = other.inputs[0].tap_internal_key;
    });
    objected(&["tr(A/8,pk(B/8))"], InputObjection::TaprootKeyMismatch, |psbt| {
        psbt.inputs[0].tap_merkle_root = None;
        psbt.inputs[0].tap_scripts.clear();
    });
    // A leaf of another tree gives another root; one that has another internal key is no leaf of this one.
    objected(&["tr(A/8,pk(B/8))"], InputObjection::TaprootKeyMismatch, |psbt| {
        psbt.inputs[0].tap_merkle_root = None;
        psbt.inputs[0].tap_scripts = other.inputs[0].tap_scripts.clone();
    });
    objected(&["tr(A/8,pk(B/8))"], InputObjection::TaprootLeafMismatch, |psbt| {
        psbt.inputs[0].tap_scripts = other.inputs[0].tap_scripts.clone();
    });
}

/// Leaves with their control blocks say what the root says: it may be missing beside them.
#[test]
fn a_leaf_tells_the_root_that_is_missing() {
    for kind in ["tr(A/8,pk(F/8))", "tr(A/8,{pk(F/7),{pk(F/8),pk(F/9)}})"] {
        let honest = spend(&[kind]);
        for kept in 0..honest.inputs[0].tap_scripts.len() {
            let mut psbt = honest.clone();
            let input = &mut psbt.inputs[0];
            input.tap_merkle_root = None;
            let leaves = std::mem::take(&mut input.tap_scripts).into_iter();
            input.tap_scripts = leaves.skip(kept).take(1).collect();
            let mut psbt = received(&psbt);
            let signed = sign(&mut psbt, "A", &SignPolicy::default()).expect(kind);
            assert!(matches!(signed[0].key.key, crate::psbt::SigningKey::Internal(_)), "{kind}");
            assert_eq!(review(&psbt).inputs[0].signatures[0].valid, Some(true), "{kind}");
            psbt.finalize();
            verify(&psbt);
        }
    }
}

#[test]
fn a_path_that_leads_to_another_key() {
    let wrong = SignError::WrongDerivation(0);
    refused(&["wpkh(A/0)"], wrong, |psbt| {
        let source = psbt.inputs[0].bip32_derivation.values_mut().next().expect("it has one");
        source.1 = "m/1".parse().expect("a path");
    });
    refused(&["tr(A/0)"], SignError::WrongDerivation(0), |psbt| {
        let origin = psbt.inputs[0].tap_key_origins.values_mut().next().expect("it has one");
        origin.1.1 = "m/1".parse().expect("a path");
    });
    // The right path under somebody else's fingerprint: not ours.
    refused(&["wpkh(A/0)"], SignError::Foreign(0), |psbt| {
        let source = psbt.inputs[0].bip32_derivation.values_mut().next().expect("it has one");
        source.0 = [1, 2, 3, 4].into();
    });
}

#[test]
fn a_cosigner_under_our_fingerprint_is_a_cosigner() {
    let with_our_fingerprint = |kind: &str| {
        signed_after(&[kind], &SignPolicy::default(), |psbt| {
            let ours = spend(&["wpkh(A/0)"]).inputs[0].bip32_derivation.values().next().cloned();
            let (fingerprint, _) = ours.expect("it has one");
            let sources = psbt.inputs[0].bip32_derivation.values_mut();
            sources.for_each(|source| source.0 = fingerprint);
        })
        .map(|signed| signed.len())
    };
    assert_eq!(with_our_fingerprint("wsh(multi(2,A/3,B/3,F/3))"), Ok(1));
    assert_eq!(with_our_fingerprint("wsh(multi(2,B/3,F/3))"), Err(SignError::WrongDerivation(0)));
}

#[test]
fn the_same_output_spent_twice() {
    let mut psbt = spend(&["wpkh(A/0)", "wpkh(A/1)"]);
    psbt.unsigned_tx.input[1].previous_output = psbt.unsigned_tx.input[0].previous_output;
    psbt.inputs[1].non_witness_utxo = None;
    let read = Psbt::decode(&psbt.serialize());
    assert!(matches!(read, Err(FormatError::DuplicateInput(1))), "{read:?}");
}

#[test]
fn wrong_signatures_are_shown_and_not_finished() {
    let mut psbt = spend(&["wpkh(A/0)"]);
    let mut signed = received(&spend(&["wpkh(A/0)"]));
    sign(&mut signed, "A", &SignPolicy::default()).expect("it is ours");
    psbt.inputs[0].partial_sigs = signed.inputs()[0].partial_sigs.clone();
    psbt.unsigned_tx.output[0].value -= Amount::ONE_SAT;
    let mut psbt = received(&psbt);
    let review = review(&psbt);
    assert_eq!(review.inputs[0].signatures[0].valid, Some(false));
    let results = psbt.finalize();
    assert!(
        matches!(results[..], [Finished::Unfinished(Unfinished::WrongSignature)]),
        "{results:?}"
    );
    // A valid signature of another type than the input asks for.
    let mut psbt = spend(&["wpkh(A/0)"]);
    psbt.inputs[0].partial_sigs = signed.inputs()[0].partial_sigs.clone();
    psbt.inputs[0].sighash_type = Some(EcdsaSighashType::None.into());
    let results = received(&psbt).finalize();
    assert!(
        matches!(results[..], [Finished::Unfinished(Unfinished::WrongSignature)]),
        "{results:?}"
    );
}

#[test]
fn signing_narrows_what_may_be_changed() {
    let flags = |sighash: u32| {
        let mut psbt = spend(&["wpkh(A/0)"]);
        psbt.inputs[0].sighash_type = Some(PsbtSighashType::from_u32(sighash));
        let mut psbt = received(&psbt).into_version2();
        let policy = SignPolicy { any_sighash: true, ..SignPolicy::default() };
        sign(&mut psbt, "A", &policy).expect("it is ours");
        let psbt = Psbt::decode(&psbt.encode()).expect("it is valid");
        psbt.version2.expect("it is version 2").modifiable().expect("it has flags")
    };
    let found = [0x01, 0x02, 0x03, 0x81, 0x82, 0x83].map(flags);
    assert_eq!(found, [0b000, 0b010, 0b100, 0b001, 0b011, 0b101]);
}

#[test]
fn a_finished_input_of_others_does_not_hide_a_fee() {
    let kinds = ["wpkh(A/0)", "wpkh(F/0)"];
    let signed = |limit: u64, padding: usize| {
        let rate = FeeRate::from_sat_per_kwu(limit);
        let limits = FeeLimits { fee: Amount::MAX_MONEY, rate };
        let policy = SignPolicy { fee: limits, foreign_inputs: true, ..SignPolicy::default() };
        signed_after(&kinds, &policy, |psbt| {
            let witness = [vec![0; padding]];
            psbt.inputs[1].final_script_witness = Some(bitcoin::Witness::from_slice(&witness));
        })
    };
    // Of both the same is believed.
    let least = (1..FEE * 1000).find(|limit| limit % 100 == 0 && signed(*limit, 0).is_ok());
    let least = least.expect("some limit is high enough");
    assert!(signed(least, 100_000).is_ok());
    let hidden = signed(least - 100, 100_000);
    assert!(matches!(hidden, Err(SignError::Fee(FeeObjection::AboveRate { .. }))), "{hidden:?}");
}

/// An output of `kind` with the fields that belong to it, after a change of these.
fn with_output(
    kind: &str,
    change: impl FnOnce(&mut bitcoin::psbt::Output),
) -> Result<Vec<Signed>, SignError> {
    signed_after(&["wpkh(A/0)"], &SignPolicy::default(), |psbt| {
        let descriptor = public_descriptor(kind);
        psbt.unsigned_tx.output[0].script_pubkey = descriptor.script_pubkey();
        psbt.outputs[0] = bitcoin::psbt::Output::default();
        miniscript::psbt::PsbtExt::update_output_with_descriptor(psbt, 0, &descriptor).expect(kind);
        change(&mut psbt.outputs[0]);
    })
}

#[test]
fn what_is_said_of_an_output_must_fit_it() {
    let kinds = [
        "pkh(A/1)",
        "wpkh(A/1)",
        "sh(wpkh(A/1))",
        "sh(multi(1,A/1,F/0))",
        "wsh(multi(2,A/1,F/0))",
        "sh(wsh(multi(2,A/1,F/0)))",
        "tr(A/1)",
        "tr(A/1,{pk(B/8),pk(F/8)})",
        "tr(F/0,{and_v(v:pk(A/1),older(7)),pk(F/9)})",
    ];
    for kind in kinds {
        assert!(with_output(kind, |_| {}).is_ok(), "{kind}");
    }
    let refused = |kind, expected, change: fn(&mut bitcoin::psbt::Output)| {
        assert_eq!(with_output(kind, change), Err(SignError::Output(0, expected)), "{kind}");
    };
    for kind in ["wpkh(A/1)", "tr(A/1)", "sh(wpkh(A/1))", "sh(multi(1,A/1,F/0))"] {
        let fields = OutputObjection::Fields(InputObjection::RedeemScriptMismatch);
        refused(kind, fields, |output| {
            output.redeem_script = Some(bitcoin::ScriptBuf::from_bytes(vec![0x51]));
        });
    }
    for kind in ["wpkh(A/1)", "wsh(multi(2,A/1,F/0))", "sh(wsh(multi(2,A/1,F/0)))"] {
        let fields = OutputObjection::Fields(InputObjection::WitnessScriptMismatch);
        refused(kind, fields, |output| {
            output.witness_script = Some(bitcoin::ScriptBuf::from_bytes(vec![0x51]));
        });
    }
    for kind in ["tr(A/1)", "tr(A/1,{pk(B/8),pk(F/8)})"] {
        let fields = OutputObjection::Fields(InputObjection::TaprootKeyMismatch);
        refused(kind, fields, |output| {
            let key = public_descriptor("tr(F/5)").script_pubkey();
            output.tap_internal_key = super::super::spent::output_key(&key);
        });
    }
    // Our key is named, the script is somebody else's.
    for (kind, theirs) in
        [("wpkh(A/1)", "wpkh(F/1)"), ("pkh(A/1)", "pkh(F/1)"), ("wpkh(A/1)", "sh(wpkh(F/1))")]
    {
        let signed = signed_after(&["wpkh(A/0)"], &SignPolicy::default(), |psbt| {
            let ours = public_descriptor(kind);
            psbt.unsigned_tx.output[0].script_pubkey = ours.script_pubkey();
            psbt.outputs[0] = bitcoin::psbt::Output::default();
            miniscript::psbt::PsbtExt::update_output_with_descriptor(psbt, 0, &ours).expect(kind);
            psbt.unsigned_tx.output[0].script_pubkey = public_descriptor(theirs).script_pubkey();
        });
        assert_eq!(signed, Err(SignError::Output(0, OutputObjection::KeyNotInScript)), "{theirs}");
    }
    // Somebody else's key stands where one of ours is said to come from.
    let signed = signed_after(&["wpkh(A/0)"], &SignPolicy::default(), |psbt| {
        let source = psbt.inputs[0].bip32_derivation.values().next().expect("one").clone();
        let payee = &mut psbt.outputs[0].bip32_derivation;
        payee.values_mut().for_each(|place| *place = source.clone());
    });
    assert_eq!(signed, Err(SignError::Output(0, OutputObjection::OtherKey)));
}

#[test]
fn outputs_that_anybody_can_take_are_warned_of() {
    let warnings = |script: &[u8]| {
        let mut psbt = spend(&["wpkh(A/0)"]);
        psbt.outputs[0] = bitcoin::psbt::Output::default();
        psbt.unsigned_tx.output[0].script_pubkey = bitcoin::ScriptBuf::from_bytes(script.to_vec());
        review(&received(&psbt)).warnings
    };
    let program = |version: u8, len: u8| [vec![version, len], vec![7; len.into()]].concat();
    for version in 0x52..=0x60 {
        assert_eq!(warnings(&program(version, 32)), [Warning::AnyoneCanSpend(0)], "{version:#x}");
    }
    assert_eq!(warnings(&program(0x51, 33)), [Warning::AnyoneCanSpend(0)]);
    assert_eq!(warnings(&public_descriptor("tr(F/1)").script_pubkey().to_bytes()), []);
    assert_eq!(warnings(&program(0x00, 32)), []);
    // No point has an x of all ones; a program of version 0 is a hash of 20 or 32 bytes.
    let no_point = [vec![0x51, 32], vec![0xff; 32]].concat();
    assert_eq!(warnings(&no_point), [Warning::BurnsCoins(0)]);
    assert_eq!(warnings(&program(0x00, 21)), [Warning::BurnsCoins(0)]);
    assert_eq!(warnings(&program(0x00, 20)), []);
}
