//! Methods that ask about the chain.

use super::{BLOCKHASH, NO_MEMPOOL, absent, optional, or, present, required, searches, upkeep};
use crate::table::Category::Blockchain;
use crate::table::{Kind, Method, Param};

const TIMEOUT: Param = or(
    "timeout",
    Kind::Number,
    "0",
    "How many milliseconds to wait at most; 0 for as long as it takes.",
);

pub(super) const ROWS: &[Method] = &[
    upkeep::DUMP_TX_OUT_SET,
    present(Blockchain, "getbestblockhash", "The hash of the last block of the active chain.", &[]),
    present(
        Blockchain,
        "getblock",
        "A block: its bytes (verbosity 0), or what is in it with the ids of its transactions (1), the \
         transactions (2), and the outputs that they spend (3).",
        &[BLOCKHASH, or("verbosity|verbose", Kind::Any, "1", "How much to tell, from 0 to 3.")],
    ),
    present(
        Blockchain,
        "getblockchaininfo",
        "How far the chain is validated, and what is known of it.",
        &[],
    ),
    present(Blockchain, "getblockcount", "The height of the last block of the active chain.", &[]),
    present(
        Blockchain,
        "getblockfilter",
        "The filter of a block (BIP158), by -blockfilterindex, and the header of the filter.",
        &[BLOCKHASH, or("filtertype", Kind::Text, "basic", "Which filter: only this one.")],
    ),
    upkeep::GET_BLOCK_FROM_PEER,
    present(
        Blockchain,
        "getblockhash",
        "The hash of the block of the active chain at a height.",
        &[required("height", Kind::Number, "The height.")],
    ),
    present(
        Blockchain,
        "getblockheader",
        "The header of a block.",
        &[
            BLOCKHASH,
            or(
                "verbose",
                Kind::Bool,
                "true",
                "Whether to explain it, instead of giving its 80 bytes.",
            ),
        ],
    ),
    present(
        Blockchain,
        "getblockstats",
        "Sizes, fees and counts of a block, in satoshi.",
        &[
            required(
                "hash_or_height",
                Kind::NumberOrText,
                "The block's hash, or its height in the active chain.",
            ),
            or("stats", Kind::List, "all of them", "Names of the statistics that are wanted."),
        ],
    ),
    present(
        Blockchain,
        "getchainstates",
        "The coins that this node keeps, and how they were verified.",
        &[],
    ),
    present(Blockchain, "getchaintips", "The ends of all known branches.", &[]),
    present(
        Blockchain,
        "getchaintxstats",
        "The number of transactions, and their rate over a window of blocks.",
        &[
            or("nblocks", Kind::Number, "one month", "The number of blocks of the window."),
            or("blockhash", Kind::Hex, "the tip", "The window's last block."),
        ],
    ),
    present(
        Blockchain,
        "getdeploymentinfo",
        "Which rule changes are in force in the block after one.",
        &[or("blockhash", Kind::Hex, "the tip", "The block's hash.")],
    ),
    searches::GET_DESCRIPTOR_ACTIVITY,
    present(
        Blockchain,
        "getdifficulty",
        "The difficulty of the tip, as a multiple of the lowest one.",
        &[],
    ),
    absent(Blockchain, "getmempoolancestors", NO_MEMPOOL),
    absent(Blockchain, "getmempoolcluster", NO_MEMPOOL),
    absent(Blockchain, "getmempooldescendants", NO_MEMPOOL),
    present(
        Blockchain,
        "getmempoolentry",
        "A transaction that was sent by this node and waits for a block.",
        &[required("txid", Kind::Hex, "The transaction's id.")],
    ),
    present(
        Blockchain,
        "getmempoolinfo",
        "How many transactions that were sent by this node wait for a block.",
        &[],
    ),
    present(
        Blockchain,
        "getrawmempool",
        "The transactions that were sent by this node and wait for a block.",
        &[
            or("verbose", Kind::Bool, "false", "An object instead of a list."),
            or("mempool_sequence", Kind::Bool, "false", "With the mempool's sequence number."),
        ],
    ),
    present(
        Blockchain,
        "gettxout",
        "An unspent output; null if there is none.",
        &[
            required("txid", Kind::Text, "The transaction's id."),
            required("n", Kind::Number, "The number of the output."),
            or(
                "include_mempool",
                Kind::Bool,
                "true",
                "Whether transactions count that were sent by this node.",
            ),
        ],
    ),
    present(
        Blockchain,
        "gettxoutproof",
        "A proof that a block has these transactions.",
        &[
            required("txids", Kind::List, "Ids of transactions of one block."),
            optional(
                "blockhash",
                Kind::Hex,
                "The block; needed unless one of the transactions has an unspent output.",
            ),
        ],
    ),
    present(
        Blockchain,
        "gettxoutsetinfo",
        "How many unspent outputs there are, their sum and hash: counted, which may take minutes, or by -coinstatsindex.",
        &[
            or(
                "hash_type",
                Kind::Text,
                "hash_serialized_3",
                "How they are hashed: hash_serialized_3, muhash or none.",
            ),
            or(
                "hash_or_height",
                Kind::NumberOrText,
                "the tip",
                "The block; needs -coinstatsindex, and another hash than hash_serialized_3.",
            ),
            or("use_index", Kind::Bool, "true", "Whether -coinstatsindex may answer."),
        ],
    ),
    present(
        Blockchain,
        "gettxspendingprevout",
        "Which transactions that were sent by this node and wait for a block spend these outputs.",
        &[
            required("outputs", Kind::List, "The outputs, as objects with txid and vout."),
            optional(
                "options",
                Kind::Options(&[
                    or(
                        "mempool_only",
                        Kind::Bool,
                        "true",
                        "false needs an index that is not there.",
                    ),
                    or("return_spending_tx", Kind::Bool, "false", "With their bytes."),
                ]),
                "What is told.",
            ),
        ],
    ),
    absent(Blockchain, "importmempool", NO_MEMPOOL),
    upkeep::LOAD_TX_OUT_SET,
    upkeep::PRECIOUS_BLOCK,
    upkeep::PRUNE_BLOCKCHAIN,
    absent(Blockchain, "savemempool", NO_MEMPOOL),
    searches::SCAN_BLOCKS,
    present(
        Blockchain,
        "scantxoutset",
        "Looks for the unspent outputs of descriptors among all of the tip.",
        &[
            required("action", Kind::Text, "start, status (in percent) or abort."),
            optional(
                "scanobjects",
                Kind::List,
                "To start: descriptors, or objects with desc and range (1000).",
            ),
        ],
    ),
    upkeep::VERIFY_CHAIN,
    present(
        Blockchain,
        "verifytxoutproof",
        "The transactions that a proof of gettxoutproof shows to be in a block of the active chain.",
        &[required("proof", Kind::Hex, "The proof.")],
    ),
    present(
        Blockchain,
        "waitforblock",
        "Waits until a block is the tip, and returns the tip.",
        &[BLOCKHASH, TIMEOUT],
    ),
    present(
        Blockchain,
        "waitforblockheight",
        "Waits until the tip has a height, and returns the tip.",
        &[required("height", Kind::Number, "The height."), TIMEOUT],
    ),
    present(
        Blockchain,
        "waitfornewblock",
        "Waits until the tip changes, and returns it.",
        &[TIMEOUT, optional("current_tip", Kind::Hex, "The tip from which it is to differ.")],
    ),
];
