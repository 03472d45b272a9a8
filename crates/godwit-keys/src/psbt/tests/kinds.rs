//! Every kind of coin: signed, finished, accepted by Core's engine.

use super::coins::{KINDS, keys, received, sign, spend};
use super::*;
use crate::KeyError;

#[track_caller]
fn signs_and_finishes(mut psbt: Psbt, letters: &str) {
    let signed = sign(&mut psbt, letters, &SignPolicy::default()).expect("it is ours");
    let reread = Psbt::decode(&psbt.encode()).expect("it is valid");
    assert_eq!(reread, psbt);
    let again = sign(&mut psbt, letters, &SignPolicy::default()).expect("it is ours");
    assert_eq!((&again, &reread), (&signed, &psbt), "signatures are deterministic");
    let results = psbt.finalize();
    assert!(psbt.is_finished(), "{results:?}");
    verify(&psbt);
    assert_eq!(Psbt::decode(&psbt.encode()).expect("it is valid"), psbt);
}

#[test]
fn every_kind_alone_in_both_versions() {
    for kind in KINDS {
        let psbt = received(&spend(&[kind]));
        signs_and_finishes(psbt.clone(), "ABC");
        signs_and_finishes(psbt.into_version2(), "ABC");
    }
}

#[test]
fn all_kinds_in_one_transaction() {
    let psbt = received(&spend(&KINDS));
    signs_and_finishes(psbt.clone(), "ABC");
    signs_and_finishes(psbt.into_version2(), "CBA");
}

#[test]
fn two_signers_and_a_combiner() {
    for kind in
        ["sh(multi(2,A/1,F/0,B/1))", "wsh(multi(2,A/3,B/3,F/3))", "tr(F/0,multi_a(2,A/1,B/1))"]
    {
        let psbt = received(&spend(&[kind])).into_version2();
        let [mut one, mut other] = [psbt.clone(), psbt];
        sign(&mut one, "A", &SignPolicy::default()).expect("it is A's");
        sign(&mut other, "B", &SignPolicy::default()).expect("it is B's");
        for mut alone in [one.clone(), other.clone()] {
            alone.finalize();
            assert!(!alone.is_finished(), "{kind}: one of two is not enough");
        }
        let mut both = Psbt::combine(&[one, other]).expect("they fit");
        both.finalize();
        verify(&both);
    }
}

#[test]
fn a_final_script_of_one_copy_does_not_cost_the_signatures_of_another() {
    let psbt = received(&spend(&["wpkh(A/0)"]));
    let [mut signed, mut wrong] = [psbt.clone(), psbt];
    sign(&mut signed, "A", &SignPolicy::default()).expect("it is ours");
    wrong.fields.inputs[0].final_script_witness =
        Some(bitcoin::Witness::from_slice(&[[1; 71].as_slice(), &[2; 33]]));
    for copies in [[signed.clone(), wrong.clone()], [wrong.clone(), signed.clone()]] {
        let combined = Psbt::combine(&copies).expect("they fit");
        assert_eq!(combined.inputs()[0].partial_sigs, signed.inputs()[0].partial_sigs);
        assert!(combined.is_finished());
        assert_eq!(Psbt::decode(&combined.encode()).expect("it is valid"), combined);
    }
    // What no copy has does not come back.
    signed.finalize();
    let combined = Psbt::combine(&[signed.clone(), wrong]).expect("they fit");
    assert_eq!(combined.inputs()[0].partial_sigs.len(), 0);
    assert_eq!(combined.inputs()[0].final_script_witness, signed.inputs()[0].final_script_witness);
}

#[test]
fn the_key_path_is_taken_where_the_internal_key_is_ours() {
    let mut psbt = received(&spend(&["tr(A/8,{pk(B/8),pk(F/8)})"]));
    let signed = sign(&mut psbt, "AB", &SignPolicy::default()).expect("it is ours");
    assert_eq!(signed.len(), 1);
    psbt.finalize();
    assert_eq!(psbt.inputs()[0].final_script_witness.as_ref().map(|w| w.len()), Some(1));
    let mut psbt = received(&spend(&["tr(A/8,{pk(B/8),pk(F/8)})"]));
    sign(&mut psbt, "B", &SignPolicy::default()).expect("it is ours");
    psbt.finalize();
    assert_eq!(psbt.inputs()[0].final_script_witness.as_ref().map(|w| w.len()), Some(3));
    verify(&psbt);
}

