//! The commands and options of `psbt`.

use std::ffi::OsStr;

use godwit_program::options::{CommandSpec, Commands, Form, OptionSpec, values};

use super::{CommandName, PSBT, Signer, line_option};
use crate::options::draft::Draft;
use crate::options::{NamedOutput, NodeOptions};

/// Largest `-maxfee`, in satoshi: all the money there will ever be.
const MAX_FEE: u64 = 2_100_000_000_000_000;

pub(super) const PSBT_COMMANDS: &[CommandSpec<Signer>] = &[
    CommandSpec {
        command: CommandName::PsbtInspect,
        words: "psbt inspect",
        operands: " FILE",
        count: 1..=1,
        help: "Show what the PSBT in FILE would do: amounts, addresses, fee, keys, signatures, what is \
               missing and what is wrong. With -keys, or -passphrase-fd for the default key file, also what is ours of it, and the token that psbt \
               sign takes. FILE has base64 or the binary form, of version 0 or 2, here and in all \
               commands of psbt; - is standard input.",
    },
    CommandSpec {
        command: CommandName::PsbtSign,
        words: "psbt sign",
        operands: " FILE",
        count: 1..=1,
        help: "Show a PSBT at the terminal, ask there, and sign it with the keys of the key file; with \
               -yes it is shown on standard error. The signed one goes to standard output in base64, or to -out. Nothing is signed if anything in it \
               contradicts itself or the limits of the options.",
    },
    CommandSpec {
        command: CommandName::PsbtCombine,
        words: "psbt combine",
        operands: " FILE FILE...",
        count: 2..=usize::MAX,
        help: "Join what several signers added to copies of one PSBT.",
    },
    CommandSpec {
        command: CommandName::PsbtFinalize,
        words: "psbt finalize",
        operands: " FILE",
        count: 1..=1,
        help: "Make final scripts of the signatures, input by input, and verify them in Bitcoin Core's \
               engine.",
    },
    CommandSpec {
        command: CommandName::PsbtExtract,
        words: "psbt extract",
        operands: " FILE",
        count: 1..=1,
        help: "Print the network transaction of a finished PSBT in hexadecimal, after its scripts were \
               verified; of the PSBT of a message, the signature in base64.",
    },
];

const WRITING: Commands<Signer> = Commands::Only(&[
    CommandName::PsbtSign,
    CommandName::PsbtCombine,
    CommandName::PsbtFinalize,
    CommandName::PsbtExtract,
    CommandName::MessagePsbt,
]);

/// Commands that show a PSBT.
const LOOKING: Commands<Signer> =
    Commands::Only(&[CommandName::PsbtInspect, CommandName::PsbtSign]);

/// Commands that check the fee.
const PAYING: Commands<Signer> = Commands::Only(&[CommandName::PsbtSign, CommandName::PsbtExtract]);

