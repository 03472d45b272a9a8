//! The table of the options of `hand-over`, and of those that permit what may follow it.

use godwit_program::options::{Commands, FilePlace, Form, OptionSpec, values as plain};

use super::{CommandName, Godwit, HAND_OVER, setting};

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec<Godwit>] = &[
    OptionSpec {
        file: FilePlace::Nowhere,
        commands: Commands::Only(&[CommandName::HandOver]),
        group: HAND_OVER,
        ..setting(
            "to",
            "DIR",
            "the path of a directory",
            "Make Bitcoin Core's data directory here, on the file system of -datadir. Its part of the network, such as \
             DIR/signet, has to be new or empty.",
            |draft, text| {
                draft.files.hand_over_to = Some(plain::path(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        group: HAND_OVER,
        ..setting(
            "handedover",
            "",
            "",
            "Use the data directory although Bitcoin Core has files of it (default: 0). Safe unless bitcoind ran \
             with -reindex there, which writes other undo records into shared files.",
            |draft, text| {
                draft.files.handed_over = plain::flag(text)?;
                Some(())
            },
        )
    },
];
