//! The table of the options of the optional indexes.

use godwit_program::options::{Form, OptionSpec, values as plain};

use super::{CONNECTIONS, Godwit, OF_NODE, setting};

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec<Godwit>] = &[
    OptionSpec {
        form: Form::Flag,
        commands: OF_NODE,
        group: CONNECTIONS,
        ..setting(
            "txindex",
            "",
            "",
            "Keep an index of all transactions, for getrawtransaction and gettxoutproof without a block's hash. It \
             is built in the background; it may be turned on later. Not with -prune (default: 0).",
            |draft, text| {
                draft.files.indexes.transactions = plain::flag(text)?;
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Switch { placeholder: "TYPE", expected: "basic, 1 or 0" },
        commands: OF_NODE,
        group: CONNECTIONS,
        ..setting(
            "blockfilterindex",
            "",
            "",
            "Keep an index of block filters (BIP158), for getblockfilter, of the type basic, the only one. \
             Built as -txindex; with -prune, blocks are deleted when it has read them (default: 0).",
            |draft, text| {
                draft.files.indexes.filters = match text.to_str()? {
                    "basic" | "1" => true,
                    "0" => false,
                    _ => return None,
                };
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        commands: OF_NODE,
        group: CONNECTIONS,
        ..setting(
            "coinstatsindex",
            "",
            "",
            "Keep an index of the coins' statistics after each block, for gettxoutsetinfo without reading all \
             coins, and at any block. Built as -blockfilterindex (default: 0).",
            |draft, text| {
                draft.files.indexes.coin_stats = plain::flag(text)?;
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        commands: OF_NODE,
        group: CONNECTIONS,
        ..setting(
            "peerblockfilters",
            "",
            "",
            "Give peers the filters of -blockfilterindex (BIP157), which light clients look for (default: 0).",
            |draft, text| {
                draft.files.indexes.served = plain::flag(text)?;
                Some(())
            },
        )
    },
];
