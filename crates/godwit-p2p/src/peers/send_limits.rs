//! Limits of a peer's send queue.

use crate::frame::{FRAME_HEADER_SIZE, MAX_PAYLOAD};
use crate::inventory::Inventory;
use crate::message::MAX_INVENTORY;

/// While more bytes than this are queued for a peer, no block is read for it, and the driver does
/// not read from it unless a block is expected (Core `-maxsendbuffer`: 1000 kB).
pub const SEND_PAUSE: usize = 1_000_000;

/// A peer for which more bytes would be queued is disconnected: it does not read what it asks for.
/// The pause, the longest message, and room for a few answers that need no block.
pub const SEND_QUEUE_MAX: usize = 8_000_000;

// The pause, the longest message, and the `notfound` to a full `getdata`.
const _: () = assert!(
    SEND_QUEUE_MAX
        >= SEND_PAUSE
            + MAX_PAYLOAD as usize
            + 3
            + MAX_INVENTORY * Inventory::SIZE
            + 2 * FRAME_HEADER_SIZE
);
