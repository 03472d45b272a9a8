//! Commands that hold private keys.

use super::*;

fn keys(arguments: &[&str]) -> KeysOptions {
    match config(&[&["keys"], arguments].concat()).command {
        Command::Keys(options) => options,
        other => panic!("{other:?}"),
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
    assert_eq!(keys(&["create"]).action, create("", 24, None));
    assert_eq!(
        keys(&["create", "-label=a b", "-words=12", "-mnemonic-fd=2"]).action,
        create("a b", 12, fd(2))
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
fn the_search_for_residue_takes_what_the_user_has() {
    let check = |own_file, wallet: Option<&str>, wallet_passphrase| KeysAction::ResidueCheck {
        own_file,
        wallet: wallet.map(PathBuf::from),
        wallet_passphrase,
    };
    assert_eq!(keys(&["residue-check"]).action, check(false, None, None));
    assert_eq!(keys(&["residue-check", "-keys=k"]).action, check(true, None, None));
    let wallet = keys(&["residue-check", "w.dat", "-walletpassphrase-fd=0"]).action;
    assert_eq!(wallet, check(false, Some("w.dat"), Some(Descriptor(0))));
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
        (&["keys", "import", "secret"], "usage: godwit keys import [options] (operands given: 1)"),
        (&["keys", "create", "-words=13"], "-words=13: expected 12, 15, 18, 21 or 24"),
        (&["keys", "list", "-label=x"], "-label is not an option of keys list; -help lists them"),
        (&["keys", "lst"], "unknown command 'keys lst'; did you mean keys list?"),
        (&["utxo", "stats", "-keys=x"], "-keys is not an option of utxo stats; -help lists them"),
    ] {
        assert_eq!(error(arguments), message);
    }
    let refused = error(&["keys", "list", "-passphrase-fd=70000"]);
    assert!(refused.ends_with("expected the number of an open file descriptor"), "{refused}");
}
