//! Real blocks, each connected at its height over a view of the coins that it spends.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossbeam_channel::bounded;
use godwit_consensus::{RejectReason, script_flags};
use godwit_primitives::network::{Deployment, Network};
use godwit_store::BLOCK_BUFFERS;
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::exec::{Executor, Threads, Workers};
use godwit_store::utxo::{CacheMinima, Manifest, UtxoConfig, UtxoHasher};
use godwit_stream::{BufferPool, DataStream};
use godwit_testdata::{read, shared_data};
use serde_json::Value;

use godwit_primitives::OutPoint;

use super::*;
use crate::job_sender::JobSender;
use crate::options::{ScriptEngine, ScriptOptions};
use crate::structure::{Received, structure};
use crate::tree::HeaderTree;
use crate::verify::{Engines, Outcome, ScriptRun, ScriptTotals, UndoFormat, Verifier, VerifyError};

mod twin;

/// A spent coin and the median time past of the block before the one that created it.
struct Prevout {
    outpoint: OutPoint,
    coin: Coin,
    median_time_past: Option<u32>,
}

fn prevouts(path: PathBuf) -> Vec<Prevout> {
    let text = String::from_utf8(read(path)).unwrap();
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        Prevout {
            outpoint: OutPoint {
                txid: fields[0].parse().unwrap(),
                vout: fields[1].parse().unwrap(),
            },
            coin: Coin {
                value: fields[2].parse().unwrap(),
                script_pubkey: hex::decode(fields[3]).unwrap().into(),
                // `-`: the source did not say.
                height: fields[4].parse().unwrap_or(1),
                coinbase: fields[5] == "1",
            },
            median_time_past: fields[6].parse().ok(),
        }
    };
    text.lines().skip(1).map(parse).collect()
}

struct Case {
    block: Arc<Structured>,
    height: u32,
    params: Params,
    prevouts: Vec<Prevout>,
    fees: Amount,
}

fn cases(dir: &Path) -> Vec<(String, Case)> {
    let index: Value =
        serde_json::from_slice(&std::fs::read(dir.join("blocks/index.json")).unwrap()).unwrap();
    let with_prevouts = index
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["prevouts_file"].is_string() && entry["height"].is_u64());
    with_prevouts
        .map(|entry| {
            let file = |key: &str| dir.join("blocks").join(entry[key].as_str().unwrap());
            let network = match entry["network"].as_str().unwrap() {
                "mainnet" => Network::Main,
                "testnet3" => Network::Testnet3,
                other => panic!("no block of {other} was expected"),
            };
            let params = Params::new(network);
            let bytes = read(file("file"));
            let hasher = UtxoHasher::new([1; 16]);
            let received = structure(DataStream::from(&bytes[..]), &params, &hasher, None);
            let Received::Structured(block) = received else { panic!("{entry}: malformed") };
            let case = Case {
                block,
                height: entry["height"].as_u64().unwrap() as u32,
                params,
                prevouts: prevouts(file("prevouts_file")),
                fees: entry["fees_sat"].as_i64().unwrap(),
            };
            (entry["file"].as_str().unwrap().to_owned(), case)
        })
        .collect()
}

fn workers() -> Arc<Workers> {
    Arc::new(Workers::start(&Threads::default(), "godwit-test", 2, [10_000; 2]).unwrap())
}

fn store_of(dir: &Path, prevouts: &[Prevout]) -> UtxoStore {
    let hasher = UtxoHasher::new([1; 16]);
    let disk = StoreDisk::new(Arc::new(RealDisk));
    let config = UtxoConfig { budget: 64 << 20, minima: CacheMinima::PRODUCT };
    let executor: Arc<dyn Executor> = Arc::new(Threads::default());
    let manifest = Manifest::empty(2, &hasher);
    let mut utxo = UtxoStore::open(&disk, dir, hasher, &manifest, config, &executor).unwrap();
    for Prevout { outpoint, coin, .. } in prevouts {
        let hashed = hasher.hash(*outpoint);
        utxo.add(&hashed, coin, true);
    }
    utxo
}

