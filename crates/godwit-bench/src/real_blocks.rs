//! Real blocks of the shared data, with which the generator's synthetic blocks are compared.

use std::collections::HashMap;
use std::fmt::{self, Write};

use godwit_primitives::{Block, OutPoint, Txid};
use godwit_testdata::shared_file;

use crate::chain_summary::{AGES, ChainSummary, Counts};

/// Heights on the main chain of blocks whose spent coins' heights are known, one or two for each era.
const HEIGHTS: [u32; 6] = [361_582, 413_567, 419_328, 481_824, 709_632, 866_342];

/// How the script of an output that carries data begins.
const OP_RETURN: u8 = 0x6a;

/// What a transaction has and how old what it spends is, over the transactions of a block or of many.
#[derive(Clone, Debug, PartialEq)]
struct Statistics {
    name: String,
    inputs_per_tx: f64,
    outputs_per_tx: f64,
    /// Outputs that carry data, in percent.
    data_percent: f64,
    /// Spent coins at most so old as [`AGES`] has it, in percent.
    age_percent: [f64; AGES.len()],
}

/// A table of the generator's stretches and of real blocks.
pub(crate) fn write(out: &mut impl Write, chain: &ChainSummary) -> fmt::Result {
    writeln!(
        out,
        "Its mixes beside blocks of the main chain, transactions but coinbases; ages of spent coins in \
         blocks, in percent of the inputs:\n"
    )?;
    write!(out, "| | inputs per transaction | outputs per transaction | data outputs % |")?;
    AGES.iter().try_for_each(|age| write!(out, " ≤ {age} |"))?;
    writeln!(out, "\n|---|{}", "---:|".repeat(3 + AGES.len()))?;
    let stretches = chain.stretches.iter().filter(|stretch| stretch.counts.txs > 0);
    let generated = stretches.map(|stretch| {
        let name = format!("{}, {} blocks", stretch.name, stretch.blocks);
        of_counts(name, &stretch.counts, &stretch.spend_age_percent)
    });
    for row in generated.chain(HEIGHTS.into_iter().filter_map(real)) {
        let Statistics { name, inputs_per_tx, outputs_per_tx, data_percent, age_percent } = row;
        write!(out, "| {name} | {inputs_per_tx:.2} | {outputs_per_tx:.2} | {data_percent:.1} |")?;
        age_percent.iter().try_for_each(|percent| write!(out, " {percent:.1} |"))?;
        out.write_char('\n')?;
    }
    out.write_char('\n')
}

fn of_counts(name: String, counts: &Counts, ages: &[(u32, f64)]) -> Statistics {
    let per = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    // An age that the generator has no class for counts for the one below it.
    let at_most = |age: &u32| ages.iter().rev().find(|(class, _)| class <= age).map(|(_, p)| *p);
    Statistics {
        name,
        inputs_per_tx: per(counts.inputs, counts.txs),
        outputs_per_tx: per(counts.outputs, counts.txs),
        data_percent: per(counts.op_returns, counts.outputs) * 100.0,
        age_percent: AGES.each_ref().map(|age| at_most(age).unwrap_or_default()),
    }
}

/// A block of the shared data; `None` without them.
fn real(height: u32) -> Option<Statistics> {
    let file = |ending: &str| shared_file(&format!("blocks/mainnet_{height}.{ending}.zst"));
    let block = Block::from_bytes(&file("blk")?).ok()?;
    let prevouts = String::from_utf8(file("prevouts.tsv")?).ok()?;
    let created: HashMap<OutPoint, u32> = prevouts.lines().skip(1).filter_map(created).collect();
    let mut counts = Counts::default();
    let mut up_to = [0_u64; AGES.len()];
    for tx in block.view().txs().skip(1) {
        counts.txs += 1;
        counts.inputs += tx.input_count() as u64;
        counts.outputs += tx.output_count() as u64;
        let data = tx.outputs().filter(|output| output.script_pubkey.first() == Some(&OP_RETURN));
        counts.op_returns += data.count() as u64;
        for input in tx.inputs() {
            // What is not in the list was created in the block itself.
            let age = height - created.get(&input.prevout).copied().unwrap_or(height);
            for (count, limit) in up_to.iter_mut().zip(AGES) {
                *count += u64::from(age <= limit);
            }
        }
    }
    let percent = |count: u64| count as f64 * 100.0 / counts.inputs.max(1) as f64;
    let ages: Vec<_> = AGES.into_iter().zip(up_to.map(percent)).collect();
    Some(of_counts(format!("block {height}"), &counts, &ages))
}

/// An output and the height at which it was created, of a line of the list.
fn created(line: &str) -> Option<(OutPoint, u32)> {
    let mut fields = line.split('\t');
    let txid: Txid = fields.next()?.parse().ok()?;
    let vout = fields.next()?.parse().ok()?;
    Some((OutPoint { txid, vout }, fields.nth(2)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counted once by another program.
    #[test]
    fn a_real_block_by_hand() {
        let Some(block) = real(866_342) else { return };
        assert_eq!(format!("{:.2} {:.1}", block.inputs_per_tx, block.outputs_per_tx), "1.64 2.1");
        let ages: Vec<_> = block.age_percent.iter().map(|p| format!("{p:.1}")).collect();
        assert_eq!(ages, ["50.6", "52.2", "54.8", "57.0", "70.3", "82.7", "86.9", "91.6"]);
    }

    #[test]
    fn every_block_has_all_heights() {
        let Some(_) = godwit_testdata::shared_data() else { return };
        for height in HEIGHTS {
            let block = real(height).unwrap();
            assert!(block.age_percent.is_sorted() && block.inputs_per_tx >= 1.0, "{block:?}");
            // A list without heights would make every coin one of the block itself.
            assert!(block.age_percent[0] < 60.0, "{block:?}");
        }
    }
}
