//! Four libraries for PSBTs that nobody here wrote, asked about the same PSBTs: bitcoinjs-lib,
//! @scure/btc-signer, btcd's psbt and embit. `tools/build-psbt-rivals` installs them.

mod process;

use bitcoin::consensus::encode::serialize_hex;
use bitcoin::psbt::PsbtSighashType;
use bitcoin::{Amount, Sequence, TxOut, absolute};
use miniscript::psbt::PsbtExt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::coins::{COIN, public_descriptor, received, secrets_of, sign, spend};
use super::*;
use process::Rival;

/// What coins are, with `#` for an index. Of `A` and `B` come as many signatures as are wanted.
const KINDS: [&str; 12] = [
    "pkh(A/44h/1h/0h/0/#)",
    "wpkh(A/84h/1h/0h/1/#)",
    "sh(wpkh(A/49h/1h/0h/0/#))",
    "sh(multi(2,A/1/#,F/#,B/1/#))",
    "wsh(multi(2,F/#,A/3/#,B/3/#))",
    "wsh(sortedmulti(2,A/3/#,B/3/#,F/3))",
    "sh(wsh(sortedmulti(1,A/4/#,F/#)))",
    "tr(A/86h/1h/0h/0/#)",
    "tr(A/8/#,{pk(F/8),pk(F/9)})",
    "tr(F/0,pk(A/9/#))",
    "tr(F/0,{pk(A/9/#),pk(F/9)})",
    "tr(F/0,multi_a(2,A/10/#,B/10/#))",
];

/// PSBTs of one test.
const COUNT: usize = 60;
/// Of each, so many with something changed.
const MUTANTS: u64 = 8;

/// A library, and what it can.
struct Library {
    name: &'static str,
    program: &'static [&'static str],
    version2: bool,
    /// Places in [`KINDS`] of what its finalizer does not know.
    unfinished: &'static [usize],
    /// So many of the PSBTs it has to finish.
    finishes: usize,
}

impl Library {
    fn start(&self) -> Option<Rival> {
        Rival::start(self.name, self.program)
    }

    fn reads(&self, psbt: &Psbt) -> bool {
        psbt.version() == 0 || self.version2
    }

    fn finishes(&self, kinds: &[usize]) -> bool {
        !kinds.iter().any(|kind| self.unfinished.contains(kind))
    }
}

const LIBRARIES: [Library; 4] = [
    Library {
        name: "bitcoinjs-lib",
        program: &["node", "bitcoinjs.js"],
        version2: false,
        unfinished: &[],
        finishes: 35,
    },
    Library {
        name: "@scure/btc-signer",
        program: &["node", "scure.js"],
        version2: true,
        unfinished: &[],
        finishes: 60,
    },
    Library {
        name: "btcd",
        program: &["btcd/btcd-rival"],
        version2: false,
        // It takes signatures of a leaf in the order of the PSBT, not of the script.
        unfinished: &[11],
        finishes: 27,
    },
    Library {
        name: "embit",
        program: &["python/bin/python3", "embit_rival.py"],
        version2: true,
        // Neither multisig in P2SH nor signatures of taproot in fields of their own.
        unfinished: &[3, 7, 8, 9, 10, 11],
        finishes: 9,
    },
];

/// A PSBT, unsigned.
#[derive(Debug)]
struct Generated {
    kinds: Vec<usize>,
    psbt: Psbt,
}

#[derive(Clone, Debug)]
struct Plan {
    /// Of each input.
    kinds: Vec<(usize, u32)>,
    /// Shares of the outputs beside the first, in thousandths.
    outputs: Vec<(usize, u32, u64)>,
    version2: bool,
    lock_time: u32,
    sequence: u32,
    /// Inputs ask for `SIGHASH_ALL`, or for nothing.
    asks: bool,
    /// A previous transaction stands beside the coin of taproot too.
    previous: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    let coin = || (0..KINDS.len(), 0..50_u32);
    let output = (0..KINDS.len(), 0..50_u32, 1..300_u64);
    let sequences = prop_oneof![Just(u32::MAX), Just(0xffff_fffe), Just(0xffff_fffd), 0..100_u32];
    (
        prop::collection::vec(coin(), 1..5),
        prop::collection::vec(output, 0..4),
        any::<bool>(),
        prop_oneof![Just(0), 1..900_000_u32, 1_600_000_000..1_900_000_000_u32],
        sequences,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(kinds, outputs, version2, lock_time, sequence, asks, previous)| Plan {
            kinds,
            outputs,
            version2,
            lock_time,
            sequence,
            asks,
            previous,
        })
}

