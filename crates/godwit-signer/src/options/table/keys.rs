//! Commands and options that concern private keys, for the tables.

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use godwit_keys::psbt::Branch;
use godwit_keys::{KdfParameters, MAX_LABEL, is_label};
use godwit_program::options::{CommandSpec, Commands, FilePlace, Form, OptionSpec, values};

use super::{CommandName, KEYS, Signer, line_option, setting};
use crate::options::draft::Draft;
use crate::options::keys::{Bip39Passphrase, Descriptor};

pub(super) const KEYS_COMMANDS: &[CommandSpec<Signer>] = &[
    CommandSpec {
        command: CommandName::KeysCreate,
        words: "keys create",
        operands: "",
        count: 0..=0,
        help: "Make a new mnemonic (BIP39), keep it and its keys in the encrypted key file, and print \
               the public descriptors of its first accounts as JSON. The first key makes the file.",
    },
    CommandSpec {
        command: CommandName::KeysImport,
        words: "keys import",
        operands: "",
        count: 0..=0,
        help: "Put a mnemonic, an xprv or tprv (with its origin in front, as [d34db33f/84h/0h/0h]xprv..., \
               or without), a WIF or a descriptor with private keys into the key file. It is asked for at the terminal without echo, or read with -secret-fd.",
    },
    CommandSpec {
        command: CommandName::KeysImportCoreWallet,
        words: "keys import-core-wallet",
        operands: " WALLET.dat",
        count: 1..=1,
        help: "Put the private keys of a descriptor wallet of Bitcoin Core into the key file, with its \
               public descriptors. No other program may have the wallet open.",
    },
    CommandSpec {
        command: CommandName::KeysWatch,
        words: "keys watch",
        operands: " FILE",
        count: 1..=1,
        help: "Show public descriptors, ask, and put them into the key file, as those of a multisig with \
               cosigners' keys: FILE has them one a line, or the template of a wallet policy (BIP388) and \
               its keys, one a line. What comes back to those with a key of yours is change.",
    },
    CommandSpec {
        command: CommandName::KeysList,
        words: "keys list",
        operands: "",
        count: 0..=0,
        help: "Print the entries of the key file with their public descriptors as JSON.",
    },
    CommandSpec {
        command: CommandName::KeysDescriptors,
        words: "keys descriptors",
        operands: "",
        count: 0..=0,
        help: "Print the public descriptors of all entries of the network as an array that \
               importdescriptors of Bitcoin Core takes, to watch them.",
    },
    CommandSpec {
        command: CommandName::KeysXpub,
        words: "keys xpub",
        operands: " ID",
        count: 1..=1,
        help: "Print the public keys of accounts of an entry as JSON, with their origins in front, for \
             cosigners and for watch-only wallets: of each purpose (BIP44, 49, 84, 86) with its \
             descriptor, and for multisig (BIP48).",
    },
    CommandSpec {
        command: CommandName::KeysAddresses,
        words: "keys addresses",
        operands: " ID",
        count: 1..=1,
        help: "Print the addresses of an entry as JSON, by descriptor and index, to compare them with \
               those that another wallet shows.",
    },
    CommandSpec {
        command: CommandName::KeysExport,
        words: "keys export",
        operands: " ID",
        count: 1..=1,
        help: "Write the secrets of an entry to standard output in the clear: its mnemonic, else its \
               private keys, one a line.",
    },
    CommandSpec {
        command: CommandName::KeysChangePassphrase,
        words: "keys change-passphrase",
        operands: "",
        count: 0..=0,
        help: "Encrypt the key file with another passphrase. Copies of the old file keep the old one.",
    },
    CommandSpec {
        command: CommandName::KeysRemove,
        words: "keys remove",
        operands: " ID",
        count: 1..=1,
        help: "Show an entry, ask, and remove it and its keys from the key file. What it was is printed, \
               without secrets.",
    },
];

/// Commands that open the key file.
const WITH_KEY_FILE: Commands<Signer> = Commands::Only(&[
    CommandName::KeysCreate,
    CommandName::KeysImport,
    CommandName::KeysImportCoreWallet,
    CommandName::KeysWatch,
    CommandName::KeysList,
    CommandName::KeysDescriptors,
    CommandName::KeysXpub,
    CommandName::KeysAddresses,
    CommandName::KeysExport,
    CommandName::KeysChangePassphrase,
    CommandName::KeysRemove,
    CommandName::ResidueCheck,
    CommandName::PsbtInspect,
    CommandName::PsbtSign,
    CommandName::MessageInspect,
    CommandName::MessageSign,
    CommandName::MessagePsbt,
]);
const NEW_ENTRY: Commands<Signer> = Commands::Only(&[
    CommandName::KeysCreate,
    CommandName::KeysImport,
    CommandName::KeysImportCoreWallet,
    CommandName::KeysWatch,
]);

