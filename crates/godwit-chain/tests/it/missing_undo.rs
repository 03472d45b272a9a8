//! The command that makes missing undo records again.

use godwit_store::Rebuild;
use godwit_store::error::Remedy;

use crate::datadir::clock;
use crate::inspect::verify;
use crate::pruning::open;
use crate::reindex::{FILE_SIZE, rebuilding, start, without_undo_files};

#[test]
fn c5_missing_undo_records_are_made_again_by_the_command_that_verify_names() {
    let disk = without_undo_files();
    open(&disk, None, FILE_SIZE).close().unwrap();
    let remedies: Vec<Remedy> = verify(&disk, false).1.iter().map(|found| found.remedy).collect();
    assert_eq!(remedies, [Remedy::WhenDisconnected]);
    assert!(remedies[0].to_string().contains("; `godwit -reindex-chainstate` makes all of them"));
    let mut chain = start(&disk, FILE_SIZE, rebuilding(Rebuild::Coins)).unwrap();
    chain.settle(clock()).unwrap();
    chain.close().unwrap();
    assert_eq!(verify(&disk, false).1, []);
}
