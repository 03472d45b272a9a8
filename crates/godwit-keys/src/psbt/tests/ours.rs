//! What depends on what is ours: gaps, inputs that are hidden, and what a fee is held against.

use bitcoin::bip32::ChildNumber;
use bitcoin::psbt::Output;
use bitcoin::{TxOut, Witness};
use miniscript::psbt::PsbtExt;

use super::coins::{COIN, FEE, keys, public_descriptor, received, spend};
use super::ownership::of_descriptors;
use super::*;
use crate::psbt::{FeeObjection, Ours};

/// An account of two branches, and one branch of another.
const OURS: [&str; 3] = ["wpkh(A/0/*)", "wpkh(A/1/*)", "tr(A/0/*)"];

fn ours_of(psbt: &Psbt) -> (Review, Ours) {
    ours_by(psbt, &OURS)
}

fn ours_by(psbt: &Psbt, descriptors: &[&str]) -> (Review, Ours) {
    let keys = keys("A");
    let mut owns = |source: &_, key: &_| Ok(matches!(look_up(&keys, source, key)?, Found::Ours(_)));
    let review = psbt.review(&mut owns).expect("memory");
    let ours = Ours::of(&review, &mut of_descriptors(descriptors));
    (review, ours)
}

/// What a careful signer with the keys of A says.
pub(super) fn checked(psbt: &Psbt, policy: &SignPolicy) -> Result<(), SignError> {
    let keys = keys("A");
    psbt.check(&mut |source, key| look_up(&keys, source, key), policy)?;
    let (review, ours) = ours_of(psbt);
    ours.check(&review.fee.map_err(SignError::Fee)?, policy)
}

/// Spends coins of these kinds; what outputs get is told by kind and satoshi. The rest is the fee.
fn paying(kinds: &[&str], outputs: &[(&str, u64)]) -> bitcoin::Psbt {
    let mut psbt = spend(kinds);
    psbt.unsigned_tx.output.clear();
    psbt.outputs.clear();
    for (index, (kind, value)) in outputs.iter().enumerate() {
        let descriptor = public_descriptor(kind);
        let (value, script_pubkey) = (Amount::from_sat(*value), descriptor.script_pubkey());
        psbt.unsigned_tx.output.push(TxOut { value, script_pubkey });
        psbt.outputs.push(Output::default());
        psbt.update_output_with_descriptor(index, &descriptor).expect(kind);
    }
    psbt
}

fn script(kind: &str) -> bitcoin::ScriptBuf {
    public_descriptor(kind).script_pubkey()
}

fn change_to(spent: &str, change: &str, policy: &SignPolicy) -> Result<(), SignError> {
    checked(&received(&paying(&[spent], &[(change, COIN - FEE)])), policy)
}

#[test]
fn a_gap_is_one_of_an_account() {
    let default = SignPolicy::default();
    for (spent, change, signed) in [
        ("wpkh(A/0/0)", "wpkh(A/1/200)", true),
        ("wpkh(A/0/0)", "wpkh(A/1/201)", false),
        ("wpkh(A/0/500)", "wpkh(A/1/700)", true),
        ("wpkh(A/0/500)", "wpkh(A/0/701)", false),
        ("wpkh(A/0/500)", "tr(A/0/200)", true),
        ("wpkh(A/0/500)", "tr(A/0/201)", false),
        ("tr(A/0/500)", "tr(A/0/700)", true),
    ] {
        let expected = if signed { Ok(()) } else { Err(SignError::Far(0)) };
        assert_eq!(change_to(spent, change, &default), expected, "{spent} {change}");
        let named = [script(change)];
        let any_index = SignPolicy { any_index: &named, ..default };
        assert_eq!(change_to(spent, change, &any_index), Ok(()), "{spent} {change}");
        let any_outputs = SignPolicy { any_outputs: &named, ..default };
        assert_eq!(change_to(spent, change, &any_outputs), expected, "another option");
        let others = [script("wpkh(A/1/0)"), script("wpkh(F/0)")];
        let any_index = SignPolicy { any_index: &others, ..default };
        assert_eq!(change_to(spent, change, &any_index), expected, "of other outputs");
    }
}

