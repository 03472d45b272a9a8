//! Methods about transactions.

use super::{NO_KEYS, NO_MEMPOOL, NOT_YET, absent, optional, or, present, required};
use crate::table::Category::Rawtransactions;
use crate::table::methods::broadcast;
use crate::table::{Kind, Method};

const NO_PSBT: &str = "PSBTs are godwit-signer's";

pub(super) const ROWS: &[Method] = &[
    absent(Rawtransactions, "abortprivatebroadcast", NO_MEMPOOL),
    absent(Rawtransactions, "analyzepsbt", NO_PSBT),
    absent(Rawtransactions, "combinepsbt", NO_PSBT),
    absent(Rawtransactions, "combinerawtransaction", NO_KEYS),
    absent(Rawtransactions, "converttopsbt", NO_PSBT),
    absent(Rawtransactions, "createpsbt", NO_PSBT),
    absent(Rawtransactions, "createrawtransaction", NOT_YET),
    absent(Rawtransactions, "decodepsbt", NO_PSBT),
    present(
        Rawtransactions,
        "decoderawtransaction",
        "What is in a transaction.",
        &[
            required("hexstring", Kind::Hex, "The transaction."),
            optional(
                "iswitness",
                Kind::Bool,
                "Whether it has witnesses; found out where this is not said.",
            ),
        ],
    ),
    present(
        Rawtransactions,
        "decodescript",
        "What is in a script.",
        &[required("hexstring", Kind::Hex, "The script.")],
    ),
    absent(Rawtransactions, "descriptorprocesspsbt", NO_PSBT),
    absent(Rawtransactions, "finalizepsbt", NO_PSBT),
    absent(Rawtransactions, "getprivatebroadcastinfo", NO_MEMPOOL),
    present(
        Rawtransactions,
        "getrawtransaction",
        "A transaction of a block: its bytes (verbosity 0), or what is in it (1), and the outputs that it \
         spends (2).",
        &[
            required("txid", Kind::Hex, "The transaction's id."),
            or("verbosity|verbose", Kind::Any, "0", "How much to tell, from 0 to 2."),
            optional(
                "blockhash",
                Kind::Hex,
                "The block that has it; without -txindex it is needed.",
            ),
        ],
    ),
    absent(Rawtransactions, "joinpsbts", NO_PSBT),
    broadcast::SEND,
    absent(Rawtransactions, "signrawtransactionwithkey", NO_KEYS),
    broadcast::SUBMIT,
    broadcast::TEST,
    absent(Rawtransactions, "utxoupdatepsbt", NO_PSBT),
];
