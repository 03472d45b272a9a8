//! The one table of options and the one of commands. Parsing, ranges, help, suggestions, which
//! command takes what and what may stand in the file are all read off them.

use std::ffi::OsStr;

use godwit_primitives::Network;

use super::spec::{CommandName, CommandSpec, Draft, FilePlace, Form, Group, OptionSpec};
use super::values;

/// Smallest `-dbcache` in MiB; smaller values mean this one (Core `node/caches.h`, `MIN_DB_CACHE`).
pub(super) const MIN_DBCACHE_MIB: u64 = 4;
/// Default of `-dbcache` in MiB (Core `kernel/caches.h`, `DEFAULT_KERNEL_CACHE`).
pub(super) const DEFAULT_DBCACHE_MIB: u64 = 450;
/// Largest `-dbcache`, 16 TiB: more than any machine has, and far from overflowing in bytes.
const MAX_DBCACHE_MIB: u64 = 1 << 24;
/// Largest `-par`. Core stops at 16, because one block's scripts seldom keep more busy; here the
/// scripts of several blocks run at once.
pub(super) const MAX_SCRIPT_THREADS: i32 = 256;
/// How many letters may differ for a suggestion, in a name of eight letters or more; shorter names
/// are suggested for a quarter of their letters, and at least one.
const MAX_TYPOS: usize = 2;

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec {
        command: CommandName::Import,
        words: "import",
        operands: " PATH...",
        help: "Validate the blocks of PATHs and add them to the chain in the data directory. PATH \
               is a block file in Bitcoin Core's framing or the blocks directory of a Bitcoin Core \
               data directory. Blocks may come in any order.",
    },
    CommandSpec {
        command: CommandName::UtxoStats,
        words: "utxo stats",
        operands: "",
        help: "Print statistics of the UTXO set as JSON, as gettxoutsetinfo does.",
    },
    CommandSpec {
        command: CommandName::UtxoDump,
        words: "utxo dump",
        operands: " FILE",
        help: "Write the UTXO set to FILE, in the format of dumptxoutset.",
    },
    CommandSpec {
        command: CommandName::UtxoLoad,
        words: "utxo load",
        operands: " FILE",
        help: "Start from the UTXO set in FILE. The header of its block has to be in the data \
               directory and its hash has to be known.",
    },
];

const EVERY_COMMAND: &[CommandName] =
    &[CommandName::Import, CommandName::UtxoStats, CommandName::UtxoDump, CommandName::UtxoLoad];