/// As Core writes them: each branch of an account is a descriptor of its own, imported by itself, with its
/// origin or without.
#[test]
fn branches_of_an_account_may_be_entries_of_their_own() {
    let branches = ["wpkh([00112233/84h]A/0/*)", "wpkh(A/1/*)", "tr(A/0/*)"];
    for (spent, change, signed) in [
        ("wpkh(A/0/500)", "wpkh(A/1/700)", true),
        ("wpkh(A/0/500)", "wpkh(A/1/701)", false),
        ("wpkh(A/1/500)", "wpkh(A/0/700)", true),
        ("wpkh(A/1/500)", "tr(A/0/201)", false),
    ] {
        let psbt = received(&paying(&[spent], &[(change, COIN - FEE)]));
        assert_eq!(ours_by(&psbt, &branches).1.far.is_empty(), signed, "{spent} {change}");
    }
}

/// Of a wallet of Core it is known which addresses it has given out; change of another kind than the coin is
/// among them too.
#[test]
fn a_gap_begins_behind_what_was_given_out() {
    let used = ["wpkh(A/0/*)", "wpkh(A/1/*)@1000", "tr(A/0/*)@1"];
    for (change, signed) in [
        ("wpkh(A/1/1199)", true),
        ("wpkh(A/1/1200)", false),
        ("wpkh(A/0/1199)", true),
        ("tr(A/0/200)", true),
        ("tr(A/0/201)", false),
    ] {
        let psbt = received(&paying(&["tr(A/0/0)"], &[(change, COIN - FEE)]));
        let far = &ours_by(&psbt, &used).1.far;
        assert_eq!(far.is_empty(), signed, "{change}");
    }
    // What was given out may be hidden as well.
    let mut psbt = paying(&["tr(A/0/0)", "wpkh(A/1/1150)"], &[("wpkh(F/0)", 2 * COIN - FEE)]);
    psbt.inputs[1].bip32_derivation.clear();
    let psbt = received(&psbt);
    assert_eq!(ours_by(&psbt, &used).1.hidden, [1]);
    assert_eq!(ours_by(&psbt, &OURS).1.hidden, [0; 0], "nobody knows");
}

#[test]
fn a_key_of_ours_that_no_descriptor_derives_brings_nothing_back() {
    for change in ["wpkh(A/1/100001)", "wpkh(A/7/0)", "wpkh(A/1/0/0)", "pkh(A/1/0)", "tr(A/1/0)"] {
        let refused = change_to("wpkh(A/0/0)", change, &SignPolicy::default());
        assert_eq!(refused, Err(SignError::Underived(0)), "{change}");
        let named = [script(change)];
        let any_outputs = SignPolicy { any_outputs: &named, ..SignPolicy::default() };
        assert_eq!(change_to("wpkh(A/0/0)", change, &any_outputs), Ok(()), "{change}");
    }
    assert_eq!(change_to("wpkh(A/0/0)", "wpkh(A/1/0)", &SignPolicy::default()), Ok(()));
    assert_eq!(change_to("wpkh(A/0/0)", "wpkh(F/7/0)", &SignPolicy::default()), Ok(()), "theirs");
}

