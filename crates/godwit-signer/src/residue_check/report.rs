//! Searches this process and reports what it found.

use std::io::{self, Write};

use godwit_program::Exit;
use godwit_secret::residue::{self, Finding, Needle};

use super::CheckError;
use super::case::{Inside, Observer};

/// Copies found during one use of keys.
struct Row {
    name: &'static str,
    /// Number of secrets that were searched for.
    secrets: usize,
    /// Searches made, most of them inside of operations.
    searches: usize,
    /// Most copies found in locked memory by one search, while the secrets were in use.
    locked_memory: usize,
    /// The same of memory for secrets that the system did not lock.
    unlocked: usize,
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
    searches: usize,
    locked_memory: usize,
    unlocked: usize,
    elsewhere: usize,
}

impl Observer for Search {
    fn unlocked(&mut self, _: &'static str, needles: &[Needle]) -> Result<(), CheckError> {
        let findings = residue::scan(needles)?.findings;
        let (protected, plain): (Vec<_>, Vec<_>) =
            findings.into_iter().partition(|finding| finding.protected);
        let locked = protected.iter().filter(|finding| finding.locked).count();
        self.searches += 1;
        self.locked_memory = self.locked_memory.max(locked);
        self.unlocked = self.unlocked.max(protected.len() - locked);
        self.elsewhere += plain.len();
        self.residues.extend(plain);
        Ok(())
    }

    fn looks_inside(&self) -> bool {
        true
    }

    fn inside(&mut self, inside: Inside) {
        self.searches += inside.searches;
        self.elsewhere += inside.findings.len();
        self.residues.extend(inside.findings);
    }

    fn locked(&mut self, name: &'static str, needles: Vec<Needle>) -> Result<(), CheckError> {
        let findings = residue::scan(&needles)?.findings;
        let row = Row {
            name,
            secrets: needles.len(),
            searches: 1 + std::mem::take(&mut self.searches),
            locked_memory: std::mem::take(&mut self.locked_memory),
            unlocked: std::mem::take(&mut self.unlocked),
            elsewhere: std::mem::take(&mut self.elsewhere),
            afterwards: findings.len(),
        };
        // A secret that is in use and cannot be found is not the one that is searched for.
        if row.locked_memory + row.unlocked == 0 {
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
    let heads = ["", "", "", "copies in", "not", "", ""];
    let below = [
        "use of keys",
        "secrets",
        "searches",
        "locked memory",
        "locked",
        "elsewhere",
        "after lock",
    ];
    for [name, secrets, searches, locked, unlocked, elsewhere, after] in [heads, below] {
        writeln!(
            out,
            "{name:26}{secrets:>9}{searches:>10}{locked:>15}{unlocked:>8}{elsewhere:>11}{after:>12}"
        )?;
    }
    for row in &search.rows {
        let Row { name, secrets, searches, locked_memory, unlocked, elsewhere, afterwards } = row;
        writeln!(
            out,
            "{name:26}{secrets:>9}{searches:>10}{locked_memory:>15}{unlocked:>8}{elsewhere:>11}\
             {afterwards:>12}"
        )?;
    }
    writeln!(out)?;
    for residue in &search.residues {
        writeln!(out, "copy: {residue}")?;
    }
    match search.residues.len() {
        0 if search.rows.iter().any(|row| row.unlocked > 0) => {
            writeln!(out, "no copy outside the memory for secrets, which is not locked")?;
            Ok(Exit::Success)
        }
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
