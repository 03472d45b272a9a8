//! Decides what is written next, from a few figures alone, whenever no job is running.

/// Changed entries of the block index that make a commit due: a commit holds them as records of some 200
/// bytes each. An import of empty blocks changes 20,000 a second.
pub(crate) const COMMIT_ENTRIES: usize = 32 << 10;

/// Bytes of replaced runs above which the coins on disk are committed once more, so that the files of these
/// runs can go: at the tip the next coins are committed a day later, and the disk would lack the room until
/// then. Tests have small runs.
pub(crate) const REPLACED_BYTES: u64 = if cfg!(test) { 256 << 10 } else { 1 << 30 };

/// The job that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A commit that names the coins of a flush, and everything else.
    Coins,
    /// A commit without newer coins.
    Index,
    /// Blocks and undo records are pushed out.
    PushOut,
}

/// The work that waits for a job.
pub(super) struct Pending {
    /// The coins of a flush are written, and its block is connected: any commit names them.
    pub(super) has_coins: bool,
    /// The next seal waits for the commit of coins, or a reader does.
    pub(super) are_coins_awaited: bool,
    /// Commits of coins alone have rested since the last one.
    pub(super) have_coins_rested: bool,
    /// Anything waits for a commit.
    pub(super) is_wanted: bool,
    /// Entries of the block index that have changed.
    pub(super) entries: usize,
    /// The oldest of what waits has waited for the whole interval.
    pub(super) is_old: bool,
    /// Block files can be deleted with a commit.
    pub(super) frees_files: bool,
    /// Bytes of runs that a commit of the same coins frees.
    pub(super) replaced: u64,
    /// Bytes of blocks and undo records that were neither pushed out nor committed.
    pub(super) unpushed: u64,
    /// How many of those bytes make a push-out due.
    pub(super) push_bytes: u64,
}

impl Pending {
    /// The job to begin now, if any.
    pub(super) fn due(&self) -> Option<Due> {
        if self.are_coins_due() || self.is_other_due() {
            Some(if self.has_coins { Due::Coins } else { Due::Index })
        } else if self.unpushed >= self.push_bytes {
            Some(Due::PushOut)
        } else {
            None
        }
    }

    /// Whether coins are a reason to commit.
    fn are_coins_due(&self) -> bool {
        self.has_coins && (self.are_coins_awaited || self.have_coins_rested)
    }

    /// Whether anything else is a reason to commit.
    fn is_other_due(&self) -> bool {
        self.is_wanted
            || self.entries >= COMMIT_ENTRIES
            || self.is_old
            || self.frees_files
            || self.replaced > REPLACED_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much as may wait, with nothing due.
    const RESTING: Pending = Pending {
        has_coins: false,
        are_coins_awaited: false,
        have_coins_rested: false,
        is_wanted: false,
        entries: COMMIT_ENTRIES - 1,
        is_old: false,
        frees_files: false,
        replaced: REPLACED_BYTES,
        unpushed: 99,
        push_bytes: 100,
    };

    #[test]
    fn a_commit_is_due_for_each_reason_alone_and_takes_coins_along_where_there_are_any() {
        assert_eq!(RESTING.due(), None);
        assert_eq!(Pending { has_coins: true, ..RESTING }.due(), None, "they rest");
        for reason in [
            Pending { is_wanted: true, ..RESTING },
            Pending { entries: COMMIT_ENTRIES, ..RESTING },
            Pending { is_old: true, ..RESTING },
            Pending { frees_files: true, ..RESTING },
            Pending { replaced: REPLACED_BYTES + 1, ..RESTING },
        ] {
            assert_eq!(reason.due(), Some(Due::Index));
            assert_eq!(Pending { has_coins: true, ..reason }.due(), Some(Due::Coins));
        }
    }

    #[test]
    fn coins_are_committed_when_they_have_rested_or_are_awaited_and_not_before_they_are_written() {
        for (are_coins_awaited, have_coins_rested) in [(true, false), (false, true), (true, true)] {
            let unwritten = Pending { are_coins_awaited, have_coins_rested, ..RESTING };
            assert_eq!(unwritten.due(), None);
            assert_eq!(Pending { has_coins: true, ..unwritten }.due(), Some(Due::Coins));
        }
    }

    #[test]
    fn bytes_are_pushed_out_when_they_are_many_unless_a_commit_is_due_that_writes_them_too() {
        let many = Pending { unpushed: 100, ..RESTING };
        assert_eq!(many.due(), Some(Due::PushOut));
        assert_eq!(Pending { is_wanted: true, ..many }.due(), Some(Due::Index));
        let rested = Pending { has_coins: true, have_coins_rested: true, ..RESTING };
        assert_eq!(Pending { unpushed: 100, ..rested }.due(), Some(Due::Coins));
    }
}
