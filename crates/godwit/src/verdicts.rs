//! `godwit import --verdicts`: submits the records one by one, each after the verdict about the one before,
//! and writes each verdict as a JSON line in the words of Core's `submitblock`.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::{Chain, Verdict, structure};
use godwit_store::scan::{BlockFileScanner, Scanned, ScannedBlock};
use indicatif::MultiProgress;
use serde_json::json;

use crate::core_sources::blocks_of;
use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::open::{open_chain, start_options};
use crate::options::{Config, ImportOptions};
use crate::process::{StopFlag, seconds_since_1970};

/// The file for verdicts could not be written.
#[derive(Debug)]
struct WriteError(PathBuf, io::Error);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verdicts cannot be written to {}: {}", self.0.display(), self.1)
    }
}

impl Fatal for WriteError {
    fn exit(&self) -> Exit {
        Exit::of_write(&self.1, Exit::Failure)
    }
}

pub(crate) fn run(
    config: &Config,
    options: &ImportOptions,
    file: &Path,
    bars: &MultiProgress,
    stop: &StopFlag,
) -> Result<Exit, Failure> {
    let paths = options.paths.iter().map(|path| blocks_of(config, path));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    let failed = |error| WriteError(file.to_path_buf(), error);
    let mut out = BufWriter::new(File::create(file).map_err(failed)?);
    let (threads, height) = (options.script_threads.get(), options.stop_at_height);
    let mut chain = open_chain(config, threads, height, start_options(config, bars, stop, None))?;
    // Blocks that an earlier run stored are connected before the first record is submitted.
    chain.settle(seconds_since_1970())?;
    let mut number = 0;
    for path in &paths {
        let source = BlockFileScanner::open(chain.disk(), path, config.params.magic)?;
        for found in source.scan() {
            if stop.is_set() {
                out.flush().map_err(failed)?;
                chain.close()?;
                return Ok(Exit::Interrupted);
            }
            let Scanned::Block(record) = found? else { continue };
            let verdict = judge(&mut chain, &source, &record)?;
            writeln!(out, "{}", line(number, &record, verdict, &chain)).map_err(failed)?;
            number += 1;
        }
    }
    out.flush().map_err(failed)?;
    chain.flush()?;
    chain.close()?;
    Ok(Exit::Success)
}

fn judge(
    chain: &mut Chain,
    source: &BlockFileScanner,
    record: &ScannedBlock,
) -> Result<Verdict, Failure> {
    let bytes = source.read(&record.place, chain.block_buffers())?;
    let params = Arc::clone(chain.params());
    let received = structure(bytes, &params, &chain.hasher(), None);
    let verdict = chain.submit(received, seconds_since_1970())?;
    chain.take_events();
    Ok(verdict)
}

fn line(number: u64, record: &ScannedBlock, verdict: Verdict, chain: &Chain) -> serde_json::Value {
    let tip = chain.tip_point();
    json!({
        "n": number,
        "hash": record.header.block_hash().to_string(),
        "verdict": verdict.bip22_word(),
        "tip": tip.hash.to_string(),
        "height": tip.height,
    })
}
