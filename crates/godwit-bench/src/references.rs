//! A benchmark beside references: parts of its work alone, or work that a node does besides.

use std::fmt::{self, Write};

use crate::bench::{Bench, Fixture, Group, Kind, OURS};
use crate::contenders::{OWN_HASHING, REFERENCES};
use crate::targets::times_as;
use crate::workloads::Workload;

/// Bytes of a coin of the flushes in memory that was not touched before: its outpoint, its script of
/// 56 bytes, and about 13 of amount, height and lengths.
const COIN_BYTES: f64 = 36.0 + 56.0 + 13.0;

/// Bytes of a page.
const PAGE: f64 = 4096.0;

/// Work at the price that a reference has on this machine.
struct Part {
    workload: Workload,
    /// Whether the benchmark does it; a node that runs scripts does the rest besides.
    is_done: bool,
    /// A line of [`REFERENCES`].
    reference: &'static str,
    /// How many of its units there are for each unit of the benchmark.
    times: fn(&Fixture) -> f64,
    what: &'static str,
}

const PARTS: [Part; 8] = [
    Part {
        workload: Workload::ProcessMessageBlock,
        is_done: true,
        reference: "memcpy 64 MiB, out of cache",
        times: |_| 1.0,
        what: "each byte copied once from memory",
    },
    Part {
        workload: Workload::ProcessMessageBlock,
        is_done: true,
        reference: "SHA-256 of 1 MiB, sha2 crate",
        times: |_| 2.0,
        what: "the checksum, made and compared",
    },
    Part {
        workload: Workload::DeserializeBlock,
        is_done: true,
        reference: "SHA-256 of 4096 × 250 bytes, sha2 crate",
        times: |block| block.bytes as f64,
        what: "the transactions hashed once, one after the other",
    },
    Part {
        workload: Workload::Flush,
        is_done: true,
        reference: "SipHash-1-3 of an outpoint",
        times: |_| 1.0,
        what: "the key of each coin, as godwit hashes it",
    },
    Part {
        workload: Workload::Flush,
        is_done: true,
        reference: "SipHash-2-4 of an outpoint",
        times: |_| 1.0,
        what: "the key of each coin, as Bitcoin Core hashed it at the time of the pull request",
    },
    Part {
        workload: Workload::Flush,
        is_done: true,
        reference: "page fault, fresh 4 KiB page",
        times: |_| COIN_BYTES / PAGE,
        what: "the coins' bytes in fresh memory",
    },
    Part {
        workload: Workload::DeserializeAndCheckBlock,
        is_done: false,
        reference: "secp256k1 verify, ECDSA",
        times: |block| block.inputs as f64,
        what: "a signature for each input, where scripts run",
    },
    Part {
        workload: Workload::DeserializeAndCheckBlock,
        is_done: false,
        reference: "secp256k1 verify, Schnorr",
        times: |block| block.inputs as f64,
        what: "the same with Schnorr signatures",
    },
];

/// Each line beside the references that ran with it, and what parts of a benchmark would take at the other
/// references' price.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "A reference does a part of a benchmark's work and nothing else; none is a bound. Time as a multiple \
         of the reference's, estimate and 95 % interval. The references of SHA-256 hash one message after the \
         other, as no library here hashes several at once: those who hash many at once take less, and so do \
         those who leave witnesses out of what they hash. *{OWN_HASHING}* is godwit's own code for the hashes of \
         whole transactions, without the rest of the work. The reference of a flush writes and syncs; it neither \
         generates, orders nor looks up coins. The reference of decoding without hashes copies the block, which \
         decoders that keep the bytes where they are do not.\n"
    )?;
    writeln!(out, "| benchmark | reference | line | times |\n|---|---|---|---:|")?;
    for group in bench.groups.iter().filter(|group| group.name != REFERENCES) {
        write_beside(out, group)?;
    }
    writeln!(
        out,
        "\nParts of a benchmark at the price of a reference that ran by itself, beside the median time of the \
         whole of it by godwit with plain memory:\n\n\
         | benchmark | reference | part | of godwit's time |\n|---|---|---|---:|"
    )?;
    for (part, share) in shares(bench, true) {
        let Part { workload, reference, what, .. } = part;
        writeln!(out, "| {} | {reference} | {what} | {:.1} % |", workload.name(), share * 100.0)?;
    }
    writeln!(
        out,
        "\nWork that no benchmark here does, at a reference's price, for its size beside them:\n\n\
         | beside | reference | work | times godwit's time for the benchmark |\n|---|---|---|---:|"
    )?;
    for (part, share) in shares(bench, false) {
        let Part { workload, reference, what, .. } = part;
        writeln!(out, "| {} | {reference} | {what} | {share:.1} |", workload.name())?;
    }
    Ok(())
}

