//! Keeps blocks of a snapshot's history and others in block files of their own, where files are pruned.
//!
//! A file can be deleted when all its blocks can: one of the history once that is validated, another one
//! 288 blocks later, which is two days. In that time the whole history comes, so that in files of both
//! kinds every new block would keep 128 MiB of it on the disk. Therefore a file with other blocks has at
//! most as many bytes of the history. (Not none: while the tip catches up, the two may take turns, and a
//! file for each block would be too many.)

/// Bytes of the history and of other blocks in the file that is being appended to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockFileMix {
    /// The file; `None`: whatever is there was written by an earlier process.
    file: Option<u32>,
    history: u64,
    others: u64,
}

impl BlockFileMix {
    /// Whether a block of `len` bytes is to begin another file.
    pub(crate) fn needs_new_file(&self, is_history: bool, len: u64) -> bool {
        let Self { file, history, others } = self.with(is_history, len);
        file.is_none() || others > 0 && history > others
    }

    /// A block was given a place.
    pub(crate) fn note_reserved(&mut self, file: u32, is_history: bool, len: u64) {
        if self.file != Some(file) {
            *self = Self { file: Some(file), ..Self::default() };
        }
        *self = self.with(is_history, len);
    }

    fn with(&self, is_history: bool, len: u64) -> Self {
        match is_history {
            true => Self { history: self.history + len, ..*self },
            false => Self { others: self.others + len, ..*self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that blocks come to, each with what it has of both kinds.
    fn files(blocks: impl IntoIterator<Item = (bool, u64)>) -> Vec<(u64, u64)> {
        let (mut mix, mut files) = (BlockFileMix::default(), vec![(9, 9)]);
        for (is_history, len) in blocks {
            if mix.needs_new_file(is_history, len) {
                files.push((0, 0));
            }
            mix.note_reserved(files.len() as u32, is_history, len);
            let last = files.last_mut().unwrap();
            if is_history { last.0 += len } else { last.1 += len }
        }
        // What was there before gets nothing more.
        assert_eq!(files.remove(0), (9, 9));
        files
    }

    #[test]
    fn a_file_with_other_blocks_has_no_more_of_the_history() {
        // A new block among many of the history.
        let rare = (1..=300).map(|n| (n % 100 != 0, 10));
        assert_eq!(files(rare), [(990, 0), (10, 10), (980, 0), (10, 10), (980, 0), (0, 10)]);
        // Alternating, as when the tip catches up: one file.
        assert_eq!(files((0..100).map(|n| (n % 2 == 1, 10))), [(500, 500)]);
        // Of one kind alone: one file.
        assert_eq!(files((0..50).map(|_| (true, 10))), [(500, 0)]);
        assert_eq!(files((0..50).map(|_| (false, 10))), [(0, 500)]);
        // At the boundary and a byte above it.
        assert_eq!(files([(false, 10), (true, 10)]), [(10, 10)]);
        assert_eq!(files([(false, 10), (true, 11)]), [(0, 10), (11, 0)]);
        assert_eq!(files([(true, 11), (false, 11)]), [(11, 11)]);
        assert_eq!(files([(true, 12), (false, 11)]), [(12, 0), (0, 11)]);
    }

    #[test]
    fn a_file_that_was_left_for_its_size_counts_no_more() {
        let mut mix = BlockFileMix::default();
        mix.note_reserved(4, true, 100);
        assert!(mix.needs_new_file(false, 99));
        mix.note_reserved(5, true, 1);
        assert!(!mix.needs_new_file(false, 99));
    }
}