/// Commands that write the key file.
const CHANGING: Commands<Signer> = Commands::Only(&[
    CommandName::KeysCreate,
    CommandName::KeysImport,
    CommandName::KeysImportCoreWallet,
    CommandName::KeysWatch,
    CommandName::KeysChangePassphrase,
    CommandName::KeysRemove,
]);

const NEW_PASSPHRASE: Commands<Signer> = Commands::Only(&[
    CommandName::KeysCreate,
    CommandName::KeysImport,
    CommandName::KeysImportCoreWallet,
    CommandName::KeysWatch,
    CommandName::KeysChangePassphrase,
]);

/// Last index that is not hardened, and last number of a step.
const MAX_INDEX: u32 = (1 << 31) - 1;
/// Most indexes of which addresses are listed at once.
const MAX_ADDRESSES: u32 = 10_000;

const LABEL: &str = "at most 100 characters, none of them a control character";
const _: () = assert!(MAX_LABEL == 100);

const FD: Form =
    Form::Value { placeholder: "N", expected: "the number of an open file descriptor", off: None };

pub(super) const KEYS_OPTIONS: &[OptionSpec<Signer>] = &[
    OptionSpec {
        form: Form::Flag,
        commands: WITH_KEY_FILE,
        // In the file it is the node's, whose keys are of no worth to anybody the next day.
        file: FilePlace::OtherProgram,
        ..setting(
            "allowunlockedsecrets",
            "",
            "",
            "If the system refuses to lock memory, or to turn core dumps and tracing off, keep keys in \
             memory that may reach a swap file, instead of not opening the key file. Only on the \
             command line: in the file it is the node's (default: 0).",
            |draft, text| values::flag(text).map(|on| draft.allow_unlocked_secrets = Some(on)),
        )
    },
    OptionSpec {
        commands: WITH_KEY_FILE,
        group: KEYS,
        ..setting(
            "keys",
            "FILE",
            "the path of a file",
            "The key file (default: keys.godwit in the network's directory).",
            |draft, text| {
                draft.keys.file = Some(values::path(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: FD,
        commands: WITH_KEY_FILE,
        ..keys_option(
            "passphrase-fd",
            "Read the passphrase of the key file from this file descriptor, up to the end of the line \
             (default: ask at the terminal).",
            |draft, text| {
                draft.keys.passphrase = Some(descriptor(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: FD,
        commands: Commands::Only(&[CommandName::KeysChangePassphrase]),
        ..keys_option(
            "newpassphrase-fd",
            "keys change-passphrase: read the new passphrase from this file descriptor; with the number \
             of -passphrase-fd, from its next line.",
            |draft, text| {
                draft.keys.new_passphrase = Some(descriptor(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value { placeholder: "TEXT", expected: LABEL, off: None },
        commands: NEW_ENTRY,
        ..keys_option("label", "What to call the entry.", |draft, text| {
            draft.keys.label = text.to_str().filter(|label| is_label(label))?.to_owned();
            Some(())
        })
    },
    OptionSpec {
        form: Form::Value { placeholder: "N", expected: "12, 15, 18, 21 or 24", off: None },
        commands: Commands::Only(&[CommandName::KeysCreate]),
        ..keys_option(
            "words",
            "keys create: the length of the mnemonic, 12, 15, 18, 21 or 24 (default: 24).",
            |draft, text| {
                let words = values::number::<NonZeroUsize>(text)?;
                draft.keys.words =
                    matches!(words.get(), 12 | 15 | 18 | 21 | 24).then_some(Some(words))?;
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value { placeholder: "MIB", expected: "64 to 256 (MiB)", off: None },
        commands: NEW_PASSPHRASE,
        ..keys_option(
            "kdfmemory",
            "Memory that it takes to try a passphrase, in MiB, for a new key file and for keys \
             change-passphrase: 64 to 256 (default: 64, or what the file has if that is more).",
            |draft, text| {
                let limits = KdfParameters::FLOOR_MEMORY_MIB..=KdfParameters::MAX_MEMORY_MIB;
                let memory = values::number(text).filter(|memory| limits.contains(memory))?;
                draft.keys.kdf_memory = Some(memory);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value { placeholder: "N", expected: "3 to 16", off: None },
        commands: NEW_PASSPHRASE,
        ..keys_option(
            "kdfpasses",
            "How many passes are made over that memory: 3 to 16 (default: 3, or what the file has if \
             that is more).",
            |draft, text| {
                let limits = KdfParameters::FLOOR_PASSES..=KdfParameters::MAX_PASSES;
                let passes = values::number(text).filter(|passes| limits.contains(passes))?;
                draft.keys.kdf_passes = Some(passes);
                Some(())
            },
        )
    },
    OptionSpec {
        form: FD,
        commands: Commands::Only(&[CommandName::KeysCreate]),
        ..keys_option(
            "mnemonic-fd",
            "keys create: write the mnemonic to this file descriptor, once; 1 is standard output, 2 \
             standard error (default: show it at the terminal and ask for it again).",
            |draft, text| {
                draft.keys.show = Some(descriptor(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        commands: Commands::Only(&[CommandName::KeysCreate]),
        ..keys_option(
            "unseenwords",
            "keys create: keep the mnemonic in the key file without showing it; whoever loses the file \
             then loses the coins. keys export shows it later (default: 0).",
            |draft, text| {
                draft.keys.unseen_words = Some(values::flag(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        commands: CHANGING,
        ..keys_option(
            "oldercopy",
            "Change the key file although a later version of it was here, which may have had more keys \
             or another passphrase, and forget that version; also if the record of versions cannot be \
             read, so that it is not known whether there was one (default: 0).",
            |draft, text| {
                draft.keys.older_copy = Some(values::flag(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value { placeholder: "N", expected: "0 to 2147483647", off: None },
        commands: Commands::Only(&[CommandName::KeysXpub]),
        ..keys_option(
            "account",
            "keys xpub: the number of the account below a root (default: 0).",
            |draft, text| {
                draft.keys.account = Some(values::number(text).filter(|n| *n <= MAX_INDEX)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value { placeholder: "BRANCH", expected: "receive or change", off: None },
        commands: Commands::Only(&[CommandName::KeysAddresses]),
        ..keys_option(
            "branch",
            "keys addresses: only those to receive, or only those of change (default: all).",
            |draft, text| {
                draft.keys.branch = Some(match text.to_str()? {
                    "receive" => Branch::Receive,
                    "change" => Branch::Change,
                    _ => return None,
                });
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value {
            placeholder: "FROM-TO",
            expected: "two indexes below 2147483648 with - between them, of at most 10000 addresses",
            off: None,
        },
        commands: Commands::Only(&[CommandName::KeysAddresses]),
        ..keys_option(
            "range",
            "keys addresses: the first and the last index, of at most 10000 (default: 0-19).",
            |draft, text| {
                draft.keys.range = Some(range(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: FD,
        commands: Commands::Only(&[CommandName::KeysImport]),
        ..keys_option(
            "secret-fd",
            "keys import: read the secret from this file descriptor, up to the end of the line; with \
             the number of -passphrase-fd, from the line after that.",
            |draft, text| {
                draft.keys.secret = Some(descriptor(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: FD,
        commands: Commands::Only(&[CommandName::KeysImportCoreWallet, CommandName::ResidueCheck]),
        ..keys_option(
            "walletpassphrase-fd",
            "keys import-core-wallet and residue-check: read the passphrase of the wallet, if it has \
             one, from this file descriptor; with the number of -passphrase-fd, from the line after \
             that.",
            |draft, text| {
                draft.keys.wallet_passphrase = Some(descriptor(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Flag,
        commands: Commands::Only(&[CommandName::KeysImport]),
        ..keys_option(
            "bip39passphrase",
            "keys import: ask for the passphrase that belongs to the mnemonic (default: 0, it has \
             none).",
            |draft, text| {
                let asked = values::flag(text)?;
                draft.keys.bip39_passphrase =
                    if asked { Bip39Passphrase::Terminal } else { Bip39Passphrase::None };
                Some(())
            },
        )
    },
    OptionSpec {
        form: FD,
        commands: Commands::Only(&[CommandName::KeysImport]),
        ..keys_option(
            "bip39passphrase-fd",
            "keys import: read that passphrase from this file descriptor.",
            |draft, text| {
                draft.keys.bip39_passphrase = Bip39Passphrase::Descriptor(descriptor(text)?);
                Some(())
            },
        )
    },
];

/// An option of `keys` on the command line.
const fn keys_option(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Signer> {
    line_option(KEYS, name, "", "", help, set)
}

/// `FROM-TO`.
fn range(text: &OsStr) -> Option<RangeInclusive<u32>> {
    let (from, to) = text.to_str()?.split_once('-')?;
    let [from, to] = [from, to].map(|end| values::number::<u32>(OsStr::new(end)));
    let (from, to) = (from?, to?);
    let count = to.checked_sub(from)?;
    (to <= MAX_INDEX && count < MAX_ADDRESSES).then_some(from..=to)
}

/// The number of a file descriptor.
fn descriptor(text: &OsStr) -> Option<Descriptor> {
    values::number(text).map(Descriptor)
}
