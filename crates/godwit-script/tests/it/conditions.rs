//! Tests each condition of a claim by itself: a spend that meets all of them makes a claim, and it is proven;
//! with one condition broken, and the spend signed again, there is no claim. `tools/mutate-native` removes
//! the conditions one by one.

use bitcoin::hashes::{Hash, hash160};
use bitcoin::key::Secp256k1;
use bitcoin::secp256k1::All;
use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{Claim, SpendingTx, claim};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::native::prove;
use crate::plan::{Case, Encoding, KeyForm, Kind, Plan, number, push, push_with, script_number};
use crate::twin::{Naive, Output, spent_outputs};

/// Plans of each form that a condition is tried with.
const PLANS: usize = 5;

fn claim_of(case: &Case, flags: ScriptFlags) -> Option<Claim> {
    let bytes = case.bytes();
    let view = TxView::parse(&bytes).expect("transaction parses");
    let tx = SpendingTx::new(view, spent_outputs(&case.spent)).expect("one output an input");
    claim(&tx, case.input, flags)
}

fn is_proven(case: &Case, flags: ScriptFlags) -> bool {
    let claim = claim_of(case, flags);
    let proven = claim.is_some_and(|claim| prove(vec![claim])[0]);
    if proven {
        let naive = Naive::new(&case.bytes(), &case.spent);
        assert!(naive.accepts(case.input, flags), "proven, and refused by Core");
    }
    proven
}

fn plans(kind: Kind) -> Vec<Plan> {
    let mut rng = StdRng::seed_from_u64(kind as u64);
    (0..PLANS).map(|_| Plan::random(kind, &mut rng)).collect()
}

/// With flags as they are unless a condition is about them.
fn expect(
    what: &str,
    kinds: impl Fn(Kind) -> bool,
    flags: ScriptFlags,
    claimed: bool,
    change: impl Fn(&mut Plan),
) {
    let secp = Secp256k1::<All>::new();
    let mut tried = 0;
    for mut plan in Kind::ALL.into_iter().filter(|kind| kinds(*kind)).flat_map(plans) {
        change(&mut plan);
        let case = plan.build(&secp);
        if claimed {
            assert!(is_proven(&case, flags), "{what}: {plan:?}");
        } else {
            assert_eq!(claim_of(&case, flags), None, "{what}: {plan:?}");
        }
        tried += 1;
    }
    assert!(tried >= PLANS, "{what}");
}

fn nothing(what: &str, kinds: impl Fn(Kind) -> bool, change: impl Fn(&mut Plan)) {
    expect(what, kinds, ScriptFlags::ALL, false, change);
}

fn proven(what: &str, kinds: impl Fn(Kind) -> bool, change: impl Fn(&mut Plan)) {
    expect(what, kinds, ScriptFlags::ALL, true, change);
}

fn any(_: Kind) -> bool {
    true
}

#[test]
fn spends_of_every_form_are_proven() {
    proven("as they are", any, |_| {});
    proven("of nothing", any, |plan| plan.value = 0);
    proven("an annex", Kind::is_taproot, |plan| plan.annex = Some(vec![0x50]));
    proven("the deepest leaf", |kind| kind == Kind::TaprootLeaf, |plan| plan.depth = 128);
    proven("high S", |kind| !kind.is_taproot(), |plan| plan.encoding = Encoding::HighS);
    proven("long pushes", |kind| kind.is_legacy(), |plan| plan.push_opcode = 0x4e);
    let full = |kind: Kind| !kind.is_taproot() && kind != Kind::ScriptHashMultisig;
    proven("full keys", full, |plan| plan.key_forms.fill(KeyForm::Full));
    let envelope = [&[0, 0x63][..], &push_with(0x4d, &[1; 520]), &[0x68]].concat();
    proven(
        "envelopes",
        |kind| kind == Kind::TaprootLeaf,
        |plan| {
            plan.before_leaf = envelope.clone();
            plan.after_leaf = envelope.clone();
        },
    );
    let without = ScriptFlags::ALL.without(ScriptFlags::NULLDUMMY);
    expect("a dummy", Kind::is_multisig, without, true, |plan| plan.dummy = vec![9; 520]);
}

