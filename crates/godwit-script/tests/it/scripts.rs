//! Claims, proofs and Core's engine together: the verdicts are those of the engine alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bitcoin::key::Secp256k1;
use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{ClaimQueue, Counts, Midstates, ScriptError, Scripts, SpendingTx, Work, claim};
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

/// What the engine alone says of the works in their order.
fn engine(
    bytes: &[Vec<u8>],
    cases: &[Case],
    works: &[Work<'_, '_>],
) -> Result<(), (usize, ScriptError)> {
    for (at, work) in works.iter().enumerate() {
        let prepared = prepare(&bytes[at], &cases[at].spent).expect("well-formed");
        let verdict = prepared.verify_range(work.inputs.clone(), FLAGS);
        verdict.map_err(|error| (at, error))?;
    }
    Ok(())
}

#[test]
fn verdicts_are_the_engines() {
    for backend in [None, Some(BackendKind::Single)] {
        let mut scripts = match backend {
            None => Scripts::new(),
            Some(kind) => Scripts::with_backend(kind).expect("runs everywhere"),
        };
        let (mut refused, mut accepted) = (0, 0);
        for seed in 0..60 {
            let cases = cases(1 + seed as usize % 20, seed);
            let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
            let txs = spending(&bytes, &cases);
            let mut works: Vec<_> =
                txs.iter().map(|tx| Work { tx, inputs: 0..tx.input_count() }).collect();
            if seed % 7 == 3 {
                let last = works.len() - 1;
                works[last].inputs.end += 1;
            }
            let expected = engine(&bytes, &cases, &works);
            assert_eq!(scripts.verify(&works, FLAGS), expected, "seed {seed}");
            refused += usize::from(expected.is_err());
            accepted += usize::from(expected.is_ok());
        }
        assert!(refused > 15 && accepted > 15, "{refused} refused, {accepted} accepted");
        let Counts { proven, unclaimed, unproven } = scripts.counts();
        println!("{backend:?}: {proven} proven, {unclaimed} unclaimed, {unproven} unproven");
        assert!(proven > 200 && unclaimed > 50 && unproven > 5);
    }
}

#[test]
fn questions_are_checked_first() {
    let cases = cases(3, 1);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let mut scripts = Scripts::new();
    let (tx, inputs) = (&txs[0], txs[0].input_count());
    for (start, end) in [(0, inputs + 1), (1, 0), (inputs + 1, inputs + 1), (0, usize::MAX)] {
        let work = [Work { tx, inputs: start..end }];
        let error = ScriptError::BadRange { start, end, inputs };
        assert_eq!(scripts.verify(&work, FLAGS), Err((0, error)));
    }
    for inputs in [0..0, inputs..inputs] {
        assert_eq!(scripts.verify(&[Work { tx, inputs }], FLAGS), Ok(()));
    }
    let flags = FLAGS.without(ScriptFlags::P2SH);
    let work = [Work { tx, inputs: 0..0 }];
    assert_eq!(scripts.verify(&work, flags), Err((0, ScriptError::WitnessWithoutP2sh)));
    assert_eq!(scripts.verify(&[], flags), Ok(()));
    let view = TxView::parse(&bytes[0]).expect("transaction parses");
    for spent in [0, inputs + 1] {
        let error = ScriptError::SpentOutputCount { inputs, spent };
        let outputs = vec![cases[0].spent[0].clone(); spent];
        assert_eq!(SpendingTx::new(view, spent_outputs(&outputs)).err(), Some(error));
    }
}

/// What was computed for one transaction would make wrong messages for another.
#[test]
fn midstates_of_another_transaction_are_not_used() {
    let cases = cases(20, 2);
    let bytes: Vec<_> = cases.iter().map(Case::bytes).collect();
    let txs = spending(&bytes, &cases);
    let claims = |tx: &SpendingTx<'_>| -> Vec<_> {
        (0..tx.input_count()).map(|input| claim(tx, input, FLAGS)).collect()
    };
    for (tx, case) in txs.iter().zip(&cases) {
        for other in &txs {
            let midstates = Arc::new(Midstates::of(other.view().txid()));
            let with = |tx: &SpendingTx<'_>, case: &Case| {
                let spent = spent_outputs(&case.spent);
                claims(&SpendingTx::with_midstates(tx.view(), spent, &midstates).expect("as many"))
            };
            // The other's are all computed.
            let at = txs.iter().position(|tx| tx.view().txid() == other.view().txid());
            with(other, &cases[at.expect("one of them")]);
            assert_eq!(with(tx, case), claims(tx));
        }
    }
}

#[test]
fn parts_share_midstates() {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(3);
    for kind in Kind::ALL {
        let case = Plan::random(kind, &mut rng).build(&secp);
        let bytes = case.bytes();
        let view = TxView::parse(&bytes).expect("transaction parses");
        let midstates = Arc::new(Midstates::of(view.txid()));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let spent = spent_outputs(&case.spent);
                    let tx = SpendingTx::with_midstates(view, spent, &midstates).expect("as many");
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
    for kind in [BackendKind::Single, BackendKind::Model52, BackendKind::Ifma512] {
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