/// Whoever permits change of which no descriptor is known has permitted no lie about where the rest goes.
#[test]
fn what_is_permitted_of_an_output_is_permitted_of_no_other() {
    let change = "wpkh(A/7/0)";
    let psbt = |lie: &dyn Fn(&mut bitcoin::Psbt)| {
        let mut psbt = paying(
            &["wpkh(A/0/0)"],
            &[(change, COIN / 2), ("wpkh(F/0)", COIN / 4), ("wpkh(A/9/9)", COIN / 4 - FEE)],
        );
        lie(&mut psbt);
        received(&psbt)
    };
    let of = |kinds: &[&str]| kinds.iter().map(|kind| script(kind)).collect::<Vec<_>>();
    let checked = |psbt: &Psbt, kinds: &[&str]| {
        checked(psbt, &SignPolicy { any_outputs: &of(kinds), ..SignPolicy::default() })
    };
    let honest = psbt(&|_| {});
    assert_eq!(checked(&honest, &[]), Err(SignError::Underived(0)));
    assert_eq!(checked(&honest, &[change]), Err(SignError::Underived(2)));
    assert_eq!(checked(&honest, &["wpkh(A/9/9)"]), Err(SignError::Underived(0)));
    assert_eq!(checked(&honest, &[change, "wpkh(A/9/9)"]), Ok(()));
    // Somebody else's output with a key of ours beside it, and one with a script that is not its own.
    let key = |psbt: &mut bitcoin::Psbt| {
        psbt.outputs[1].bip32_derivation = psbt.outputs[0].bip32_derivation.clone();
    };
    let scripts = |psbt: &mut bitcoin::Psbt| psbt.outputs[1].redeem_script = Some(script(change));
    for lying in [psbt(&key), psbt(&scripts)] {
        for kinds in [&[][..], &[change], &[change, "wpkh(A/9/9)"]] {
            assert!(matches!(checked(&lying, kinds), Err(SignError::Output(1, _))), "{kinds:?}");
        }
        assert_eq!(checked(&lying, &["wpkh(F/0)", change, "wpkh(A/9/9)"]), Ok(()));
    }
}

/// Two coins of ours with one change, shown twice: each time the other one seems to be somebody else's.
#[test]
fn an_input_cannot_be_hidden_in_both_of_two_sessions() {
    let foreign = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
    let places = [
        ("wpkh(A/0/0)", "wpkh(A/1/0)"),
        ("wpkh(A/0/0)", "tr(A/0/1000)"),
        ("wpkh(A/1/1000)", "tr(A/0/1100)"),
        ("wpkh(A/0/300)", "wpkh(A/0/501)"),
    ];
    for (one, other) in places {
        let honest = paying(&[one, other], &[("wpkh(A/1/0)", COIN - FEE), ("wpkh(F/0)", COIN)]);
        let outcomes = [0, 1].map(|index: usize| {
            let mut psbt = honest.clone();
            psbt.inputs[index].bip32_derivation.clear();
            psbt.inputs[index].tap_key_origins.clear();
            checked(&received(&psbt), &foreign)
        });
        let hidden = |outcome: &Result<_, _>| matches!(outcome, Err(SignError::Hidden(_)));
        assert!(outcomes.iter().any(hidden), "{one} {other}: {outcomes:?}");
        // Said to be finished, it is no other input.
        for index in [0, 1] {
            let mut psbt = honest.clone();
            psbt.inputs[index].final_script_witness = Some(Witness::from_slice(&[[7; 64]]));
            assert_eq!(checked(&received(&psbt), &foreign), Err(SignError::Hidden(index)), "{one}");
        }
    }
    // What is theirs is theirs.
    let theirs = paying(&["wpkh(A/0/0)", "wpkh(F/0)"], &[("wpkh(F/1)", 2 * COIN - FEE)]);
    assert_eq!(checked(&received(&theirs), &foreign), Ok(()));
}

#[test]
fn the_same_script_as_that_of_a_coin_of_ours_is_ours_though_nothing_derives_it() {
    let foreign = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
    let mut psbt = paying(&["wpkh(A/7/7)", "wpkh(A/7/7)"], &[("wpkh(F/1)", 2 * COIN - FEE)]);
    let both = received(&psbt);
    assert_eq!(checked(&both, &foreign), Ok(()));
    let told = |psbt| (ours_of(psbt).1.underived_inputs, ours_of(psbt).1.beside_others);
    assert_eq!(told(&both), (vec![0, 1], false));
    psbt.inputs[1].bip32_derivation.clear();
    let hiding = received(&psbt);
    assert_eq!(checked(&hiding, &foreign), Err(SignError::Hidden(1)));
    assert_eq!(told(&hiding), (vec![0], true), "others may be ours");
}

