//! Searches this process and reports what it found.

use std::io::{self, Write};

use godwit_program::Exit;
use godwit_secret::residue::{self, Finding, Needle};

use super::CheckError;
use super::case::Observer;

/// Copies found during one use of keys.
struct Row {
    name: &'static str,
    /// Number of secrets that were searched for.
    secrets: usize,
    /// Most copies found in locked memory by one search, while the secrets were in use.
    locked_memory: usize,
    /// Copies found elsewhere meanwhile; `afterwards`, anywhere.
    elsewhere: usize,
    afterwards: usize,
}

/// Searches this process.
#[derive(Default)]
pub(super) struct Search {
    rows: Vec<Row>,
    /// Copies that should not be there.
    residues: Vec<Finding>,
    /// As in [`Row`], of the use that is under way.
    locked_memory: usize,
    elsewhere: usize,
}

impl Observer for Search {
    fn unlocked(&mut self, _: &'static str, needles: &[Needle]) -> Result<(), CheckError> {
        let findings = residue::scan(needles)?.findings;
        let (protected, plain): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.protected);
        self.locked_memory = self.locked_memory.max(protected.len());
        self.elsewhere += plain.len();
        self.residues.extend(plain);
        Ok(())
    }

    fn locked(&mut self, name: &'static str, needles: Vec<Needle>) -> Result<(), CheckError> {
        let findings = residue::scan(&needles)?.findings;
        let row = Row {
            name,
            secrets: needles.len(),
            locked_memory: std::mem::take(&mut self.locked_memory),
            elsewhere: std::mem::take(&mut self.elsewhere),
            afterwards: findings.len(),
        };
        // A secret that is in use and cannot be found is not the one that is searched for.
        if row.locked_memory == 0 {
            return Err(CheckError::Unexpected(name));
        }
        self.rows.push(row);
        self.residues.extend(findings);
        Ok(())
    }
}

/// Prints where the search found the copies that were leaked on purpose.
pub(super) fn print_proof(out: &mut impl Write, places: &[&str]) -> io::Result<()> {
    for place in places {
        writeln!(out, "a secret left on purpose {place}: found")?;
    }
    writeln!(out)
}

/// Prints the table and the result.
pub(super) fn print(out: &mut impl Write, search: &Search) -> Result<Exit, CheckError> {
    writeln!(out, "{:26}{:>9}{:>17}{:>11}{:>12}", "", "", "copies in", "", "")?;
    writeln!(
        out,
        "{:26}{:>9}{:>17}{:>11}{:>12}",
        "use of keys", "secrets", "locked memory", "elsewhere", "after lock"
    )?;
    for row in &search.rows {
        let Row { name, secrets, locked_memory, elsewhere, afterwards } = row;
        writeln!(out, "{name:26}{secrets:>9}{locked_memory:>17}{elsewhere:>11}{afterwards:>12}")?;
    }
    writeln!(out)?;
    for residue in &search.residues {
        writeln!(out, "copy: {residue}")?;
    }
    match search.residues.len() {
        0 => {
            writeln!(out, "no copy outside locked memory")?;
            Ok(Exit::Success)
        }
        count => {
            writeln!(out, "{count} copies outside locked memory or after lock")?;
            Ok(Exit::Bug)
        }
    }
}