fn connect(utxo: &mut UtxoStore, case: &Case) -> Result<Resolved, Reject> {
    let times: HashMap<u32, u32> = case
        .prevouts
        .iter()
        .filter_map(|prevout| Some((prevout.coin.height, prevout.median_time_past?)))
        .collect();
    // Asked for the block before the one that created a coin.
    let median_time_past = |height: u32| times.get(&(height + 1)).copied().unwrap_or(0);
    let hash = case.block.hash();
    let rules = BlockRules {
        height: case.height,
        flags: script_flags(case.height, &hash, &case.params),
        sequence_locks: case.params.is_active(Deployment::Csv, case.height),
        no_overwrite: true,
        prev_median_time_past: case.block.header().time,
        params: Arc::new(case.params.clone()),
    };
    let nothing = Prefetched::nothing(utxo.layers().pin());
    apply(utxo, any_id(), Arc::clone(&case.block), nothing, rules, &median_time_past)
}

fn any_id() -> NodeId {
    HeaderTree::new(Params::new(Network::Regtest).genesis).genesis()
}

fn verified(workers: &Arc<Workers>, case: &Case, resolved: Resolved) -> Outcome {
    let resolved = Arc::new(resolved);
    let outcomes = ENGINES.map(|engine| verified_by(engine, workers, case, Arc::clone(&resolved)));
    let rejects = outcomes.each_ref().map(|outcome| match outcome {
        Ok(_) => None,
        Err(VerifyError::Rejected(reject)) => Some(*reject),
        Err(error) => panic!("{error:?}"),
    });
    assert_eq!(rejects[0], rejects[1]);
    let [native, _] = outcomes;
    native
}

/// Natively with every proven input cross-checked, and by Core's engine alone.
const ENGINES: [ScriptEngine; 2] = [ScriptEngine::Native { lanes: None }, ScriptEngine::Core];

fn verified_by(
    engine: ScriptEngine,
    workers: &Arc<Workers>,
    case: &Case,
    resolved: Arc<Resolved>,
) -> Outcome {
    let (sender, receiver) = bounded(1);
    let job_sender = JobSender::new(Arc::clone(workers), Arc::default(), move |outcomes| {
        sender.send(outcomes).unwrap();
    });
    let format = UndoFormat { magic: case.params.magic, buffers: BufferPool::new(BLOCK_BUFFERS) };
    let every = NonZeroU32::new(1);
    let options = ScriptOptions { engine, crosscheck_download: every, crosscheck_recent: every };
    let executor: Arc<dyn Executor> = Arc::new(Threads::default());
    let engines = Engines { options, executor, workers: 2 };
    let verifier = Verifier::new(
        engines,
        |contradiction| panic!("{contradiction}"),
        job_sender,
        |outcomes| outcomes,
    );
    let run = ScriptRun::At { unix_time: 0, engine_alone: false };
    verifier.verify(7, resolved, run, Some(format));
    let outcomes: Option<Vec<(u64, Outcome)>> = receiver.recv().unwrap();
    let (token, outcome) = outcomes.expect("no panic").pop().expect("one block");
    assert_eq!(token, 7);
    let ScriptTotals { inputs, .. } = verifier.totals();
    if outcome.is_ok() {
        assert_eq!(inputs.crosschecked, inputs.proven);
    }
    assert!(engine != ScriptEngine::Core || inputs.proven == 0);
    outcome
}

fn fees(case: &Case, spent: &SpentCoins) -> Amount {
    let outputs = case.block.view().txs().skip(1).flat_map(|tx| tx.outputs());
    let created: Amount = outputs.map(|output| output.value).sum();
    spent.decoded().iter().map(|coin| coin.value).sum::<Amount>() - created
}

