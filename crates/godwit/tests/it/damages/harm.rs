//! One harm to one file.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;

use super::directory::{files, kind};
use crate::blocks::header;

const PAGE: usize = 4096;

/// Magic and length in front of each record.
const FRAME: usize = 8;

/// How often a place is drawn where the file would stay as it is.
const ATTEMPTS: usize = 50;

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Harm {
    FlippedBit,
    ZeroedPage,
    SwappedPages,
    /// A page as it was earlier, or of another file of the kind.
    StalePage,
    Truncated,
    Missing,
    /// The file of another directory in its place.
    Foreign,
    /// A file of another directory beside it, under a name that this directory might give next.
    Stranger,
}

impl Harm {
    pub(super) const ALL: [Self; 8] = [
        Self::FlippedBit,
        Self::ZeroedPage,
        Self::SwappedPages,
        Self::StalePage,
        Self::Truncated,
        Self::Missing,
        Self::Foreign,
        Self::Stranger,
    ];

    /// Does it to a file of `dir`; where, or `None` where it would change nothing.
    pub(super) fn strike(
        self,
        dir: &Path,
        file: &Path,
        sources: &Sources,
        rng: &mut Rng,
    ) -> Option<String> {
        let path = dir.join(file);
        let old = fs::read(&path).expect("a file");
        let new = match self {
            Self::Missing => {
                fs::remove_file(&path).expect("it is there");
                return Some(String::new());
            }
            Self::Stranger => return sources.place_beside(dir, file, rng),
            Self::Foreign => sources.foreign(file, rng)?,
            Self::Truncated => truncated(&old, rng)?,
            _ => (0..ATTEMPTS).find_map(|_| {
                let new = self.pages_of(&old, file, sources, rng)?;
                (new != old).then_some(new)
            })?,
        };
        if new == old {
            return None;
        }
        fs::write(&path, &new).expect("the same file");
        let first = old.iter().zip(&new).position(|(old, new)| old != new);
        Some(format!(" from byte {} of {}", first.unwrap_or(old.len().min(new.len())), old.len()))
    }

    fn pages_of(
        self,
        old: &[u8],
        file: &Path,
        sources: &Sources,
        rng: &mut Rng,
    ) -> Option<Vec<u8>> {
        let mut new = old.to_vec();
        let place = place(old.len(), rng)?;
        let page = place / PAGE * PAGE;
        let end = old.len().min(page + PAGE);
        match self {
            Self::FlippedBit => new[place] ^= 1 << rng.below(8),
            Self::ZeroedPage => new[page..end].fill(0),
            Self::SwappedPages => {
                let other = rng.below((old.len() / PAGE) as u64) as usize * PAGE;
                if end - page < PAGE || other + PAGE > old.len() {
                    return Some(new);
                }
                new.copy_within(other..other + PAGE, page);
                new[other..other + PAGE].copy_from_slice(&old[page..end]);
            }
            _ => {
                let stale = sources.stale(file, rng)?;
                let there = stale.get(page..end.min(stale.len()))?;
                new[page..page + there.len()].copy_from_slice(there);
            }
        }
        Some(new)
    }
}

/// A byte of a file: its ends, where formats have what is about the rest, more often than others.
fn place(len: usize, rng: &mut Rng) -> Option<usize> {
    let pages = len.div_ceil(PAGE).checked_sub(1)?;
    let start = match rng.below(10) {
        0 | 1 => 0,
        2 => pages * PAGE,
        _ => return Some(rng.below(len as u64) as usize),
    };
    Some(start + rng.below((len - start).min(PAGE) as u64) as usize)
}

fn truncated(old: &[u8], rng: &mut Rng) -> Option<Vec<u8>> {
    let len = match rng.below(8) {
        0 => 0,
        1..4 => place(old.len(), rng)? / PAGE * PAGE,
        _ => place(old.len(), rng)?,
    };
    Some(old[..len].to_vec())
}

/// Where bytes come from that do not belong there.
pub(super) struct Sources {
    /// The directory as it was earlier.
    pub(super) earlier: PathBuf,
    /// The directory as it is.
    pub(super) whole: PathBuf,
    /// Another node's.
    pub(super) other: PathBuf,
}

