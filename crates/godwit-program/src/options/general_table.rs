//! The table of the options that every program has.

use std::ffi::OsStr;
use std::marker::PhantomData;

use godwit_primitives::Network;

use super::general::{GENERAL, General, NETWORK};
use super::spec::{Commands, FilePlace, Form, OptionSpec, Program, Setter};
use super::values;

/// The table of a program.
pub(super) struct GeneralOptions<P>(PhantomData<P>);

impl<P: Program> GeneralOptions<P> {
    /// In the order in which the help lists them.
    pub(super) const TABLE: &'static [OptionSpec<P>] = &[
        request("help", &["h", "?"], "Print this text and stop.", |draft, text| {
            draft.help = values::flag(text)?;
            Some(())
        }),
        request("version", &[], "Print the version and stop.", |draft, text| {
            draft.version = values::flag(text)?;
            Some(())
        }),
        OptionSpec {
            form: Form::Value { placeholder: "FILE", expected: "the path of a file", off: None },
            ..request(
                "conf",
                &[],
                "Read options from FILE; relative to the data directory (default: godwit.conf).",
                |draft, text| {
                    draft.conf = Some(values::path(text)?);
                    Some(())
                },
            )
        },
        OptionSpec {
            file: FilePlace::Anywhere,
            ..request(
                "allowignoredconf",
                &[],
                "Only warn if the configuration file that is read is not the data directory's own, \
                 because of -conf or because its datadir= names the directory (default: 0).",
                |draft, text| {
                    draft.allow_ignored_conf = values::flag(text)?;
                    Some(())
                },
            )
        },
        OptionSpec {
            form: Form::Value {
                placeholder: "DIR",
                expected: "the path of a directory",
                off: None,
            },
            file: FilePlace::Top,
            ..request(
                "datadir",
                &[],
                "Keep everything in DIR (default: ~/.godwit). Networks other than main have a \
                 directory of their own inside.",
                |draft, text| {
                    draft.datadir = Some(values::path(text)?);
                    Some(())
                },
            )
        },
        OptionSpec {
            form: Form::Value {
                placeholder: "NAME",
                expected: "main, test, testnet4, signet or regtest",
                off: None,
            },
            ..network_flag(
                "chain",
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
    ];
}

/// A flag that asks for something to be done and is no setting: it is not read from the file.
const fn request<P: Program>(
    name: &'static str,
    aliases: &'static [&'static str],
    help: &'static str,
    set: fn(&mut General, &OsStr) -> Option<()>,
) -> OptionSpec<P> {
    OptionSpec {
        name,
        aliases,
        form: Form::Flag,
        file: FilePlace::Nowhere,
        commands: Commands::Every,
        networks: &Network::ALL,
        group: GENERAL,
        repeats: false,
        help,
        set: Setter::General(set),
    }
}

/// `-testnet` and its like.
const fn network_flag<P: Program>(
    name: &'static str,
    help: &'static str,
    set: fn(&mut General, &OsStr) -> Option<()>,
) -> OptionSpec<P> {
    OptionSpec { file: FilePlace::Top, group: NETWORK, ..request(name, &[], help, set) }
}
