//! Options that concern the node's peers.

use godwit_p2p::Whitelist;

use super::*;

fn socket(text: &str) -> SocketAddr {
    text.parse().expect(text)
}

fn peer(host: &str, port: Option<u16>) -> HostPort {
    HostPort { host: host.to_owned(), port }
}

#[test]
fn without_a_command_the_node_runs_and_listens() {
    let expected = NodeOptions {
        script_threads: NonZeroUsize::new(4).expect("not zero"),
        stop_at_height: None,
        network_active: true,
        listening: Listening {
            on: true,
            bind: Vec::new(),
            port: 8333,
            told_port: 8333,
            external: Vec::new(),
            discover: true,
        },
        max_connections: 125,
        connect: None,
        add_nodes: Vec::new(),
        seed_nodes: Vec::new(),
        dns_seed: true,
        reach: Reach { proxy: None, onion: None, networks: Reachable::CLEARNET },
        v2_transport: true,
        allow_unlocked_secrets: false,
        whitelist: Whitelist::default(),
        max_upload_target: None,
        max_download_rate: None,
    };
    assert_eq!(node(&[]), expected);
    let (port, told_port) = (18444, 18444);
    let regtest = Listening { port, told_port, ..expected.listening.clone() };
    assert_eq!(node(&["-regtest"]), NodeOptions { listening: regtest, ..expected.clone() });
    let zeros = ["-stopatheight=0", "-maxuploadtarget=0", "-maxdownloadrate=0", "-noproxy"];
    assert_eq!(node(&zeros), expected);
}

#[test]
fn every_option_of_the_node() {
    let config = config(&[
        "-regtest",
        "-par=2",
        "-dbcache=100",
        "-assumevalid=0",
        "-stopatheight=9",
        "-minimumchainwork=0x10",
        "-networkactive=0",
        "-listen=1",
        "-bind=127.0.0.1",
        "-bind=[::1]:99",
        "-whitebind=addr@[::1]:98",
        "-externalip=9.9.9.9",
        "-externalip=[2a02::1]:5",
        "-discover",
        "-whitelist=relay,out@10.0.0.0/8",
        "-port=77",
        "-maxconnections=3",
        "-connect=a.example",
        "-connect=1.2.3.4:5",
        "-addnode=::1",
        "-seednode=b.example:6",
        "-dnsseed",
        "-proxy=127.0.0.1",
        "-onion=127.0.0.2:1",
        "-onlynet=ipv6",
        "-onlynet=Onion",
        "-v2transport=0",
        "-allowunlockedsecrets",
        "-maxuploadtarget=1",
        "-maxdownloadrate=2k",
    ]);
    assert_eq!(config.params.minimum_chain_work, godwit_primitives::Work::new(16));
    let mut whitelist = Whitelist::default();
    whitelist.add("relay,out@10.0.0.0/8").unwrap();
    let expected = NodeOptions {
        script_threads: NonZeroUsize::new(2).expect("not zero"),
        stop_at_height: Some(9),
        network_active: false,
        listening: Listening {
            on: true,
            bind: vec![
                socket("127.0.0.1:77").into(),
                socket("[::1]:99").into(),
                "addr@[::1]:98".parse().unwrap(),
            ],
            port: 77,
            told_port: 99,
            external: vec!["9.9.9.9:99".parse().unwrap(), "[2a02::1]:5".parse().unwrap()],
            discover: true,
        },
        max_connections: 3,
        connect: Some(vec![peer("a.example", None), peer("1.2.3.4", Some(5))]),
        add_nodes: vec![peer("::1", None)],
        seed_nodes: vec![peer("b.example", Some(6))],
        dns_seed: true,
        reach: Reach {
            proxy: Some("127.0.0.1:9050".parse().unwrap()),
            onion: Some("127.0.0.2:1".parse().unwrap()),
            networks: Reachable { onion: true, ipv4: false, ..Reachable::CLEARNET },
        },
        v2_transport: false,
        allow_unlocked_secrets: true,
        whitelist,
        max_upload_target: Some(1 << 20),
        max_download_rate: Some(2000),
    };
    assert_eq!(config.command, Command::Node(Box::new(expected)));
}

#[test]
fn options_of_the_node_imply_others_as_in_core() {
    let listens = |arguments: &[&str]| node(arguments).listening.on;
    assert!(!listens(&["-connect=a"]) && !listens(&["-noconnect"]) && !listens(&["-proxy=::1"]));
    assert!(!listens(&["-maxconnections=0"]) && listens(&["-maxconnections=1"]));
    assert!(listens(&["-connect=a", "-listen"]) && listens(&["-connect=a", "-bind=::1"]));
    assert!(listens(&["-proxy=::1", "-whitebind=[::1]:7"]));
    assert!(listens(&["-proxy=0"]) && listens(&["-onion=::1"]));
    let seeds = |arguments: &[&str]| node(arguments).dns_seed;
    assert!(!seeds(&["-connect=a"]) && !seeds(&["-maxconnections=0"]) && seeds(&["-proxy=::1"]));
    let onion = |arguments: &[&str]| node(arguments).reach.onion.map(|address| address.to_string());
    assert_eq!(onion(&["-proxy=::1"]).as_deref(), Some("[::1]:9050"));
    assert_eq!(onion(&["-proxy=::1", "-noonion"]), None);
    assert_eq!(node(&["-noconnect"]).connect, Some(Vec::new()));
    let home = Home::with_config("connect=a\nconnect=b\n");
    let connect = |arguments: &[&str]| match home.config(arguments).command {
        Command::Node(options) => options.connect,
        other => panic!("{other:?}"),
    };
    let (a, b, c) = (peer("a", None), peer("b", None), peer("c", None));
    assert_eq!(connect(&["-connect=c"]), Some(vec![a, b, c.clone()]));
    assert_eq!(connect(&["-noconnect", "-connect=c"]), Some(vec![c]));
}

