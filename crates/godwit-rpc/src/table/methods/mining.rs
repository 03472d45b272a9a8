//! Methods for miners.

use super::{NO_MEMPOOL, absent, or, present, required};
use crate::table::Category::Mining;
use crate::table::{Kind, Method};

pub(super) const ROWS: &[Method] = &[
    absent(Mining, "getblocktemplate", NO_MEMPOOL),
    present(Mining, "getmininginfo", "The difficulty, and what the next block has to meet.", &[]),
    present(
        Mining,
        "getnetworkhashps",
        "An estimate of the hashes per second of the whole network.",
        &[
            or(
                "nblocks",
                Kind::Number,
                "120",
                "Over so many blocks; -1 for those since the difficulty changed.",
            ),
            or("height", Kind::Number, "-1", "As of this height; -1 for the tip."),
        ],
    ),
    absent(Mining, "getprioritisedtransactions", NO_MEMPOOL),
    absent(Mining, "prioritisetransaction", NO_MEMPOOL),
    present(
        Mining,
        "submitblock",
        "Hands in a block. The result is null if it was accepted, else why not.",
        &[
            required("hexdata", Kind::Hex, "The block."),
            or("dummy", Kind::Text, "ignored", "Of no effect."),
        ],
    ),
    present(
        Mining,
        "submitheader",
        "Hands in a header that follows a known one.",
        &[required("hexdata", Kind::Hex, "The header.")],
    ),
];
