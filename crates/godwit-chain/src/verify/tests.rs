//! How the inputs of blocks are split into parts, and what workers do on a contradiction.

use godwit_consensus::RejectReason;
use godwit_script::BackendKind;
use godwit_store::exec::{Threads, Workers};

use super::*;
use crate::chain::tests::first_applied;
use crate::limits::{MAX_BLOCK_INPUTS, MAX_PARTS};

/// The parts of a block whose transactions have so many inputs, the coinbase aside.
fn parts(inputs: &[usize]) -> Vec<ScriptPart> {
    let mut first = vec![0, 0];
    let mut end = 0;
    for count in inputs {
        end += *count as u32;
        first.push(end);
    }
    let mut parts = Vec::new();
    split(&first, |_| Txid::from_bytes([0; 32]), &mut parts);
    parts
}

#[test]
fn every_input_is_in_one_part_and_no_block_has_more_parts_than_the_limit_says() {
    const MOST: usize = 2 * INPUTS_PER_PART;
    let patterns: [&[usize]; 8] = [
        &[1],
        &[INPUTS_PER_PART - 1],
        &[INPUTS_PER_PART],
        &[MOST, MOST - 1],
        &[MOST + 1],
        // Each large one ends a part and has a short last part of its own.
        &[1, MOST + 1],
        &[INPUTS_PER_PART - 1, MOST + 1],
        &[MAX_BLOCK_INPUTS],
    ];
    for pattern in patterns {
        let mut left = MAX_BLOCK_INPUTS;
        let fits = |count: &&usize| {
            let fits = **count <= left;
            left -= if fits { **count } else { 0 };
            fits
        };
        let inputs: Vec<usize> = pattern.iter().cycle().take_while(fits).copied().collect();
        let parts = parts(&inputs);
        // Two more count signature operations and encode the undo record.
        assert!(parts.len() + 2 <= MAX_PARTS, "{} parts of {pattern:?}", parts.len());
        let mut seen = vec![0; inputs.len()];
        for part in &parts {
            match part {
                ScriptPart::Txs(txs) => txs.clone().for_each(|tx| seen[tx - 1] += inputs[tx - 1]),
                ScriptPart::Inputs { tx, inputs, .. } => seen[tx - 1] += inputs.len(),
            }
        }
        assert_eq!(seen, inputs, "{pattern:?}");
    }
}

/// One input of a block, and the engine's copy of its transaction.
struct Deceived {
    resolved: Arc<Resolved>,
    tx: usize,
    input: usize,
    precomputed: Arc<Precomputed>,
}

/// The engine's copy of the transaction, if amounts that nobody signed make it refuse that input.
fn deceive(resolved: &Resolved, tx: usize, input: usize) -> Option<Arc<Precomputed>> {
    let view = resolved.block().view().tx(tx);
    let precomputed = Arc::new(Precomputed::of(view.txid()));
    let spent = resolved.spent_by(tx).iter();
    let spent =
        spent.map(|coin| SpentOutput { value: coin.value + 1, script_pubkey: &coin.script_pubkey });
    let wrong = SpendingTx::with_precomputed(view, spent, &precomputed).expect("one an input");
    let works = vec![Work { tx: &wrong, inputs: input..input + 1 }];
    let group = Group { works, flags: resolved.flags(), crosscheck: None };
    let verdicts = Scripts::engine_only().verify(&[group]);
    (verdicts == [Err((0, ScriptError::Rejected { input }))]).then_some(precomputed)
}

fn deceived() -> Deceived {
    let (resolved, (tx, input, precomputed)) = first_applied(|resolved| {
        let txs = 1..resolved.block().view().tx_count();
        let inputs =
            txs.flat_map(|tx| (0..resolved.spent_by(tx).len()).map(move |input| (tx, input)));
        let mut found =
            inputs.filter_map(|(tx, input)| Some((tx, input, deceive(resolved, tx, input)?)));
        found.next()
    });
    Deceived { resolved, tx, input, precomputed }
}

