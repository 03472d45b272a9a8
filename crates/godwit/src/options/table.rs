//! The tables of the node's commands and options.

use std::ffi::OsStr;

use godwit_primitives::Network;
use godwit_program::Exit;
use godwit_program::options::{
    self, CommandSpec, Commands, FilePlace, Form, GENERAL, NETWORK, OptionSpec, OtherLines,
    Program, values as plain,
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
}

impl Program for Godwit {
    type Command = CommandName;
    type Draft = Draft;

    const NAME: &'static str = "godwit";
    const ABOUT: &'static str = "Signatures are verified in the processor's vector registers, all other \
                                scripts in Bitcoin Core's engine (libbitcoinkernel), which alone refuses.";
    const WITHOUT_COMMAND: Option<(&'static str, &'static CommandSpec<Self>)> =
        Some(("the node", NODE));
    const COMMANDS: &'static [&'static [CommandSpec<Self>]] = &[COMMANDS];
    const OPTIONS: &'static [&'static [OptionSpec<Self>]] = &[OPTIONS];
    const GROUPS: &'static [&'static str] =
        &[GENERAL, NETWORK, VALIDATION, CONNECTIONS, IMPORT, UTXO, TESTING];
    const ELSEWHERE: &'static [(&'static str, &'static str)] =
        &[("keys", "godwit-signer"), ("psbt", "godwit-signer")];
    const OTHER_LINES: OtherLines = OtherLines::Known(&["keys"]);
    const EXITS: &'static [Exit] = &Exit::ALL;
}

const VALIDATION: &str = "Options of the node and of import";
const CONNECTIONS: &str = "Options of the node";
const IMPORT: &str = "Options of import";
const UTXO: &str = "Options of utxo load";
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
               data directory. Blocks may come in any order.",
    },
    CommandSpec {
        command: CommandName::UtxoStats,
        words: "utxo stats",
        operands: "",
        count: 0..=0,
        help: "Print statistics of the UTXO set as JSON, as gettxoutsetinfo does.",
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
];

const VALIDATING: Commands<Godwit> = Commands::Only(&[CommandName::Node, CommandName::Import]);
const OF_NODE: Commands<Godwit> = Commands::Only(&[CommandName::Node]);