#[test]
fn a_fee_is_held_against_what_is_paid() {
    let limits = FeeLimits { fee: Amount::MAX_MONEY, rate: FeeRate::MAX };
    let policy =
        |fee_share| SignPolicy { fee: limits, fee_share, foreign_inputs: true, ..generous() };
    let checked_of = |kinds: &[&str], outputs: &[(&str, u64)], fee_share| {
        checked(&received(&paying(kinds, outputs)), &policy(fee_share))
    };
    let (ours, change, theirs) = ("wpkh(A/0/0)", "wpkh(A/1/0)", "wpkh(F/0)");
    let quarter = COIN / 4;
    // One payment; everything back to us; beside an input of others', which makes no fee smaller; a small
    // payment with a large change.
    for (kinds, outputs, least) in [
        (&[ours][..], [(theirs, COIN - quarter), (change, 0)], (0, 1)),
        (&[ours], [(change, COIN - quarter), (change, 0)], (0, 1)),
        (&[ours, theirs], [(theirs, 2 * COIN - quarter), (change, 0)], (0, 1)),
        (&[ours], [(theirs, 999), (change, COIN - 999 - 333)], (1, 1)),
    ] {
        assert_eq!(checked_of(kinds, &outputs, 25), Ok(()), "{outputs:?}");
        let mut above = outputs;
        above[least.0].1 -= least.1;
        let refused = checked_of(kinds, &above, 25);
        assert!(
            matches!(refused, Err(SignError::Fee(FeeObjection::AboveShare { .. }))),
            "{above:?}: {refused:?}"
        );
        assert_eq!(checked_of(kinds, &above, 100), Ok(()), "no limit");
    }
}

#[test]
fn scripts_of_others_do_not_hide_a_fee() {
    let signed = |limit: u64, other: &str| {
        let limits = FeeLimits { fee: Amount::MAX_MONEY, rate: FeeRate::from_sat_per_kwu(limit) };
        let policy = SignPolicy { fee: limits, foreign_inputs: true, ..SignPolicy::default() };
        let psbt = paying(&["wpkh(A/0/0)", other], &[("wpkh(F/1)", 2 * COIN - FEE)]);
        checked(&received(&psbt), &policy)
    };
    let keys: Vec<String> = (0..15).map(|index| format!("F/{index}")).collect();
    let large = format!("wsh(multi(15,{}))", keys.join(","));
    let least = (0..FEE).map(|tens| tens * 10).find(|limit| signed(*limit, "wpkh(F/0)").is_ok());
    let least = least.expect("some limit is high enough");
    assert_eq!(signed(least, &large), Ok(()));
    let hidden = signed(least - 10, &large);
    assert!(matches!(hidden, Err(SignError::Fee(FeeObjection::AboveRate { .. }))), "{hidden:?}");
}

/// The path of a key is what the PSBT says; a step more or less leads elsewhere.
#[test]
fn a_path_that_is_wrong_by_a_step_is_no_place_of_ours() {
    let mut psbt = paying(&["wpkh(A/0/0)"], &[("wpkh(A/1/5)", COIN - FEE)]);
    let source = psbt.outputs[0].bip32_derivation.values_mut().next().expect("one");
    source.1 = source.1.child(ChildNumber::Normal { index: 0 });
    let refused = checked(&received(&psbt), &SignPolicy::default());
    assert!(matches!(refused, Err(SignError::Output(0, _))), "{refused:?}");
}