#[test]
fn every_real_block_connects_over_its_prevouts() {
    let Some(dir) = shared_data() else { return };
    let workers = workers();
    let mut inputs = 0;
    for (name, case) in cases(&dir) {
        let temp = tempfile::tempdir().unwrap();
        let mut utxo = store_of(temp.path(), &case.prevouts);
        let resolved = connect(&mut utxo, &case).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert_eq!(fees(&case, &resolved.spent), case.fees, "{name}");
        inputs += resolved.spent.decoded().len();
        let outcome = verified(&workers, &case, resolved);
        let verified = outcome.unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert!(verified.recorded_before().is_err(), "{name}");
    }
    println!("{inputs} inputs");
    assert!(inputs > 50_000);
}

/// A block that fails leaves the store as it was: the same block then connects.
#[test]
fn a_missing_coin_is_noticed_and_leaves_no_trace() {
    let Some(dir) = shared_data() else { return };
    for (name, case) in cases(&dir) {
        let Some(missing) = case.prevouts.last() else { continue };
        let temp = tempfile::tempdir().unwrap();
        let mut utxo = store_of(temp.path(), &case.prevouts);
        let hashed = UtxoHasher::new([1; 16]).hash(missing.outpoint);
        let coin = utxo.spend(&hashed).unwrap().expect("just added");
        let Err(reject) = connect(&mut utxo, &case) else { panic!("{name}: was not rejected") };
        assert_eq!(reject.reason, RejectReason::InputsMissingOrSpent, "{name}");
        utxo.add(&hashed, &coin, true);
        let Resolved { spent, .. } =
            connect(&mut utxo, &case).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert!(unapply(
            &mut utxo,
            &case.block,
            &spent,
            case.height,
            Mismatch::Reported,
            Below::Read(&CompressedCoins::default())
        ));
        for Prevout { outpoint, coin, .. } in &case.prevouts {
            let hashed = UtxoHasher::new([1; 16]).hash(*outpoint);
            assert_eq!(utxo.get(&hashed).unwrap().as_ref(), Some(coin), "{name}");
        }
    }
}

#[test]
fn a_damaged_witness_or_signature_fails_its_block() {
    let Some(dir) = shared_data() else { return };
    let workers = workers();
    let all = cases(&dir);
    let (name, case) = all.iter().find(|(name, _)| name.contains("413567")).expect("is there");
    let temp = tempfile::tempdir().unwrap();
    let mut utxo = store_of(temp.path(), &case.prevouts);
    let mut resolved = connect(&mut utxo, case).unwrap();
    // The last transaction's first coin gets another script: its signature no longer fits.
    let first = case.block.first_inputs();
    let last = first[first.len() - 2] as usize;
    let coins = resolved.spent.compressed_mut();
    let coin = coins.coin(last).expect("it is there");
    coins.set_coin(last, &Coin { script_pubkey: [0x51, 0x87][..].into(), ..coin });
    let outcome = verified(&workers, case, resolved);
    let Err(VerifyError::Rejected(reject)) = outcome else { panic!("{name}: passed") };
    assert_eq!(reject.reason, RejectReason::BlockScriptVerifyFlagFailed);
    // What its input pushes is not 1.
    let rule = "Script evaluated without error but finished with a false/empty top stack element";
    assert_eq!(reject.script_rule, Some(rule));
}

/// What was written is taken where a coin's amount or script is wrong; where its place is another one, it may
/// be another coin: that of the branch that became best, where the same transaction stands in another block.
#[test]
fn c15_a_second_look_takes_a_coin_as_it_was_written() {
    let first = Coin { value: 50, script_pubkey: [1; 25][..].into(), height: 100, coinbase: false };
    let read_wrong = [
        Coin { value: 51, ..first.clone() },
        Coin { script_pubkey: [2; 25][..].into(), ..first.clone() },
    ];
    for coin in read_wrong {
        assert_eq!(as_written(coin.clone(), first.clone()), first, "{coin:?}");
    }
    for coin in [Coin { height: 102, ..first.clone() }, Coin { coinbase: true, ..first.clone() }] {
        assert_eq!(as_written(coin.clone(), first.clone()), coin);
    }
}
