//! Generated spends of every form with one mutation each. Most are signed again, so that only the mutation
//! can make them fail. Their claims are compared with Core's verdicts under every set of flags that a chain
//! can ask for.

use bitcoin::Witness;
use bitcoin::key::Secp256k1;
use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{Claim, SpendingTx, claim};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::native::{form, note, print_tally, prove};
use crate::plan::{Case, Encoding, KeyForm, Kind, Plan, number, push, push_with, script_number};
use crate::twin::{Naive, spent_outputs};

/// Of each form, in the ordinary run and in the long one.
const CASES: usize = 300;
const MANY_CASES: usize = 10_000;
/// Cases whose claims are proven together.
const TOGETHER: usize = 250;

#[test]
fn no_mutant_is_proven_that_core_refuses() {
    generate(CASES);
}

#[test]
#[ignore = "10,000 of each form"]
fn no_mutant_of_many_is_proven_that_core_refuses() {
    generate(MANY_CASES);
}

fn generate(cases: usize) {
    let secp = Secp256k1::new();
    let (mut valid, mut invalid) = (0, 0);
    for (kind, seed) in Kind::ALL.into_iter().zip(0..) {
        let mut rng = StdRng::seed_from_u64(seed);
        for from in (0..cases).step_by(TOGETHER) {
            let count = TOGETHER.min(cases - from);
            let (yes, no) = judge((0..count).map(|_| mutant(kind, &secp, &mut rng)).collect());
            valid += yes;
            invalid += no;
        }
    }
    print_tally("generated");
    println!("{valid} valid ones, {invalid} invalid ones");
    assert!(valid > cases && invalid > 2 * cases);
}

/// The flags of the rules that hold from genesis but for the exception blocks, with every choice of those
/// that begin at a height (Core's GetBlockScriptFlags).
pub(crate) fn flags_of_chains() -> Vec<ScriptFlags> {
    let segwit = ScriptFlags::P2SH | ScriptFlags::WITNESS;
    let bases = [ScriptFlags::NONE, segwit, segwit | ScriptFlags::TAPROOT];
    let heights = [
        ScriptFlags::DERSIG,
        ScriptFlags::NULLDUMMY,
        ScriptFlags::CHECKLOCKTIMEVERIFY,
        ScriptFlags::CHECKSEQUENCEVERIFY,
    ];
    let chosen = |base, bits: usize| {
        let chosen = heights.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        chosen.fold(base, |flags, (_, flag)| flags | *flag)
    };
    bases.into_iter().flat_map(|base| (0..16).map(move |bits| chosen(base, bits))).collect()
}

/// How many Core accepts and refuses under all flags.
fn judge(cases: Vec<(String, Case)>) -> (usize, usize) {
    let mut claims: Vec<Claim> = Vec::new();
    // The case, the flags and the claim.
    let mut claimed: Vec<(usize, ScriptFlags, usize)> = Vec::new();
    for (at, (_, case)) in cases.iter().enumerate() {
        let bytes = case.bytes();
        let view = TxView::parse(&bytes).expect("transaction parses");
        let tx = SpendingTx::new(view, spent_outputs(&case.spent)).expect("one output an input");
        let first = claims.len();
        for flags in flags_of_chains() {
            let Some(claim) = claim(&tx, case.input, flags) else { continue };
            let known = claims[first..].iter().position(|other| *other == claim);
            claimed.push((at, flags, first + known.unwrap_or(claims.len() - first)));
            if known.is_none() {
                claims.push(claim);
            }
        }
    }
    let proven = prove(claims);
    let (mut yes, mut no) = (0, 0);
    for (at, (what, case)) in cases.iter().enumerate() {
        let bytes = case.bytes();
        let naive = Naive::new(&bytes, &case.spent);
        let valid = naive.accepts(case.input, ScriptFlags::ALL);
        let mut of_case = claimed.iter().filter(|(of, ..)| *of == at);
        for (_, flags, claim) in of_case.clone() {
            // Core refuses nothing under fewer flags that it accepts under more.
            let valid = valid || naive.accepts(case.input, *flags);
            assert_eq!(proven[*claim], valid, "{what}, {flags:?}: {}", hex::encode(&bytes));
        }
        let view = TxView::parse(&bytes).expect("transaction parses");
        let form = form(&view, case.input, &case.spent[case.input].script_pubkey);
        note(form, valid, of_case.any(|(_, flags, _)| *flags == ScriptFlags::ALL));
        yes += usize::from(valid);
        no += usize::from(!valid);
    }
    (yes, no)
}