/// In the order in which the help lists them.
const OPTIONS: &[OptionSpec<Godwit>] = &[
    setting(
        "memory",
        "MiB",
        "a number of MiB, up to 16777216",
        "Use this much memory in all (default: half of what the machine or the control group has, from \
         448 to 4096; at least 448).",
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
         least 4).",
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
            "Where the system refuses to lock memory, or to turn core dumps and tracing off, keep keys \
             in memory that may reach a swap file, instead of not encrypting connections (default: 0).",
            |draft, text| {
                plain::flag(text).map(|on| draft.connections.allow_unlocked_secrets = Some(on))
            },
        )
    },
    OptionSpec {
        group: NETWORK,
        networks: &[Network::Signet],
        ..setting(
            "signetchallenge",
            "HEX",
            "a script in hexadecimal",
            "Use the signet whose blocks satisfy this script (default: the global signet).",
            |draft, text| {
                draft.signet_challenge = Some(values::hex(text)?);
                Some(())
            },
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
        ..validation_setting(
            "lanes",
            "NAME",
            "one of ifma, avx512, avx2, neon and none that this processor has",
            "Verify signatures with these instructions, or with none of the vector registers' \
             (default: the fastest of this processor).",
            |draft, text| {
                draft.lanes = Some(values::lanes(text)?);
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
            "Write coins so long after the first block whose coins are not on disk, however little a power \
             cut would cost (default: 0, no interval).",
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
            "bip94",
            "bip94: enforce the rules of BIP94. Only on regtest.",
            |draft, text| {
                draft.bip94 = (text == "bip94").then_some(true)?;
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
        ..validation_setting(
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
    validation_setting(
        "scriptengine",
        "NAME",
        "native or core",
        "native: verify signatures in the vector registers of the processor where they alone decide \
         about a script, and run all other scripts in Bitcoin Core's engine, which alone refuses. core: \
         run all scripts there (default: native).",
        |draft, text| {
            draft.script_engine = Some(values::script_engine(text)?);
            Some(())
        },
    ),
    validation_setting(
        "crosscheck",
        "N",
        "a number, or 0 for none",
        "Of N inputs that were accepted by their signatures, have one verified by Bitcoin Core's \
         engine, too; if it refuses one, the node ends (default: 1024 during the download, 1 for \
         blocks of the last day; a number that is given is meant for both).",
        |draft, text| {
            draft.crosscheck = Some(plain::number(text)?);
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
        ..validation_setting(
            "prune",
            "",
            "",
            "Delete old block and undo files once all of them together exceed this size (default: 0, \
             keep everything). At least 550, on regtest at least 1. The last 288 blocks and those \
             above the last flush of the UTXO set are kept even where that is more.",
            |draft, text| {
                draft.prune_mib = Some(plain::number(text).filter(|mib| *mib <= MAX_PRUNE_MIB)?);
                Some(())
            },
        )
    },
    connection_flag(
        "networkactive",
        "Connect and accept connections (default: 1).",
        |draft, text| {
            draft.connections.network_active = Some(plain::flag(text)?);
            Some(())
        },
    ),
    connection_flag(
        "listen",
        "Accept connections from others (default: 1, but 0 with -connect, -proxy or \
         -maxconnections=0, unless -bind is given).",
        |draft, text| {
            draft.connections.listen = Some(plain::flag(text)?);
            Some(())
        },
    ),
    OptionSpec {
        repeats: true,
        ..connection_setting(
            "bind",
            "ADDRESS[:PORT]",
            "an IP address and perhaps a port; [ADDRESS]:PORT for IPv6",
            "Listen on this address (default: all of them). May be given several times.",
            |draft, text| {
                draft.connections.bind.push(values::ip_port(text)?);
                Some(())
            },
        )
    },
    connection_setting(
        "port",
        "PORT",
        "a port from 1 to 65535",
        "Listen on this port (default: 8333, test 18333, testnet4 48333, signet 38333, regtest \
         18444).",
        |draft, text| {
            draft.connections.port = Some(plain::number(text).filter(|port| *port != 0)?);
            Some(())
        },
    ),
    connection_setting(
        "maxconnections",
        "N",
        "a number of connections",
        "Keep at most N connections (default: 125), those of -addnode and -connect aside.",
        |draft, text| {
            draft.connections.max_connections = Some(plain::number(text)?);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Value { placeholder: "HOST[:PORT]", expected: HOST_EXPECTED, off: Some("0") },
        repeats: true,
        ..connection_setting(
            "connect",
            "",
            "",
            "Connect to this peer and to no other one but those of -addnode; -noconnect to those \
             alone. May be given several times.",
            |draft, text| {
                if text == "0" {
                    draft.connections.connect = Some(Vec::new());
                } else {
                    let peer = values::host_port(text)?;
                    draft.connections.connect.get_or_insert_default().push(peer);
                }
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        ..connection_setting(
            "addnode",
            "HOST[:PORT]",
            HOST_EXPECTED,
            "Stay connected to this peer, besides others (8 at once). May be given several times.",
            |draft, text| {
                draft.connections.add_nodes.push(values::host_port(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        ..connection_setting(
            "seednode",
            "HOST[:PORT]",
            HOST_EXPECTED,
            "Ask this peer for addresses of other ones. May be given several times.",
            |draft, text| {
                draft.connections.seed_nodes.push(values::host_port(text)?);
                Some(())
            },
        )
    },
    connection_flag(
        "dnsseed",
        "Look up addresses of peers by name when too few are known (default: 1, but 0 with -connect, \
         -maxconnections=0, or -onlynet without ipv4 and ipv6).",
        |draft, text| {
            draft.connections.dns_seed = Some(plain::flag(text)?);
            Some(())
        },
    ),
    OptionSpec {
        form: PROXY_FORM,
        ..connection_setting(
            "proxy",
            "",
            "",
            "Connect through this SOCKS5 proxy (default port: 9050), which resolves names too.",
            |draft, text| {
                draft.connections.proxy = Some(OrOff::parse(text, values::ip_port)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: PROXY_FORM,
        ..connection_setting(
            "onion",
            "",
            "",
            "Reach onion addresses through this SOCKS5 proxy (default: that of -proxy); -noonion \
             does not reach them.",
            |draft, text| {
                draft.connections.onion = Some(OrOff::parse(text, values::ip_port)?);
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        ..connection_setting(
            "onlynet",
            "NETWORK",
            "ipv4, ipv6 or onion; I2P and CJDNS can not be reached",
            "Choose peers only in this network: ipv4, ipv6 or onion. Those of -connect, -addnode and \
             -seednode, and who connects to us, are not affected. May be given several times.",
            |draft, text| {
                draft.connections.only_networks.push(values::network(text)?);
                Some(())
            },
        )
    },
    connection_flag(
        "v2transport",
        "Encrypt connections to peers that can do that too (BIP324, default: 1).",
        |draft, text| plain::flag(text).map(|on| draft.connections.v2_transport = Some(on)),
    ),
    connection_setting(
        "maxuploadtarget",
        "N[UNIT]",
        BYTES_EXPECTED,
        "Try to send no more than this in 24 hours, blocks of the last week aside; 0 for no limit \
         (default: 0). Without a unit in MiB; k, m, g, t are powers of 1000, K, M, G, T of 1024.",
        |draft, text| {
            draft.connections.max_upload_target = Some(values::bytes(text, 1 << 20)?);
            Some(())
        },
    ),
    connection_setting(
        "maxdownloadrate",
        "N[UNIT]",
        BYTES_EXPECTED,
        "Receive no more than this in a second; 0 for no limit (default: 0). Without a unit in KiB, \
         else as -maxuploadtarget.",
        |draft, text| {
            draft.connections.max_download_rate = Some(values::bytes(text, 1 << 10)?);
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

const HOST_EXPECTED: &str = "a name or an IP address and perhaps a port; [ADDRESS]:PORT for IPv6";
const PROXY_FORM: Form = Form::Value {
    placeholder: "ADDRESS[:PORT]",
    expected: "the IP address of a proxy and perhaps its port, or 0 for none",
    off: Some("0"),
};
const BYTES_EXPECTED: &str = "a number, perhaps with a unit k, K, m, M, g, G, t or T";

/// A setting of the node that concerns its peers.
const fn connection_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let every = setting(name, placeholder, expected, help, set);
    OptionSpec { commands: OF_NODE, group: CONNECTIONS, ..every }
}

const fn connection_flag(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    OptionSpec { form: Form::Flag, ..connection_setting(name, "", "", help, set) }
}
