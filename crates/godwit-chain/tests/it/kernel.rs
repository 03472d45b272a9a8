//! Hostile and boundary blocks, judged by godwit and by Bitcoin Core's own chainstate side by side.
//!
//! Equal means: the same verdict, the same validation result class, the same tip afterwards, and
//! godwit's reason in what Core logged for that block.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    Block, BlockValidationResult, BlockValidationStateRef, ChainType, ChainstateManager, Context,
    ContextBuilder, LogCategory, LogLevel, Logger, ProcessBlockResult, ValidationMode,
};
use godwit_chain::{Chain, Verdict};
use godwit_consensus::ResultClass;
use godwit_primitives::ReversedHex;
use godwit_primitives::network::{Deployment, Network, Params};
use godwit_sim::hostile::{ChainOptions, HostileCase, Suite, reorganisations, suites};

use crate::datadir::{open, open_with, options, submit_at};

/// Core's logging is one per process, so its chainstates run one at a time.
static KERNEL: Mutex<()> = Mutex::new(());

fn kernel_lock() -> MutexGuard<'static, ()> {
    KERNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What Core said of a block: mode and class of its `BlockChecked` signal.
type Checked = (String, ValidationMode, BlockValidationResult);

struct Lines(Arc<Mutex<Vec<String>>>);

impl bitcoinkernel::Log for Lines {
    fn log(&self, message: &str) {
        self.0.lock().unwrap().push(message.to_owned());
    }
}

struct KernelChain {
    manager: ChainstateManager,
    checked: Arc<Mutex<Vec<Checked>>>,
    log: Arc<Mutex<Vec<String>>>,
    _logger: Logger,
    _context: Context,
}

impl KernelChain {
    fn open(dir: &Path) -> Self {
        let checked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&log);
        let logger = Logger::new(Lines(lines)).expect("a logger");
        logger.set_level_category(LogCategory::Validation, LogLevel::Debug);
        logger.enable_category(LogCategory::Validation);
        let seen = Arc::clone(&checked);
        let context = ContextBuilder::new()
            .chain_type(ChainType::Regtest)
            .with_block_checked_validation(
                move |block: Block, state: BlockValidationStateRef<'_>| {
                    let entry = (block.hash().to_string(), state.mode(), state.result());
                    seen.lock().unwrap().push(entry);
                },
            )
            .build()
            .expect("a context");
        let blocks = dir.join("blocks");
        std::fs::create_dir_all(&blocks).unwrap();
        let manager =
            ChainstateManager::builder(&context, dir.to_str().unwrap(), blocks.to_str().unwrap())
                .expect("options")
                .worker_threads(2)
                .block_tree_db_in_memory(true)
                .chainstate_db_in_memory(true)
                .build()
                .expect("a chainstate");
        manager.import_blocks().expect("genesis is activated");
        Self { manager, checked, log, _logger: logger, _context: context }
    }

    fn tip(&self) -> (String, u32) {
        let chain = self.manager.active_chain();
        (chain.tip().block_hash().to_string(), chain.height() as u32)
    }

    /// Core's verdict as `submitblock` words it but for the reason, and what was logged meanwhile.
    fn submit(&self, bytes: &[u8]) -> (Outcome, String) {
        self.checked.lock().unwrap().clear();
        self.log.lock().unwrap().clear();
        let Ok(block) = Block::new(bytes) else { return (Outcome::Undecodable, String::new()) };
        let hash = block.hash().to_string();
        let result = self.manager.process_block(&block);
        let checked = self.checked.lock().unwrap();
        let own = checked.iter().rev().find(|(of, ..)| *of == hash);
        let outcome = match (result, own) {
            (ProcessBlockResult::Duplicate, _) => Outcome::Duplicate,
            (_, None) => Outcome::Inconclusive,
            (_, Some((_, ValidationMode::Valid, _))) => Outcome::Accepted,
            (_, Some((_, _, class))) => Outcome::Rejected(*class),
        };
        (outcome, self.log.lock().unwrap().join("\n"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Accepted,
    Inconclusive,
    Duplicate,
    Undecodable,
    Rejected(BlockValidationResult),
}

fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Connected => Outcome::Accepted,
        Verdict::Stored => Outcome::Inconclusive,
        Verdict::Duplicate => Outcome::Duplicate,
        Verdict::Undecodable => Outcome::Undecodable,
        Verdict::Rejected(reject) => Outcome::Rejected(match reject.class {
            ResultClass::Consensus => BlockValidationResult::Consensus,
            ResultClass::CachedInvalid => BlockValidationResult::CachedInvalid,
            ResultClass::InvalidHeader => BlockValidationResult::InvalidHeader,
            ResultClass::Mutated => BlockValidationResult::Mutated,
            ResultClass::MissingPrev => BlockValidationResult::MissingPrev,
            ResultClass::InvalidPrev => BlockValidationResult::InvalidPrev,
            ResultClass::TimeFuture => BlockValidationResult::TimeFuture,
            ResultClass::HeaderLowWork => BlockValidationResult::HeaderLowWork,
        }),
    }
}