/// One case of twenty as it is; the others differ from what they were before their mutation, which is drawn
/// until it is one that means something to the form.
fn mutant(
    kind: Kind,
    secp: &Secp256k1<bitcoin::secp256k1::All>,
    rng: &mut StdRng,
) -> (String, Case) {
    let plan = Plan::random(kind, rng);
    let whole = plan.build(secp);
    if rng.random_range(0..20) == 0 {
        return (format!("{kind:?}"), whole);
    }
    loop {
        let afterwards = rng.random_range(0..4) == 0;
        let (name, case) = if afterwards {
            let mut case = whole.clone();
            let (name, mutate) = AFTERWARDS[rng.random_range(0..AFTERWARDS.len())];
            mutate(&mut case, rng);
            (name, case)
        } else {
            let mut plan = plan.clone();
            let (name, mutate) = SIGNED_AGAIN[rng.random_range(0..SIGNED_AGAIN.len())];
            mutate(&mut plan, rng);
            (name, plan.build(secp))
        };
        if case.bytes() != whole.bytes() || case.spent != whole.spent {
            let when = if afterwards { " afterwards" } else { "" };
            return (format!("{kind:?}, {name}{when}"), case);
        }
    }
}

pub(crate) fn one_of<T: Clone>(choices: &[T], rng: &mut StdRng) -> T {
    choices[rng.random_range(0..choices.len())].clone()
}

/// Opcodes and pushes that do something or nothing.
fn piece(rng: &mut StdRng) -> Vec<u8> {
    let byte: u8 = rng.random();
    let choices: [&[u8]; 14] = [
        &[0],
        &[0x51],
        &[0x61],
        &[0x4f],
        &[0x75],
        &[0xab],
        &[0x6a],
        &[0x50],
        &[1, 5],
        &[0x4c, 0],
        &[0x69],
        &[0xac],
        &[byte],
        &[5, 1],
    ];
    one_of(&choices, rng).to_vec()
}

/// What may be around the key of a leaf: envelopes, whole and broken, and others' opcodes in them.
fn envelope(rng: &mut StdRng) -> Vec<u8> {
    let inside = match rng.random_range(0..6) {
        0 => vec![0; 3],
        1 => push(&[7; 75]),
        2 => push(&vec![7; rng.random_range(500..=520)]),
        3 => push_with(0x4d, &vec![7; rng.random_range(519..=522)]),
        4 => piece(rng),
        _ => Vec::new(),
    };
    let (before, after): (&[u8], &[u8]) = match rng.random_range(0..12) {
        0 => (&[0x51, 0x63], &[0x68]),
        1 => (&[0, 0x64], &[0x68]),
        2 => (&[0, 0x63], &[]),
        3 => (&[0, 0x63, 0, 0x63], &[0x68, 0x68]),
        4 => (&[0, 0x63], &[0x67, 0x68]),
        5 => (&[0, 0x63], &[0x68, 0x61]),
        _ => (&[0, 0x63], &[0x68]),
    };
    [before, &inside, after].concat()
}