fn written(kind: usize, index: u32) -> String {
    KINDS[kind].replace('#', &index.to_string())
}

fn generate(plan: &Plan) -> Generated {
    let coins: Vec<String> = plan.kinds.iter().map(|(kind, at)| written(*kind, *at)).collect();
    let mut psbt = spend(&coins.iter().map(String::as_str).collect::<Vec<_>>());
    psbt.unsigned_tx.lock_time = absolute::LockTime::from_consensus(plan.lock_time);
    let all = COIN * plan.kinds.len() as u64;
    for (input, fields) in psbt.unsigned_tx.input.iter_mut().zip(&mut psbt.inputs) {
        input.sequence = Sequence(plan.sequence);
        fields.sighash_type = plan.asks.then(|| PsbtSighashType::from_u32(1));
        let spends_taproot = fields.tap_internal_key.is_some();
        if spends_taproot && !plan.previous {
            fields.non_witness_utxo = None;
        }
        let output = fields.witness_utxo.as_ref().expect("each has one");
        let script = fields.redeem_script.as_ref().unwrap_or(&output.script_pubkey);
        if !script.is_witness_program() {
            fields.witness_utxo = None;
        }
    }
    for (kind, at, share) in &plan.outputs {
        let descriptor = public_descriptor(&written(*kind, *at));
        let value = Amount::from_sat(all / 1_000 * share);
        psbt.unsigned_tx.output[0].value -= value;
        psbt.unsigned_tx.output.push(TxOut { value, script_pubkey: descriptor.script_pubkey() });
        psbt.outputs.push(bitcoin::psbt::Output::default());
        psbt.update_output_with_descriptor(psbt.outputs.len() - 1, &descriptor).expect("its own");
    }
    let psbt = received(&psbt);
    Generated {
        kinds: plan.kinds.iter().map(|(kind, _)| *kind).collect(),
        psbt: if plan.version2 { psbt.into_version2() } else { psbt },
    }
}

/// The same at each run.
fn generated() -> impl Iterator<Item = Generated> {
    let mut runner = TestRunner::deterministic();
    std::iter::repeat_with(move || {
        let plan = plans().new_tree(&mut runner).expect("each value is allowed").current();
        generate(&plan)
    })
    .take(COUNT)
}

/// With `A` and `B`.
fn signed(psbt: &Psbt) -> Psbt {
    let mut psbt = psbt.clone();
    let policy = SignPolicy { unproven_amounts: true, ..SignPolicy::default() };
    sign(&mut psbt, "AB", &policy).expect("it is ours");
    psbt
}

/// The transaction of a signed PSBT, in hexadecimal; `None` where something is wanting.
fn finished(psbt: &Psbt) -> Option<String> {
    let mut psbt = psbt.clone();
    psbt.finalize();
    let transaction = psbt.extract().ok()?;
    verify(&psbt);
    Some(serialize_hex(&transaction))
}

