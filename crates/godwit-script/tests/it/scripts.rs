//! Claims, proofs and Core's engine together give the same verdicts as the engine alone.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bitcoin::key::Secp256k1;
use bitcoin::{Amount, TxOut};
use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{
    ClaimQueue, Counts, Group, Precomputed, ScriptError, Scripts, SpendingTx, Verdict, Work, claim,
};
use godwit_verify::BackendKind;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::plan::{Case, Kind, Plan};
use crate::twin::{prepare, spent_outputs};

const FLAGS: ScriptFlags = ScriptFlags::ALL;

/// One of ten does not hold, of those some make no claim.
fn cases(count: usize, seed: u64) -> Vec<Case> {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(seed);
    let cases = (0..count).map(|at| {
        let mut plan = Plan::random(Kind::ALL[at % Kind::ALL.len()], &mut rng);
        match rng.random_range(0..40) {
            0..2 => plan.signers[0] = plan.secrets.len() - 1 - plan.signers[0],
            2..4 => plan.flip_program = true,
            4 => plan.after_script_sig = vec![0x61],
            _ => {}
        }
        plan.build(&secp)
    });
    cases.collect()
}

fn spending<'a>(bytes: &'a [Vec<u8>], cases: &'a [Case]) -> Vec<SpendingTx<'a>> {
    let txs = bytes.iter().zip(cases).map(|(bytes, case)| {
        let view = TxView::parse(bytes).expect("transaction parses");
        SpendingTx::new(view, spent_outputs(&case.spent)).expect("one output an input")
    });
    txs.collect()
}

/// What the engine alone says of a group's works in their order, which are of the transactions from `first`.
fn engine(bytes: &[Vec<u8>], cases: &[Case], first: usize, group: &Group<'_, '_>) -> Verdict {
    for (at, work) in group.works.iter().enumerate() {
        let prepared = prepare(&bytes[first + at], &cases[first + at].spent).expect("well-formed");
        let verdict = prepared.verify_range(work.inputs.clone(), group.flags);
        verdict.map_err(|error| (at, error))?;
    }
    Ok(())
}

fn group<'s, 'a>(works: Vec<Work<'s, 'a>>, flags: ScriptFlags) -> Group<'s, 'a> {
    Group { works, flags, crosscheck: None }
}

fn whole<'s, 'a>(txs: &'s [SpendingTx<'a>]) -> Vec<Work<'s, 'a>> {
    txs.iter().map(|tx| Work { tx, inputs: 0..tx.input_count() }).collect()
}

/// Claims are proven on every processor: by libsecp256k1 where there are no lanes, and [`Scripts::new`] has
/// the engine judge everything.
pub(crate) fn proving() -> Scripts {
    Scripts::with_backend(ClaimQueue::<usize>::new().backend()).expect("of this processor")
}

#[test]
fn verdicts_are_the_engines() {
    type Start = fn() -> Option<Scripts>;
    let all: [(&str, Start); 3] = [
        ("lanes", || Some(proving())),
        ("single", || Scripts::with_backend(BackendKind::Single)),
        ("engine", || Some(Scripts::engine_only())),
    ];
    for (name, start) in all {
        let (mut refused, mut accepted) = (0, 0);
        let mut counts = Counts::default();
        for seed in 0..60 {
            // Another one each time, as one that has met many that do not hold makes no claims.
            let mut scripts = start().expect("runs everywhere");
            let cases = cases(1 + seed as usize % 20, seed);
            let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
            let txs = spending(&bytes, &cases);
            // Neighbours in the lanes, each with a verdict of its own.
            let mut first = 0;
            let mut groups = Vec::new();
            while first < txs.len() {
                let count = (1 + (seed as usize + groups.len()) % 7).min(txs.len() - first);
                let mut works = whole(&txs[first..first + count]);
                if seed % 7 == 3 {
                    works[count - 1].inputs.end += 1;
                }
                let flags = if groups.len() % 2 == 0 { FLAGS } else { ScriptFlags::P2SH };
                groups.push((first, group(works, flags)));
                first += count;
            }
            let expected: Vec<Verdict> =
                groups.iter().map(|(first, group)| engine(&bytes, &cases, *first, group)).collect();
            let groups: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
            assert_eq!(scripts.verify(&groups), expected, "seed {seed}");
            counts += scripts.counts();
            refused += expected.iter().filter(|verdict| verdict.is_err()).count();
            accepted += expected.iter().filter(|verdict| verdict.is_ok()).count();
        }
        assert!(refused > 15 && accepted > 15, "{refused} refused, {accepted} accepted");
        let Counts { proven, unclaimed, unproven, crosschecked } = counts;
        println!("{name}: {proven} proven, {unclaimed} unclaimed, {unproven} unproven");
        assert_eq!(crosschecked, 0);
        match name {
            "engine" => assert!(proven == 0 && unproven == 0 && unclaimed > 250),
            _ => assert!(proven > 200 && unclaimed > 50 && unproven > 5),
        }
    }
}