/// Core's `rawtr()` knows the key of the output alone: its PSBT has a signature by the key path, and nothing
/// that it belongs to.
#[test]
fn a_signature_by_the_key_path_needs_no_internal_key() {
    let mut signed = received(&spend(&["tr(A/8,{pk(B/8),pk(F/8)})", "tr(A/0)", "wpkh(A/1)"]));
    let unsigned = signed.clone();
    sign(&mut signed, "A", &SignPolicy::default()).expect("it is ours");
    let bare = |psbt: &Psbt, change: &dyn Fn(&mut bitcoin::psbt::Input)| {
        let mut psbt = psbt.clone();
        for input in &mut psbt.fields.inputs[..2] {
            *input = bitcoin::psbt::Input {
                witness_utxo: input.witness_utxo.take(),
                tap_key_sig: input.tap_key_sig,
                ..bitcoin::psbt::Input::default()
            };
            change(input);
        }
        Psbt::decode(&psbt.encode()).expect("it is valid")
    };
    let mut psbt = bare(&signed, &|_| {});
    for input in &review(&psbt).inputs {
        assert_eq!((input.state, input.signatures.len()), (InputState::Signed, 1));
        assert_eq!(input.signatures[0].valid, Some(true));
    }
    assert!(matches!(
        bare(&signed, &|input| input.sighash_type = Some(bitcoin::TapSighashType::None.into()))
            .finalize()[..],
        [
            Finished::Unfinished(Unfinished::WrongSignature),
            Finished::Unfinished(Unfinished::WrongSignature),
            Finished::Finished
        ]
    ));
    // A wrong one is seen, gives way to a good one, and is not finished.
    let other = signed.fields.inputs[1].tap_key_sig;
    let mut wrong = bare(&signed, &|input| input.tap_key_sig = other);
    assert_eq!(review(&wrong).inputs[0].signatures[0].valid, Some(false));
    let combined = Psbt::combine(&[wrong.clone(), psbt.clone()]).expect("they fit");
    assert_eq!(combined.inputs()[0].tap_key_sig, signed.inputs()[0].tap_key_sig);
    let results = wrong.finalize();
    assert!(matches!(results[0], Finished::Unfinished(Unfinished::WrongSignature)), "{results:?}");
    let results = psbt.finalize();
    assert!(psbt.is_finished(), "{results:?}");
    verify(&psbt);
    // Without a signature there is nothing to finish.
    let results = bare(&unsigned, &|_| {}).finalize();
    assert!(matches!(results[0], Finished::Unfinished(Unfinished::Unsatisfied(_))), "{results:?}");
}

#[test]
fn a_review_shows_keys_signatures_and_what_is_missing() {
    let mut psbt = received(&spend(&["wsh(multi(2,A/3,B/3,F/3))", "wpkh(A/0)"]));
    let keys = keys("A");
    let mut owns = |source: &_, key: &_| Ok(matches!(look_up(&keys, source, key)?, Found::Ours(_)));
    let review = psbt.review(&mut owns).expect("memory");
    let states: Vec<_> = review.inputs.iter().map(|input| input.state).collect();
    assert_eq!(states, [InputState::Unfinished; 2]);
    let ours = |review: &Review| {
        let inputs = review.inputs.iter();
        inputs.map(|i| i.keys.iter().filter(|key| key.ours).count()).collect::<Vec<_>>()
    };
    assert_eq!((ours(&review), review.inputs[0].keys.len()), (vec![1, 1], 3));
    assert!(!review.outputs[0].keys[0].ours);
    assert!(review.inputs.iter().all(|input| input.signatures.is_empty()));

    sign(&mut psbt, "A", &SignPolicy::default()).expect("it is ours");
    let review = psbt.review(&mut owns).expect("memory");
    let states: Vec<_> = review.inputs.iter().map(|input| input.state).collect();
    assert_eq!(states, [InputState::Unfinished, InputState::Signed]);
    for input in &review.inputs {
        assert_eq!(input.signatures.len(), 1);
        assert_eq!(input.signatures[0].valid, Some(true));
    }
    psbt.finalize();
    assert_eq!(psbt.review(&mut owns).expect("memory").inputs[1].state, InputState::Finished);
}

