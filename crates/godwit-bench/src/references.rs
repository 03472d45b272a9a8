//! How far a benchmark is from what the machine can do.

use std::fmt::{self, Write};

use crate::bench::{Bench, Fixture, Group, Kind, OURS};
use crate::contenders::{LIMITS, OWN_HASHING};
use crate::workloads::Workload;

/// Bytes of a coin of the flushes in memory that was not touched before: its outpoint, its script of
/// 56 bytes, and about 13 of amount, height and lengths.
const COIN_BYTES: f64 = 36.0 + 56.0 + 13.0;

/// Bytes of a page.
const PAGE: f64 = 4096.0;

/// Work that a benchmark cannot do without, or that a node does beside it, at the machine's price.
struct Part {
    workload: Workload,
    /// A line of [`LIMITS`].
    limit: &'static str,
    /// How many of its units there are for each unit of the benchmark.
    times: fn(&Fixture) -> f64,
    what: &'static str,
}

const PARTS: [Part; 8] = [
    Part {
        workload: Workload::ProcessMessageBlock,
        limit: "memcpy 64 MiB, out of cache",
        times: |_| 1.0,
        what: "each byte copied once from memory",
    },
    Part {
        workload: Workload::ProcessMessageBlock,
        limit: "SHA-256 of 1 MiB, sha2 crate",
        times: |_| 2.0,
        what: "the checksum, made and compared",
    },
    Part {
        workload: Workload::DeserializeBlock,
        limit: "SHA-256 of 4096 × 250 bytes, sha2 crate",
        times: |block| block.bytes as f64,
        what: "the transactions hashed once, one after the other",
    },
    Part {
        workload: Workload::Flush,
        limit: "SipHash-1-3 of an outpoint",
        times: |_| 1.0,
        what: "the key of each coin, as godwit hashes it",
    },
    Part {
        workload: Workload::Flush,
        limit: "SipHash-2-4 of an outpoint",
        times: |_| 1.0,
        what: "the key of each coin, as Bitcoin Core hashed it at the time of the pull request",
    },
    Part {
        workload: Workload::Flush,
        limit: "page fault, fresh 4 KiB page",
        times: |_| COIN_BYTES / PAGE,
        what: "the coins' bytes in fresh memory",
    },
    Part {
        workload: Workload::DeserializeAndCheckBlock,
        limit: "secp256k1 verify, ECDSA",
        times: |block| block.inputs as f64,
        what: "not done here: a signature for each input, where scripts run",
    },
    Part {
        workload: Workload::DeserializeAndCheckBlock,
        limit: "secp256k1 verify, Schnorr",
        times: |block| block.inputs as f64,
        what: "not done here: the same with Schnorr signatures",
    },
];

/// Two tables: each line as a share of the limits that ran beside it, and what parts of a benchmark
/// would take at the other limits' price.
pub fn write(out: &mut impl Write, bench: &Bench) -> fmt::Result {
    writeln!(
        out,
        "100 % would be as fast as the limit alone, in the middle turn. No library here hashes several \
         messages at once, so the limits of SHA-256 hash one after the other: those who hash many at once \
         pass them, and so do those who leave witnesses out of what they hash. *{OWN_HASHING}* is not what \
         the machine can do but godwit's own code for the hashes of whole transactions, without the rest \
         of the work. The limit of a flush writes and syncs; it neither generates, orders nor looks up \
         coins.\n"
    )?;
    writeln!(out, "| benchmark | limit | line | share |\n|---|---|---|---:|")?;
    for group in bench.groups.iter().filter(|group| group.name != LIMITS) {
        write_beside(out, group)?;
    }
    writeln!(
        out,
        "\nThe limits that ran by themselves, at the price of a part of the work, beside the middle time of \
         the whole of it by godwit with plain memory:\n\n\
         | benchmark | limit | part | of godwit's time |\n|---|---|---|---:|"
    )?;
    for part in &PARTS {
        if let Some(share) = share(bench, part) {
            let Part { workload, limit, what, .. } = part;
            writeln!(out, "| {} | {limit} | {what} | {:.1} % |", workload.name(), share * 100.0)?;
        }
    }
    Ok(())
}

/// Shares of limits that are given per the same unit.
fn write_beside(out: &mut impl Write, group: &Group) -> fmt::Result {
    for limit in group.of_kind(Kind::Limit) {
        for line in group.lines.iter().filter(|line| line.kind != Kind::Limit) {
            let Some(share) = group.ratio(&limit.name, &line.name) else { continue };
            let (name, percent) = (&line.name, share.median * 100.0);
            writeln!(out, "| {} | {} | {name} | {percent:.1} % |", group.name, limit.name)?;
        }
    }
    Ok(())
}

/// The part at the limit's price over the whole. `None` where one of them did not run, or the part is
/// nothing.
fn share(bench: &Bench, part: &Part) -> Option<f64> {
    let nanoseconds = |group: &str, line: &str| {
        Some(bench.group(group)?.line(line)?.figures()?.nanoseconds.median)
    };
    let part_time = nanoseconds(LIMITS, part.limit)? * (part.times)(&bench.fixture);
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
    fn shares_of_limits_beside_and_apart() {
        let lines =
            vec![line(OURS, Kind::Godwit, &[200; 3]), line("memcpy", Kind::Limit, &[100; 3])];
        let check = Group { name: Workload::DeserializeAndCheckBlock.name().to_owned(), lines };
        let limits = vec![line("secp256k1 verify, ECDSA", Kind::Limit, &[400; 3])];
        let limits = Group { name: LIMITS.to_owned(), lines: limits };
        let mut out = String::new();
        write(&mut out, &bench(vec![check, limits])).unwrap();
        let row = "| DeserializeAndCheckBlockTest | memcpy | godwit, plain | 50.0 % |";
        assert!(out.contains(row), "{out}");
        // Three inputs at twice the time of the whole.
        let row = "a signature for each input, where scripts run | 600.0 % |";
        assert!(out.contains(row), "{out}");
        assert!(!out.contains("Schnorr signatures | "), "{out}");
    }

    /// A share needs a limit in the same unit.
    #[test]
    fn each_workload_has_a_limit() {
        let block = godwit_rivals::fallback_block().to_vec();
        let input = Input { block, datadir: "/nowhere".into() };
        for workload in Workload::ALL {
            let unit = workload.subject(&input).unit;
            let limits = contenders::limits_beside(workload, &input);
            assert!(!limits.is_empty(), "{}", workload.name());
            for Contender { name, kind, subject } in limits {
                assert_eq!((kind, subject.unit), (Kind::Limit, unit), "{name}");
            }
        }
    }

    /// What is measured is used, and what is used is measured.
    #[test]
    fn each_limit_has_a_part() {
        let measured: Vec<_> = contenders::limits().into_iter().map(|limit| limit.name).collect();
        for part in &PARTS {
            assert!(measured.iter().any(|name| name == part.limit), "{}", part.limit);
        }
        // The loop holds counters against what is known; the copy in cache runs beside the streams.
        let elsewhere = ["loop of two instructions", "memcpy 8 KiB, in cache"];
        for name in measured.iter().filter(|name| !elsewhere.contains(&name.as_str())) {
            assert!(PARTS.iter().any(|part| part.limit == name), "{name}");
        }
    }
}