/// Signatures that do not hold, one in each group, and behind them some that do.
#[test]
fn claims_are_given_up_where_most_are_not_proven() {
    const WRONG: usize = 300;
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(8);
    let mut case = || Plan::random(Kind::WitnessKeyHash, &mut rng).build(&secp);
    let mut cases: Vec<Case> = (0..WRONG + 50).map(|_| case()).collect();
    for case in &mut cases[..WRONG] {
        case.spent[case.input].value += 1;
    }
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let works = |(tx, case): (_, &Case)| vec![Work { tx, inputs: case.input..case.input + 1 }];
    let groups: Vec<_> = txs.iter().zip(&cases).map(|pair| group(works(pair), FLAGS)).collect();
    let expected = |at: usize| match at < WRONG {
        true => Err((0, ScriptError::Rejected { input: cases[at].input })),
        false => Ok(()),
    };
    let expected: Vec<Verdict> = (0..cases.len()).map(expected).collect();
    let mut scripts = proving();
    assert_eq!(scripts.verify(&groups), expected);
    let Counts { proven, unclaimed, unproven, .. } = scripts.counts();
    let batch = ClaimQueue::<usize>::BATCH as u64;
    assert_eq!((proven, unproven, unclaimed), (0, batch, cases.len() as u64 - batch));
    for _ in 0..3 {
        assert_eq!(scripts.verify(&groups), expected);
    }
    assert!(scripts.counts().unproven <= 4 * unproven);
}

/// The engine hashes what is long sooner.
#[test]
fn legacy_signatures_beside_long_outputs_make_no_claim() {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(9);
    for kind in [Kind::Key, Kind::KeyHash, Kind::Multisig, Kind::WitnessKeyHash] {
        let mut case = Plan::random(kind, &mut rng).build(&secp);
        let mut claims = |outputs: usize, script: usize| {
            let script_pubkey = vec![0x51; script].into();
            let output = TxOut { value: Amount::from_sat(1), script_pubkey };
            case.tx.output = vec![output; outputs];
            let bytes = case.bytes();
            let view = TxView::parse(&bytes).expect("transaction parses");
            let tx = SpendingTx::new(view, spent_outputs(&case.spent)).expect("one an input");
            claim(&tx, case.input, FLAGS).is_some()
        };
        let is_legacy = kind != Kind::WitnessKeyHash;
        // 8 bytes for the value, 1 or 3 for the length.
        for (outputs, script, is_long) in [
            (1, 16 * 1024 - 11, false),
            (1, 16 * 1024 - 10, true),
            (300, 64 - 9, false),
            (300, 64 - 8, true),
        ] {
            assert_eq!(claims(outputs, script), !(is_long && is_legacy), "{kind:?}, {outputs}");
        }
    }
}

#[test]
fn one_of_so_many_proven_inputs_is_judged_by_the_engine_too() {
    let cases = cases(400, 6);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let share = |crosscheck: Option<u32>| {
        let mut scripts = proving();
        let group = |tx| {
            let works = vec![Work { tx, inputs: 0..tx.input_count() }];
            Group { works, flags: FLAGS, crosscheck: crosscheck.and_then(NonZeroU32::new) }
        };
        let groups: Vec<_> = txs.iter().map(group).collect();
        scripts.verify(&groups);
        let Counts { proven, crosschecked, .. } = scripts.counts();
        assert!(proven > 300, "{proven}");
        (proven, crosschecked)
    };
    assert_eq!(share(None).1, 0);
    let (proven, crosschecked) = share(Some(1));
    // In a group that fails the inputs behind the failure are not asked about.
    assert!(crosschecked <= proven && crosschecked * 10 > proven * 9, "{crosschecked} of {proven}");
    let (proven, crosschecked) = share(Some(4));
    assert!(crosschecked * 10 > proven && crosschecked * 2 < proven, "{crosschecked} of {proven}");
}