/// Lines beside references that are given per the same unit.
fn write_beside(out: &mut impl Write, group: &Group) -> fmt::Result {
    for reference in group.of_kind(Kind::Reference) {
        for line in group.lines.iter().filter(|line| line.kind != Kind::Reference) {
            let (name, beside) = (&*line.name, &*reference.name);
            let Some(ratio) = group.ratio(name, beside) else { continue };
            let times = times_as(group, [name, beside], ratio);
            writeln!(out, "| {} | {beside} | {name} | {times} |", group.name)?;
        }
    }
    Ok(())
}

/// The parts that are in a benchmark, or those that are not, over the whole of it.
fn shares(bench: &Bench, is_done: bool) -> impl Iterator<Item = (&'static Part, f64)> {
    let parts = PARTS.iter().filter(move |part| part.is_done == is_done);
    parts.filter_map(|part| Some((part, share(bench, part)?)))
}

/// The part at the reference's price over the whole. `None` where one of them did not run, or the part is
/// nothing.
fn share(bench: &Bench, part: &Part) -> Option<f64> {
    let nanoseconds = |group: &str, line: &str| {
        Some(bench.group(group)?.line(line)?.figures()?.nanoseconds.median)
    };
    let part_time = nanoseconds(REFERENCES, part.reference)? * (part.times)(&bench.fixture);
    let whole = nanoseconds(part.workload.name(), OURS)?;
    (part_time > 0.0).then(|| part_time / whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::{bench, line};
    use crate::contenders::{self, Contender};
    use crate::workloads::Input;

    #[test]
    fn references_beside_and_apart() {
        let lines =
            vec![line(OURS, Kind::Godwit, &[200; 6]), line("memcpy", Kind::Reference, &[100; 6])];
        let check = Group { name: Workload::DeserializeAndCheckBlock.name().to_owned(), lines };
        let references = vec![line("secp256k1 verify, ECDSA", Kind::Reference, &[400; 6])];
        let references = Group { name: REFERENCES.to_owned(), lines: references };
        let mut out = String::new();
        write(&mut out, &bench(vec![check, references])).unwrap();
        let row = "| DeserializeAndCheckBlockTest | memcpy | godwit, plain | 2.00 (2.00–2.00) |";
        assert!(out.contains(row), "{out}");
        // Three inputs at twice the time of the whole.
        let row = "a signature for each input, where scripts run | 6.0 |";
        assert!(out.contains(row), "{out}");
        assert!(!out.contains("Schnorr signatures | "), "{out}");
    }

    /// A ratio needs a reference in the same unit.
    #[test]
    fn each_workload_has_a_reference() {
        let block = godwit_rivals::fallback_block().to_vec();
        let input = Input { block, datadir: "/nowhere".into() };
        for workload in Workload::ALL {
            let unit = workload.subject(&input).unit;
            let references = contenders::references_beside(workload, &input);
            assert!(!references.is_empty(), "{}", workload.name());
            for Contender { name, kind, subject } in references {
                assert_eq!((kind, subject.unit), (Kind::Reference, unit), "{name}");
            }
        }
    }

    /// What is measured is used, and what is used is measured.
    #[test]
    fn each_reference_has_a_part() {
        let measured: Vec<_> = contenders::references().into_iter().map(|line| line.name).collect();
        for part in &PARTS {
            assert!(measured.iter().any(|name| name == part.reference), "{}", part.reference);
        }
        // The loop holds counters against what is known; the copy in cache runs beside the streams.
        let elsewhere = ["loop of two instructions", "memcpy 8 KiB, in cache"];
        for name in measured.iter().filter(|name| !elsewhere.contains(&name.as_str())) {
            assert!(PARTS.iter().any(|part| part.reference == name), "{name}");
        }
    }
}