fn no_difference(differences: &[String]) {
    assert!(differences.is_empty(), "{}:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn libraries_read_what_is_written_here() {
    let mut differences = Vec::new();
    for library in &LIBRARIES {
        let Some(mut rival) = library.start() else { return };
        for (number, Generated { kinds, psbt }) in generated().enumerate() {
            let answer = rival.ask(&["read", &text::write(&psbt)]);
            let same = match &answer {
                Ok(fields) => {
                    let again = text::read(fields[1].as_bytes());
                    let transaction = serialize_hex(psbt.unsigned_transaction());
                    fields[0] == transaction && again.is_ok_and(|again| again == psbt)
                }
                Err(_) => false,
            };
            if same != library.reads(&psbt) {
                differences.push(format!("{} {number} {kinds:?}: {answer:?}", library.name));
            }
        }
    }
    no_difference(&differences);
}

#[test]
fn libraries_finish_what_is_signed_here_into_the_same_transaction() {
    let mut differences = Vec::new();
    for library in &LIBRARIES {
        let Some(mut rival) = library.start() else { return };
        let mut compared = 0;
        for (number, Generated { kinds, psbt }) in generated().enumerate() {
            if !library.reads(&psbt) || !library.finishes(&kinds) {
                continue;
            }
            let signed = signed(&psbt);
            let transaction = finished(&signed).expect("it is signed");
            let answer = rival.ask(&["finish", &text::write(&signed)]);
            if answer.as_ref().ok() != Some(&vec![transaction]) {
                differences.push(format!("{} {number} {kinds:?}: {answer:?}", library.name));
            }
            compared += 1;
        }
        assert_eq!(compared, library.finishes, "{}", library.name);
    }
    no_difference(&differences);
}

#[test]
fn what_libraries_sign_is_valid_here_and_becomes_the_same_transaction() {
    let mut differences = Vec::new();
    for library in &LIBRARIES {
        let Some(mut rival) = library.start() else { return };
        for (number, Generated { kinds, psbt }) in generated().enumerate() {
            if !library.reads(&psbt) {
                continue;
            }
            let secrets = secrets_of(&psbt, "AB").join(",");
            let answer = rival.ask(&["sign", &text::write(&psbt), &secrets]);
            let place = format!("{} {number} {kinds:?}", library.name);
            let theirs = match answer.as_ref().map(|fields| text::read(fields[0].as_bytes())) {
                Ok(Ok(theirs)) => theirs,
                other => {
                    differences.push(format!("{place}: {other:?}"));
                    continue;
                }
            };
            let inputs = review(&theirs).inputs;
            let mut signatures = inputs.iter().flat_map(|input| &input.signatures);
            let valid = signatures.all(|signature| signature.valid == Some(true));
            let same = theirs.unsigned_transaction() == psbt.unsigned_transaction();
            let Some(transaction) = finished(&theirs).filter(|_| valid && same) else {
                differences.push(format!("{place}: {valid} {same} {answer:?}"));
                continue;
            };
            if library.finishes(&kinds) {
                let there = rival.ask(&["finish", &text::write(&theirs)]);
                if there.as_ref().ok() != Some(&vec![transaction]) {
                    differences.push(format!("{place}: {there:?}"));
                }
            }
        }
    }
    no_difference(&differences);
}

/// Something is changed in a signed PSBT: who still makes a transaction of it makes the same one, and what
/// is finished here is finished by a library too.
#[test]
fn changed_psbts_are_the_same_transaction_or_none() {
    let rivals: Option<Vec<_>> =
        LIBRARIES.iter().map(|library| Some((library, library.start()?))).collect();
    let Some(mut rivals) = rivals else { return };
    let (mut state, mut differences) = (0, Vec::new());
    let mut both = 0;
    for (number, Generated { kinds, psbt }) in generated().enumerate() {
        let bytes = signed(&psbt).encode();
        for _ in 0..MUTANTS {
            let changed = changed(&bytes, &mut state);
            let ours = Psbt::decode(&changed).ok().and_then(|psbt| finished_if_valid(&psbt));
            let text = data_encoding::BASE64.encode(&changed);
            let mut agreed = 0;
            for (library, rival) in &mut rivals {
                if !library.reads(&psbt) || !library.finishes(&kinds) {
                    continue;
                }
                let theirs = rival.ask(&["finish", &text]).ok().map(|mut fields| fields.remove(0));
                match (&ours, &theirs) {
                    (Some(ours), Some(theirs)) if ours == theirs => agreed += 1,
                    (Some(_), Some(_)) => {
                        differences
                            .push(format!("{} {number}: {ours:?} {theirs:?} {text}", library.name));
                    }
                    _ => {}
                }
            }
            both += agreed;
            if ours.is_some() && agreed == 0 {
                differences.push(format!("{number} {kinds:?}: here alone: {text}"));
            }
        }
    }
    assert!(both >= 150, "{both}: the changes leave nothing to compare");
    no_difference(&differences);
}

/// One byte is another one, is there twice, or is missing.
fn changed(bytes: &[u8], state: &mut u64) -> Vec<u8> {
    let mut draw = |bound: usize| {
        // Of Knuth's MMIX.
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % bound
    };
    let mut changed = bytes.to_vec();
    let at = draw(bytes.len());
    match draw(8) {
        0 => drop(changed.remove(at)),
        1 => changed.insert(at, bytes[at]),
        _ => changed[at] ^= 1 << draw(8),
    }
    changed
}

/// As [`finished`], of what may have wrong signatures.
fn finished_if_valid(psbt: &Psbt) -> Option<String> {
    let inputs = review(psbt).inputs;
    let mut signatures = inputs.iter().flat_map(|input| &input.signatures);
    let valid = signatures.all(|signature| signature.valid == Some(true));
    let spent = inputs.iter().all(|input| input.spent.is_ok());
    if valid && spent { finished(psbt) } else { None }
}
