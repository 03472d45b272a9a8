//! Converts nodes of the header tree to records of the database, and back.

use godwit_store::{BlockRecord, BlockStatus};

use crate::tree::{Node, Validity};

/// The record of a node.
pub(crate) fn record(node: &Node) -> BlockRecord {
    let mut status = match node.validity {
        Validity::Header => BlockStatus::HEADER,
        Validity::Structured => BlockStatus::STRUCTURED,
        Validity::Scripts => BlockStatus::SCRIPTS,
    };
    if node.failed {
        status = status | BlockStatus::FAILED;
    }
    BlockRecord {
        header: node.header,
        height: node.height,
        status,
        tx_count: node.tx_count,
        sequence: node.sequence,
        position: node.position,
        checksum: node.checksum,
        undo: node.undo,
    }
}

/// Decodes the validity of a node, and whether it failed.
fn decode_status(status: BlockStatus) -> (Validity, bool) {
    let validity = if status.contains(BlockStatus::SCRIPTS) {
        Validity::Scripts
    } else if status.contains(BlockStatus::STRUCTURED) {
        Validity::Structured
    } else {
        Validity::Header
    };
    (validity, status.contains(BlockStatus::FAILED))
}

/// Restores a node's state from its record.
pub(crate) fn restore(node: &mut Node, record: &BlockRecord) {
    let (validity, failed) = decode_status(record.status);
    node.validity = validity;
    node.failed |= failed;
    node.tx_count = record.tx_count;
    node.sequence = record.sequence;
    node.position = record.position;
    node.checksum = record.checksum;
    node.undo = record.undo;
}
