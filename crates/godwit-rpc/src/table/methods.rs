//! The rows.

mod searches;
mod upkeep;

use super::Category::{
    Blockchain, Control, Hidden, Mining, Network, Rawtransactions, Signer, Util, Zmq,
};
use super::{Category, Kind, Method, Need, Param, Presence};

const NOT_YET: &str = "not yet";
const LOAD: &str =
    "a running node does not replace its coins; `godwit utxo load` does it on a stopped one";
const NO_MEMPOOL: &str = "godwit has no mempool";
const NO_KEYS: &str = "a node holds no keys: godwit-signer does";
const NO_PSBT: &str = "PSBTs are godwit-signer's";
const FOR_CORE: &str = "for tests of Bitcoin Core itself";

const BLOCKHASH: Param = required("blockhash", Kind::Hex, "The block's hash.");
const TIMEOUT: Param = or(
    "timeout",
    Kind::Number,
    "0",
    "How many milliseconds to wait at most; 0 for as long as it takes.",
);
const MAXTRIES: Param = or(
    "maxtries",
    Kind::Number,
    "1000000",
    "How many nonces to try at most, for all blocks together.",
);

/// All methods, by category and name.
pub const METHODS: &[Method] = &[
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
        "A transaction of the mempool: godwit has none, so no transaction is in it.",
        &[required("txid", Kind::Hex, "The transaction's id.")],
    ),
    present(
        Blockchain,
        "getmempoolinfo",
        "The state of the mempool, which is always empty here.",
        &[],
    ),
    present(
        Blockchain,
        "getrawmempool",
        "The transactions of the mempool, which is always empty here.",
        &[
            or("verbose", Kind::Bool, "false", "An object instead of a list."),
            or("mempool_sequence", Kind::Bool, "false", "With the mempool's sequence number."),
        ],
    ),
    present(
        Blockchain,
        "gettxout",
        "An unspent output; null where there is none.",
        &[
            required("txid", Kind::Text, "The transaction's id."),
            required("n", Kind::Number, "The number of the output."),
            or("include_mempool", Kind::Bool, "true", "Of no effect: the mempool is empty."),
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
        "Counts and hashes all unspent outputs of the tip, which may take minutes.",
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
                "The block; another one needs an index that is not there.",
            ),
            or("use_index", Kind::Bool, "true", "Of no effect: there is no index."),
        ],
    ),
    present(
        Blockchain,
        "gettxspendingprevout",
        "Which transactions of the mempool spend these outputs: none, because it is empty.",
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
                    or("return_spending_tx", Kind::Bool, "false", "Of no effect."),
                ]),
                "Of no effect: the mempool is empty.",
            ),
        ],
    ),
    absent(Blockchain, "importmempool", NO_MEMPOOL),
    absent(Blockchain, "loadtxoutset", LOAD),
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
        "Waits until a block is the tip, and tells the tip.",
        &[BLOCKHASH, TIMEOUT],
    ),
    present(
        Blockchain,
        "waitforblockheight",
        "Waits until the tip has a height, and tells the tip.",
        &[required("height", Kind::Number, "The height."), TIMEOUT],
    ),
    present(
        Blockchain,
        "waitfornewblock",
        "Waits until the tip is another one, and tells it.",
        &[TIMEOUT, optional("current_tip", Kind::Hex, "The tip from which it is to differ.")],
    ),
    present(
        Control,
        "getmemoryinfo",
        "Memory that is locked, for secrets.",
        &[or("mode", Kind::Text, "stats", "stats; mallocinfo is not there.")],
    ),
    present(Control, "getrpcinfo", "The calls under way.", &[]),
    present(Control, "getsyncstatus", "How far the sync is. Not in Bitcoin Core.", &[]),
    present(
        Control,
        "help",
        "The list of methods, or the help of one.",
        &[or("command", Kind::Text, "all", "The method.")],
    ),
    present(
        Control,
        "logging",
        "Tells which categories of debugging lines the log has, and turns some on and others off.",
        &[
            optional("include", Kind::List, "The categories to turn on; all for each."),
            optional("exclude", Kind::List, "The categories to turn off then."),
        ],
    ),
    present(
        Control,
        "stop",
        "Ends the node.",
        &[optional("wait", Kind::Number, "Milliseconds to wait before; for tests.")],
    ),
    present(Control, "uptime", "For how many seconds the node has been running.", &[]),
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
    absent(Hidden, "estimaterawfee", NO_MEMPOOL),
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
        "Waits until everything that was known before has been heard of; here that is so at once.",
        &[],
    ),
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
        "Hands in a block. The result is null where it was accepted, or why not.",
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
    present(
        Network,
        "addnode",
        "Keeps a connection to a peer, gives it up, or tries to connect once.",
        &[
            required("node", Kind::Text, "The peer's address or name, perhaps with a port."),
            required("command", Kind::Text, "add, remove or onetry."),
            optional("v2transport", Kind::Bool, "Whether to begin with the encrypted protocol."),
        ],
    ),
    present(Network, "clearbanned", "Ends all bans.", &[]),
    present(
        Network,
        "disconnectnode",
        "Ends the connection to a peer, named by its address or its id.",
        &[
            optional("address", Kind::Text, "The peer's address, as in getpeerinfo."),
            optional("nodeid", Kind::Number, "The peer's id, as in getpeerinfo."),
        ],
    ),
    absent(Network, "exportasmap", NOT_YET),
    present(
        Network,
        "getaddednodeinfo",
        "The peers of addnode, and whether they are connected.",
        &[optional("node", Kind::Text, "Only this one.")],
    ),
    present(
        Network,
        "getaddrmaninfo",
        "How many addresses of peers this node knows, by network.",
        &[],
    ),
    present(Network, "getconnectioncount", "The number of connections.", &[]),
    present(Network, "getnettotals", "Bytes received and sent since the start.", &[]),
    present(Network, "getnetworkinfo", "Version, services and connections of this node.", &[]),
    present(
        Network,
        "getnodeaddresses",
        "Addresses of peers that this node knows.",
        &[
            or("count", Kind::Number, "1", "How many at most; 0 for all that are worth telling."),
            optional("network", Kind::Text, "Only addresses of this network."),
        ],
    ),
    present(Network, "getpeerinfo", "The connected peers.", &[]),
    present(Network, "listbanned", "The addresses that setban has banned.", &[]),
    present(Network, "ping", "Pings all peers; getpeerinfo tells the times.", &[]),
    present(
        Network,
        "setban",
        "Bans an address or a range of them, or ends a ban: no connection is opened to them or accepted.",
        &[
            required("subnet", Kind::Text, "An address, or one with a number of bits or a mask."),
            required("command", Kind::Text, "add or remove."),
            or("bantime", Kind::Number, "0", "For how many seconds, or until when; 0 for a day."),
            or("absolute", Kind::Bool, "false", "bantime is a time, in seconds since 1970."),
        ],
    ),
    present(
        Network,
        "setnetworkactive",
        "Turns connections to peers on or off.",
        &[required("state", Kind::Bool, "On or off.")],
    ),
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
    absent(Rawtransactions, "sendrawtransaction", NOT_YET),
    absent(Rawtransactions, "signrawtransactionwithkey", NO_KEYS),
    absent(Rawtransactions, "submitpackage", NOT_YET),
    absent(Rawtransactions, "testmempoolaccept", NOT_YET),
    absent(Rawtransactions, "utxoupdatepsbt", NO_PSBT),
    absent(Signer, "enumeratesigners", NO_KEYS),
    absent(Util, "createmultisig", NOT_YET),
    present(
        Util,
        "deriveaddresses",
        "The addresses of a descriptor.",
        &[
            required("descriptor", Kind::Text, "The descriptor, with its checksum."),
            optional("range", Kind::Any, "The last number, or the first and the last one."),
        ],
    ),
    present(
        Util,
        "estimatesmartfee",
        "The fee that a transaction needs: never known here, because there is no mempool.",
        &[
            required("conf_target", Kind::Number, "Within how many blocks, from 1 to 1008."),
            or("estimate_mode", Kind::Text, "economical", "unset, economical or conservative."),
        ],
    ),
    present(
        Util,
        "getdescriptorinfo",
        "What a descriptor is.",
        &[required("descriptor", Kind::Text, "The descriptor.")],
    ),
    present(
        Util,
        "getindexinfo",
        "The optional indexes that the node keeps, and how far they are.",
        &[optional("index_name", Kind::Text, "Only this index.")],
    ),
    absent(Util, "signmessagewithprivkey", NO_KEYS),
    present(
        Util,
        "validateaddress",
        "Whether a text is an address of this network, and of what kind.",
        &[required("address", Kind::Text, "The address.")],
    ),
    absent(Util, "verifymessage", NOT_YET),
    present(Zmq, "getzmqnotifications", "What is published over ZeroMQ, and where.", &[]),
];

const fn present(
    category: Category,
    name: &'static str,
    summary: &'static str,
    params: &'static [Param],
) -> Method {
    Method { name, category, summary, params, presence: Presence::Present }
}

const fn absent(category: Category, name: &'static str, reason: &'static str) -> Method {
    Method { name, category, summary: "", params: &[], presence: Presence::Absent(reason) }
}

const fn required(names: &'static str, kind: Kind, help: &'static str) -> Param {
    Param { names, kind, need: Need::Required, help }
}

const fn optional(names: &'static str, kind: Kind, help: &'static str) -> Param {
    Param { names, kind, need: Need::Optional, help }
}

const fn or(names: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Param {
    Param { names, kind, need: Need::Default(default), help }
}