impl Sources {
    /// A file of the same kind in one of the directories.
    fn like(dir: &Path, file: &Path, rng: &mut Rng) -> Option<PathBuf> {
        let mut alike = files(dir);
        alike.retain(|other| kind(other) == kind(file));
        let place = rng.below(alike.len() as u64) as usize;
        alike.get(place).map(|file| dir.join(file))
    }

    fn stale(&self, file: &Path, rng: &mut Rng) -> Option<Vec<u8>> {
        let path = match rng.chance(700) {
            true => self.earlier.join(file),
            false => Self::like(&self.whole, file, rng)?,
        };
        fs::read(path).ok()
    }

    fn foreign(&self, file: &Path, rng: &mut Rng) -> Option<Vec<u8>> {
        fs::read(Self::like(&self.other, file, rng)?).ok()
    }

    fn place_beside(&self, dir: &Path, file: &Path, rng: &mut Rng) -> Option<String> {
        let bytes = self.foreign(file, rng)?;
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let stranger = match numbered(name, rng) {
            Some(name) => file.with_file_name(name),
            None => {
                file.with_extension(["new", "damaged", "bak", "dat.new"][rng.below(4) as usize])
            }
        };
        if dir.join(&stranger).exists() {
            return None;
        }
        fs::write(dir.join(&stranger), bytes).expect("there is room");
        Some(format!(" as {}", stranger.display()))
    }
}

/// The name with one of the next numbers.
fn numbered(name: &str, rng: &mut Rng) -> Option<String> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |before| before + 1);
    let digits = &name[start..end];
    // Runs are numbered in hexadecimal or decimal digits alike.
    let number = digits.parse::<u64>().ok()? + rng.between(1, 3);
    Some(format!("{}{number:0width$}{}", &name[..start], &name[end..], width = digits.len()))
}

/// The blocks of a block file that are not there any more as they were, and those behind the first one whose
/// header is not.
pub(super) fn taken_blocks(
    before: &Path,
    after: &Path,
) -> (HashSet<BlockHash>, HashSet<BlockHash>) {
    let (mut taken, mut behind) = (HashSet::new(), HashSet::new());
    let old = fs::read(before).expect("a block file");
    let new = fs::read(after).unwrap_or_default();
    let mut at = 0;
    while let Some(frame) = old.get(at..at + FRAME) {
        let len = u32::from_le_bytes(frame[4..].try_into().expect("four bytes")) as usize;
        let end = at + FRAME + len;
        let Some(block) = old.get(at + FRAME..end) else { break };
        let hash = header(block).block_hash();
        if new.get(at..end) != Some(&old[at..end]) {
            taken.insert(hash);
        }
        if !behind.is_empty() || new.get(at..at + FRAME + 80) != old.get(at..at + FRAME + 80) {
            behind.insert(hash);
        }
        at = end;
    }
    (taken, behind)
}

#[test]
fn the_blocks_of_a_changed_byte_are_taken_and_no_others() {
    use crate::blocks::{record, small_chain};
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let blocks = &small_chain()[..3];
    let records: Vec<Vec<u8>> = blocks.iter().map(|block| record(block)).collect();
    fs::write(&before, records.concat()).expect("a file");
    let hash = |n: usize| header(&blocks[n]).block_hash();
    let place = records[0].len();
    for (at, taken, behind) in [
        (place - 1, vec![0], vec![]),
        (place, vec![1], vec![1, 2]),
        (place + FRAME + 79, vec![1], vec![1, 2]),
        (place + FRAME + 80, vec![1], vec![]),
    ] {
        let mut bytes = records.concat();
        bytes[at] ^= 1;
        fs::write(&after, bytes).expect("a file");
        let set =
            |numbers: Vec<usize>| -> HashSet<BlockHash> { numbers.into_iter().map(hash).collect() };
        assert_eq!(taken_blocks(&before, &after), (set(taken), set(behind)), "byte {at}");
    }
    fs::remove_file(&after).expect("it is there");
    assert_eq!(taken_blocks(&before, &after).0.len(), 3);
}