#[test]
fn all_hash_types_are_proven() {
    for hash_type in 0..=255 {
        let kinds =
            |kind: Kind| !kind.is_taproot() && (hash_type % 8 == 1 || kind == Kind::KeyHash);
        proven("a hash type", kinds, |plan| plan.hash_types.fill(hash_type));
        let kinds = |kind: Kind| kind == Kind::WitnessKeyHash;
        proven("a hash type, no output", kinds, |plan| {
            plan.outputs = plan.input;
            plan.hash_types.fill(hash_type);
        });
    }
    for hash_type in [1, 2, 3, 0x81, 0x82, 0x83] {
        proven("a hash type", Kind::is_taproot, |plan| plan.hash_types.fill(hash_type));
    }
    proven(
        "the bug of SINGLE",
        |kind| kind.is_legacy(),
        |plan| {
            plan.outputs = plan.input;
            plan.hash_types.fill(3);
        },
    );
}

#[test]
fn each_flag_counts() {
    let without = |flags: ScriptFlags| ScriptFlags::ALL.without(flags);
    let (p2sh, witness, taproot) = (ScriptFlags::P2SH, ScriptFlags::WITNESS, ScriptFlags::TAPROOT);
    // What was valid before there were rules stays so.
    let older = |kind: Kind| matches!(kind, Kind::Key | Kind::KeyHash | Kind::Multisig);
    expect("no rules", older, ScriptFlags::NONE, true, |_| {});
    expect("no P2SH", |kind| !older(kind), without(p2sh | witness | taproot), false, |_| {});
    expect("WITNESS without P2SH", any, without(p2sh), false, |_| {});
    let programs = |kind: Kind| kind.is_v0() || kind.is_taproot();
    expect("no WITNESS", programs, without(witness | taproot), false, |_| {});
    expect("no TAPROOT", Kind::is_taproot, without(taproot), false, |_| {});
    expect("no WITNESS but TAPROOT", Kind::is_taproot, without(witness), false, |_| {});
    let locks = [ScriptFlags::CHECKLOCKTIMEVERIFY, ScriptFlags::CHECKSEQUENCEVERIFY];
    for flag in locks {
        expect("a flag of no account", |kind| !kind.is_locked(), without(flag), true, |_| {});
    }
    expect("a flag of no account", any, without(ScriptFlags::DERSIG), true, |_| {});
    for ((lock, flag), other) in [TIME, SEQUENCE].into_iter().zip(locks).zip([locks[1], locks[0]]) {
        expect("no rule of the lock", Kind::is_locked, without(flag), false, lock);
        expect("no rule of another lock", Kind::is_locked, without(other), true, lock);
    }
    nothing("NULLDUMMY", Kind::is_multisig, |plan| plan.dummy = vec![0]);
}

#[test]
fn script_sigs_are_exact() {
    let legacy = |kind: Kind| kind.is_legacy();
    nothing("not a push", legacy, |plan| plan.after_script_sig = vec![0x61]);
    nothing("a number", legacy, |plan| plan.before_script_sig = vec![0x51]);
    nothing("a push more", legacy, |plan| plan.before_script_sig = vec![0]);
    nothing("a push cut short", legacy, |plan| plan.after_script_sig = vec![5, 1]);
    nothing("a witness", legacy, |plan| plan.before_witness = vec![vec![]]);
    let bare = |kind: Kind| !legacy(kind) && !kind.is_wrapped();
    nothing("a scriptSig", bare, |plan| plan.before_script_sig = vec![0]);
    nothing("another push", Kind::is_wrapped, |plan| plan.push_opcode = 0x4c);
    nothing("a push before", Kind::is_wrapped, |plan| plan.before_script_sig = vec![0]);
    nothing("a push behind", Kind::is_wrapped, |plan| plan.after_script_sig = vec![0]);
    let without = ScriptFlags::ALL.without(ScriptFlags::NULLDUMMY);
    expect("too long", Kind::is_multisig, without, false, |plan| plan.dummy = vec![9; 521]);
}

#[test]
fn hashes_are_compared() {
    let key_hash =
        |kind: Kind| matches!(kind, Kind::KeyHash | Kind::WitnessKeyHash | Kind::WrappedKeyHash);
    nothing("another key hash", key_hash, |plan| plan.flip_program = true);
    nothing("another witness script hash", Kind::is_witness_script, |plan| {
        plan.flip_program = true
    });
    let wrapped = |kind: Kind| kind.is_wrapped() || kind.is_script_hash();
    nothing("another script hash", wrapped, |plan| plan.flip_script_hash = true);
}