const IMPORT: &[CommandName] = &[CommandName::Import];

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec] = &[
    request("help", &["h", "?"], "Print this text and stop.", |draft, text| {
        draft.help = values::flag(text)?;
        Some(())
    }),
    request("version", &[], "Print the version and stop.", |draft, text| {
        draft.version = values::flag(text)?;
        Some(())
    }),
    OptionSpec {
        file: FilePlace::Nowhere,
        ..setting(
            "conf",
            "FILE",
            "the path of a file",
            "Read options from FILE; relative to the data directory (default: godwit.conf).",
            |draft, text| {
                draft.conf = Some(values::path(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        file: FilePlace::Top,
        ..setting(
            "datadir",
            "DIR",
            "the path of a directory",
            "Keep everything in DIR (default: ~/.godwit). Networks other than main have a \
             directory of their own inside.",
            |draft, text| {
                draft.datadir = Some(values::path(text)?);
                Some(())
            },
        )
    },
    setting(
        "dbcache",
        "MiB",
        "a number of MiB, up to 16777216",
        "Use this much memory for the UTXO set (default: 450, at least 4).",
        |draft, text| {
            let mib = values::number(text).filter(|mib| *mib <= MAX_DBCACHE_MIB)?;
            draft.dbcache_mib = Some(mib);
            Some(())
        },
    ),
    OptionSpec {
        file: FilePlace::Top,
        group: Group::Network,
        ..setting(
            "chain",
            "NAME",
            "main, test, testnet4, signet or regtest",
            "Use this network: main, test, testnet4, signet or regtest (default: main).",
            |draft, text| {
                draft.chain = Some(text.to_str()?.parse().ok()?);
                Some(())
            },
        )
    },
    network_flag("testnet", "The same as -chain=test.", |draft, text| {
        draft.testnet3 = Some(values::flag(text)?);
        Some(())
    }),
    network_flag("testnet4", "The same as -chain=testnet4.", |draft, text| {
        draft.testnet4 = Some(values::flag(text)?);
        Some(())
    }),
    network_flag("signet", "The same as -chain=signet.", |draft, text| {
        draft.signet = Some(values::flag(text)?);
        Some(())
    }),
    network_flag("regtest", "The same as -chain=regtest.", |draft, text| {
        draft.regtest = Some(values::flag(text)?);
        Some(())
    }),
    OptionSpec {
        group: Group::Network,
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
        group: Group::Testing,
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
        group: Group::Testing,
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
    import_setting(
        "par",
        "N",
        "a number of threads from -256 to 256",
        "Run scripts in N threads (default: 0). 0 uses all cores, a negative number leaves that \
         many cores free.",
        |draft, text| {
            let in_range = |par: &i32| par.unsigned_abs() <= MAX_SCRIPT_THREADS.unsigned_abs();
            draft.par = Some(values::number(text).filter(in_range)?);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Value {
            placeholder: "HASH",
            expected: "the hash of a block in 64 hexadecimal digits, or 0",
            off: Some("0"),
        },
        ..import_setting(
            "assumevalid",
            "HASH",
            "",
            "Do not run the scripts of this block and its ancestors if the block is in the best \
             header chain and buried under two weeks of work; 0 runs all scripts (default: a block \
             known when this version was made).",
            |draft, text| {
                draft.assume_valid = Some(values::hash_or_zero(text)?);
                Some(())
            },
        )
    },
    import_setting(
        "stopatheight",
        "HEIGHT",
        "a height, or 0 for no limit",
        "Stop when the chain has reached this height (default: 0, no limit).",
        |draft, text| {
            draft.stop_at_height = Some(values::number(text)?);
            Some(())
        },
    ),
    OptionSpec {
        file: FilePlace::Nowhere,
        ..import_setting(
            "verdicts",
            "FILE",
            "the path of a file",
            "Judge the records of all PATHs strictly one after another and write one line of JSON \
             per record to FILE.",
            |draft, text| {
                draft.verdicts = Some(values::path(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        file: FilePlace::Nowhere,
        commands: &[CommandName::UtxoLoad],
        group: Group::Utxo,
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

/// The option of this name or alias.
pub(super) fn find(name: &str) -> Option<&'static OptionSpec> {
    OPTIONS.iter().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

/// The option that a user who wrote `name` may have meant; a `no` in front stays there.
pub(super) fn suggest_option(name: &str) -> Option<String> {
    let names = OPTIONS.iter().map(|spec| spec.name);
    suggest(name, names).or_else(|| {
        let negatable = OPTIONS.iter().filter(|spec| spec.off().is_some()).map(|spec| spec.name);
        suggest(name.strip_prefix("no")?, negatable).map(|other| format!("no{other}"))
    })
}

/// The nearest of `candidates`, if it is near enough to be a typing error.
pub(super) fn suggest(
    written: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<String> {
    let (typos, nearest) = candidates
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .min_by_key(|(typos, _)| *typos)?;
    let bound = (nearest.len() / 4).clamp(1, MAX_TYPOS);
    (typos <= bound).then(|| nearest.to_owned())
}

/// A flag of every command that is no setting.
const fn request(
    name: &'static str,
    aliases: &'static [&'static str],
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec {
    OptionSpec {
        name,
        aliases,
        form: Form::Flag,
        file: FilePlace::Nowhere,
        commands: EVERY_COMMAND,
        networks: &Network::ALL,
        group: Group::General,
        repeats: false,
        help,
        set,
    }
}

/// `-testnet` and its like.
const fn network_flag(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec {
    OptionSpec { file: FilePlace::Top, group: Group::Network, ..request(name, &[], help, set) }
}

/// An option with a value, of every command, in the file too.
const fn setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec {
    OptionSpec {
        name,
        aliases: &[],
        form: Form::Value { placeholder, expected, off: None },
        file: FilePlace::Anywhere,
        commands: EVERY_COMMAND,
        networks: &Network::ALL,
        group: Group::General,
        repeats: false,
        help,
        set,
    }
}

/// A setting of `import` alone.
const fn import_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec {
    let every = setting(name, placeholder, expected, help, set);
    OptionSpec { commands: IMPORT, group: Group::Import, ..every }
}
