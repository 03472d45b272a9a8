//! The tables and the texts that are made of them.

use std::path::Path;

use godwit_program::Manual;
use godwit_program::options::{FilePlace, Form, OptionSpec, Program};

use super::super::table::Godwit;
use super::*;

fn options() -> impl Iterator<Item = &'static OptionSpec<Godwit>> {
    Godwit::OPTIONS.iter().copied().flatten()
}

/// What the table says about each option, held against what happens.
#[test]
fn the_table_is_obeyed() {
    for spec in options() {
        // Most refuse a value that is empty, but no sooner than its place.
        let told = |text: String| {
            let parsed = Home::with_config(&text).parse(&["utxo", "stats"]);
            parsed.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let in_section = told(format!("[main]\n{}=\n", spec.name));
        let at_top = told(format!("{}=\n", spec.name));
        let refused = |message: &str| {
            message.contains("command line only") || message.contains("before the network")
        };
        assert_eq!(refused(&at_top), spec.file == FilePlace::Nowhere, "{at_top}");
        let is_for_sections = matches!(spec.file, FilePlace::PerNetwork | FilePlace::Anywhere);
        assert_eq!(refused(&in_section), !is_for_sections, "{in_section}");

        let negated = error(&["utxo", "stats", &format!("-no{}=x", spec.name)]);
        let expected = match spec.form {
            Form::Flag | Form::Switch { .. } => "=x: expected 0 or 1",
            Form::Value { off: None, .. } if !spec.repeats => "cannot be switched off",
            Form::Value { .. } => "=x: expected 1, or -",
        };
        assert!(negated.contains(expected), "{negated}");
        if let Form::Value { .. } = spec.form {
            let bare = error(&["utxo", "stats", &format!("-{}", spec.name)]);
            assert!(bare.contains("needs a value"), "{bare}");
        }
        assert!(spec.aliases.iter().chain([&spec.name]).all(|name| {
            options().filter(|other| other.name == *name || other.aliases.contains(name)).count()
                == 1
        }));
    }
}

#[test]
fn help_names_everything_once() {
    let Ok(Invocation::Print(help)) = Home::new().parse(&["-help"]) else { panic!("no help") };
    for option in options() {
        let heading = |line: &&str| {
            let name = line.strip_prefix("  -").unwrap_or_default();
            name.split(['=', '[', ',']).next() == Some(option.name)
        };
        assert_eq!(help.lines().filter(heading).count(), 1, "{}", option.name);
    }
    for command in Godwit::COMMANDS.iter().copied().flatten() {
        assert!(help.contains(&format!("\n  godwit {} [options]", command.words)));
    }
    assert!(help.contains("\n  godwit [options]\n"));
}

#[test]
fn commands_of_the_signer_are_told_where_to_go() {
    for arguments in [
        &["keys"][..],
        &["keys", "create", "-label=x"],
        &["-passphrase-fd=0", "keys", "list"],
        &["psbt", "sign", "f"],
    ] {
        let word = arguments.iter().find(|word| !word.starts_with('-')).expect("a command");
        let expected =
            format!("'{word}' is a command of godwit-signer; run that instead of godwit");
        assert_eq!(error(arguments), expected);
    }
    let home = Home::with_config("keys=/k\n[regtest]\nkeys=/r\n");
    assert_eq!(home.config(&["utxo", "stats"]).command, Command::UtxoStats);
    assert_eq!(error(&["utxo", "stats", "-keys=x"]), "unknown option -keys; see -help");
}

/// With `GODWIT_WRITE_CONTRIB` it writes them: `cargo xtask contrib`.
#[test]
fn the_files_of_contrib_are_those_of_the_table() {
    let manual = Manual::of::<Godwit>("a fully validating Bitcoin node");
    let mut files = manual.files();
    files.push(("godwit.conf".to_owned(), manual.config_file()));
    for (name, text) in files {
        let path = Path::new("../../contrib").join(&name);
        if std::env::var_os("GODWIT_WRITE_CONTRIB").is_some() {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
            std::fs::write(&path, &text).expect("it is written");
        }
        let current = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(current == text, "{name} is old: cargo xtask contrib");
    }
}
