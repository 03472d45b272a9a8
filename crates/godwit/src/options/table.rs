//! The tables of the node's commands and options.

mod connections;
mod hand_over;
mod indexes;
mod pages;
mod rpc;
mod zmq;

use std::ffi::OsStr;

use godwit_primitives::Network;
use godwit_program::Exit;
use godwit_program::options::{
    self, CommandSpec, Commands, FilePlace, Form, GENERAL, NETWORK, OptionSpec, OtherLines,
    Program, Setter, values as plain,
};

use super::draft::Draft;
use super::values::{self, OrOff};

/// Smallest `-dbcache` in MiB; smaller values mean this one (Core `node/caches.h`, `MIN_DB_CACHE`).
pub(super) const MIN_DBCACHE_MIB: u64 = 4;
/// Largest `-dbcache` and `-memory`, 16 TiB: more than any machine has, and its bytes do not overflow.
const MAX_MEMORY_MIB: u64 = 1 << 24;
/// Largest `-par`. Core stops at 16, because one block's scripts seldom keep more busy; here the
/// scripts of several blocks run at once.
pub(super) const MAX_SCRIPT_THREADS: i32 = 256;
/// Smallest `-prune` in MiB (Core `validation.h`, `MIN_DISK_SPACE_FOR_BLOCK_FILES`).
pub(super) const MIN_PRUNE_MIB: u64 = 550;
/// Largest `-prune`, as for `-dbcache`.
const MAX_PRUNE_MIB: u64 = 1 << 24;
/// Default of `-maxconnections` (Core `net.h`, `DEFAULT_MAX_PEER_CONNECTIONS`).
pub(super) const DEFAULT_MAX_CONNECTIONS: u32 = 125;

/// The program `godwit`.
pub(super) struct Godwit;

/// A command of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandName {
    Node,
    Import,
    UtxoStats,
    UtxoDump,
    UtxoLoad,
    Verify,
    Status,
    HandOver,
}

impl Program for Godwit {
    type Command = CommandName;
    type Draft = Draft;

    const NAME: &'static str = "godwit";
    const ABOUT: &'static str = "Signatures are verified in the vector registers of a processor with AVX2 or \
                                AVX-512, all other scripts in Bitcoin Core's engine (libbitcoinkernel), which \
                                alone refuses.";
    const WITHOUT_COMMAND: Option<(&'static str, &'static CommandSpec<Self>)> =
        Some(("the node", NODE));
    const COMMANDS: &'static [&'static [CommandSpec<Self>]] = &[COMMANDS];
    const OPTIONS: &'static [&'static [OptionSpec<Self>]] = &[
        OPTIONS,
        indexes::OPTIONS,
        connections::OPTIONS,
        rpc::OPTIONS,
        pages::OPTIONS,
        zmq::OPTIONS,
        hand_over::OPTIONS,
    ];
    const GROUPS: &'static [&'static str] = &[
        GENERAL,
        NETWORK,
        VALIDATION,
        CONNECTIONS,
        RPC,
        PAGES,
        ZMQ,
        IMPORT,
        UTXO,
        VERIFY,
        HAND_OVER,
        TESTING,
    ];
    const ELSEWHERE: &'static [(&'static str, &'static str)] =
        &[("keys", "godwit-signer"), ("psbt", "godwit-signer")];
    const OTHER_LINES: OtherLines = OtherLines::Known {
        others: &[
            "keys",
            // Of godwit-cli alone.
            "rpcconnect",
            "rpcclienttimeout",
            "rpcwait",
            "rpcwaittimeout",
            "rpcwallet",
            "rpcid",
            "named",
            "color",
            "ipcconnect",
        ],
        absent: super::core_options::ABSENT,
    };
    const EXITS: &'static [Exit] = &Exit::ALL;
}

const VALIDATION: &str = "Options of the node and of import";
const CONNECTIONS: &str = "Options of the node";
const RPC: &str = "Options of the node's RPC server";
const PAGES: &str = "Options of the status page, metrics and status";
const ZMQ: &str = "Options of the node's notifications";
const IMPORT: &str = "Options of import";
const UTXO: &str = "Options of utxo load";
const VERIFY: &str = "Options of verify";
const HAND_OVER: &str = "Options of hand-over, and of what comes after it";
const TESTING: &str = "Options for tests";

/// The command that runs when none is named.
const NODE: &CommandSpec<Godwit> = &CommandSpec {
    command: CommandName::Node,
    words: "",
    operands: "",
    count: 0..=0,
    help: "Run a node: find peers, download and validate the chain, follow it and serve it, until a \
           signal or -stopatheight ends it.",
};

