//! Real blocks through the whole crate: how many inputs are claimed and proven, by type, and the cost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use godwit_primitives::{Block, OutPoint, ScriptFlags};
use godwit_script::{Claim, Counts, Group, Scripts, SpendingTx, Work, claim};
use godwit_testdata::shared_file;
use serde_json::Value;

use crate::generated::flags_of_chains;
use crate::native::{form, note, print_tally, prove};
use crate::real_blocks::{flags_of, read_prevouts};
use crate::scripts::proving;
use crate::twin::{Output, prepare, spent_outputs};

fn whole<'s, 'a>(txs: &'s [SpendingTx<'a>], flags: ScriptFlags) -> Group<'s, 'a> {
    let works = txs.iter().map(|tx| Work { tx, inputs: 0..tx.input_count() }).collect();
    Group { works, flags, crosscheck: None }
}

#[test]
fn real_blocks_are_proven() {
    let Some(index) = shared_file("blocks/index.json") else { return };
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    let mut forms = BTreeMap::<&str, (usize, usize)>::new();
    let (mut inputs, mut took, mut all) = (0, Duration::ZERO, Counts::default());
    for entry in index.as_array().expect("an array of blocks") {
        let Some(prevouts) = entry["prevouts_file"].as_str() else { continue };
        let name = entry["file"].as_str().expect("a file name");
        let bytes = shared_file(&format!("blocks/{name}")).expect("the index was there");
        let block = Block::from_bytes(&bytes).expect("block parses");
        let flags = flags_of(entry);
        let spent = spent_by_tx(&block, prevouts);
        let start = Instant::now();
        let txs: Vec<SpendingTx<'_>> = block
            .view()
            .txs()
            .skip(1)
            .zip(&spent)
            .map(|(tx, spent)| SpendingTx::new(tx, spent_outputs(spent)).expect("one an input"))
            .collect();
        // Another one each time: one that lost time on a busy machine makes no claims for a while.
        let mut scripts = proving();
        assert_eq!(scripts.verify(&[whole(&txs, flags)]), [Ok(())], "{name}");
        let block_took = start.elapsed();
        let counts = scripts.counts();
        assert_eq!(counts.unproven, 0, "{name}");
        let of_block: usize = spent.iter().map(Vec::len).sum();
        let proven = counts.proven;
        all += counts;
        println!("{name}: {proven} of {of_block} proven, {block_took:?} with the engine's rest");
        inputs += of_block;
        took += block_took;
        for tx in &txs {
            for (input, spent) in tx.spent().iter().enumerate() {
                let form = form(&tx.view(), input, spent.script_pubkey);
                let entry = forms.entry(form).or_default();
                entry.0 += 1;
                entry.1 += usize::from(claim(tx, input, flags).is_some());
            }
        }
    }
    for (form, (inputs, claimed)) in &forms {
        println!("{form}: {claimed} of {inputs} claimed");
    }
    let proven = all.proven as usize;
    println!("{proven} of {inputs} proven, {:?} an input", took / inputs as u32);
    // But for the block 367891, where 20,000 inputs spend scripts without signatures.
    let usual = inputs - forms["other"].0;
    assert!(usual > 55_000 && proven * 1000 >= usual * 998, "{proven} of {usual}");
}

#[test]
fn claims_of_some_real_inputs_say_what_core_says_under_every_set_of_flags() {
    claims_under_every_set_of_flags(16);
}

#[test]
#[ignore = "every input"]
fn claims_of_all_real_inputs_say_what_core_says_under_every_set_of_flags() {
    claims_under_every_set_of_flags(1);
}