/// Coins of ours by every descriptor, change that is said to be ours in every way that it is not, in both
/// versions: none of it is signed, alone or beside an input of others.
#[test]
fn no_lie_about_what_is_ours_gets_a_signature() {
    let default = SignPolicy::default();
    let foreign = SignPolicy { foreign_inputs: true, ..default };
    let behind = [201, 1_000, 99_999, 100_000].map(|index| {
        ["wpkh(A/0/@)", "wpkh(A/1/@)", "tr(A/0/@)"]
            .map(|kind| kind.replace('@', &index.to_string()))
    });
    let underived = [
        "wpkh(A/1/100001)",
        "wpkh(A/1/2147483647)",
        "wpkh(A/2/0)",
        "wpkh(A/0)",
        "wpkh(A/0/0/0)",
        "wpkh(A/0h/0)",
        "pkh(A/1/0)",
        "sh(wpkh(A/1/0))",
        "tr(A/1/0)",
        // With somebody who signs as well, or alone.
        "wsh(multi(1,A/1/0,F/0))",
        "wsh(multi(2,A/1/0,F/0))",
        "wsh(sortedmulti(1,F/0,A/1/0))",
        "sh(multi(1,A/1/0,F/0))",
        "sh(wsh(multi(2,A/1/0,F/0)))",
        "multi(1,A/1/0,F/0)",
        "tr(A/0/0,pk(F/0))",
        "tr(F/0,pk(A/0/0))",
        "tr(F/0,{pk(F/1),and_v(v:pk(A/0/0),older(7))})",
    ];
    let mut told = 0;
    for spent in ["wpkh(A/0/0)", "wpkh(A/1/0)", "tr(A/0/0)"] {
        let lies = behind.iter().flatten().map(|kind| (kind.as_str(), SignError::Far(0)));
        let lies = lies.chain(underived.map(|kind| (kind, SignError::Underived(0))));
        for (kind, expected) in lies {
            let alone = paying(&[spent], &[(kind, COIN / 2), ("wpkh(F/1)", COIN / 2 - FEE)]);
            let beside = paying(
                &["wpkh(F/9)", spent],
                &[(kind, COIN / 2), ("wpkh(F/1)", COIN / 2 - FEE), ("wpkh(F/2)", COIN)],
            );
            for (psbt, policy) in [(alone, &default), (beside, &foreign)] {
                for psbt in [received(&psbt), received(&psbt).into_version2()] {
                    let outcome = checked(&psbt, policy);
                    assert_eq!(outcome.as_ref(), Err(&expected), "{spent} {kind}");
                    told += 1;
                }
            }
        }
    }
    assert!(told >= 300, "{told}");
}

/// A cosigner may take what lies at a shared account: change of ours alone that is put there has left.
#[test]
fn change_to_a_shared_account_comes_back_as_far_as_the_account_is_spent() {
    // Our key alone does not spend these, though no other one is in them.
    let hash = "11".repeat(32);
    let [hashed, to_hash] =
        ["*", "3"].map(|at| format!("wsh(and_v(v:pk(A/6/{at}),sha256({hash})))"));
    let (hashed, to_hash) = (hashed.as_str(), to_hash.as_str());
    let later = "wsh(and_v(v:pk(A/7/3),older(65535)))";
    let descriptors = [
        &OURS[..],
        &["wsh(multi(2,A/0/*,F/0/*))", "wsh(multi(2,A/1/*,F/1/*))", "wsh(multi(1,A/5/*,F/5/*))"],
    ]
    .concat();
    let descriptors =
        [&descriptors[..], &[hashed, "wsh(and_v(v:pk(A/7/*),older(65535)))"]].concat();
    let (alone, both) = ("wpkh(A/0/0)", "wsh(multi(2,A/0/0,F/0/0))");
    let (change, any) = ("wsh(multi(2,A/1/3,F/1/3))", "wsh(multi(1,A/5/3,F/5/3))");
    let all = COIN - FEE;
    for (kinds, outputs, shared, back) in [
        (&[alone][..], &[(change, all)][..], &[0][..], 0),
        (&[alone], &[(any, all)], &[0], 0),
        (&[alone], &[(to_hash, all)], &[0], 0),
        (&[alone], &[(later, all)], &[0], 0),
        (&[later], &[(later, all)], &[], all),
        (&[alone], &[("wpkh(A/1/0)", all / 2), (any, all / 2)], &[1], all / 2),
        (&[both], &[(change, all)], &[], all),
        (&[both], &[(any, all)], &[0], 0),
        (&["wsh(multi(1,A/5/9,F/5/9))"], &[(any, all)], &[], all),
        // A small coin of the account is no reason to put everything there.
        (&[both, alone], &[(change, COIN), (change, 0)], &[], COIN),
        (&[both, alone], &[(change, COIN), (change, 1)], &[0, 1], 0),
    ] {
        let psbt = received(&paying(kinds, outputs));
        let (_, ours) = ours_by(&psbt, &descriptors);
        assert_eq!(ours.back, Amount::from_sat(back), "{kinds:?} {outputs:?}");
        assert_eq!(ours.shared, shared, "{kinds:?} {outputs:?}");
    }
}

