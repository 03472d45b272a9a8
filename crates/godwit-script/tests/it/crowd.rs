//! Transactions with several inputs of any forms. Each is mutated up to three times and its script patched
//! byte by byte before everything is signed, and some are damaged afterwards. Two readers, who share the
//! parts that inputs share, make the claims of all inputs in any order; the claims are compared with Core's
//! verdicts under every set of flags.

use std::sync::Arc;

use bitcoin::key::Secp256k1;
use bitcoin::secp256k1::All;
use bitcoin::{Amount, Sequence, TxOut};
use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{BackendKind, Claim, ClaimQueue, Precomputed, Proof, SpendingTx, claim};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use crate::generated::{AFTERWARDS, SIGNED_AGAIN, flags_of_chains, one_of};
use crate::native::{form, note, print_tally};
use crate::plan::{Case, Kind, Plan};
use crate::twin::{Naive, owned, spent_outputs};

/// Transactions whose claims are proven together.
const TOGETHER: usize = 40;
/// How often, in the ordinary run and in the long one.
const ROUNDS: usize = 20;
const MANY_ROUNDS: usize = 3_000;

/// Claims, each under each set of flags under which it was made.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    proven: usize,
    not_proven: usize,
    /// Of them, those that Core accepts.
    lost: usize,
}

/// A claim of a case's input, and whose it is.
struct Claimed {
    case: usize,
    input: usize,
    flags: Vec<ScriptFlags>,
    claim: Claim,
}

#[test]
fn no_input_of_a_crowd_is_proven_that_core_refuses() {
    crowds(0, ROUNDS);
}

#[test]
#[ignore = "120,000 transactions"]
fn no_input_of_many_crowds_is_proven_that_core_refuses() {
    crowds(1, MANY_ROUNDS);
}

/// The lanes that the processor has take turns; without any the model answers.
fn crowds(seed: u64, rounds: usize) {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(seed);
    let with_lanes = BackendKind::ALL.into_iter().filter(|kind| kind.lanes() > 0);
    let mut queues: Vec<ClaimQueue<usize>> =
        with_lanes.filter_map(ClaimQueue::with_backend).collect();
    // The two models come last.
    queues.truncate((queues.len() - 2).max(1));
    let mut seen = Seen::default();
    for round in 0..rounds {
        let cases: Vec<(String, Case)> = (0..TOGETHER).map(|_| crowd(&secp, &mut rng)).collect();
        let claimed = claims(&cases, &mut rng);
        let count = queues.len();
        let proven = prove(&mut queues[round % count], &claimed);
        compare(&cases, &claimed, &proven, &mut seen);
    }
    print_tally("crowds");
    println!("{seen:?}");
    assert!(seen.proven > 100 * rounds && seen.not_proven > 10 * rounds && seen.lost == 0);
}

/// A byte of the script that is executed, changed before it is hashed and signed. Places count around it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patch {
    Insert(usize, u8),
    Remove(usize),
    Replace(usize, u8),
}

impl Patch {
    fn random(rng: &mut StdRng) -> Patch {
        const BYTES: &[u8] = &[
            0, 1, 2, 5, 0x14, 0x20, 0x21, 0x22, 0x41, 0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x51, 0x52,
            0x60, 0x61, 0x63, 0x64, 0x67, 0x68, 0x69, 0x6a, 0x75, 0x76, 0x87, 0x88, 0xa9, 0xab,
            0xac, 0xad, 0xae, 0xaf, 0xb1, 0xb2, 0xba,
        ];
        let byte = if rng.random() { one_of(BYTES, rng) } else { rng.random() };
        // As often as not in front, where there are more opcodes.
        let places = one_of(&[6, 1 << 20], rng);
        let at = rng.random_range(0..places);
        match rng.random_range(0..3) {
            0 => Patch::Insert(at, byte),
            1 => Patch::Remove(at),
            _ => Patch::Replace(at, byte),
        }
    }

    pub(crate) fn apply(self, script: &mut Vec<u8>) {
        let len = script.len();
        match self {
            Patch::Insert(at, byte) => script.insert(at % (len + 1), byte),
            Patch::Remove(at) if len > 0 => drop(script.remove(at % len)),
            Patch::Replace(at, byte) if len > 0 => script[at % len] = byte,
            Patch::Remove(_) | Patch::Replace(..) => {}
        }
    }
}

/// A transaction and what was done to it.
fn crowd(secp: &Secp256k1<All>, rng: &mut StdRng) -> (String, Case) {
    let count = one_of(&[1, 2, 3, 4, 7, 12], rng);
    let (mut plans, mut what) = (Vec::new(), String::new());
    for _ in 0..count {
        let plan = mutated(&plans, &mut what, rng);
        plans.push(plan);
    }
    plans[0].outputs = rng.random_range(0..=count + 1);
    let mut case = build(&mut plans, secp);
    for _ in 0..one_of(&[0, 0, 0, 1, 2], rng) {
        case.input = rng.random_range(0..count);
        if rng.random_range(0..3) == 0 {
            let from = case.tx.input[rng.random_range(0..count)].clone();
            let own = &mut case.tx.input[case.input];
            (own.script_sig, own.witness) = (from.script_sig, from.witness);
            what += &format!("{} has another's signatures; ", case.input);
        } else if case.spent.iter().all(|output| !output.script_pubkey.is_empty()) {
            let (name, mutate) = AFTERWARDS[rng.random_range(0..AFTERWARDS.len())];
            mutate(&mut case, rng);
            what += &format!("{name} of {}; ", case.input);
        }
    }
    (what, case)
}

