//! The journal of a measurement: a line of JSON for each run, written as soon as the run is done.
//!
//! The first line says what is measured and on which machine; a measurement refuses to continue a journal
//! with another first line. A last line that was cut off is dropped.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A file of lines behind a head.
#[derive(Debug)]
pub struct Journal<H, L> {
    path: PathBuf,
    /// What all lines have in common.
    pub head: H,
    /// Everything that was ever written to it.
    pub lines: Vec<L>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Entry<H, L> {
    Head(H),
    Line(L),
}

impl<H: Serialize + DeserializeOwned, L: Serialize + DeserializeOwned> Journal<H, L> {
    /// Opens one that goes on if it `continues` with this head, or begins one.
    pub fn open(path: &Path, head: H, continues: fn(&H, &H) -> bool) -> Result<Self, Failure> {
        match Self::read(path)? {
            Some(journal) if !continues(&journal.head, &head) => {
                Err(Failure::OtherRun(path.to_owned()))
            }
            Some(journal) => {
                journal.rewrite()?;
                Ok(journal)
            }
            None => {
                let journal = Self { path: path.to_owned(), head, lines: vec![] };
                journal.rewrite()?;
                Ok(journal)
            }
        }
    }

    /// What a file holds; `None` where there is no file.
    pub fn read(path: &Path) -> Result<Option<Self>, Failure> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(|error| Failure::File(path.to_owned(), error))?,
        };
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let (mut head, mut lines) = (None, vec![]);
        for line in whole.lines() {
            let entry = serde_json::from_str::<Entry<H, L>>(line);
            match entry.map_err(|error| Failure::Json(path.to_owned(), error))? {
                Entry::Head(found) => head = head.or(Some(found)),
                Entry::Line(line) => lines.push(line),
            }
        }
        Ok(head.map(|head| Self { path: path.to_owned(), head, lines }))
    }

    /// Adds a line; it is in the file when this returns.
    pub fn add(&mut self, line: L) -> Result<(), Failure> {
        let failed = |error| Failure::File(self.path.clone(), error);
        let mut file = OpenOptions::new().append(true).open(&self.path).map_err(failed)?;
        file.write_all(self.line(&Entry::<&H, &L>::Line(&line))?.as_bytes()).map_err(failed)?;
        self.lines.push(line);
        Ok(())
    }

    fn rewrite(&self) -> Result<(), Failure> {
        let mut text = self.line(&Entry::<&H, &L>::Head(&self.head))?;
        for line in &self.lines {
            text += &self.line(&Entry::<&H, &L>::Line(line))?;
        }
        crate::report_files::write_text(&self.path, &text)
    }

    fn line(&self, entry: &Entry<&H, &L>) -> Result<String, Failure> {
        let text = serde_json::to_string(entry)
            .map_err(|error| Failure::Json(self.path.clone(), error))?;
        Ok(text + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = Journal<String, u32>;

    #[test]
    fn a_journal_goes_on_where_it_was_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.jsonl");
        let open = |head: &str| Numbers::open(&path, head.to_owned(), |one, other| one == other);
        let mut journal = open("x").unwrap();
        journal.add(7).unwrap();
        journal.add(8).unwrap();
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"line\":");
        fs::write(&path, text).unwrap();
        let mut journal = open("x").unwrap();
        assert_eq!(journal.lines, [7, 8]);
        journal.add(9).unwrap();
        assert_eq!(Numbers::read(&path).unwrap().unwrap().lines, [7, 8, 9]);
    }

    #[test]
    fn another_measurement_does_not_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b.jsonl");
        let open = |head: &str| Numbers::open(&path, head.to_owned(), |one, other| one == other);
        open("x").unwrap();
        assert!(matches!(open("y"), Err(Failure::OtherRun(_))));
        fs::write(&path, "{\"head\":\"x\"}\n{\"line\":\"no number\"}\n").unwrap();
        assert!(matches!(open("x"), Err(Failure::Json(..))));
    }

    #[test]
    fn a_file_without_a_whole_line_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.jsonl");
        assert!(Numbers::read(&path).unwrap().is_none());
        fs::write(&path, "{\"he").unwrap();
        assert!(Numbers::read(&path).unwrap().is_none());
    }
}
