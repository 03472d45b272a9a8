use godwit_fault_disk::FaultDisk;

use super::undo::in_one_search;
use super::*;
use crate::chain::Chain;
use crate::chain::tests::chain;
use crate::limits::{SCRUB_UNDO, SCRUB_UNDO_BYTES};

fn place(chain: &Chain) -> ScrubPlace {
    chain.durability.scrub.pass.place
}

fn answer(chain: &mut Chain, answer: Answer) {
    let Chain { env, index, durability, .. } = chain;
    durability.scrub.reading = true;
    let lost = durability.scrub.answered(env, index, answer).expect("no fault");
    assert_eq!(lost, []);
    assert!(!durability.scrub.reading);
}

fn files(is_done: bool) -> Answer {
    Answer::Files(Ok(FilesScrubbed { is_done, ..FilesScrubbed::default() }))
}

#[test]
fn what_a_job_that_was_cut_short_did_not_read_is_read_in_the_next_life() {
    let at = ScrubPlace::Blocks { height: 1 };
    for is_cancelled in [false, true] {
        let mut chain = chain(&FaultDisk::new());
        chain.durability.scrub.move_to(at);
        if is_cancelled {
            chain.cancel();
        }
        answer(&mut chain, Answer::Blocks(Vec::new(), ScrubPlace::Runs { number: 0 }));
        assert_eq!(place(&chain) == at, is_cancelled);
        chain.durability.scrub.move_to(ScrubPlace::Files);
        answer(&mut chain, files(true));
        assert_eq!(place(&chain) == ScrubPlace::Files, is_cancelled);
    }
}

#[test]
fn a_commit_that_is_due_ends_the_reading_of_the_database_which_begins_again_later() {
    let mut chain = chain(&FaultDisk::new());
    let now = chain.now;
    let scrub = &mut chain.durability.scrub;
    scrub.begin(now);
    scrub.reading = true;
    let stop = Arc::clone(&scrub.files_stop);
    for is_due in [false, true] {
        if is_due {
            chain.durability.want_commit();
        }
        let (durability, state) = chain.durability_at(now);
        durability.advance(state).expect("no fault");
        assert!(!chain.durability.is_busy(), "it would change what is read");
        assert_eq!(stop.load(Ordering::Relaxed), is_due);
    }
    answer(&mut chain, files(false));
    assert_eq!((place(&chain), chain.durability.scrub.rest.1), (ScrubPlace::Files, FILES_REST));
    let (durability, state) = chain.durability_at(now);
    durability.advance(state).expect("no fault");
    assert!(chain.durability.is_busy(), "it is committed");
    for attempt in 2..=FILES_ATTEMPTS {
        assert_eq!(place(&chain), ScrubPlace::Files, "{attempt}");
        answer(&mut chain, files(false));
    }
    assert_eq!(place(&chain), ScrubPlace::Blocks { height: 0 }, "the rest is read all the same");
}

#[test]
fn the_searches_of_a_pass_end_after_a_week_and_count_what_is_left_once() {
    let mut chain = chain(&FaultDisk::new());
    let (now, tip) = (chain.now, chain.index.tip());
    let Chain { env, index, durability, .. } = &mut chain;
    let scrub = &mut durability.scrub;
    let error = StoreError::Stopped;
    scrub.begin(now);
    for _ in 0..3 {
        scrub.note_rotten(tip, &error);
    }
    scrub.undo.dropped = 5;
    scrub.move_to(ScrubPlace::Undo);
    // A block that a search has met is asked of peers, and nobody sends it.
    index.damaged.lose(tip);
    scrub.undo.waits_for = Some(tip);
    let week = UNDO_INTERVAL as i64;
    for (later, is_done) in [(0, false), (week - 1, false), (week, true), (week + 1, true)] {
        if scrub.pass.place == ScrubPlace::Undo {
            scrub.search(env, index, now + later);
        }
        assert_eq!(scrub.pass.place == ScrubPlace::Done, is_done, "{later}");
        assert_eq!(scrub.status.left, if is_done { 5 } else { 0 });
    }
    assert!(scrub.undo.rotten.is_empty());
}

/// Lost blocks that a search has not met are no reason to wait.
#[test]
fn a_search_waits_for_no_other_block() {
    let mut chain = chain(&FaultDisk::new());
    let (now, tip) = (chain.now, chain.index.tip());
    let Chain { env, index, durability, .. } = &mut chain;
    durability.scrub.begin(now);
    durability.scrub.move_to(ScrubPlace::Undo);
    durability.scrub.undo.rotten.insert(tip);
    index.damaged.lose(tip);
    // Genesis has no undo record: there is nothing to search for.
    durability.scrub.search(env, index, now);
    assert_eq!(durability.scrub.pass.place, ScrubPlace::Done);
    assert_eq!(durability.scrub.status.left, 0);
}

#[test]
fn a_search_is_for_one_record_at_least_and_no_more_than_there_is_memory_for() {
    let count = |lengths: &[u64]| in_one_search(lengths.iter().copied());
    assert_eq!(count(&[1; 100]), SCRUB_UNDO);
    assert_eq!(count(&[SCRUB_UNDO_BYTES + 1, 1]), 1);
    assert_eq!(count(&[SCRUB_UNDO_BYTES - 1, 1, 1]), 2);
    assert_eq!(count(&[SCRUB_UNDO_BYTES - 1, 2, 1]), 1);
}
