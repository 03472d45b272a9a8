//! Syncs of the real program that `tools/record-syncs` recorded, on one machine with two processors and IFMA.
//!
//! The recorded nodes took the next blocks for such as had come. Of the benchmarks' chain that is wrong: two
//! hundred empty blocks come first, and two thousand last, which take time and have no bytes. Here a sync is
//! from the first full block to the last one, and their bytes are known, as main's are.

use std::fs;
use std::path::Path;

use super::super::ahead::{Schedule, Stretch};
use super::simulated::Sync;
use super::{Machine, Sample, Stages, Work};

/// Bytes of the blocks of the benchmarks' chain.
const CHAIN: u64 = 797_954_238;

/// Height of its last full block (`last_busy_height` of its summary).
const LAST_FULL: u32 = 851;

/// Fewer bytes are empty blocks.
const FIRST_FULL: f64 = 1e6;

const RECORDED: usize = 32;

const MACHINE: Machine = Machine { processors: 2.0, script: 11.2e-6 };

/// Columns as `tools/record-syncs` writes them.
fn sample(row: &str) -> (Sample, Stretch) {
    let value = |text: &str| text.parse::<f64>().unwrap_or_else(|_| panic!("{row}"));
    let values: Vec<f64> = row.split('\t').map(value).collect();
    let values: [f64; 16] = values.try_into().unwrap_or_else(|_| panic!("{row}"));
    let [at, tip, _, scripts_from, blocks, bytes, coins, scripts, ..] = values;
    let [.., starved, processor, script_seconds, accept, apply, flush, wait, ahead] = values;
    let sample = Sample {
        at,
        blocks,
        work: Work { fetched: bytes + ahead, bytes, coins, scripts },
        starved,
        processor,
        scripts: script_seconds,
        stages: Stages { accept, apply, flush, wait },
    };
    let (tip, scripts_from) = (tip as u32, scripts_from as u32);
    (sample, Stretch { first: 0, tip, best: LAST_FULL, scripts_from })
}

/// From the last sample before the first full block to the first one behind the last.
fn of_full_blocks(mut samples: Vec<(Sample, Stretch)>) -> Vec<(Sample, Stretch)> {
    let end = samples.iter().position(|(_, at)| at.tip >= LAST_FULL).expect("it was recorded");
    samples.truncate(end + 1);
    let start = samples.iter().rposition(|(sample, _)| sample.work.bytes < FIRST_FULL);
    samples.split_off(start.unwrap_or(0))
}

/// The recorded syncs, every other one: the first ones may be looked at when the estimate is tuned.
pub(super) fn syncs(held_out: bool) -> Vec<Sync> {
    // From the crate's directory, in which cargo runs tests.
    let dir = Path::new("src/sync/estimate/recorded");
    let mut paths: Vec<_> = fs::read_dir(dir)
        .expect("it is there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    paths.sort();
    assert_eq!(paths.len(), RECORDED, "each half is sixteen");
    let of_half = paths.iter().skip(usize::from(held_out)).step_by(2);
    let sync = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path).expect("a text");
        Sync {
            name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
            machine: MACHINE,
            schedule: Schedule::Bytes(CHAIN),
            samples: of_full_blocks(text.lines().skip(1).map(sample).collect()),
        }
    };
    of_half.map(sync).collect()
}
