//! Values at the ends of what options take, and beyond.

use godwit_chain::PRUNE_ON_REQUEST;

use super::{config, error, import};

#[test]
fn ranges() {
    let par = |text: &str| import(config(&["import", "a", text])).script_threads.get();
    assert_eq!([par("-par=-1"), par("-par=256"), par("-par=-256")], [3, 256, 1]);
    let stop = |text: &str| import(config(&["import", "a", text])).stop_at_height;
    assert_eq!([stop("-stopatheight=0"), stop("-stopatheight=1")], [None, Some(1)]);
}

#[test]
fn pruning() {
    let prune = |arguments: &[&str]| config(arguments).prune_bytes;
    assert_eq!(prune(&["import", "a"]), None);
    for off in ["-prune=0", "-noprune"] {
        assert_eq!(prune(&["import", "a", "-prune=600", off]), None, "{off}");
    }
    assert_eq!(prune(&["-prune=550"]), Some(550 << 20));
    assert_eq!(prune(&["-prune=550", "-reindex"]), Some(550 << 20));
    assert_eq!(prune(&["hand-over", "-to=core", "-prune=550"]), Some(550 << 20));
    assert_eq!(prune(&["hand-over", "-to=core", "-prune=1"]), Some(PRUNE_ON_REQUEST));
    assert_eq!(prune(&["-prune=0", "-reindex-chainstate"]), None);
    assert_eq!(
        error(&["-prune=550", "-reindex-chainstate"]),
        "-reindex-chainstate is of no use with -prune"
    );
    assert_eq!(prune(&["import", "a", "-regtest", "-prune=2"]), Some(2 << 20));
    for network in ["-regtest", "-testnet4"] {
        assert_eq!(prune(&[network, "-prune=1"]), Some(PRUNE_ON_REQUEST));
    }
    assert_eq!(prune(&["import", "a", "-prune=16777216"]), Some(1 << 44));
    assert_eq!(
        error(&["import", "a", "-prune=549"]),
        "-prune=549: expected at least 550 MiB, 1 to delete on request, or 0 to keep everything"
    );
    assert_eq!(
        error(&["utxo", "stats", "-prune=600"]),
        "-prune is not an option of utxo stats; -help lists them"
    );
}

#[test]
fn indexes() {
    let wanted = |arguments: &[&str]| {
        let indexes = config(arguments).indexes;
        (indexes.transactions, indexes.filters)
    };
    assert_eq!(wanted(&[]), (false, false));
    assert_eq!(wanted(&["-txindex", "-notxindex"]), (false, false));
    assert_eq!(wanted(&["-txindex", "-blockfilterindex=basic"]), (true, true));
    assert_eq!(wanted(&["-blockfilterindex=1", "-memory=464"]), (false, true));
    assert_eq!(wanted(&["-blockfilterindex=1", "-blockfilterindex=0"]), (false, false));
    // As with Bitcoin Core, all types of filters: there is one.
    assert_eq!(wanted(&["-blockfilterindex"]), (false, true));
    assert_eq!(wanted(&["-blockfilterindex", "-noblockfilterindex"]), (false, false));
    assert_eq!(error(&["-txindex", "-prune=550"]), "-txindex is of no use with -prune");
    assert_eq!(wanted(&["-blockfilterindex=1", "-prune=550"]), (false, true));
    let counted = |arguments: &[&str]| config(arguments).indexes.coin_stats;
    assert!(!counted(&[]) && !counted(&["-coinstatsindex=0"]));
    assert!(counted(&["-coinstatsindex", "-prune=550"]));
    let served = |arguments: &[&str]| config(arguments).indexes.served;
    assert!(!served(&["-blockfilterindex=1"]));
    assert!(served(&["-blockfilterindex=1", "-peerblockfilters"]));
    assert!(!served(&["-blockfilterindex=1", "-peerblockfilters=0"]));
    for others in [&["-peerblockfilters"][..], &["-peerblockfilters", "-txindex"]] {
        assert_eq!(error(others), "-peerblockfilters needs -blockfilterindex");
    }
    for option in ["-txindex", "-blockfilterindex=basic", "-coinstatsindex"] {
        assert_eq!(
            error(&[option, "-memory=463"]),
            "-memory=463: expected at least 448 MiB, and 16 for each index"
        );
    }
    assert_eq!(wanted(&["-txindex", "-prune=0"]), (true, false));
    assert_eq!(error(&["-blockfilterindex=v0"]), "-blockfilterindex=v0: expected basic, 1 or 0");
    assert_eq!(
        error(&["import", "a", "-txindex"]),
        "-txindex is not an option of import; -help lists them"
    );
}

#[test]
fn values_out_of_range() {
    let expected_mib = "expected a number of MiB, up to 16777216";
    for (option, expected) in [
        ("-dbcache=16777217", expected_mib),
        ("-dbcache=-1", expected_mib),
        ("-memory=16777217", expected_mib),
        ("-dbcache=", expected_mib),
        ("-prune=16777217", "expected a number of MiB, up to 16777216, or 0 to keep everything"),
        ("-par=257", "expected a number of threads from -256 to 256"),
        ("-par=-257", "expected a number of threads from -256 to 256"),
        ("-stopatheight=4294967296", "expected a height, or 0 for no limit"),
        ("-chain=testnet", "expected main, test, testnet4, signet or regtest"),
        ("-regtest=yes", "expected 0 or 1"),
        ("-datadir=", "expected the path of a directory"),
        ("-assumevalid=12", "expected the hash of a block in 64 hexadecimal digits, or 0"),
        ("-signetchallenge=5", "expected a script in hexadecimal"),
        ("-test=bip95", "expected bip94 or bip34"),
    ] {
        assert_eq!(error(&["import", "a", option]), format!("{option}: {expected}"));
    }
    let host = "expected a name or an IP address and perhaps a port; [ADDRESS]:PORT for IPv6";
    let bind = "expected an IP address and perhaps a port, and perhaps =onion behind them; [ADDRESS]:PORT for IPv6";
    let control = "expected the IP address of Tor and perhaps the port of its ControlPort";
    let proxy = "expected the IP address of a proxy and perhaps its port, or 0 for none";
    for (option, expected) in [
        ("-port=0", "expected a port from 1 to 65535"),
        ("-port=65536", "expected a port from 1 to 65535"),
        ("-port=+8333", "expected a port from 1 to 65535"),
        ("-maxconnections=-1", "expected a number of connections"),
        ("-bind=a", bind),
        ("-torcontrol=localhost:9051", control),
        ("-torpassword=", "expected a password"),
        ("-connect=a:", host),
        ("-addnode=a b", host),
        ("-seednode=[a]", host),
        ("-proxy=a:1", proxy),
        ("-onion=", proxy),
        ("-onlynet=i2p", "expected ipv4, ipv6 or onion; I2P and CJDNS cannot be reached"),
        ("-maxuploadtarget=1x", "expected a number, perhaps with a unit k, K, m, M, g, G, t or T"),
        ("-maxdownloadrate=", "expected a number, perhaps with a unit k, K, m, M, g, G, t or T"),
        ("-minimumchainwork=x", "expected a number in up to 64 hexadecimal digits"),
    ] {
        assert_eq!(error(&[option]), format!("{option}: {expected}"));
    }
}

#[test]
fn the_scrub_is_on_unless_it_is_turned_off() {
    for (arguments, on) in
        [(&[][..], true), (&["-scrub"], true), (&["-scrub=0"], false), (&["-noscrub"], false)]
    {
        assert_eq!(config(arguments).scrub, on, "{arguments:?}");
    }
}