#[test]
fn signatures_are_strict() {
    for encoding in [Encoding::Padded, Encoding::LongLength, Encoding::Trailing, Encoding::Empty] {
        for flags in [ScriptFlags::ALL, ScriptFlags::ALL.without(ScriptFlags::DERSIG)] {
            let kinds = |kind: Kind| !kind.is_taproot();
            expect("another encoding", kinds, flags, false, |plan| plan.encoding = encoding);
        }
    }
    nothing("no signature", Kind::is_taproot, |plan| plan.encoding = Encoding::Empty);
    nothing("an explicit default", Kind::is_taproot, |plan| {
        plan.hash_types[0] = 0;
        plan.explicit_default = true;
    });
    for hash_type in [4, 0x40, 0x80, 0x84, 0xff] {
        nothing("a hash type", Kind::is_taproot, |plan| plan.hash_types[0] = hash_type);
    }
    for hash_type in [3, 0x83] {
        nothing("a single output that does not exist", Kind::is_taproot, |plan| {
            plan.outputs = plan.input;
            plan.hash_types[0] = hash_type;
        });
    }
    let secp = Secp256k1::new();
    for plan in plans(Kind::TaprootKey) {
        for len in [0, 1, 63, 66] {
            let mut case = plan.build(&secp);
            case.tx.input[case.input].witness = bitcoin::Witness::from_slice(&[vec![1; len]]);
            assert_eq!(claim_of(&case, ScriptFlags::ALL), None, "{len}");
        }
    }
}

#[test]
fn keys_are_of_two_kinds() {
    let keys = |kind: Kind| !kind.is_taproot();
    nothing("a hybrid key", keys, |plan| {
        let last = plan.key_forms.len() - 1;
        plan.key_forms[last] = KeyForm::Hybrid;
        let signer = plan.signers[0];
        plan.key_forms[signer] = KeyForm::Hybrid;
    });
}

#[test]
fn witnesses_are_exact() {
    let key_hash = |kind: Kind| matches!(kind, Kind::WitnessKeyHash | Kind::WrappedKeyHash);
    nothing("an item more", key_hash, |plan| plan.after_witness = vec![vec![1]]);
    nothing("a negative value", Kind::is_v0, |plan| plan.value = -1);
    nothing("an item more", Kind::is_v0, |plan| plan.before_witness = vec![vec![]]);
    nothing("an item more", Kind::is_taproot, |plan| plan.before_witness = vec![vec![]]);
    nothing("an item more, and an annex", Kind::is_taproot, |plan| {
        plan.before_witness = vec![vec![]];
        plan.annex = Some(vec![0x50, 1]);
    });
    nothing("no annex", Kind::is_taproot, |plan| plan.after_witness = vec![vec![0x51]]);
    nothing("an empty annex", Kind::is_taproot, |plan| plan.after_witness = vec![vec![]]);
}

/// A lock of either kind that holds just so.
const TIME: fn(&mut Plan) = |plan| {
    (plan.lock, plan.lock_opcode) = (script_number(1_000), 0xb1);
    (plan.lock_time, plan.sequence) = (1_000, u32::MAX - 1);
};
const SEQUENCE: fn(&mut Plan) = |plan| {
    (plan.lock, plan.lock_opcode) = (script_number(1_000), 0xb2);
    (plan.version, plan.sequence) = (2, 1_000);
};

#[test]
fn locks_hold() {
    let lock_time = |demanded: i64, lock_time: u32, claimed: bool| {
        let what = format!("{demanded} demanded of a lock time of {lock_time}");
        expect(&what, Kind::is_locked, ScriptFlags::ALL, claimed, |plan| {
            TIME(plan);
            (plan.lock, plan.lock_time) = (script_number(demanded), lock_time);
        });
    };
    lock_time(0, 0, true);
    lock_time(-1, 0, false);
    lock_time(16, 16, true);
    lock_time(17, 16, false);
    lock_time(128, 127, false);
    lock_time(499_999_999, 499_999_999, true);
    lock_time(499_999_999, 500_000_000, false);
    lock_time(499_999_999, u32::MAX, false);
    lock_time(500_000_000, 500_000_000, true);
    lock_time(500_000_001, 500_000_000, false);
    lock_time(0xffff_ffff, u32::MAX, true);
    lock_time(0x1_0000_0000, u32::MAX, false);
    nothing("a final input", Kind::is_locked, |plan| {
        TIME(plan);
        plan.sequence = u32::MAX;
    });

    let sequence = |demanded: i64, sequence: u32, claimed: bool| {
        let what = format!("{demanded:#x} demanded of a sequence of {sequence:#x}");
        expect(&what, Kind::is_locked, ScriptFlags::ALL, claimed, |plan| {
            SEQUENCE(plan);
            (plan.lock, plan.sequence) = (script_number(demanded), sequence);
        });
    };
    sequence(0, 0, true);
    sequence(-1, 0, false);
    sequence(1, 0, false);
    sequence(0xffff, 0xffff, true);
    sequence(0x40_0000, 0, false);
    sequence(0, 0x40_0000, false);
    sequence(0x40_0001, 0x40_0001, true);
    sequence(0x40_0001, 0x40_0000, false);
    sequence(0x7fbf_0001, 1, true);
    sequence(1, 0x7fbf_0001, true);
    sequence(1, 0x8000_0001, false);
    // Bit 31 turns the lock off, which is left to Core's engine; bits above it count for nothing.
    sequence(0x8000_0001, 1, false);
    sequence(0x1_0000_0001, 1, true);
    for version in [0, 1] {
        nothing("an old version", Kind::is_locked, |plan| {
            SEQUENCE(plan);
            plan.version = version;
        });
    }
    for version in [3, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        proven("a version", Kind::is_locked, |plan| {
            SEQUENCE(plan);
            plan.version = version;
        });
    }
}

