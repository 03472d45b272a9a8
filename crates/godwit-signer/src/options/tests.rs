use std::fs;

use godwit_keys::KdfParameters;
use godwit_keys::message::MessageFormat;
use godwit_keys::psbt::Branch;
use godwit_program::options::{CONFIG_FILE, DEFAULT_DATADIR, FilePlace, Form, OptionSpec, Program};
use tempfile::TempDir;

use super::*;

/// With this configuration file, if it is not empty.
fn parsed(config: &str, arguments: &[&str]) -> Result<Invocation, OptionsError> {
    let home = TempDir::new().expect("a temporary directory");
    if !config.is_empty() {
        let datadir = home.path().join(DEFAULT_DATADIR);
        fs::create_dir(&datadir).expect("a directory");
        fs::write(datadir.join(CONFIG_FILE), config).expect("a file");
    }
    parse(arguments.iter().map(OsString::from), Some(home.path()))
}

fn config_with(file: &str, arguments: &[&str]) -> Config {
    match parsed(file, arguments) {
        Ok(Invocation::Run(config)) => *config,
        other => panic!("{arguments:?}: {other:?}"),
    }
}

fn config(arguments: &[&str]) -> Config {
    config_with("", arguments)
}

fn error(arguments: &[&str]) -> String {
    parsed("", arguments).expect_err("an error").to_string()
}

fn options() -> impl Iterator<Item = &'static OptionSpec<Signer>> {
    Signer::OPTIONS.iter().copied().flatten()
}