pub(crate) type OfPlan = (&'static str, fn(&mut Plan, &mut StdRng));

pub(crate) const SIGNED_AGAIN: &[OfPlan] = &[
    ("any hash types", |plan, rng| {
        plan.hash_types.iter_mut().for_each(|hash_type| *hash_type = rng.random());
    }),
    ("a single output that does not exist", |plan, rng| {
        plan.outputs = rng.random_range(0..=plan.input);
        plan.hash_types.fill(one_of(&[3, 0x83, 0x43, 0x23], rng));
    }),
    ("a hybrid key", |plan, rng| {
        let at = rng.random_range(0..plan.key_forms.len());
        plan.key_forms[at] = KeyForm::Hybrid;
    }),
    ("full keys", |plan, _| plan.key_forms.fill(KeyForm::Full)),
    ("another encoding", |plan, rng| {
        let all = [Encoding::Padded, Encoding::LongLength, Encoding::Trailing, Encoding::Empty];
        plan.encoding = one_of(&all, rng);
    }),
    ("high S", |plan, _| plan.encoding = Encoding::HighS),
    ("a dummy", |plan, rng| {
        plan.dummy = vec![1; one_of(&[1, 2, 519, 520, 521], rng)];
    }),
    ("a value", |plan, rng| plan.value = one_of(&[0, -1, i64::MIN, i64::MAX], rng)),
    ("a push", |plan, rng| plan.push_opcode = one_of(&[0x4c, 0x4d, 0x4e], rng)),
    ("something before the scriptSig", |plan, rng| plan.before_script_sig = piece(rng)),
    ("something behind the scriptSig", |plan, rng| plan.after_script_sig = piece(rng)),
    ("something before the witness", |plan, rng| {
        plan.before_witness = vec![vec![1; one_of(&[0, 1, 520, 521], rng)]];
    }),
    ("something behind the witness", |plan, rng| {
        plan.after_witness = vec![one_of(&[vec![], vec![1], vec![0x50], vec![0x51]], rng)];
    }),
    ("an annex", |plan, rng| {
        plan.annex = Some([vec![0x50], vec![1; rng.random_range(0..600)]].concat());
    }),
    ("signatures in reverse", |plan, _| plan.signers.reverse()),
    ("another signer", |plan, rng| {
        let keys = plan.secrets.len();
        plan.signers[0] = rng.random_range(0..keys);
    }),
    ("one signer for all", |plan, _| {
        let first = plan.signers[0];
        plan.signers.fill(first);
    }),
    ("another m", |plan, rng| {
        let m = rng.random_range(0..=plan.signers.len() + 1);
        plan.m = one_of(&[number(m), vec![1, m as u8]], rng);
    }),
    ("another n", |plan, rng| {
        let n = rng.random_range(plan.secrets.len() - 1..=plan.secrets.len() + 1);
        plan.n = one_of(&[number(n), vec![1, n as u8]], rng);
    }),
    ("many keys", |plan, rng| {
        if plan.kind.is_multisig() {
            let n = rng.random_range(14..=21);
            plan.secrets = (0..n).map(|_| rng.random()).collect();
            plan.key_forms = vec![KeyForm::Compressed; n];
            plan.signers = (0..n).filter(|_| rng.random()).collect();
            plan.signers = if plan.signers.is_empty() { vec![1] } else { plan.signers.clone() };
            plan.hash_types = vec![1; plan.signers.len()];
            (plan.m, plan.n) = (number(plan.signers.len()), number(n));
        }
    }),
    ("another version of leaf", |plan, rng| plan.leaf_version = one_of(&[0xc2, 0xbe, 0xfe], rng)),
    ("a deep leaf", |plan, rng| plan.depth = rng.random_range(126..=130)),
    ("something behind the control block", |plan, rng| {
        plan.after_control = vec![5; one_of(&[1, 31, 32, 33], rng)];
    }),
    ("the other parity", |plan, _| plan.flip_parity = true),
    ("an explicit default", |plan, _| {
        plan.hash_types[0] = 0;
        plan.explicit_default = true;
    }),
    ("another key of the leaf", |plan, rng| {
        let key = [&[2][..], plan.secrets.last().expect("a key")].concat();
        let keys = [
            push(&key),
            push(&key[..32]),
            push(&key[..31]),
            push_with(0x4c, &key[1..]),
            vec![0],
            vec![0x51],
        ];
        plan.leaf_key = Some(one_of(&keys, rng));
    }),
    ("another opcode of the leaf", |plan, rng| {
        plan.leaf_opcode = one_of(&[0xad, 0xba, 0xae, 0x51, 0x50, rng.random()], rng);
    }),
    ("something before the leaf", |plan, rng| plan.before_leaf = piece(rng)),
    ("something behind the leaf", |plan, rng| plan.after_leaf = piece(rng)),
    ("an envelope before the leaf", |plan, rng| plan.before_leaf = envelope(rng)),
    ("an envelope behind the leaf", |plan, rng| plan.after_leaf = envelope(rng)),
    ("envelopes around the leaf", |plan, rng| {
        plan.before_leaf = [envelope(rng), envelope(rng)].concat();
        plan.after_leaf = [envelope(rng), envelope(rng)].concat();
    }),
    ("another number of the lock", |plan, rng| {
        let near = i64::from(one_of(&[plan.lock_time, plan.sequence, plan.sequence & 0xffff], rng));
        let number = near + rng.random_range(-1..=1);
        let wide = [&[5][..], &number.to_le_bytes()[..5]].concat();
        let long = push(&[&number.to_le_bytes()[..4], &[0, 0]].concat());
        let any = script_number(rng.random::<i32>().into());
        plan.lock = one_of(&[script_number(number), wide, long, any, piece(rng)], rng);
    }),
    ("another opcode of the lock", |plan, rng| {
        plan.lock_opcode = one_of(&[0xb0, 0xb1, 0xb2, 0xb3, 0x61, rng.random()], rng);
    }),
    ("something else behind the lock", |plan, rng| plan.after_lock = piece(rng)),
    ("another lock time", |plan, rng| {
        let near = plan.lock_time;
        let choices = [near.wrapping_sub(1), 0, 499_999_999, 500_000_000, u32::MAX, rng.random()];
        plan.lock_time = one_of(&choices, rng);
    }),
    ("another sequence", |plan, rng| {
        let bit = 1 << rng.random_range(0..32);
        plan.sequence =
            one_of(&[plan.sequence ^ bit, u32::MAX, u32::MAX - 1, 0, rng.random()], rng);
    }),
    ("another version", |plan, rng| {
        plan.version = one_of(&[0, 1, 2, 0x7fff_ffff, 0x8000_0000, u32::MAX], rng);
    }),
    ("something behind the script", |plan, rng| plan.after_script = piece(rng)),
    ("another program", |plan, _| plan.flip_program = true),
    ("another script hash", |plan, _| plan.flip_script_hash = true),
];

pub(crate) type OfCase = (&'static str, fn(&mut Case, &mut StdRng));

pub(crate) const AFTERWARDS: &[OfCase] = &[
    ("a bit of the transaction", |case, rng| {
        let mut bytes = case.bytes();
        let at = rng.random_range(0..bytes.len());
        bytes[at] ^= 1 << rng.random_range(0..8);
        // Most bits are not of a length.
        if let Ok(tx) = bitcoin::consensus::deserialize::<bitcoin::Transaction>(&bytes)
            && tx.input.len() == case.spent.len()
        {
            case.tx = tx;
        }
    }),
    ("an element of the scriptSig", |case, rng| {
        let own = &mut case.tx.input[case.input];
        let script = own.script_sig.clone();
        let pushes = script.instructions().filter_map(Result::ok);
        let mut elements: Vec<Vec<u8>> = pushes
            .filter_map(|push| push.push_bytes().map(|bytes| bytes.as_bytes().to_vec()))
            .collect();
        mutate_elements(&mut elements, rng);
        let pushes: Vec<u8> = elements.iter().flat_map(|element| push(element)).collect();
        own.script_sig = pushes.into();
    }),
    ("an item of the witness", |case, rng| {
        let own = &mut case.tx.input[case.input];
        let mut items = own.witness.to_vec();
        mutate_elements(&mut items, rng);
        own.witness = Witness::from_slice(&items);
    }),
    ("a value", |case, rng| {
        let at = rng.random_range(0..case.spent.len());
        case.spent[at].value ^= 1;
    }),
    ("a bit of a script", |case, rng| {
        let at = rng.random_range(0..case.spent.len());
        let script = &mut case.spent[at].script_pubkey;
        let byte = rng.random_range(0..script.len());
        script[byte] ^= 1 << rng.random_range(0..8);
    }),
    ("another form", |case, rng| {
        let other = rng.random_range(0..case.spent.len());
        case.spent.swap(case.input, other);
    }),
];

fn mutate_elements(elements: &mut Vec<Vec<u8>>, rng: &mut StdRng) {
    if elements.is_empty() {
        return elements.push(vec![1]);
    }
    let at = rng.random_range(0..elements.len());
    let other = rng.random_range(0..elements.len());
    match rng.random_range(0..7) {
        0 => drop(elements.remove(at)),
        1 => elements.insert(at, elements[at].clone()),
        2 => elements.swap(at, other),
        3 => elements[at].clear(),
        4 => elements[at].push(rng.random()),
        5 => drop(elements[at].pop()),
        _ if elements[at].is_empty() => elements[at].push(0),
        _ => {
            let byte = rng.random_range(0..elements[at].len());
            elements[at][byte] ^= 1 << rng.random_range(0..8);
        }
    }
}