/// Lanes and engine do not differ, so that the engine is told another amount than was signed.
#[test]
fn what_the_engine_refuses_although_it_is_proven_is_a_contradiction() {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(7);
    let case = Plan::random(Kind::WitnessKeyHash, &mut rng).build(&secp);
    let bytes = case.bytes();
    let view = TxView::parse(&bytes).expect("transaction parses");
    let precomputed = Arc::new(Precomputed::of(view.txid()));
    let mut wrong = case.spent.clone();
    for output in &mut wrong {
        output.value += 1;
    }
    let spending = |spent| {
        SpendingTx::with_precomputed(view, spent_outputs(spent), &precomputed).expect("as many")
    };
    let verdict = |tx: &SpendingTx<'_>, crosscheck| {
        let works = vec![Work { tx, inputs: case.input..case.input + 1 }];
        proving().verify(&[Group { works, flags: FLAGS, crosscheck }]).pop().expect("one of one")
    };
    let (wrong, right) = (spending(&wrong), spending(&case.spent));
    let input = case.input;
    assert_eq!(verdict(&wrong, None), Err((0, ScriptError::Rejected { input })));
    assert_eq!(verdict(&right, None), Ok(()));
    let contradicted = Err((0, ScriptError::Contradicted { input }));
    assert_eq!(verdict(&right, Some(NonZeroU32::MIN)), contradicted);
}

#[test]
fn questions_are_checked_first() {
    let cases = cases(3, 1);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let mut scripts = Scripts::new();
    let mut verify = |works, flags| scripts.verify(&[group(works, flags)]).pop();
    let (tx, inputs) = (&txs[0], txs[0].input_count());
    for (start, end) in [(0, inputs + 1), (1, 0), (inputs + 1, inputs + 1), (0, usize::MAX)] {
        let work = vec![Work { tx, inputs: start..end }];
        let error = ScriptError::BadRange { start, end, inputs };
        assert_eq!(verify(work, FLAGS), Some(Err((0, error))));
    }
    for inputs in [0..0, inputs..inputs] {
        assert_eq!(verify(vec![Work { tx, inputs }], FLAGS), Some(Ok(())));
    }
    let flags = FLAGS.without(ScriptFlags::P2SH);
    let work = vec![Work { tx, inputs: 0..0 }];
    assert_eq!(verify(work, flags), Some(Err((0, ScriptError::WitnessWithoutP2sh))));
    assert_eq!(verify(vec![], flags), Some(Ok(())));
    assert_eq!(scripts.verify(&[]), []);
    let view = TxView::parse(&bytes[0]).expect("transaction parses");
    for spent in [0, inputs + 1] {
        let error = ScriptError::SpentOutputCount { inputs, spent };
        let outputs = vec![cases[0].spent[0].clone(); spent];
        assert_eq!(SpendingTx::new(view, spent_outputs(&outputs)).err(), Some(error));
    }
}

/// What was computed for one transaction would make wrong messages for another.
#[test]
fn what_was_computed_for_another_transaction_is_not_used() {
    let cases = cases(20, 2);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let claims = |tx: &SpendingTx<'_>| -> Vec<_> {
        (0..tx.input_count()).map(|input| claim(tx, input, FLAGS)).collect()
    };
    for (tx, case) in txs.iter().zip(&cases) {
        for other in &txs {
            let precomputed = Arc::new(Precomputed::of(other.view().txid()));
            let with = |tx: &SpendingTx<'_>, case: &Case| {
                let spent = spent_outputs(&case.spent);
                claims(
                    &SpendingTx::with_precomputed(tx.view(), spent, &precomputed).expect("as many"),
                )
            };
            // The other's are all computed.
            let at = txs.iter().position(|tx| tx.view().txid() == other.view().txid());
            with(other, &cases[at.expect("one of them")]);
            assert_eq!(with(tx, case), claims(tx));
        }
    }
}