#[test]
fn locked_keys_are_exact() {
    for lock in [TIME, SEQUENCE] {
        nothing("no OP_DROP", Kind::is_locked, |plan| {
            lock(plan);
            plan.after_lock.clear();
        });
        for after in [vec![0x76], vec![0x75, 0x61], vec![0x61, 0x75], vec![0x75, 0x75]] {
            nothing("something else than OP_DROP", Kind::is_locked, |plan| {
                lock(plan);
                plan.after_lock = after.clone();
            });
        }
        nothing("another opcode", Kind::is_locked, |plan| {
            lock(plan);
            plan.lock_opcode = 0xb3;
        });
        // More bytes than the number needs are no matter of consensus; more than five are.
        for (push, claimed) in [
            (vec![1, 0], true),
            (vec![1, 0x7f], true),
            (vec![3, 1, 0, 0], true),
            (vec![5, 1, 0, 0, 0, 0], true),
            (vec![5, 0, 0, 0, 0, 0x80], false),
            (vec![1, 0x81], false),
            (vec![6, 1, 0, 0, 0, 0, 0], false),
            (vec![0x4c, 1, 5], false),
        ] {
            expect(&format!("{push:?}"), Kind::is_locked, ScriptFlags::ALL, claimed, |plan| {
                lock(plan);
                plan.lock = push.clone();
            });
        }
        nothing("a script behind it", Kind::is_locked, |plan| {
            lock(plan);
            plan.after_script = vec![0xac];
        });
    }
    let witness = |kind: Kind| kind.is_locked() && kind.is_v0();
    nothing("an item more", witness, |plan| plan.before_witness = vec![vec![1]]);
    let script_hash = |kind: Kind| kind == Kind::ScriptHashLockedKey;
    nothing("an element more", script_hash, |plan| plan.before_script_sig = vec![1, 1]);
}

#[test]
fn multisig_has_as_many_signatures_as_it_says() {
    nothing("one too many", Kind::is_multisig, |plan| {
        plan.secrets = vec![[1; 32], [2; 32], [3; 32]];
        plan.key_forms = vec![KeyForm::Compressed; 3];
        (plan.signers, plan.hash_types) = (vec![0, 2], vec![1, 1]);
        (plan.m, plan.n) = (number(1), number(3));
    });
    nothing("one too few", Kind::is_multisig, |plan| {
        plan.secrets = vec![[1; 32], [2; 32], [3; 32]];
        plan.key_forms = vec![KeyForm::Compressed; 3];
        (plan.signers, plan.hash_types) = (vec![0, 2], vec![1, 1]);
        (plan.m, plan.n) = (number(3), number(3));
    });
    let opcode = |plan: &mut Plan| plan.after_script = vec![0x61];
    nothing("something behind the script", |kind| kind.is_multisig() || kind == Kind::Key, opcode);
}