pub(super) const PSBT_OPTIONS: &[OptionSpec<Signer>] = &[
    OptionSpec {
        commands: WRITING,
        ..setting(
            "out",
            "FILE",
            "the path of a file",
            "Write the result to FILE, which does not exist yet: a PSBT in binary form, a transaction \
             in hexadecimal.",
            |draft, text| {
                draft.psbt.out = Some(values::path(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        commands: PAYING,
        ..setting(
            "maxfee",
            "SATOSHI",
            "a number of satoshi",
            "Sign or extract no transaction with a higher fee (default: 10000000).",
            |draft, text| {
                draft.psbt.max_fee = Some(values::number(text).filter(|fee| *fee <= MAX_FEE)?);
                Some(())
            },
        )
    },
    OptionSpec {
        commands: PAYING,
        ..setting(
            "maxfeerate",
            "SATOSHI",
            "a number of satoshi for a virtual byte",
            "Sign or extract no transaction with a higher fee for its size, in satoshi for a virtual \
             byte (default: 1000).",
            |draft, text| {
                draft.psbt.max_fee_rate = Some(values::number(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        commands: PAYING,
        ..setting(
            "maxfeeshare",
            "PERCENT",
            "0 to 100 (percent)",
            "Sign no transaction whose fee is a larger part of what leaves you, or of what you spend if \
             nothing but the fee leaves; extract none whose fee is a larger part of its inputs. 100 is \
             no limit (default: 25).",
            |draft, text| {
                let share = values::number(text).filter(|share| *share <= 100)?;
                draft.psbt.max_fee_share = Some(share);
                Some(())
            },
        )
    },
    OptionSpec {
        commands: Commands::Only(&[CommandName::PsbtSign, CommandName::PsbtFinalize]),
        ..flag(
            "anysighash",
            "Sign with sighash types that leave parts of the transaction open, if the PSBT asks for \
             them; finalize inputs that were signed so even if it does not.",
            |draft, text| {
                draft.psbt.any_sighash = Some(values::flag(text)?);
                Some(())
            },
        )
    },
    flag(
        "foreigninputs",
        "Sign our inputs although the transaction spends those of others too.",
        |draft, text| {
            draft.psbt.foreign_inputs = Some(values::flag(text)?);
            Some(())
        },
    ),
    flag(
        "anyinputs",
        "Sign beside inputs of others although an input has a key of ours and no descriptor of the key \
         file derives it, so that it is not known whether one of theirs is ours too.",
        |draft, text| {
            draft.psbt.any_inputs = Some(values::flag(text)?);
            Some(())
        },
    ),
    flag(
        "unprovenamounts",
        "Sign although the previous transaction of another input is missing, without which a lie \
         about its amount can turn into a fee.",
        |draft, text| {
            draft.psbt.unproven_amounts = Some(values::flag(text)?);
            Some(())
        },
    ),
    named_output(
        "anyoutput",
        "Sign although what the PSBT says of the output to this address does not fit its script, or names a \
         key of ours and no descriptor of the key file derives it. An output without an address is named by \
         its script in hexadecimal. Nothing is allowed of other outputs; the option may be repeated.",
        |draft, text| {
            draft.psbt.any_outputs.push(NamedOutput::read(text.to_str()?)?);
            Some(())
        },
    ),
    named_output(
        "anyindex",
        "Sign although the output of ours to this address is so far beyond the last spent index of its \
         account that a restored wallet would not find it. The option may be repeated.",
        |draft, text| {
            draft.psbt.any_index.push(NamedOutput::read(text.to_str()?)?);
            Some(())
        },
    ),
    OptionSpec {
        commands: LOOKING,
        ..setting(
            "node",
            "PORT[:COOKIE]",
            "a port from 1 to 65535, perhaps with : and the path of a cookie file",
            "Ask the node whose RPC server listens at this port of 127.0.0.1 whether the inputs are \
             unspent, before the key file is opened; COOKIE is its cookie file, by default .cookie in \
             the network's part of the data directory. Coins that it does not have are warned of, and \
             nothing is signed whose amount or script differs there. What the PSBT does not prove \
             stays unproven (default: no node is asked).",
            |draft, text| {
                draft.psbt.node = Some(node(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        commands: Commands::Only(&[
            CommandName::PsbtSign,
            CommandName::MessageSign,
            CommandName::KeysWatch,
            CommandName::KeysRemove,
        ]),
        ..setting(
            "yes",
            "WHAT",
            "a token or an ID",
            "Do it without a question: sign, if this is the token that psbt inspect -keys prints of the \
             PSBT; message sign, if it is the one that message inspect prints; keys watch, if it is the one that is shown with what is to be watched; keys remove, if this is the ID of what is shown (default: ask at the terminal).",
            |draft, text| {
                draft.yes = Some(text.to_str()?.to_owned());
                Some(())
            },
        )
    },
];

fn node(text: &OsStr) -> Option<NodeOptions> {
    let text = text.to_str()?;
    let (port, cookie) = match text.split_once(':') {
        Some((port, cookie)) => (port, Some(values::path(OsStr::new(cookie))?)),
        None => (text, None),
    };
    let port = values::number(OsStr::new(port)).filter(|port| *port > 0)?;
    Some(NodeOptions { port, cookie })
}

const fn setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Signer> {
    line_option(PSBT, name, placeholder, expected, help, set)
}

const fn flag(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Signer> {
    let every = setting(name, "", "", help, set);
    OptionSpec { form: Form::Flag, commands: Commands::Only(&[CommandName::PsbtSign]), ..every }
}

const fn named_output(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Signer> {
    let every = setting(name, "ADDRESS", "the address of an output", help, set);
    OptionSpec { commands: Commands::Only(&[CommandName::PsbtSign]), ..every }
}