/// Submits one block to both and compares; the verdict's word.
fn judge(name: &str, block: &[u8], chain: &mut Chain, kernel: &KernelChain) -> String {
    let verdict = submit_at(chain, block, wall_clock());
    let (core, log) = kernel.submit(block);
    assert_eq!(outcome(verdict), core, "{name}: {verdict:?}; Core logged:\n{log}");
    if let Verdict::Rejected(reject) = verdict {
        let reason = reject.reason.to_string();
        assert!(log.contains(&reason), "{name}: {reason} is not what Core logged:\n{log}");
    }
    let tip = chain.tip_point();
    assert_eq!((tip.hash.to_string(), tip.height), kernel.tip(), "{name}: tip");
    verdict.bip22_word()
}

fn now() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.expect("after 1970").as_secs() as u32
}

fn wall_clock() -> i64 {
    i64::from(now())
}

fn regtest(dir: &Path, suite: &ChainOptions) -> Chain {
    let mut params = Params::new(Network::Regtest);
    params.enforce_bip94 = suite.bip94;
    for (name, height) in &suite.activation {
        params.set_activation_height(deployment(name), *height);
    }
    open_with(dir, options(params))
}

/// The names of `-testactivationheight`.
fn deployment(name: &str) -> Deployment {
    match name {
        "segwit" => Deployment::Segwit,
        "bip34" => Deployment::HeightInCoinbase,
        "dersig" => Deployment::Dersig,
        "cltv" => Deployment::Cltv,
        "csv" => Deployment::Csv,
        other => panic!("no deployment is called {other}"),
    }
}

fn judge_suite(suite: &Suite, reasons: &mut BTreeMap<String, usize>) -> usize {
    let temp = tempfile::tempdir().unwrap();
    let mut chain = regtest(&temp.path().join("godwit"), &suite.options);
    let oracle = (suite.options == ChainOptions::default())
        .then(|| KernelChain::open(&temp.path().join("core")));
    for block in &suite.base {
        let verdict = match &oracle {
            Some(kernel) => judge(suite.name, block, &mut chain, kernel),
            None => submit_at(&mut chain, block, wall_clock()).bip22_word(),
        };
        assert_eq!(verdict, "accept", "{}: base", suite.name);
    }
    let mut blocks = 0;
    for HostileCase { name, blocks: submitted, expect } in &suite.cases {
        for (n, (block, expected)) in submitted.iter().zip(expect).enumerate() {
            let name = format!("{}/{name}[{n}]", suite.name);
            let verdict = match &oracle {
                Some(kernel) => judge(&name, block, &mut chain, kernel),
                None => submit_at(&mut chain, block, wall_clock()).bip22_word(),
            };
            assert_eq!(verdict, expected.unwrap_or("accept"), "{name}: as the generator expects");
            *reasons.entry(verdict).or_default() += 1;
            blocks += 1;
        }
    }
    blocks
}

#[test]
fn hostile_blocks_get_cores_verdict() {
    let _one_at_a_time = kernel_lock();
    let mut reasons = BTreeMap::new();
    let blocks: usize = suites(now()).iter().map(|suite| judge_suite(suite, &mut reasons)).sum();
    println!("{blocks} blocks judged: {reasons:#?}");
    assert!(blocks >= 300, "{blocks} blocks");
}

#[test]
fn reorganisations_there_and_back_end_in_the_state_of_a_fresh_sync() {
    let _one_at_a_time = kernel_lock();
    for scenario in reorganisations() {
        let name = format!("{} deep", scenario.depth);
        let temp = tempfile::tempdir().unwrap();
        let mut chain = regtest(&temp.path().join("godwit"), &ChainOptions::default());
        let kernel = KernelChain::open(&temp.path().join("core"));
        for block in &scenario.base {
            judge(&name, block, &mut chain, &kernel);
        }
        for (n, (block, expected)) in scenario.blocks.iter().zip(&scenario.expect).enumerate() {
            let verdict = judge(&name, block, &mut chain, &kernel);
            assert_eq!(verdict, expected.unwrap_or("accept"), "{name}");
            if n == scenario.turn {
                same_as_fresh(&name, &mut chain, scenario.base.iter().chain(&scenario.second));
            }
        }
        same_as_fresh(&name, &mut chain, scenario.base.iter().chain(&scenario.first));
    }
}

/// The coins are those of a chain that never saw another branch.
fn same_as_fresh<'a>(name: &str, chain: &mut Chain, blocks: impl Iterator<Item = &'a Vec<u8>>) {
    let temp = tempfile::tempdir().unwrap();
    let mut fresh = open(temp.path(), Network::Regtest);
    for block in blocks {
        assert_eq!(submit_at(&mut fresh, block, wall_clock()), Verdict::Connected, "{name}");
    }
    let (after, expected) = (chain.utxo_stats().unwrap(), fresh.utxo_stats().unwrap());
    assert_eq!(after, expected, "{name}: {}", ReversedHex(&after.muhash));
}