#[test]
fn a_key_that_cannot_be_looked_up_is_not_shown_as_foreign() {
    let psbt = received(&spend(&["wsh(multi(2,A/3,B/3,F/3))", "wpkh(A/0)"]));
    // Four keys of inputs, one of an output.
    for failing in 0..6 {
        let mut asked = 0;
        let review = psbt.review(&mut |_, _| {
            asked += 1;
            if asked > failing { Err(KeyError::BadSignature) } else { Ok(true) }
        });
        let expected = if failing < 5 { Err(KeyError::BadSignature) } else { Ok(()) };
        assert_eq!(review.map(|_| ()), expected, "after {failing} keys");
        assert_eq!(asked, 5.min(failing + 1), "nothing is asked after that");
    }
}

/// The estimated weight of a transaction that spends these coins, and that of the finished one.
#[track_caller]
fn weights(kinds: &[&str]) -> (u64, u64) {
    let mut psbt = received(&spend(kinds));
    let estimate = psbt.fee().expect("amounts are known").weight;
    sign(&mut psbt, "ABC", &SignPolicy::default()).expect("it is ours");
    psbt.finalize();
    let real = psbt.extract().expect("it is finished").weight();
    let finished = psbt.fee().expect("amounts are known").weight;
    assert_eq!(finished, real, "{kinds:?}");
    (estimate.to_wu(), real.to_wu())
}

#[test]
fn the_estimated_weight_is_close_to_the_real_one_and_never_above() {
    for kind in KINDS {
        let (estimate, real) = weights(&[kind]);
        // Too light by a leaf script at most: then the fee rate is found too high.
        assert!((real * 3 / 5..=real).contains(&estimate), "{kind}: {estimate}, {real}");
    }
    // Inputs without a witness beside others that have one.
    let (estimate, real) = weights(&KINDS);
    assert!((real * 4 / 5..=real).contains(&estimate), "{estimate}, {real}");
}

/// Locks of 4 blocks are open, those of 400 are not; `A`, `B` and `C` sign.
#[test]
fn the_lightest_way_to_spend_is_estimated() {
    let many: Vec<String> = (0..20).map(|index| format!("F/{index}")).collect();
    let many = format!("wsh(or_i(pk(A/16),multi(20,{})))", many.join(","));
    for (kind, signatures) in [
        ("wsh(thresh(2,pk(A/12),s:pk(B/12),sln:older(4)))", 1),
        ("wsh(or_i(multi(2,A/13,B/13),and_v(v:pkh(C/13),older(4))))", 1),
        ("wsh(or_d(pk(A/14),and_v(v:pkh(B/14),older(4))))", 1),
        (many.as_str(), 1),
        ("wsh(or_i(multi(2,A/13,B/13),and_v(v:pkh(C/13),older(400))))", 2),
        ("wsh(or_i(and_v(v:pk(F/17),after(9)),multi(3,A/17,B/17,C/17)))", 3),
        ("wsh(thresh(2,pk(A/18),s:pk(B/18),sln:older(400)))", 2),
        ("wsh(andor(pk(A/19),older(4),pk(B/19)))", 1),
        ("wsh(andor(pk(A/19),older(400),pk(B/19)))", 1),
        ("wsh(or_b(pk(A/20),s:pk(B/20)))", 1),
        ("wsh(and_b(pk(A/21),s:pk(B/21)))", 2),
        ("wsh(t:or_c(pk(A/22),v:pkh(B/22)))", 1),
        ("wsh(and_v(v:pk(A/23),or_d(pk(B/23),dv:older(4))))", 1),
        ("sh(wsh(and_v(v:pk(A/24),j:multi(1,B/24,C/24))))", 2),
    ] {
        let (estimate, real) = weights(&[kind]);
        // A signature seldom has a byte less than it mostly has.
        assert!((real - signatures..=real).contains(&estimate), "{kind}: {estimate}, {real}");
    }
    // The length of the second script takes three bytes.
    for (kind, signatures) in
        [("sh(multi(2,A/15,B/15,C/15))", 2), ("sh(multi(3,A/15,B/15,C/15,F/15,F/16))", 3)]
    {
        let (estimate, real) = weights(&[kind]);
        assert!((real - 4 * signatures..=real).contains(&estimate), "{kind}: {estimate}, {real}");
    }
}
