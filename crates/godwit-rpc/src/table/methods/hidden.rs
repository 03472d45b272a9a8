//! Methods for tests; `help` does not list them.

use super::{BLOCKHASH, NO_MEMPOOL, NOT_YET, absent, optional, or, present, required};
use crate::table::Category::Hidden;
use crate::table::{Kind, Method, Param};

const FOR_CORE: &str = "for tests of Bitcoin Core itself";
const MAXTRIES: Param = or(
    "maxtries",
    Kind::Number,
    "1000000",
    "How many nonces to try at most, for all blocks together.",
);

pub(super) const ROWS: &[Method] = &[
    absent(Hidden, "addconnection", FOR_CORE),
    absent(Hidden, "addpeeraddress", FOR_CORE),
    present(
        Hidden,
        "echo",
        "Its arguments.",
        &[
            optional("arg0", Kind::TextOrAny, ""),
            optional("arg1", Kind::TextOrAny, ""),
            optional("arg2", Kind::TextOrAny, ""),
            optional("arg3", Kind::TextOrAny, ""),
            optional("arg4", Kind::TextOrAny, ""),
            optional("arg5", Kind::TextOrAny, ""),
            optional("arg6", Kind::TextOrAny, ""),
            optional("arg7", Kind::TextOrAny, ""),
            optional("arg8", Kind::TextOrAny, ""),
            optional("arg9", Kind::TextOrAny, ""),
        ],
    ),
    absent(Hidden, "echoipc", FOR_CORE),
    present(
        Hidden,
        "echojson",
        "Its arguments.",
        &[
            optional("arg0", Kind::Any, ""),
            optional("arg1", Kind::Any, ""),
            optional("arg2", Kind::Any, ""),
            optional("arg3", Kind::Any, ""),
            optional("arg4", Kind::Any, ""),
            optional("arg5", Kind::Any, ""),
            optional("arg6", Kind::Any, ""),
            optional("arg7", Kind::Any, ""),
            optional("arg8", Kind::Any, ""),
            optional("arg9", Kind::Any, ""),
        ],
    ),
    absent(
        Hidden,
        "estimaterawfee",
        "it shows the state of Core's estimator, which godwit's is not",
    ),
    absent(Hidden, "generate", "Bitcoin Core answers only that it is gone"),
    present(
        Hidden,
        "generateblock",
        "Mines a block with these transactions.",
        &[
            required("output", Kind::Text, "An address or a descriptor of one script."),
            required(
                "transactions",
                Kind::List,
                "Transactions in hexadecimal, in the order of the block.",
            ),
            or(
                "submit",
                Kind::Bool,
                "true",
                "Whether to add it to the chain, instead of giving its bytes.",
            ),
        ],
    ),
    present(
        Hidden,
        "generatetoaddress",
        "Mines empty blocks that pay to an address.",
        &[
            required("nblocks", Kind::Number, "The number of blocks."),
            required("address", Kind::Text, "The address."),
            MAXTRIES,
        ],
    ),
    present(
        Hidden,
        "generatetodescriptor",
        "Mines empty blocks that pay to a descriptor.",
        &[
            required("num_blocks", Kind::Number, "The number of blocks."),
            required("descriptor", Kind::Text, "A descriptor of one script."),
            MAXTRIES,
        ],
    ),
    absent(Hidden, "getmempoolfeeratediagram", NO_MEMPOOL),
    absent(Hidden, "getorphantxs", NO_MEMPOOL),
    absent(Hidden, "getrawaddrman", NOT_YET),
    present(
        Hidden,
        "invalidateblock",
        "Takes a block and what was built on it for invalid, until reconsiderblock.",
        &[BLOCKHASH],
    ),
    absent(Hidden, "mockscheduler", FOR_CORE),
    present(
        Hidden,
        "reconsiderblock",
        "Forgets that a block, its ancestors and its descendants were found invalid.",
        &[BLOCKHASH],
    ),
    present(Hidden, "rpc.discover", "This interface, described in OpenRPC.", &[]),
    absent(Hidden, "sendmsgtopeer", FOR_CORE),
    absent(Hidden, "setmocktime", FOR_CORE),
    present(
        Hidden,
        "syncwithvalidationinterfacequeue",
        "Waits until everything that was known before has been processed; here that is so at once.",
        &[],
    ),
];