#[test]
fn leaves_are_exact() {
    let leaf = |kind: Kind| kind == Kind::TaprootLeaf;
    for extra in [1, 31, 33] {
        nothing("a control block", leaf, |plan| plan.after_control = vec![1; extra]);
    }
    nothing("too deep", leaf, |plan| plan.depth = 129);
    nothing("another version", leaf, |plan| plan.leaf_version = 0xc2);
    nothing("another opcode", leaf, |plan| plan.leaf_opcode = 0xad);
    nothing("a key of 33 bytes", leaf, |plan| plan.leaf_key = Some(push(&[2; 33])));
    nothing("a code separator", leaf, |plan| plan.before_leaf = vec![0xab]);
    nothing("a code separator", leaf, |plan| plan.after_leaf = vec![0xab]);
    for inside in [vec![0x51], vec![0x50], vec![0x67], vec![0xab], push_with(0x4d, &[1; 521])] {
        let envelope = [&[0, 0x63][..], &inside, &[0x68]].concat();
        nothing("an envelope", leaf, |plan| plan.before_leaf = envelope.clone());
        nothing("an envelope", leaf, |plan| plan.after_leaf = envelope.clone());
    }
    let secp = Secp256k1::new();
    for plan in plans(Kind::TaprootLeaf) {
        for len in [0, 1, 32] {
            let mut case = plan.build(&secp);
            let mut items = case.tx.input[case.input].witness.to_vec();
            items[2].truncate(len);
            case.tx.input[case.input].witness = bitcoin::Witness::from_slice(&items);
            assert_eq!(claim_of(&case, ScriptFlags::ALL), None, "{len}");
        }
        // Script and control block, and nothing for the script.
        let mut case = plan.build(&secp);
        let items = case.tx.input[case.input].witness.to_vec();
        case.tx.input[case.input].witness = bitcoin::Witness::from_slice(&items[1..]);
        assert_eq!(claim_of(&case, ScriptFlags::ALL), None);
    }
}

/// As the only item it is a signature, whatever it begins with.
#[test]
fn a_signature_is_no_annex() {
    let secp = Secp256k1::new();
    let mut rng = StdRng::seed_from_u64(1);
    let mut cases = (0..10_000).map(|_| Plan::random(Kind::TaprootKey, &mut rng).build(&secp));
    let found = cases.find(|case| case.tx.input[case.input].witness[0][0] == 0x50);
    assert!(is_proven(&found.expect("one of 256"), ScriptFlags::ALL));
}

/// Zero and negative zero, which Core finds false before it looks at the program.
#[test]
fn programs_are_true() {
    let secp = Secp256k1::new();
    for plan in plans(Kind::TaprootKey) {
        let mut case = plan.build(&secp);
        for (last, claimed) in [(0, false), (0x80, false), (0x81, true)] {
            let mut script = [&[0x51, 32][..], &[0; 32]].concat();
            script[33] = last;
            case.spent[case.input].script_pubkey = script;
            assert_eq!(claim_of(&case, ScriptFlags::ALL).is_some(), claimed, "{last:#x}");
        }
    }
}

#[test]
fn wrapped_version_one_is_not_taproot() {
    let secp = Secp256k1::new();
    for plan in plans(Kind::TaprootKey) {
        let mut case = plan.build(&secp);
        let program = case.spent[case.input].script_pubkey.clone();
        let hash = hash160::Hash::hash(&program).to_byte_array();
        let script_pubkey = [&[0xa9, 20][..], &hash, &[0x87]].concat();
        case.spent[case.input] = Output { script_pubkey, ..case.spent[case.input] };
        case.tx.input[case.input].script_sig = push(&program).into();
        assert_eq!(claim_of(&case, ScriptFlags::ALL), None);
        // Anyone may spend it.
        let naive = Naive::new(&case.bytes(), &case.spent);
        assert!(naive.accepts(case.input, ScriptFlags::ALL));
    }
}

/// A key, of no point, that has a short signature in it.
#[test]
fn signatures_in_scripts_are_left_to_core() {
    let secp = Secp256k1::new();
    let signature = [0x30, 6, 2, 1, 1, 2, 1, 1, 1];
    let other = [0x30, 6, 2, 1, 1, 2, 1, 1, 2];
    let key = push(&[&[2][..], &[7; 10], &signature, &[7; 13]].concat());
    let single = [&key[..], &[0xac]].concat();
    let multisig = [&[0x51], &key[..], &[0x51, 0xae]].concat();
    for (kind, script) in [(Kind::Key, single), (Kind::Multisig, multisig)] {
        for plan in plans(kind) {
            let mut case = plan.build(&secp);
            case.spent[case.input].script_pubkey = script.clone();
            for (signature, claimed) in [(other, true), (signature, false)] {
                let dummy = if kind == Kind::Key { vec![] } else { vec![0] };
                case.tx.input[case.input].script_sig = [dummy, push(&signature)].concat().into();
                assert_eq!(claim_of(&case, ScriptFlags::ALL).is_some(), claimed);
            }
        }
    }
}
