//! Which configuration file is read, and what its lines are for.

use std::os::unix::fs::symlink;

use super::*;

/// What is said of two configuration files.
const IGNORED: &str = "big/godwit.conf is ignored";
const INSTEAD: &str = "is read instead; merge the two, or say";

#[test]
fn places_of_the_file() {
    let home = Home::new();
    home.write("elsewhere/godwit.conf", "dbcache=7\n");
    home.write("beside/other.conf", "dbcache=8\n");
    let elsewhere = format!("-datadir={}", home.path("elsewhere").display());
    let dbcache =
        |arguments: &[&str]| home.config(arguments).memory.coins.expect("in the file") >> 20;
    assert_eq!(dbcache(&["utxo", "stats", &elsewhere]), 7);
    let beside = format!("-datadir={}", home.path("beside").display());
    assert_eq!(dbcache(&["utxo", "stats", &beside, "-conf=other.conf"]), 8);
    let absolute = format!("-conf={}", home.path("beside/other.conf").display());
    assert_eq!(dbcache(&["utxo", "stats", &absolute]), 8);
    assert_eq!(
        home.error(&["utxo", "stats", "-conf=absent.conf"]),
        "configuration file .godwit/absent.conf: No such file or directory (os error 2)"
    );
}

#[test]
fn datadir_of_the_file() {
    let home = Home::new();
    let text = format!("datadir={}\n", home.path("big").display());
    home.write(".godwit/godwit.conf", &text);
    assert_eq!(home.config(&["utxo", "stats"]).datadir, home.path("big"));
    assert_eq!(home.config(&["utxo", "stats", "-datadir=/d"]).datadir, PathBuf::from("/d"));
    home.write("big/godwit.conf", "");
    assert_eq!(
        home.error(&["utxo", "stats"]),
        format!(
            ".godwit/godwit.conf:1: {IGNORED}, because .godwit/godwit.conf {INSTEAD} allowignoredconf=1"
        )
    );
    home.write(".godwit/named.conf", &text);
    let named = "-conf=named.conf";
    assert_eq!(
        home.error(&["utxo", "stats", named]),
        format!("{IGNORED}, because .godwit/named.conf {INSTEAD} -allowignoredconf=1")
    );
    fs::remove_file(home.path("big/godwit.conf")).expect("it is there");
    assert_eq!(home.config(&["utxo", "stats", named]).datadir, home.path("big"));
}

/// Core `common/init.cpp`. The systemd unit names a file outside the data directory.
#[test]
fn a_second_configuration_file_is_refused_unless_it_may_be_ignored() {
    let home = Home::new();
    home.write("etc/godwit.conf", "dbcache=8\n");
    let conf = format!("-conf={}", home.path("etc/godwit.conf").display());
    let datadir = format!("-datadir={}", home.path("big").display());
    let unit = ["utxo", "stats", &datadir, &conf];
    let with = |argument| [&unit[..], &[argument]].concat();
    fs::create_dir(home.path("big")).expect("a directory");
    assert_eq!(home.config(&unit).passed_over, [""; 0]);

    home.write("big/godwit.conf", "dbcache=9\n");
    let refused = format!("{IGNORED}, because etc/godwit.conf {INSTEAD} -allowignoredconf=1");
    assert_eq!(home.error(&unit), refused);
    assert_eq!(home.error(&with("-allowignoredconf=0")), refused);
    let config = home.config(&with("-allowignoredconf"));
    let said = format!(
        "{} is ignored, because {} is read instead",
        home.path("big/godwit.conf").display(),
        home.path("etc/godwit.conf").display()
    );
    assert_eq!((config.passed_over, config.memory.coins), (vec![said.clone()], Some(8 << 20)));
    home.write("etc/godwit.conf", "allowignoredconf=1\n");
    assert_eq!(home.config(&unit).passed_over, [said]);

    // Two names of one file.
    home.write("etc/godwit.conf", "dbcache=8\n");
    fs::remove_file(home.path("big/godwit.conf")).expect("it is there");
    symlink(home.path("etc/godwit.conf"), home.path("big/godwit.conf")).expect("a link");
    assert_eq!(home.config(&unit).passed_over, [""; 0]);
}