/// Nothing tells that the others are not ours as well, each of them hidden once.
#[test]
fn an_input_that_no_descriptor_derives_is_not_signed_beside_others() {
    let foreign = SignPolicy { foreign_inputs: true, ..SignPolicy::default() };
    let any_inputs = SignPolicy { any_inputs: true, ..foreign };
    let honest = paying(
        &["wpkh(A/7/7)", "wsh(multi(1,A/7/8,F/0))"],
        &[("wpkh(A/1/0)", COIN - FEE), ("wpkh(F/0)", COIN)],
    );
    assert_eq!(checked(&received(&honest), &SignPolicy::default()), Ok(()), "no others");
    for hidden in [0, 1] {
        let mut psbt = honest.clone();
        psbt.inputs[hidden].bip32_derivation.clear();
        for psbt in [received(&psbt), received(&psbt).into_version2()] {
            let refused = SignError::UnderivedInput(1 - hidden);
            assert_eq!(checked(&psbt, &foreign), Err(refused), "{hidden}");
            assert_eq!(checked(&psbt, &any_inputs), Ok(()), "{hidden}");
        }
    }
}

/// Somebody's coin with a key of ours in its script, and his own output of the same worth, are no payment of
/// ours that a fee is a small part of.
#[test]
fn an_input_that_no_descriptor_derives_makes_no_fee_smaller() {
    let limits = FeeLimits { fee: Amount::MAX_MONEY, rate: FeeRate::MAX };
    let policy = SignPolicy { fee: limits, ..SignPolicy::default() };
    let his = "wsh(multi(1,F/5,A/5))";
    let (ours, back, theirs) = ("wpkh(A/0/0)", "wpkh(A/1/0)", "wpkh(F/0)");
    let quarter = COIN / 4;
    for (kinds, outputs, least) in [
        (&[ours, his][..], [(theirs, COIN + 999), (back, COIN - 999 - 333)], 1),
        (&[ours, his], [(theirs, 2 * COIN - quarter), (back, 0)], 0),
        // It is all that is ours, or more comes back than what a descriptor derives.
        (&[his], [(theirs, COIN - quarter), (back, 0)], 0),
        (&[ours, "wpkh(A/7/0)"], [(theirs, 0), (back, 2 * COIN - 2 * quarter)], 1),
    ] {
        let outcome =
            |outputs: &[(&str, u64)]| checked(&received(&paying(kinds, outputs)), &policy);
        assert_eq!(outcome(&outputs), Ok(()), "{kinds:?} {outputs:?}");
        let mut above = outputs;
        above[least].1 -= 1;
        let refused = outcome(&above);
        assert!(
            matches!(refused, Err(SignError::Fee(FeeObjection::AboveShare { .. }))),
            "{kinds:?} {above:?}: {refused:?}"
        );
    }
}