/// Of every `step`-th input, under flags that were never those of the block, too: what a claim says is asked
/// of Core wherever it would not follow from what Core says under more flags.
fn claims_under_every_set_of_flags(step: usize) {
    let Some(index) = shared_file("blocks/index.json") else { return };
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    let (mut inputs, mut compared) = (0, 0);
    for entry in index.as_array().expect("an array of blocks") {
        let Some(prevouts) = entry["prevouts_file"].as_str() else { continue };
        let name = entry["file"].as_str().expect("a file name");
        let bytes = shared_file(&format!("blocks/{name}")).expect("the index was there");
        let block = Block::from_bytes(&bytes).expect("block parses");
        let spent = spent_by_tx(&block, prevouts);
        let mut claims: Vec<Claim> = Vec::new();
        // Whether Core accepts what each of them is about.
        let mut valid: Vec<bool> = Vec::new();
        for (tx, spent) in block.view().txs().skip(1).zip(&spent) {
            let core = prepare(tx.bytes(), spent).expect("well-formed");
            let tx = SpendingTx::new(tx, spent_outputs(spent)).expect("one an input");
            for (input, output) in spent.iter().enumerate() {
                inputs += 1;
                if inputs % step != 0 {
                    continue;
                }
                let under_all = core.verify_input(input, ScriptFlags::ALL).is_ok();
                let first = claims.len();
                for flags in flags_of_chains() {
                    let claim = claim(&tx, input, flags);
                    // Core refuses nothing under fewer flags that it accepts under more.
                    let accepts = under_all || core.verify_input(input, flags).is_ok();
                    note(form(&tx.view(), input, &output.script_pubkey), accepts, claim.is_some());
                    let Some(claim) = claim else { continue };
                    compared += 1;
                    let known = claims[first..].iter().zip(&valid[first..]);
                    if !known.clone().any(|(other, valid)| *other == claim && *valid == accepts) {
                        claims.push(claim);
                        valid.push(accepts);
                    }
                }
            }
        }
        assert_eq!(prove(claims), valid, "{name}");
    }
    print_tally("real blocks, 48 sets of flags");
    assert!(compared > 2_000_000 / step, "{compared} claims");
}

/// What each part costs, block by block. Prints; asserts no times.
#[test]
#[ignore = "prints timings"]
fn cost_of_real_blocks() {
    let Some(index) = shared_file("blocks/index.json") else { return };
    let index: Value = serde_json::from_slice(&index).expect("JSON");
    for entry in index.as_array().expect("an array of blocks") {
        let Some(prevouts) = entry["prevouts_file"].as_str() else { continue };
        let name = entry["file"].as_str().expect("a file name");
        let bytes = shared_file(&format!("blocks/{name}")).expect("the index was there");
        let block = Block::from_bytes(&bytes).expect("block parses");
        let spent = spent_by_tx(&block, prevouts);
        let inputs: usize = spent.iter().map(Vec::len).sum();
        if inputs >= 500 {
            print_cost(name, &block, &spent, flags_of(entry), inputs as u32);
        }
    }
}

fn print_cost(name: &str, block: &Block, spent: &[Vec<Output>], flags: ScriptFlags, inputs: u32) {
    let txs = || block.view().txs().skip(1).zip(spent);
    let build = || -> Vec<SpendingTx<'_>> {
        txs().map(|(tx, spent)| SpendingTx::new(tx, spent_outputs(spent)).expect("one")).collect()
    };
    let fastest = |work: &mut dyn FnMut()| {
        let rounds = (0..5).map(|_| {
            let start = processor_time();
            work();
            processor_time() - start
        });
        rounds.min().expect("five") / inputs
    };
    let built = fastest(&mut || drop(build()));
    let claimed = fastest(&mut || {
        let txs = build();
        let all = txs.iter().flat_map(|tx| (0..tx.input_count()).map(move |input| (tx, input)));
        let claims = all.filter_map(|(tx, input)| claim(tx, input, flags)).count();
        assert!(claims > 0);
    });
    let mut scripts = Scripts::new();
    let verified = fastest(&mut || {
        let txs = build();
        assert_eq!(scripts.verify(&[whole(&txs, flags)]), [Ok(())]);
    });
    let engine = fastest(&mut || {
        for (tx, spent) in txs() {
            prepare(tx.bytes(), spent).expect("well-formed").verify(flags).expect("valid");
        }
    });
    let check = scripts.counts();
    println!(
        "{name}: {inputs} inputs, an input: views {built:?}, claims too {claimed:?}, proofs and engine too \
         {verified:?}; engine alone {engine:?}; {check:?} in five rounds"
    );
}

/// Of this thread, so that other programs show less; Linux knows it.
fn processor_time() -> Duration {
    let file = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let first = text.split(' ').next().and_then(|text| text.parse().ok());
    Duration::from_nanos(first.expect("a number comes first"))
}

/// The outputs that each transaction but the first spends.
fn spent_by_tx(block: &Block, prevouts: &str) -> Vec<Vec<Output>> {
    let mut view = read_prevouts(prevouts);
    let mut spent = Vec::new();
    for (index, tx) in block.view().txs().enumerate() {
        if index != 0 {
            spent.push(tx.inputs().map(|input| view[&input.prevout].clone()).collect());
        }
        for (vout, output) in tx.outputs().enumerate() {
            let outpoint = OutPoint { txid: tx.txid(), vout: vout as u32 };
            let script_pubkey = output.script_pubkey.to_vec();
            view.insert(outpoint, Output { value: output.value, script_pubkey });
        }
    }
    spent
}