/// Core `init.cpp`: the options with `NETWORK_ONLY`.
#[test]
fn ports_and_peers_at_the_top_are_those_of_main() {
    for (option, value) in [
        ("addnode", "a.example"),
        ("bind", "127.0.0.1"),
        ("connect", "a.example"),
        ("port", "8333"),
        ("rpcbind", "127.0.0.1"),
        ("rpcport", "8332"),
    ] {
        let home = Home::with_config(&format!("\n{option}={value}\n"));
        assert_eq!(
            home.error(&["-signet"]),
            format!(
                ".godwit/godwit.conf:2: Config setting for -{option} only applied on signet network when in \
                 [signet] section."
            )
        );
        home.config(&[]);
        home.config(&["-signet", &format!("-{option}={value}")]);
        home.config(&["utxo", "stats", "-signet"]);
    }
    for option in ["whitebind=127.0.0.1:7", "seednode=a.example", "rpcallowip=10.0.0.1", "listen=1"]
    {
        Home::with_config(&format!("{option}\n")).config(&["-signet"]);
    }
}

/// What can be said more than once. `-noconnect` has a meaning of its own.
#[test]
fn what_may_be_repeated_may_be_emptied() {
    let auth = format!("u:ab${}", "0".repeat(64));
    let of_node = |config: Config| (config.rpc, config.zmq, config.command);
    let nothing = of_node(config(&[]));
    for (option, value) in [
        ("addnode", "a.example"),
        ("bind", "127.0.0.1:9"),
        ("deprecatedrpc", "bip125"),
        ("externalip", "192.0.2.1"),
        ("onlynet", "ipv6"),
        ("rpcallowip", "192.0.2.0/24"),
        ("rpcauth", auth.as_str()),
        ("rpcbind", "127.0.0.2"),
        ("rpcwhitelist", "u:stop"),
        ("seednode", "a.example"),
        ("whitebind", "127.0.0.1:9"),
        ("whitelist", "192.0.2.1"),
        ("zmqpubhashblock", "tcp://127.0.0.1:9"),
        ("zmqpubhashtx", "tcp://127.0.0.1:9"),
        ("zmqpubrawblock", "tcp://127.0.0.1:9"),
        ("zmqpubrawtx", "tcp://127.0.0.1:9"),
        ("zmqpubsequence", "tcp://127.0.0.1:9"),
    ] {
        let (said, voided) = (format!("{option}={value}"), format!("no{option}=1"));
        assert_ne!(of_node(Home::with_config(&said).config(&[])), nothing, "{option}");
        let in_file = Home::with_config(&format!("{said}\n{voided}\n"));
        assert_eq!(of_node(in_file.config(&[])), nothing, "{option}");
        let on_line = Home::with_config(&said).config(&[&format!("-no{option}")]);
        assert_eq!(of_node(on_line), nothing, "{option}");
    }
    let home = Home::with_config("addnode=a.example\nonlynet=ipv6\n");
    let Command::Node(node) = home.config(&["-noaddnode", "-noonlynet"]).command else {
        panic!("the node was not asked for")
    };
    assert_eq!((node.add_nodes.len(), node.reach.networks.ipv4), (0, true));
}

#[test]
fn what_core_has_beyond_us_ends_no_start() {
    for option in [
        "upnp=0",
        "walletcrosschain=1",
        "capturemessages=0",
        // Of bitcoin-qt, which reads the same file.
        "lang=de",
        "min=1",
        "nosplash=1",
        // Of the wallets of Core 28 and 29.
        "privdb=0",
    ] {
        assert_eq!(Home::with_config(&format!("{option}\n")).config(&[]).passed_over.len(), 1);
    }
    for section in ["[tset]", "[Regtest]", "[testnet3]", "testnet3.dbcache=1", "foo.prune=x"] {
        let config = Home::with_config(&format!("{section}\n")).config(&[]);
        assert!(config.passed_over[0].contains("is no network"), "{section}");
    }
    for option in ["fixedseeds=0", "allowignoredconf=1", "norpcconnect=1", "norpcwait=1"] {
        assert_eq!(Home::with_config(&format!("{option}\n")).config(&[]).passed_over, [""; 0]);
    }
}
