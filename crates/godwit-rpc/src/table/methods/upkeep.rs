//! Methods by which an operator changes, checks or exports the stored chain.

use super::{BLOCKHASH, optional, or, present, required};
use crate::table::Category::Blockchain;
use crate::table::{Kind, Method};

pub(super) const DUMP_TX_OUT_SET: Method = present(
    Blockchain,
    "dumptxoutset",
    "Writes all unspent outputs of the tip to a file, in Bitcoin Core's format.",
    &[
        required("path", Kind::Text, "The file; relative to the network's data directory."),
        or(
            "type",
            Kind::Text,
            "\"\"",
            "latest, or rollback to the tip itself: of earlier blocks there is none.",
        ),
        optional(
            "options",
            Kind::Options(&[
                optional(
                    "rollback",
                    Kind::NumberOrText,
                    "Height or hash of the block: only the tip's.",
                ),
                or("in_memory", Kind::Bool, "false", "Of no effect."),
            ]),
            "Of a block that is named.",
        ),
    ],
);

pub(super) const GET_BLOCK_FROM_PEER: Method = present(
    Blockchain,
    "getblockfrompeer",
    "Asks a peer for a block that is not stored, such as one that was pruned.",
    &[BLOCKHASH, required("peer_id", Kind::Number, "The peer's id, as in getpeerinfo.")],
);

pub(super) const LOAD_TX_OUT_SET: Method = present(
    Blockchain,
    "loadtxoutset",
    "Takes the unspent outputs of a later block from a file, and validates what is before it in the background.",
    &[required("path", Kind::Text, "The file; relative to the network's data directory.")],
);

pub(super) const PRECIOUS_BLOCK: Method = present(
    Blockchain,
    "preciousblock",
    "Takes a block as if it had come before all others of the same work.",
    &[BLOCKHASH],
);

pub(super) const PRUNE_BLOCKCHAIN: Method = present(
    Blockchain,
    "pruneblockchain",
    "Deletes files of old blocks, with -prune; returns the height of the last block that is not there.",
    &[required(
        "height",
        Kind::Number,
        "Up to which height, or up to which time, in seconds since 1970.",
    )],
);

pub(super) const VERIFY_CHAIN: Method = present(
    Blockchain,
    "verifychain",
    "Checks the last blocks and their coins again: whether all is as it was left.",
    &[
        or(
            "checklevel",
            Kind::Number,
            "3",
            "0: blocks are read; 1: their rules; 2: undo records; 3: coins; 4: rules over coins, and scripts.",
        ),
        or("nblocks", Kind::Number, "6", "How many blocks; 0 for all."),
    ],
);