fn keys(arguments: &[&str]) -> KeysOptions {
    match config(&[&["keys"], arguments].concat()).command {
        Command::Keys(options) => options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_is_a_port_and_perhaps_a_cookie() {
    let word = |value: &str| format!("-node={value}");
    let node = |value: &str| match config(&["psbt", "inspect", "f", &word(value)]).command {
        Command::Psbt(options) => options.node,
        other => panic!("{other:?}"),
    };
    let of =
        |port, cookie: Option<&str>| Some(NodeOptions { port, cookie: cookie.map(PathBuf::from) });
    assert_eq!(node("1"), of(1, None));
    assert_eq!(node("65535:/a:b"), of(65_535, Some("/a:b")));
    for wrong in ["0", "65536", "x", "127.0.0.1", "1:"] {
        let said = error(&["psbt", "sign", "f", &word(wrong)]);
        assert!(
            said.contains("node") && said.contains("a port from 1 to 65535"),
            "{wrong}: {said}"
        );
    }
}

#[test]
fn commands_of_keys() {
    let id = |text: &str| text.parse().expect("eight digits");
    let words = |count| NonZeroUsize::new(count).expect("not zero");
    let fd = |number| Some(Descriptor(number));
    let create = |label: &str, count, show| KeysAction::Create {
        label: label.to_owned(),
        words: words(count),
        show,
    };
    assert_eq!(keys(&["create"]).action, create("", 24, NewWords::Terminal));
    assert_eq!(keys(&["create", "-unseenwords"]).action, create("", 24, NewWords::Unseen));
    assert_eq!(
        keys(&["create", "-label=a b", "-words=12", "-mnemonic-fd=2"]).action,
        create("a b", 12, NewWords::Descriptor(Descriptor(2)))
    );
    let import = |secret, bip39_passphrase| KeysAction::Import {
        label: String::new(),
        secret,
        bip39_passphrase,
    };
    assert_eq!(keys(&["import"]).action, import(None, Bip39Passphrase::None));
    assert_eq!(
        keys(&["import", "-secret-fd=0", "-bip39passphrase"]).action,
        import(fd(0), Bip39Passphrase::Terminal)
    );
    assert_eq!(
        keys(&["import", "-bip39passphrase-fd=9"]).action,
        import(None, Bip39Passphrase::Descriptor(Descriptor(9)))
    );
    let import = |passphrase| KeysAction::ImportCoreWallet {
        label: "x".to_owned(),
        wallet: PathBuf::from("a/wallet.dat"),
        passphrase,
    };
    let wallet = ["import-core-wallet", "a/wallet.dat", "-label=x"];
    assert_eq!(keys(&wallet).action, import(None));
    let passphrase = keys(&[&wallet[..], &["-walletpassphrase-fd=5"]].concat());
    assert_eq!(passphrase.action, import(fd(5)));
    assert_eq!(keys(&["export", "0000000A"]).action, KeysAction::Export(id("0000000a")));
    assert_eq!(keys(&["remove", "12345678"]).action, KeysAction::Remove(id("12345678")));
    let change = keys(&["change-passphrase", "-passphrase-fd=3", "-newpassphrase-fd=4"]);
    assert_eq!(change.action, KeysAction::ChangePassphrase { new: fd(4) });
    assert_eq!(change.file.passphrase, fd(3));
}

#[test]
fn accounts_and_addresses_have_ranges() {
    let id = "12345678".parse().expect("eight digits");
    let xpub = |arguments: &[&str]| keys(&[&["xpub", "12345678"], arguments].concat()).action;
    assert_eq!(xpub(&[]), KeysAction::Xpub { id, account: 0 });
    let last = KeysAction::Xpub { id, account: 2_147_483_647 };
    assert_eq!(xpub(&["-account=2147483647"]), last);
    assert!(error(&["keys", "xpub", "12345678", "-account=2147483648"]).contains("expected 0 to"));
    let list = |arguments: &[&str]| keys(&[&["addresses", "12345678"], arguments].concat()).action;
    let expected = |branch, indexes| KeysAction::Addresses { id, branch, indexes };
    assert_eq!(list(&[]), expected(None, 0..=19));
    let change = list(&["-branch=change", "-range=5-10004"]);
    assert_eq!(change, expected(Some(Branch::Change), 5..=10_004));
    let end = list(&["-branch=receive", "-range=2147483647-2147483647"]);
    assert_eq!(end, expected(Some(Branch::Receive), 2_147_483_647..=2_147_483_647));
    for wrong in ["5-4", "5", "-", "0-10000", "0-2147483648", "2147483648-2147483648", "a-b"] {
        let refused = error(&["keys", "addresses", "12345678", &format!("-range={wrong}")]);
        assert!(refused.contains("expected two indexes"), "{wrong}: {refused}");
    }
    assert!(error(&["keys", "addresses", "12345678", "-branch=all"]).contains("expected receive"));
}

#[test]
fn messages_have_an_address_and_a_file() {
    let message = |arguments: &[&str]| match config(&[&["message"], arguments].concat()).command {
        Command::Message(options) => options,
        other => panic!("{other:?}"),
    };
    let sign = message(&["sign", "a", "f", "-format=full", "-yes=t", "-keys=k"]);
    assert_eq!((sign.action, sign.address.as_str()), (MessageAction::Sign, "a"));
    assert_eq!((sign.file, sign.format), (PathBuf::from("f"), Some(MessageFormat::Full)));
    assert_eq!((sign.yes.as_deref(), sign.key_file.file), (Some("t"), Some(PathBuf::from("k"))));
    let verify = message(&["verify", "a", "s", "-"]);
    assert_eq!(verify.action, MessageAction::Verify { signature: "s".to_owned() });
    assert_eq!((verify.address.as_str(), verify.file), ("a", PathBuf::from("-")));
    assert_eq!(message(&["inspect", "a", "f"]).action, MessageAction::Inspect);
    assert!(error(&["message", "sign", "a", "f", "-format=other"]).contains("expected legacy"));
    assert!(error(&["message", "verify", "a", "s", "f", "-keys=k"]).contains("not an option of"));
}

#[test]
fn a_new_passphrase_has_a_price_with_a_floor() {
    let cost = |arguments: &[&str]| {
        let cost = keys(&[&["create"], arguments].concat()).cost;
        assert_eq!(cost.is_given(), !arguments.is_empty());
        cost.of(KdfParameters::RECOMMENDED)
    };
    assert_eq!(cost(&[]), KdfParameters::RECOMMENDED);
    let dear = KdfParameters::new(256 << 10, 16, 4);
    assert_eq!(Some(cost(&["-kdfmemory=256", "-kdfpasses=16"])), dear);
    for option in
        ["-kdfmemory=63", "-kdfmemory=257", "-kdfpasses=2", "-kdfpasses=17", "-kdfpasses=x"]
    {
        let refused = error(&["keys", "create", option]);
        assert!(refused.contains("expected "), "{refused}");
    }
    assert!(error(&["keys", "list", "-kdfpasses=3"]).contains("not an option of keys list"));
    assert_eq!(keys(&["remove", "12345678", "-yes=12345678"]).yes.as_deref(), Some("12345678"));
}

#[test]
fn the_search_for_residue_takes_what_the_user_has() {
    let check = |arguments: &[&str]| match config(arguments).command {
        Command::ResidueCheck(options) => options,
        other => panic!("{other:?}"),
    };
    let expected = |file: Option<&str>, wallet: Option<&str>, wallet_passphrase| {
        let file = KeyFileOptions {
            file: file.map(PathBuf::from),
            passphrase: None,
            allow_unlocked_secrets: false,
            older_copy: false,
        };
        ResidueCheckOptions { file, wallet: wallet.map(PathBuf::from), wallet_passphrase }
    };
    assert_eq!(check(&["residue-check"]), expected(None, None, None));
    assert_eq!(check(&["residue-check", "-keys=k"]), expected(Some("k"), None, None));
    let wallet = check(&["residue-check", "w.dat", "-walletpassphrase-fd=0"]);
    assert_eq!(wallet, expected(None, Some("w.dat"), Some(Descriptor(0))));
    assert_eq!(
        error(&["keys", "residue-check"]),
        "unknown command 'keys residue-check'; did you mean residue-check?"
    );
}

#[test]
fn key_files() {
    let options = keys(&["list", "-keys=/k", "-allowunlockedsecrets"]);
    assert_eq!(options.file.file, Some(PathBuf::from("/k")));
    assert!(options.file.allow_unlocked_secrets);
    let of = |arguments: &[&str]| {
        let config = config(&[&["keys", "list", "-datadir=/d"], arguments].concat());
        let Command::Keys(options) = &config.command else { panic!("{config:?}") };
        config.key_file(&options.file)
    };
    assert_eq!(of(&[]), PathBuf::from("/d/keys.godwit"));
    assert_eq!(of(&["-signet"]), PathBuf::from("/d/signet/keys.godwit"));
    assert_eq!(of(&["-signet", "-keys=k"]), PathBuf::from("k"));
}

#[test]
fn errors_of_keys_repeat_no_secret() {
    for (arguments, message) in [
        (
            &["keys", "export", "secret"][..],
            "ID: eight hexadecimal digits, as keys list shows them",
        ),
        (
            &["keys", "import", "secret"],
            "usage: godwit-signer keys import [options] (operands given: 1)",
        ),
        (&["keys", "create", "-words=13"], "-words=13: expected 12, 15, 18, 21 or 24"),
        (&["keys", "list", "-label=x"], "-label is not an option of keys list; -help lists them"),
        (&["keys", "lst"], "unknown command 'keys lst'; did you mean keys list?"),
        (
            &["psbt", "combine", "f", "f", "-keys=x"],
            "-keys is not an option of psbt combine; -help lists them",
        ),
    ] {
        assert_eq!(error(arguments), message);
    }
    let refused = error(&["keys", "list", "-passphrase-fd=70000"]);
    assert!(refused.ends_with("expected the number of an open file descriptor"), "{refused}");
}

#[test]
fn commands_of_the_node_are_told_where_to_go() {
    for arguments in
        [&["import", "blocks"][..], &["utxo", "stats"], &["utxo", "load", "-utxohash=0"]]
    {
        let expected =
            format!("'{}' is a command of godwit; run that instead of godwit-signer", arguments[0]);
        assert_eq!(error(arguments), expected);
    }
    assert_eq!(error(&[]), "no command given; see -help");
}

/// Who set it to get encrypted connections has not said that his coins' keys may be swapped out.
#[test]
fn unlocked_secrets_of_the_node_are_none_of_the_signer() {
    let allowed = |file: &str, arguments: &[&str]| {
        let config = config_with(file, &[&["keys", "list"], arguments].concat());
        let Command::Keys(options) = config.command else { panic!("{arguments:?}") };
        options.file.allow_unlocked_secrets
    };
    for (file, arguments, expected) in [
        ("", &[][..], false),
        ("allowunlockedsecrets=1\n", &[], false),
        ("[regtest]\nallowunlockedsecrets=1\n", &["-regtest"], false),
        ("allowunlockedsecrets=0\n", &["-allowunlockedsecrets"], true),
    ] {
        assert_eq!(allowed(file, arguments), expected, "{file} {arguments:?}");
    }
}

/// The file is the node's too. What the node has there is not taken for a typing error.
#[test]
fn settings_of_the_node_are_skipped() {
    let settings = "dbcache=5\npar=1\nassumevalid=0\nnoassumevalid=1\nstopatheight=9\nprune=550\n\
                    minimumchainwork=1\nnetworkactive=1\nlisten=0\nbind=::1\nport=5\n\
                    maxconnections=5\nconnect=a\naddnode=b\nseednode=c\ndnsseed=0\nproxy=0\n\
                    onion=0\nv2transport=0\nmaxuploadtarget=5\nmaxdownloadrate=5\n\
                    [signet]\nsignetchallenge=51\n[regtest]\ntest=bip94\n\
                    testactivationheight=csv@5\nkeys=/k\n";
    let of_file = |arguments: &[&str]| {
        let config = config_with(settings, arguments);
        let Command::Keys(options) = &config.command else { panic!("{config:?}") };
        config.key_file(&options.file)
    };
    assert!(of_file(&["keys", "list"]).ends_with(".godwit/keys.godwit"));
    assert_eq!(of_file(&["keys", "list", "-regtest"]), PathBuf::from("/k"));
    let typing = parsed("kyes=/k\n", &["keys", "list"]).expect_err("an error").to_string();
    assert!(typing.ends_with("1: unknown option kyes; did you mean keys?"), "{typing}");
    let secret = parsed("passphrase-fd=3\n", &["keys", "list"]).expect_err("an error").to_string();
    assert!(secret.ends_with("1: passphrase-fd is for the command line only"), "{secret}");
}

#[test]
fn help_names_everything_once() {
    let Ok(Invocation::Print(help)) = parsed("", &["-help"]) else { panic!("no help") };
    assert!(help.starts_with("godwit-signer v"));
    for option in options() {
        let heading = |line: &&str| {
            let name = line.strip_prefix("  -").unwrap_or_default();
            name.split(['=', ',']).next() == Some(option.name)
        };
        assert_eq!(help.lines().filter(heading).count(), 1, "{}", option.name);
    }
    for command in Signer::COMMANDS.iter().copied().flatten() {
        assert!(help.contains(&format!("\n  godwit-signer {} [options]", command.words)));
    }
}

#[test]
fn sections_that_name_no_network_are_passed_over_unless_keys_would_go_elsewhere() {
    for (heading, meant) in [("tset", "test"), ("testnet3", "test"), ("testnet", "test")] {
        let config = config_with(&format!("[{heading}]\nprune=1\n"), &["keys", "list"]);
        let said = format!(":1: [{heading}] is no network (did you mean {meant}?): passed over");
        assert!(config.passed_over[0].ends_with(&said), "{:?}", config.passed_over);
        assert_eq!(config.passed_over.len(), 1);
    }
    for (file, option) in [
        ("[tset]\nkeys=/k\n", "keys"),
        ("tset.keys=/k\n", "keys"),
        ("[Main]\nchain=test\n", "chain"),
        ("[Main]\ndatadir=/d\n", "datadir"),
    ] {
        let error = parsed(file, &["keys", "list"]).map(drop).expect_err("it counts for nothing");
        let said = format!("{option} is in no network's section");
        assert!(error.to_string().ends_with(&said), "{error}");
    }
}

/// What the table says about each option, held against what happens.
#[test]
fn the_table_is_obeyed() {
    for spec in options() {
        let in_file = parsed(&format!("{}=\n", spec.name), &["keys", "list"]);
        let message = in_file.err().map(|error| error.to_string()).unwrap_or_default();
        let refused = message.contains("command line only");
        assert_eq!(refused, spec.file == FilePlace::Nowhere, "{message}");
        let negated = error(&["keys", "list", &format!("-no{}=x", spec.name)]);
        let expected = match spec.form {
            Form::Flag | Form::Switch { .. } => "=x: expected 0 or 1",
            Form::Value { off: None, .. } if !spec.repeats => "cannot be switched off",
            Form::Value { .. } => "=x: expected 1, or -",
        };
        assert!(negated.contains(expected), "{negated}");
        if let Form::Value { .. } = spec.form {
            let bare = error(&["keys", "list", &format!("-{}", spec.name)]);
            assert!(bare.contains("needs a value"), "{bare}");
        }
    }
}
