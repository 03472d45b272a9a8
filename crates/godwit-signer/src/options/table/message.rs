//! The commands and options of `message`.

use godwit_keys::message::MessageFormat;
use godwit_program::options::{CommandSpec, Commands, Form, OptionSpec};

use super::{CommandName, MESSAGE, Signer, line_option};

pub(super) const MESSAGE_COMMANDS: &[CommandSpec<Signer>] = &[
    CommandSpec {
        command: CommandName::MessageInspect,
        words: "message inspect",
        operands: " ADDRESS FILE",
        count: 2..=2,
        help: "Show the message in FILE, what makes ADDRESS ours, and the token that message sign \
             takes. The message is FILE to its last byte, a line feed at its end included; - is \
             standard input.",
    },
    CommandSpec {
        command: CommandName::MessageSign,
        words: "message sign",
        operands: " ADDRESS FILE",
        count: 2..=2,
        help: "Show the message in FILE at the terminal, ask there, sign it with the key of ADDRESS and print \
               the signature: as Core's signmessage for addresses that begin with 1, m or n, else by BIP322.",
    },
    CommandSpec {
        command: CommandName::MessagePsbt,
        words: "message psbt",
        operands: " ADDRESS FILE",
        count: 2..=2,
        help: "Make a PSBT (BIP322) of the message in FILE by ADDRESS, for an address that needs the \
             keys of several signers: each signs it with psbt sign, which shows the message; psbt \
             combine and psbt finalize do the rest, and psbt extract prints the signature.",
    },
    CommandSpec {
        command: CommandName::MessageVerify,
        words: "message verify",
        operands: " ADDRESS SIGNATURE FILE",
        count: 3..=3,
        help: "Check whether SIGNATURE is one of the message in FILE by ADDRESS, in any of these \
             forms; scripts are verified in Bitcoin Core's engine. If it is valid only at a time, that \
             is printed, and the exit code is 1; if it is invalid or inconclusive, 2.",
    },
];

pub(super) const MESSAGE_OPTIONS: &[OptionSpec<Signer>] = &[OptionSpec {
    form: Form::Value { placeholder: "FORMAT", expected: "legacy, simple or full", off: None },
    commands: Commands::Only(&[CommandName::MessageInspect, CommandName::MessageSign]),
    ..line_option(
        MESSAGE,
        "format",
        "",
        "",
        "legacy: as Core's signmessage; simple and full: BIP322 (default: what is usual for the \
         address).",
        |draft, text| {
            draft.format = Some(match text.to_str()? {
                "legacy" => MessageFormat::Legacy,
                "simple" => MessageFormat::Simple,
                "full" => MessageFormat::Full,
                _ => return None,
            });
            Some(())
        },
    )
}];