/// A new plan or one of those before, whose keys are then used again; half of them mutated.
fn mutated(before: &[Plan], what: &mut String, rng: &mut StdRng) -> Plan {
    let mut plan = match before.is_empty() || rng.random_range(0..4) > 0 {
        true => Plan::random(one_of(&Kind::ALL, rng), rng),
        false => one_of(before, rng),
    };
    *what += &format!("{:?}", plan.kind);
    if rng.random() {
        for _ in 0..rng.random_range(1..=3) {
            let (name, mutate) = SIGNED_AGAIN[rng.random_range(0..SIGNED_AGAIN.len())];
            mutate(&mut plan, rng);
            *what += &format!(", {name}");
        }
    }
    let is_implied = matches!(plan.kind, Kind::WitnessKeyHash | Kind::WrappedKeyHash);
    if rng.random_range(0..4) == 0 && !is_implied {
        plan.patches.extend((0..rng.random_range(1..=2)).map(|_| Patch::random(rng)));
        *what += &format!(", {:?}", plan.patches);
    }
    if rng.random_range(0..3) == 0 {
        for hash_type in &mut plan.hash_types {
            *hash_type = one_of(&[3, 0x83, 2, 0x82, 1, 0x81, 0x43, 0], rng);
        }
    }
    *what += "; ";
    plan
}

/// One transaction with an input for each plan, and of the first plan what inputs share.
fn build(plans: &mut [Plan], secp: &Secp256k1<All>) -> Case {
    let count = plans.len();
    let Plan { version, lock_time, outputs, .. } = plans[0];
    for (plan, input) in plans.iter_mut().zip(0..) {
        (plan.inputs, plan.input, plan.outputs) = (count, input, outputs);
        (plan.version, plan.lock_time) = (version, lock_time);
    }
    let (scripts, trees): (Vec<_>, Vec<_>) = plans.iter().map(|plan| plan.output(secp)).unzip();
    let spent = plans.iter().zip(scripts).map(|(plan, script)| TxOut {
        value: Amount::from_sat(plan.value as u64),
        script_pubkey: script.into(),
    });
    let spent: Vec<TxOut> = spent.collect();
    let mut tx = plans[0].unsigned();
    for (own, plan) in tx.input.iter_mut().zip(plans.iter()) {
        own.sequence = Sequence(plan.sequence);
    }
    for (plan, tree) in plans.iter().zip(&trees) {
        plan.unlock(secp, &mut tx, &spent, tree);
    }
    Case { tx, spent: owned(spent), input: 0 }
}

/// The different claims of each input, and the flags under which each was made.
fn claims(cases: &[(String, Case)], rng: &mut StdRng) -> Vec<Claimed> {
    let mut claimed: Vec<Claimed> = Vec::new();
    for (at, (_, case)) in cases.iter().enumerate() {
        let bytes = case.bytes();
        let view = TxView::parse(&bytes).expect("transaction parses");
        let precomputed = Arc::new(Precomputed::of(view.txid()));
        let readers = [(); 2].map(|()| {
            let spent = spent_outputs(&case.spent);
            SpendingTx::with_precomputed(view, spent, &precomputed).expect("one output an input")
        });
        let mut inputs: Vec<usize> = (0..case.spent.len()).collect();
        if rng.random() {
            inputs.shuffle(rng);
        }
        for input in inputs {
            let first = claimed.len();
            for flags in flags_of_chains() {
                let reader = &readers[rng.random_range(0..2)];
                let Some(claim) = claim(reader, input, flags) else { continue };
                match claimed[first..].iter_mut().find(|known| known.claim == claim) {
                    Some(known) => known.flags.push(flags),
                    None => claimed.push(Claimed { case: at, input, flags: vec![flags], claim }),
                }
            }
        }
    }
    claimed
}

fn prove(queue: &mut ClaimQueue<usize>, claimed: &[Claimed]) -> Vec<bool> {
    let mut proven = vec![false; claimed.len()];
    let mut settle = |at: usize, proof: Proof| proven[at] = proof == Proof::Proven;
    for (at, Claimed { claim, .. }) in claimed.iter().enumerate() {
        queue.push(at, claim.clone(), &mut settle);
    }
    queue.flush(settle);
    proven
}

fn compare(cases: &[(String, Case)], claimed: &[Claimed], proven: &[bool], seen: &mut Seen) {
    for (at, (what, case)) in cases.iter().enumerate() {
        let bytes = case.bytes();
        let naive = Naive::new(&bytes, &case.spent);
        let view = TxView::parse(&bytes).expect("transaction parses");
        for (input, output) in case.spent.iter().enumerate() {
            let valid = naive.accepts(input, ScriptFlags::ALL);
            let mut is_claimed = false;
            let of_input = claimed.iter().zip(proven);
            for (known, proven) in of_input.filter(|(of, _)| (of.case, of.input) == (at, input)) {
                is_claimed |= known.flags.contains(&ScriptFlags::ALL);
                for flags in &known.flags {
                    // Core refuses nothing under fewer flags that it accepts under more.
                    let valid = valid || naive.accepts(input, *flags);
                    let tx = || format!("input {input}, {flags:?}, {what}{}", hex::encode(&bytes));
                    assert!(valid || !proven, "a false yes: {}, {:?}", tx(), case.spent);
                    seen.proven += usize::from(*proven);
                    seen.not_proven += usize::from(!proven);
                    if valid && !proven {
                        seen.lost += 1;
                        println!("valid and not proven: {}", tx());
                    }
                }
            }
            note(form(&view, input, &output.script_pubkey), valid, is_claimed);
        }
    }
}
