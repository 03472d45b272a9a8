//! How much may be queued for a peer.

use crate::frame::{FRAME_HEADER_SIZE, MAX_PAYLOAD};
use crate::inventory::Inventory;
use crate::message::MAX_INVENTORY;

/// While more bytes than this are queued for a peer, nothing is read for it, and the driver should
/// not read from it unless a block is expected of it (Core `-maxsendbuffer`: 1000 kB).
pub const SEND_PAUSE: usize = 1_000_000;

/// A peer for which more would be queued is left: it does not read what it asks for. A pause, the
/// longest message, and room for a few answers that need no block.
pub const SEND_QUEUE_MAX: usize = 8_000_000;

// A pause, the longest message, and the answer to a full `getdata` of what can not be found.
const _: () = assert!(
    SEND_QUEUE_MAX
        >= SEND_PAUSE
            + MAX_PAYLOAD as usize
            + 3
            + MAX_INVENTORY * Inventory::SIZE
            + 2 * FRAME_HEADER_SIZE
);