impl Deceived {
    fn waiting(&self, crosscheck: Option<NonZeroU32>) -> Waiting {
        let verification = Arc::new(Verification {
            token: 7,
            resolved: Arc::clone(&self.resolved),
            engine_alone: false,
            crosscheck,
            parts_left: AtomicUsize::new(1),
            failure: Mutex::new(None),
            undo: Mutex::new(None),
            rules_asked: AtomicUsize::new(0),
        });
        let inputs = self.input..self.input + 1;
        let precomputed = Arc::clone(&self.precomputed);
        Waiting { verification, part: ScriptPart::Inputs { tx: self.tx, inputs, precomputed } }
    }
}

/// Lanes and engine do not differ: the engine is deceived.
#[test]
fn a_worker_records_what_is_proven_and_the_engine_refuses() {
    let deceived = deceived();
    let expected = Contradiction::new(&deceived.resolved, deceived.tx, deceived.input);
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let workers = Workers::start(&Threads::default(), "godwit-test", 1, [1; 2]).unwrap();
    let job_sender = JobSender::new(Arc::new(workers), Arc::default(), |_: Option<()>| {});
    let options = ScriptOptions {
        engine: ScriptEngine::Native { lanes: Some(BackendKind::Single) },
        ..ScriptOptions::default()
    };
    let engines = Engines { options, executor: Arc::new(Threads::default()), workers: 1 };
    let into = Arc::clone(&recorded);
    let record = move |contradiction: &Contradiction| lock(&into).push(contradiction.clone());
    let verifier = Verifier::new(engines, record, job_sender, |_| ());
    let verify = |waiting| {
        lock(&verifier.shared.row).push(1, waiting);
        verifier.shared.verify_share()
    };
    assert!(matches!(verify(deceived.waiting(None))[..], [(7, Ok(_))]), "nobody asks the engine");
    assert!(lock(&recorded).is_empty());
    let outcomes = verify(deceived.waiting(NonZeroU32::new(1)));
    let [(7, Err(VerifyError::Contradicted(found)))] = &outcomes[..] else {
        panic!("another outcome")
    };
    assert_eq!(**found, expected);
    assert_eq!(*lock(&recorded), [expected]);
}

#[test]
fn a_contradiction_goes_before_every_other_failure() {
    let deceived = deceived();
    let waiting = deceived.waiting(None);
    let sigops = VerifyError::Rejected(Reject::new(RejectReason::BadBlkSigops));
    waiting.verification.fail((0, 0), sigops);
    waiting.note(Err((0, ScriptError::Contradicted { input: deceived.input })), &|_| {});
    let sigops = VerifyError::Rejected(Reject::new(RejectReason::BadBlkSigops));
    waiting.verification.fail((0, 0), sigops);
    let outcome = waiting.verification.part_done();
    assert!(matches!(outcome, Some((7, Err(VerifyError::Contradicted(_))))));
}

/// To find it out, all that the transaction spends is copied.
#[test]
fn of_a_transaction_with_a_bad_input_in_every_part_one_broken_rule_is_looked_for() {
    const PARTS: usize = 8;
    let deceived = deceived();
    let Waiting { verification, .. } = deceived.waiting(None);
    verification.parts_left.store(PARTS, Ordering::Relaxed);
    let outcomes = (0..PARTS).rev().filter_map(|input| {
        let (verification, tx) = (Arc::clone(&verification), deceived.tx);
        let precomputed = Arc::clone(&deceived.precomputed);
        let part = ScriptPart::Inputs { tx, inputs: input..input + 1, precomputed };
        let waiting = Waiting { verification, part };
        waiting.note(Err((0, ScriptError::Rejected { input })), &|_| {});
        waiting.verification.part_done()
    });
    let outcomes: Vec<_> = outcomes.collect();
    let [(7, Err(VerifyError::Rejected(reject)))] = &outcomes[..] else { panic!("one outcome") };
    assert_eq!(*reject, Reject::by_script(None), "the engine is deceived: it breaks none");
    assert_eq!(verification.rules_asked.load(Ordering::Relaxed), 1);
}
