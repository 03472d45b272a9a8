//! Real header runs: linkage, proof of work, median time past, every retarget inside a run.

use std::cell::Cell;
use std::collections::BTreeMap;

use ethnum::U256;
use godwit_consensus::{
    MEDIAN_TIME_SPAN, PrevContext, Reject, RejectReason, check_header, check_proof_of_work,
    contextual_check_header, median_time_past, next_work_required,
};
use godwit_primitives::network::Params;
use godwit_primitives::work::{block_proof, compact_target, expand_target};
use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot, Work};
use godwit_stream::SpanReader;
use godwit_testdata::{read, shared_data};
use serde_json::Value;

use crate::data;

/// A run of headers whose first is at height `first`.
struct Run {
    first: u32,
    headers: Vec<BlockHeader>,
    params: Params,
}

/// What was checked.
#[derive(Debug, Default)]
struct Counts {
    headers: u32,
    retargets: u32,
    times: u32,
    /// Headers whose required target depends on one before the run.
    open: u32,
}

impl Run {
    /// From a name such as `mainnet_0_10236.bin.zst`.
    fn read(name: &str) -> Option<Self> {
        let folder = shared_data()?.join("headers");
        let parts: Vec<&str> = name.split(['_', '.']).collect();
        let first = parts[1].parse().unwrap();
        let headers = data::headers(&read(folder.join(name)));
        assert_eq!(headers.len() as u32, parts[2].parse::<u32>().unwrap() - first + 1);
        Some(Self { first, headers, params: data::params_of(parts[0]) })
    }

    fn median_time_past(&self, i: usize) -> Option<u32> {
        let from = (i + 1).saturating_sub(MEDIAN_TIME_SPAN);
        if from == 0 && self.first != 0 && i + 1 < MEDIAN_TIME_SPAN {
            return None;
        }
        let times: Vec<u32> = self.headers[from..=i].iter().map(|header| header.time).collect();
        Some(median_time_past(&times))
    }