const COMMANDS: &[CommandSpec<Godwit>] = &[
    CommandSpec {
        command: CommandName::Import,
        words: "import",
        operands: " PATH...",
        count: 1..=usize::MAX,
        help: "Validate the blocks of PATHs and add them to the chain in the data directory. PATH \
               is a block file in Bitcoin Core's framing or the blocks directory of a Bitcoin Core \
               data directory. Blocks may come in any order. If PATH is a Bitcoin Core data directory itself, \
               its coins are compared with those that its blocks give; the exit code is 2 if they differ.",
    },
    CommandSpec {
        command: CommandName::UtxoStats,
        words: "utxo stats",
        operands: "",
        count: 0..=0,
        help: "Print the hashes, number and sum of the coins as JSON, as gettxoutsetinfo does (without transactions \
               and disk_size).",
    },
    CommandSpec {
        command: CommandName::UtxoDump,
        words: "utxo dump",
        operands: " FILE",
        count: 1..=1,
        help: "Write the UTXO set to FILE, in the format of dumptxoutset.",
    },
    CommandSpec {
        command: CommandName::UtxoLoad,
        words: "utxo load",
        operands: " FILE",
        count: 1..=1,
        help: "Start from the UTXO set in FILE. The header of its block has to be in the data \
               directory and its hash has to be known.",
    },
    CommandSpec {
        command: CommandName::Verify,
        words: "verify",
        operands: "",
        count: 0..=0,
        help: "Read everything that is stored and compare it with what was written. Print each damage and what \
               repairs it, and the MuHash of the coins. Changes nothing without -repair. The exit code is 5 \
               if damage is left or -audit refutes something, and 1 if -audit can prove nothing.",
    },
    CommandSpec {
        command: CommandName::HandOver,
        words: "hand-over",
        operands: "",
        count: 0..=0,
        help: "Make a data directory on which bitcoind starts at once, at the same block, without reindexing. \
               Block and undo files are shared by both directories (hard links), coins and index are written in \
               Bitcoin Core's format. Continues nothing: after an interruption the same command begins anew.",
    },
    CommandSpec {
        command: CommandName::Status,
        words: "status",
        operands: "",
        count: 0..=0,
        help: "Ask the node that runs on the data directory, and print in four lines how far it is, when the sync \
               ends, what holds it up and what a power cut would cost.",
    },
];

const VALIDATING: Commands<Godwit> = Commands::Only(&[CommandName::Node, CommandName::Import]);
/// Those that run scripts.
const JUDGING: Commands<Godwit> =
    Commands::Only(&[CommandName::Node, CommandName::Import, CommandName::Verify]);
/// Those that delete blocks, and the one that tells bitcoind how many to keep.
const PRUNING: Commands<Godwit> =
    Commands::Only(&[CommandName::Node, CommandName::Import, CommandName::HandOver]);
const OF_NODE: Commands<Godwit> = Commands::Only(&[CommandName::Node]);
/// The node and who asks it.
const OF_BOTH_ENDS: Commands<Godwit> = Commands::Only(&[CommandName::Node, CommandName::Status]);