/// A txid says nothing of the witness.
#[test]
fn the_engine_reads_the_witness_that_it_is_asked_about() {
    let secp = Secp256k1::new();
    let case = Plan::random(Kind::WitnessKeyHash, &mut StdRng::seed_from_u64(8)).build(&secp);
    let good = case.bytes();
    let txid = TxView::parse(&good).expect("it parses").txid();
    let flipped = (0..good.len()).rev().map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        bytes
    });
    let is_bad_witness = |bytes: &Vec<u8>| {
        TxView::parse(bytes).is_ok_and(|view| view.txid() == txid)
            && prepare(bytes, &case.spent).is_ok_and(|tx| tx.verify(FLAGS).is_err())
    };
    let bad = flipped.into_iter().find(is_bad_witness).expect("a bit of a signature");
    let [good, bad] = [&good, &bad].map(|bytes| TxView::parse(bytes).expect("it parses"));
    for views in [[good, bad], [bad, good]] {
        let precomputed = Arc::new(Precomputed::of(good.txid()));
        for view in views {
            let spent = spent_outputs(&case.spent);
            let tx = SpendingTx::with_precomputed(view, spent, &precomputed).expect("as many");
            let works = vec![Work { tx: &tx, inputs: 0..tx.input_count() }];
            let verdict = Scripts::engine_only().verify(&[group(works, FLAGS)]);
            assert_eq!(verdict[0].is_ok(), view.bytes() == good.bytes());
        }
    }
}

#[test]
fn parts_share_what_is_computed() {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(3);
    for kind in Kind::ALL {
        let case = Plan::random(kind, &mut rng).build(&secp);
        let bytes = case.bytes();
        let view = TxView::parse(&bytes).expect("transaction parses");
        let precomputed = Arc::new(Precomputed::of(view.txid()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let spent = spent_outputs(&case.spent);
                    let tx =
                        SpendingTx::with_precomputed(view, spent, &precomputed).expect("as many");
                    let claimed = claim(&tx, case.input, FLAGS);
                    let alone = SpendingTx::new(view, spent_outputs(&case.spent)).expect("as many");
                    assert_eq!(claimed, claim(&alone, case.input, FLAGS));
                    assert!(claimed.is_some());
                });
            }
        });
    }
}

/// Claims of any transactions wait together, and each is settled once under its own name.
#[test]
fn every_claim_is_settled_once() {
    let cases = cases(400, 4);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    for kind in [BackendKind::Single, BackendKind::ModelIfma, BackendKind::Ifma512] {
        let Some(mut queue) = ClaimQueue::with_backend(kind) else {
            godwit_testdata::skip(&format!("the processor cannot run {kind:?}"));
            continue;
        };
        let mut settled = vec![0; cases.len()];
        let mut claimed = vec![0; cases.len()];
        for (at, (tx, case)) in txs.iter().zip(&cases).enumerate() {
            if let Some(claim) = claim(tx, case.input, FLAGS) {
                claimed[at] = 1;
                queue.push(at, claim, |at: usize, _| settled[at] += 1);
            }
        }
        let waited = queue.len();
        assert!(waited > 0 && waited < ClaimQueue::<usize>::BATCH + 20);
        queue.flush(|at, _| settled[at] += 1);
        assert!(queue.is_empty());
        assert_eq!(settled, claimed);
        println!("{kind:?}: {:?}", queue.check_counts());
    }
}

#[test]
fn a_queue_is_not_used_after_a_panic() {
    let cases = cases(1, 5);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let claim = claim(&txs[0], cases[0].input, FLAGS).expect("it is of a form");
    let mut queue = ClaimQueue::new();
    queue.push((), claim.clone(), |_, _| {});
    let panicked = catch_unwind(AssertUnwindSafe(|| queue.flush(|_, _| panic!("in an answer"))));
    assert!(panicked.is_err());
    let again = catch_unwind(AssertUnwindSafe(|| {
        queue.push((), claim, |_, _| {});
        queue.flush(|_, _| {});
    }));
    assert!(again.is_err());
}