    /// Passes header `i` and its context to `f`; whether the context reached below the run.
    fn with_context<R>(&self, i: usize, f: impl FnOnce(&PrevContext<'_>) -> R) -> (R, bool) {
        let open = Cell::new(false);
        let ancestor = |height: u32| match height.checked_sub(self.first) {
            Some(index) => self.headers[index as usize],
            None => {
                open.set(true);
                self.headers[0]
            }
        };
        let prev = PrevContext {
            height: self.first + i as u32 - 1,
            header: self.headers[i - 1],
            median_time_past: self.median_time_past(i - 1).unwrap_or(0),
            ancestor: &ancestor,
        };
        (f(&prev), open.get())
    }

    fn check(&self) -> Counts {
        let mut counts = Counts::default();
        for (i, header) in self.headers.iter().enumerate() {
            let hash = header.block_hash();
            assert_eq!(check_header(&hash, header, &self.params), Ok(()));
            counts.headers += 1;
            if i == 0 {
                assert!(self.first != 0 || hash == self.params.genesis_hash);
                continue;
            }
            let height = self.first + i as u32;
            assert_eq!(header.prev_blockhash, self.headers[i - 1].block_hash(), "{height}");
            let now = i64::from(header.time);
            let (result, open) = self
                .with_context(i, |prev| contextual_check_header(header, prev, &self.params, now));
            if open {
                counts.open += 1;
                continue;
            }
            assert_eq!(result, Ok(()), "{height}");
            counts.times += u32::from(self.median_time_past(i - 1).is_some());
            let period = self.params.difficulty_adjustment_interval();
            counts.retargets += u32::from(height.is_multiple_of(period));
            self.check_changed(i);
        }
        counts
    }

    /// A header with another target or a time of its median is rejected in the same place.
    fn check_changed(&self, i: usize) {
        let header = self.headers[i];
        let now = i64::from(header.time);
        let check = |changed: BlockHeader| {
            self.with_context(i, |prev| contextual_check_header(&changed, prev, &self.params, now))
                .0
        };
        let harder = BlockHeader { bits: header.bits - 1, ..header };
        assert_eq!(check(harder), Err(Reject::new(RejectReason::BadDiffbits)));
        if let Some(median) = self.median_time_past(i - 1) {
            let old = BlockHeader { time: median, ..header };
            let result = check(old).unwrap_err().reason;
            // Without the gap a late block has to have another target.
            let late = self.params.allow_min_difficulty && result == RejectReason::BadDiffbits;
            assert!(late || result == RejectReason::TimeTooOld);
        }
    }
}

#[test]
fn every_run_keeps_the_rules() {
    let Some(folder) = shared_data() else { return };
    let names = data::names(folder.join("headers"), &[".bin", ".bin.zst"]);
    assert_eq!(names.len(), 10);
    let mut retargets = BTreeMap::new();
    for name in &names {
        let run = Run::read(name).unwrap();
        let counts = run.check();
        println!("{name}: {counts:?}");
        assert_eq!(counts.headers as usize, run.headers.len());
        // Median times need ten headers below the first that is checked.
        let known = run.headers.len() as u32 - 1 - counts.open;
        assert!(counts.times >= known.saturating_sub(10));
        let network = name.split('_').next().unwrap().to_owned();
        *retargets.entry(network).or_insert(0) += counts.retargets;
    }
    let expected = [("mainnet", 78), ("signet", 0), ("testnet3", 2), ("testnet4", 1)];
    assert_eq!(retargets, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

fn number(value: &Value) -> U256 {
    U256::from_str_radix(value.as_str().unwrap(), 10).unwrap()
}

fn times(state: &Value) -> Vec<u32> {
    let times = state["prev_timestamps"].as_array().unwrap();
    times.iter().map(|time| time.as_u64().unwrap() as u32).collect()
}

/// One block on top of a recorded chain state.
fn check_step(record: &Value) {
    let params = data::params_of("mainnet");
    let (state, expected) = (&record["chain_state"], &record["expected"]);
    let block = &record["blocks"][0];
    let field = |name: &str| block["header"][name].as_u64().unwrap() as u32;
    let prev_blockhash: BlockHash = state["best_block_hash"].as_str().unwrap().parse().unwrap();
    let merkle_root: MerkleRoot = block["data"]["merkle_root"].as_str().unwrap().parse().unwrap();
    let header = BlockHeader {
        version: field("version") as i32,
        prev_blockhash,
        merkle_root,
        time: field("time"),
        bits: field("bits"),
        nonce: field("nonce"),
    };
    let times_before = times(state);
    let prev_header = BlockHeader {
        time: *times_before.last().unwrap(),
        bits: compact_target(number(&state["current_target"])),
        ..header
    };
    let epoch_start = state["epoch_start_time"].as_u64().unwrap() as u32;
    let ancestor = |_: u32| BlockHeader { time: epoch_start, ..prev_header };
    let prev = PrevContext {
        height: state["block_height"].as_u64().unwrap() as u32,
        header: prev_header,
        median_time_past: median_time_past(&times_before),
        ancestor: &ancestor,
    };
    let now = i64::from(header.time);
    assert_eq!(contextual_check_header(&header, &prev, &params, now), Ok(()));
    let hash = header.block_hash();
    assert_eq!(check_header(&hash, &header, &params), Ok(()));
    assert_eq!(hash.to_string(), expected["best_block_hash"]);
    assert_eq!(expand_target(header.bits).target, number(&expected["current_target"]));
    let work = number(&state["total_work"]) + block_proof(header.bits);
    assert_eq!(work, number(&expected["total_work"]));
    assert_eq!(times(expected)[1..], [&times_before[2..], &[header.time]].concat());
}

#[test]
fn recorded_chain_states_step_to_the_next() {
    let Some(folder) = shared_data() else { return };
    let folder = folder.join("headers/chainstate");
    let names = data::names(folder.clone(), &[".json"]);
    assert_eq!(names.len(), 10);
    for name in names {
        println!("{name}");
        check_step(&data::json(folder.join(name)));
    }
}

fn header_of(bytes: &[u8]) -> BlockHeader {
    SpanReader::new(bytes).get().unwrap()
}

/// Headers and work at heights 2016k-1 and 2016k: every retarget up to 415,296.
#[test]
fn recorded_retargets_and_work() {
    let Some(folder) = shared_data() else { return };
    let file = read(folder.join("headers/mainnet_retarget_pairs_0_415296.tsv.zst"));
    let params = data::params_of("mainnet");
    let mut known: BTreeMap<u32, (BlockHeader, Work)> = BTreeMap::new();
    for line in std::str::from_utf8(&file).unwrap().lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let header = header_of(&hex::decode(fields[1]).unwrap());
        let work = U256::from_str_radix(fields[2], 16).unwrap();
        known.insert(fields[0].parse().unwrap(), (header, work));
    }
    let mut retargets = 0;
    for (height, (header, work)) in &known {
        assert!(check_proof_of_work(&header.block_hash(), header.bits, &params), "{height}");
        let Some((below, (prev_header, prev_work))) = known.range(..height).next_back() else {
            assert_eq!((*height, *work), (0, block_proof(header.bits)));
            continue;
        };
        // All blocks since the one before have this block's target, or it is the next.
        let blocks = U256::from(height - below);
        assert_eq!(*work, *prev_work + blocks * block_proof(header.bits), "{height}");
        if !height.is_multiple_of(2016) {
            assert_eq!(header.bits, prev_header.bits);
            continue;
        }
        let ancestor = |asked: u32| known[&asked].0;
        let prev = PrevContext {
            height: height - 1,
            header: *prev_header,
            median_time_past: 0,
            ancestor: &ancestor,
        };
        assert_eq!(next_work_required(&prev, header.time, &params), header.bits, "{height}");
        retargets += 1;
    }
    assert_eq!(retargets, 415_296 / 2016);
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("not base64"),
    };
    let (mut bits, mut held) = (0u32, 0);
    let mut bytes = Vec::new();
    for c in text.bytes() {
        bits = bits << 6 | u32::from(digit(c));
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}

/// Headers and work at every 2016th height up to 878,976: all work lies in known targets.
#[test]
fn work_of_every_period() {
    let Some(folder) = shared_data() else { return };
    let file = read(folder.join("headers/mainnet_checkpoints_bitcoinj.txt"));
    let params = data::params_of("mainnet");
    // Genesis' period has its target.
    let mut before = (params.genesis, block_proof(params.genesis.bits));
    let mut height = 0;
    for line in std::str::from_utf8(&file).unwrap().lines().skip(3) {
        let record = base64(line);
        let work = U256::from_str_radix(&hex::encode(&record[..12]), 16).unwrap();
        height += 2016;
        assert_eq!(record[12..16], u32::to_be_bytes(height));
        let header = header_of(&record[16..]);
        assert!(check_proof_of_work(&header.block_hash(), header.bits, &params), "{height}");
        let period = U256::new(2015) * block_proof(before.0.bits);
        assert_eq!(work, before.1 + period + block_proof(header.bits), "{height}");
        before = (header, work);
    }
    assert_eq!(height, 878_976);
}