#[test]
fn peers_are_chosen_only_in_networks_that_can_be_reached() {
    let reachable = |arguments: &[&str]| node(arguments).reach.networks;
    let onion = Reachable { onion: true, ..Reachable::CLEARNET };
    assert_eq!([reachable(&[]), reachable(&["-noproxy"])], [Reachable::CLEARNET; 2]);
    assert_eq!([reachable(&["-proxy=::1"]), reachable(&["-onion=::1"])], [onion; 2]);
    assert_eq!(reachable(&["-proxy=::1", "-noonion"]), Reachable::CLEARNET);
    let clearnet = ["-onlynet=ipv4", "-onlynet=ipv6"];
    assert_eq!(reachable(&[&clearnet[..], &["-proxy=::1"]].concat()), Reachable::CLEARNET);
    // Two sources of one list, as in Core.
    let home = Home::with_config("onlynet=onion\nproxy=127.0.0.1\n");
    let only = |arguments: &[&str]| match home.config(arguments).command {
        Command::Node(options) => (options.reach.networks, options.dns_seed),
        other => panic!("{other:?}"),
    };
    let tor = Reachable { ipv4: false, ipv6: false, ..onion };
    assert_eq!(only(&[]), (tor, false), "DNS seeds tell nothing that could be reached");
    assert_eq!(only(&["-onlynet=ipv4"]), (Reachable { ipv4: true, ..tor }, true));
    let told = "-onlynet=onion: expected a proxy to the Tor network as well, by -onion or -proxy";
    assert_eq!(error(&["-onlynet=onion", "-proxy=::1", "-noonion"]), told);
    assert_eq!(error(&["-onlynet=ipv4", "-onlynet=onion"]), told);
    let of_no_use = "-dnsseed is of no use with -onlynet=onion";
    assert_eq!(error(&["-onlynet=onion", "-proxy=::1", "-dnsseed"]), of_no_use);
}

/// Core `GetListenPort`.
#[test]
fn others_are_told_a_port_at_which_they_are_treated_as_everybody() {
    let told = |arguments: &[&str]| node(arguments).listening.told_port;
    assert_eq!([told(&[]), told(&["-port=7"])], [8333, 7]);
    assert_eq!(told(&["-bind=127.0.0.1", "-port=7"]), 7);
    assert_eq!(told(&["-bind=127.0.0.1", "-bind=::1", "-bind=[::1]:8", "-bind=[::1]:9"]), 8);
    let trusted = ["-port=7", "-whitebind=noban@0.0.0.0:8"];
    assert_eq!(told(&trusted), 7);
    assert_eq!(told(&[&trusted[..], &["-whitebind=0.0.0.0:9"]].concat()), 9);
    assert_eq!(told(&[&trusted[..], &["-whitebind=relay@0.0.0.0:9"]].concat()), 9);
    assert_eq!(told(&["-whitebind=relay@0.0.0.0:9", "-bind=127.0.0.1:8"]), 8);
}

#[test]
fn permissions_that_mean_nothing_are_refused_in_core_s_words() {
    for (option, expected) in [
        ("-whitelist=x@1.2.3.4", "Invalid P2P permission: 'x'"),
        ("-whitelist=1.2.3.4/33", "Invalid netmask specified in -whitelist: '1.2.3.4/33'"),
        ("-whitebind=1.2.3.4", "Need to specify a port with -whitebind: '1.2.3.4'"),
        ("-whitelist=", "Invalid netmask specified in -whitelist: ''"),
    ] {
        assert_eq!(error(&[option]), format!("{option}: {expected}"));
    }
    assert_eq!(
        file_error("whitelist=1.2.3.4\nwhitelist=in@1.2.3.4\n"),
        ".godwit/godwit.conf:2: whitelist=in@1.2.3.4: Only direction was set, no permissions: \
         'in@1.2.3.4'"
    );
    let of_no_use = "-whitebind is of no use with -listen=0";
    assert_eq!(error(&["-whitebind=1.2.3.4:1", "-listen=0"]), of_no_use);
}

#[test]
fn addresses_are_discovered_unless_they_are_named_or_hidden() {
    let discovers = |arguments: &[&str]| node(arguments).listening.discover;
    assert!(discovers(&[]) && discovers(&["-bind=127.0.0.1"]) && discovers(&["-noproxy"]));
    for hidden in ["-listen=0", "-connect=a", "-proxy=::1", "-externalip=9.9.9.9"] {
        assert!(!discovers(&[hidden]) && discovers(&[hidden, "-discover"]), "{hidden}");
    }
    assert!(!discovers(&["-proxy=::1", "-listen"]) && !discovers(&["-nodiscover"]));
}

#[test]
fn a_named_address_is_an_address() {
    const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
    let external = |value: &str| {
        let listening = node(&[&format!("-externalip={value}"), "-port=7"]).listening;
        listening.external.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(external("9.9.9.9"), ["9.9.9.9:7"]);
    assert_eq!(external("2a02::1"), ["[2a02::1]:7"]);
    assert_eq!(external(&format!("{ONION}:1")), [format!("{ONION}:1")]);
    for value in ["", "a.example", "0.0.0.0", "9.9.9.9:65536", "9.9.9", &ONION[1..]] {
        let option = format!("-externalip={value}");
        let expected = format!("{option}: Cannot resolve -externalip address: '{value}'");
        assert_eq!(error(&[&option]), expected);
    }
}