/// In the order in which the help lists them.
const OPTIONS: &[OptionSpec<Godwit>] = &[
    setting(
        "memory",
        "MiB",
        "a number of MiB, up to 16777216",
        "Use this much memory in all (default: half of what the machine or the control group has, from \
         448 to 4096; at least 448, and 16 more for each index).",
        |draft, text| {
            let mib = plain::number(text).filter(|mib| *mib <= MAX_MEMORY_MIB)?;
            draft.memory.total = Some(mib);
            Some(())
        },
    ),
    setting(
        "dbcache",
        "MiB",
        "a number of MiB, up to 16777216",
        "Use this much memory for the UTXO set (default: what the other parts leave of -memory; at \
         least 4; -memory, if it is given, has to be at least 480, and 16 more for each index).",
        |draft, text| {
            let mib = plain::number(text).filter(|mib| *mib <= MAX_MEMORY_MIB)?;
            draft.memory.coins = Some(mib);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Flag,
        commands: OF_NODE,
        ..setting(
            "allowunlockedsecrets",
            "",
            "",
            "If the system refuses to lock memory, or to turn core dumps and tracing off, keep keys in \
             memory that may reach a swap file, instead of not encrypting connections (default: 0).",
            |draft, text| {
                plain::flag(text).map(|on| draft.connections.allow_unlocked_secrets = Some(on))
            },
        )
    },
    OptionSpec {
        group: NETWORK,
        networks: &[Network::Signet],
        set: Setter::Explained(set_signet_challenge),
        ..setting(
            "signetchallenge",
            "HEX",
            "",
            "Use the signet whose blocks satisfy this script (default: the global signet).",
            |_, _| None,
        )
    },
    OptionSpec {
        group: TESTING,
        repeats: true,
        networks: &[Network::Testnet3, Network::Testnet4, Network::Signet, Network::Regtest],
        ..setting(
            "testactivationheight",
            "NAME@HEIGHT",
            "NAME@HEIGHT with NAME one of bip34, dersig, cltv, csv and segwit",
            "Activate a rule change (bip34, dersig, cltv, csv, segwit) at this height. Not on \
             main. May be given several times.",
            |draft, text| {
                draft.activation_heights.push(values::activation(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        group: TESTING,
        ..script_setting(
            "lanes",
            "NAME",
            "one of ifma, avx512, avx2, neon and none that this processor has",
            "Verify signatures with these instructions, or with none of the vector registers' \
             (default: the fastest of this processor; none on ARM64, where neon has to be named).",
            |draft, text| {
                draft.scripts.lanes = Some(values::lanes(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        group: TESTING,
        ..validation_setting(
            "flushinterval",
            "SECONDS",
            "a number of seconds, or 0 for no interval",
            "Write coins this long after the first block whose coins are not on disk, however little a \
             power cut would cost (default: 0, no interval).",
            |draft, text| {
                draft.flush_interval = Some(plain::number(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        group: TESTING,
        repeats: true,
        networks: &[Network::Regtest],
        ..setting(
            "test",
            "NAME",
            "bip94 or bip34",
            "bip94: enforce the rules of BIP94. bip34: assume from block 1 on that BIP34 rules out \
             outputs that exist already, as on main between 227,931 and 1,983,702, and look none up \
             (BIP30); for comparing speeds. Only on regtest. May be given several times.",
            |draft, text| {
                match text.to_str()? {
                    "bip94" => draft.tests.bip94 = true,
                    "bip34" => draft.tests.bip34 = true,
                    _ => return None,
                }
                Some(())
            },
        )
    },
    OptionSpec {
        group: TESTING,
        commands: OF_NODE,
        ..setting(
            "minimumchainwork",
            "HEX",
            "a number in up to 64 hexadecimal digits",
            "Do not store the headers of a chain with less work (default: known when this version \
             was made).",
            |draft, text| {
                draft.minimum_chain_work = Some(values::work(text)?);
                Some(())
            },
        )
    },
    validation_setting(
        "par",
        "N",
        "a number of threads from -256 to 256",
        "Run scripts in N threads (default: 0). 0 uses all cores, a negative number leaves that \
         many cores free.",
        |draft, text| {
            let in_range = |par: &i32| par.unsigned_abs() <= MAX_SCRIPT_THREADS.unsigned_abs();
            draft.par = Some(plain::number(text).filter(in_range)?);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Value {
            placeholder: "HASH",
            expected: "the hash of a block in 64 hexadecimal digits, or 0",
            off: Some("0"),
        },
        ..script_setting(
            "assumevalid",
            "HASH",
            "",
            "Do not run the scripts of this block and its ancestors if the block is in the best \
             header chain and buried under two weeks of work; 0 runs all scripts (default: a block \
             known when this version was made).",
            |draft, text| {
                draft.assume_valid = Some(OrOff::parse(text, values::block_hash)?);
                Some(())
            },
        )
    },
    script_setting(
        "scriptengine",
        "NAME",
        "native or core",
        "native: verify signatures in the vector registers of the processor (AVX2 or AVX-512, on ARM64 \
         only with -lanes=neon) where they alone decide about a script, and run all other scripts in \
         Bitcoin Core's engine, which alone refuses. core: run all scripts there (default: native).",
        |draft, text| {
            draft.scripts.engine = Some(values::script_engine(text)?);
            Some(())
        },
    ),
    script_setting(
        "crosscheck",
        "N",
        "a number, or 0 for none",
        "Of N inputs that were accepted by their signatures, have one verified by Bitcoin Core's \
         engine, too; if it refuses one, the node ends (default: 1024 during the download, 1 for \
         blocks of the last day; a given number is for both; 0: none).",
        |draft, text| {
            draft.scripts.crosscheck = Some(plain::number(text)?);
            Some(())
        },
    ),
    validation_setting(
        "stopatheight",
        "HEIGHT",
        "a height, or 0 for no limit",
        "Stop when the chain has reached this height (default: 0, no limit).",
        |draft, text| {
            draft.stop_at_height = Some(plain::number(text)?);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Value {
            placeholder: "MiB",
            expected: "a number of MiB, up to 16777216, or 0 to keep everything",
            off: Some("0"),
        },
        commands: PRUNING,
        ..validation_setting(
            "prune",
            "",
            "",
            "Delete old block and undo files once all of them together exceed this size (default: 0, \
             keep everything). At least 550, on regtest at least 2. With 1, they are deleted only when \
             the RPC method pruneblockchain is called. The last 288 blocks are kept even if that is \
             more. During a sync it may be more by a file of 128 MiB, and by what comes while coins \
             are written. hand-over deletes nothing, and if blocks are missing has bitcoind keep at \
             least this much.",
            |draft, text| {
                draft.files.prune_mib =
                    Some(plain::number(text).filter(|mib| *mib <= MAX_PRUNE_MIB)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        commands: OF_NODE,
        group: CONNECTIONS,
        ..setting(
            "scrub",
            "",
            "",
            "Once a month read blocks, coins and database, at 2 MiB a second while there is nothing else to do, \
             repair what can be repaired and name the rest in the log (default: 1). 0 lets a disk sleep, or saves reads that are paid for; \
             damage is then found when it is needed, or by the command verify.",
            |draft, text| {
                draft.files.scrub = Some(plain::flag(text)?);
                Some(())
            },
        )
    },
    rebuild_flag(
        "reindex",
        "Rebuild the block index and the coins from the block files, and verify all blocks again. The \
         next start continues an interrupted one, without this option. If old blocks were deleted by \
         -prune, delete the others too and download the chain again.",
        |draft, text| {
            draft.files.reindex = plain::flag(text)?;
            Some(())
        },
    ),
    rebuild_flag(
        "reindex-chainstate",
        "Rebuild the coins from the block files; scripts that were verified before do not run again. \
         The next start continues an interrupted one, as with -reindex. Not if old blocks were deleted \
         by -prune.",
        |draft, text| {
            draft.files.reindex_chainstate = plain::flag(text)?;
            Some(())
        },
    ),
    OptionSpec {
        file: FilePlace::Nowhere,
        commands: Commands::Only(&[CommandName::Import]),
        group: IMPORT,
        ..setting(
            "verdicts",
            "FILE",
            "the path of a file",
            "Judge the records of all PATHs strictly one after another and write one line of JSON \
             per record to FILE.",
            |draft, text| {
                draft.verdicts = Some(plain::path(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        file: FilePlace::Nowhere,
        commands: Commands::Only(&[CommandName::Verify]),
        group: VERIFY,
        ..setting(
            "repair",
            "",
            "",
            "Repair what can be repaired from what is stored.",
            |draft, text| {
                draft.files.repair = plain::flag(text)?;
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        file: FilePlace::Nowhere,
        commands: Commands::Only(&[CommandName::Verify]),
        group: VERIFY,
        ..setting(
            "audit",
            "",
            "",
            "Prove that coins and undo records are what validation of the stored blocks leaves, \
             instead of hashing the coins. Scripts run as -assumevalid says. With -repair, undo \
             records that are refuted are rebuilt.",
            |draft, text| {
                draft.files.audit = plain::flag(text)?;
                Some(())
            },
        )
    },
    OptionSpec {
        file: FilePlace::Nowhere,
        commands: Commands::Only(&[CommandName::UtxoLoad]),
        group: UTXO,
        ..setting(
            "utxohash",
            "HASH",
            "a hash_serialized_3 in 64 hexadecimal digits",
            "Load a UTXO set with this hash_serialized_3, which you know from a source you trust \
             (default: the hash known when this version was made).",
            |draft, text| {
                draft.utxo_hash = Some(values::utxo_hash(text)?);
                Some(())
            },
        )
    },
];

/// An option with a value that every command takes, on the command line and in the file.
const fn setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    options::setting(name, placeholder, expected, help, set)
}

/// Two challenges are two networks, of which nobody could say which one is meant. Core refuses the same one
/// twice, too.
fn set_signet_challenge(draft: &mut Draft, text: &OsStr) -> Result<(), String> {
    let challenge = values::hex(text).ok_or("expected a script in hexadecimal")?;
    match draft.signet_challenge.replace(challenge.clone()) {
        Some(other) if other != challenge => {
            Err("another one was given before; a signet has one".to_owned())
        }
        _ => Ok(()),
    }
}

/// A setting of the commands that validate blocks.
const fn validation_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let every = setting(name, placeholder, expected, help, set);
    OptionSpec { commands: VALIDATING, group: VALIDATION, ..every }
}

/// A setting of the commands that run scripts.
const fn script_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let every = validation_setting(name, placeholder, expected, help, set);
    OptionSpec { commands: JUDGING, ..every }
}

/// A flag that is for one start, and so of no use in the file.
const fn rebuild_flag(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let every = validation_setting(name, "", "", help, set);
    OptionSpec { form: Form::Flag, file: FilePlace::Nowhere, ..every }
}
