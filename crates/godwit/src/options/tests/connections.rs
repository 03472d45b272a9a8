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
            everywhere: true,
            bind: Vec::new(),
            onion: vec![socket("127.0.0.1:8334")],
            port: 8333,
            told_port: 8333,
            external: Vec::new(),
            discover: true,
            natpmp: false,
        },
        max_connections: 125,
        connect: None,
        add_nodes: Vec::new(),
        seed_nodes: Vec::new(),
        seeds: Seeds { dns: true, fixed: true },
        reach: Reach { proxy: None, onion: None, networks: Reachable::CLEARNET },
        tor: Some(TorOptions {
            control: socket("127.0.0.1:9051"),
            password: None,
            target: socket("127.0.0.1:8334"),
            asks_for_proxy: true,
            reaches: true,
        }),
        v2_transport: true,
        allow_unlocked_secrets: false,
        whitelist: Whitelist::default(),
        traffic: TrafficLimits::default(),
        asmap: None,
    };
    assert_eq!(node(&[]), expected);
    let (port, told_port) = (18444, 18444);
    let onion = vec![socket("127.0.0.1:18445")];
    let regtest = Listening { port, told_port, onion, ..expected.listening.clone() };
    let target = socket("127.0.0.1:18445");
    let tor = expected.tor.clone().map(|tor| TorOptions { target, ..tor });
    assert_eq!(node(&["-regtest"]), NodeOptions { listening: regtest, tor, ..expected.clone() });
    let zeros = ["-stopatheight=0", "-maxuploadtarget=0", "-maxdownloadrate=0", "-noproxy"];
    assert_eq!(node(&zeros), expected);
}

/// What the options about listening come to in the next test.
fn all_about_listening() -> (Listening, TorOptions) {
    let listening = Listening {
        on: true,
        everywhere: false,
        bind: vec![
            socket("127.0.0.1:77").into(),
            socket("[::1]:99").into(),
            "addr@[::1]:98".parse().unwrap(),
        ],
        onion: vec![socket("127.0.0.1:97"), socket("0.0.0.0:78")],
        port: 77,
        told_port: 99,
        external: vec!["9.9.9.9:99".parse().unwrap(), "[2a02::1]:5".parse().unwrap()],
        discover: true,
        natpmp: true,
    };
    let tor = TorOptions {
        control: socket("127.0.0.3:9051"),
        password: Some(PlainPassword::new("secret")),
        target: socket("127.0.0.1:97"),
        asks_for_proxy: false,
        reaches: true,
    };
    (listening, tor)
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
        "-bind=127.0.0.1:97=onion",
        "-bind=0.0.0.0=onion",
        "-whitebind=addr@[::1]:98",
        "-externalip=9.9.9.9",
        "-externalip=[2a02::1]:5",
        "-discover",
        "-natpmp",
        "-whitelist=relay,out@10.0.0.0/8",
        "-port=77",
        "-maxconnections=3",
        "-connect=a.example",
        "-connect=1.2.3.4:5",
        "-addnode=::1",
        "-seednode=b.example:6",
        "-dnsseed",
        "-fixedseeds=0",
        "-proxy=127.0.0.1",
        "-onion=127.0.0.2:1",
        "-listenonion",
        "-torcontrol=127.0.0.3",
        "-torpassword=secret",
        "-onlynet=ipv6",
        "-onlynet=Onion",
        "-v2transport=0",
        "-allowunlockedsecrets",
        "-maxuploadtarget=1",
        "-maxdownloadrate=2k",
        "-asmap=maps/ip_asn.map",
    ]);
    assert_eq!(config.params.minimum_chain_work, godwit_primitives::Work::new(16));
    let mut whitelist = Whitelist::default();
    whitelist.add("relay,out@10.0.0.0/8").unwrap();
    let (listening, tor) = all_about_listening();
    let expected = NodeOptions {
        script_threads: NonZeroUsize::new(2).expect("not zero"),
        stop_at_height: Some(9),
        network_active: false,
        listening,
        max_connections: 3,
        connect: Some(vec![peer("a.example", None), peer("1.2.3.4", Some(5))]),
        add_nodes: vec![peer("::1", None)],
        seed_nodes: vec![peer("b.example", Some(6))],
        seeds: Seeds { dns: true, fixed: false },
        reach: Reach {
            proxy: Some("127.0.0.1:9050".parse().unwrap()),
            onion: Some("127.0.0.2:1".parse().unwrap()),
            networks: Reachable { onion: true, ipv4: false, ..Reachable::CLEARNET },
        },
        tor: Some(tor),
        v2_transport: false,
        allow_unlocked_secrets: true,
        whitelist,
        traffic: TrafficLimits { upload_target: Some(1 << 20), download_rate: Some(2000) },
        asmap: Some("maps/ip_asn.map".into()),
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
    let seeds = |arguments: &[&str]| node(arguments).seeds.dns;
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
        Command::Node(options) => (options.reach.networks, options.seeds.dns),
        other => panic!("{other:?}"),
    };
    let tor = Reachable { ipv4: false, ipv6: false, ..onion };
    assert_eq!(only(&[]), (tor, false), "DNS seeds tell nothing that could be reached");
    assert_eq!(only(&["-onlynet=ipv4"]), (Reachable { ipv4: true, ..tor }, true));
    let told = "-onlynet=onion: expected a proxy to the Tor network as well, by -onion, -proxy or -listenonion";
    assert_eq!(error(&["-onlynet=onion", "-proxy=::1", "-noonion"]), told);
    assert_eq!(error(&["-onlynet=onion", "-noonion"]), told);
    assert_eq!(error(&["-onlynet=ipv4", "-onlynet=onion", "-listenonion=0"]), told);
    assert_eq!(error(&["-onlynet=onion", "-connect=a"]), told, "it does not listen");
    // Tor may still tell of its own.
    let nothing = Reachable { ipv4: false, ipv6: false, ..Reachable::CLEARNET };
    let later = node(&["-onlynet=onion"]);
    assert_eq!((later.reach.networks, later.seeds.dns), (nothing, false));
    assert!(later.tor.is_some_and(|tor| tor.asks_for_proxy && tor.reaches));
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
    assert_eq!(error(&["-natpmp", "-listen=0"]), "-natpmp is of no use with -listen=0");
    assert!(!node(&["-natpmp", "-natpmp=0", "-listen=0"]).listening.natpmp);
    for no_listening in ["-connect=1.2.3.4", "-proxy=127.0.0.1:9050", "-maxconnections=0"] {
        assert!(!node(&["-natpmp", no_listening]).listening.natpmp, "{no_listening}");
        assert!(node(&["-natpmp", no_listening, "-listen"]).listening.natpmp, "{no_listening}");
    }
    let of_no_use = "-whitebind is of no use with -listen=0";
    assert_eq!(error(&["-whitebind=1.2.3.4:1", "-listen=0"]), of_no_use);
}

#[test]
fn a_map_of_systems_is_a_file() {
    let map = |arguments: &[&str]| node(arguments).asmap;
    assert_eq!(map(&["-asmap=/a/b"]), Some("/a/b".into()));
    assert_eq!(map(&["-asmap=10.map"]), Some("10.map".into()));
    for off in ["-asmap=0", "-noasmap"] {
        assert_eq!(map(&["-asmap=a", off]), None, "{off}");
    }
    for embedded in ["-asmap=1", "-asmap="] {
        let told = format!("{embedded}: Embedded asmap data not available, name a file");
        assert_eq!(error(&[embedded]), told);
    }
    assert_eq!(error(&["-asmap"]), "-asmap needs a value: -asmap=FILE");
    assert_eq!(
        file_error("asmap=1\n"),
        ".godwit/godwit.conf:1: asmap=1: Embedded asmap data not available, name a file"
    );
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

/// Core `init.cpp`, but for the address where `-bind` is given: there Core hands over to the first of these.
#[test]
fn tor_is_asked_for_a_service_where_connections_are_accepted() {
    let tor = |arguments: &[&str]| node(arguments).tor;
    let target = |arguments: &[&str]| tor(arguments).map(|tor| tor.target.to_string());
    for on in [&["-listen"][..], &["-proxy=::1", "-listen"], &["-connect=a", "-bind=::1"]] {
        assert_eq!(target(on).as_deref(), Some("127.0.0.1:8334"), "{on:?}");
        assert_eq!(target(&[on, &["-listenonion=0"]].concat()), None, "{on:?}");
    }
    for off in ["-listen=0", "-connect=a", "-proxy=::1", "-maxconnections=0", "-nolistenonion"] {
        let options = node(&[off]);
        assert!(options.tor.is_none() && options.listening.onion.is_empty(), "{off}");
    }
    for off in ["-listen=0", "-connect=a", "-proxy=::1"] {
        assert_eq!(error(&[off, "-listenonion"]), "-listenonion is of no use with -listen=0");
    }
    assert_eq!(target(&["-port=7"]).as_deref(), Some("127.0.0.1:8"));
    assert_eq!(target(&["-bind=[::]=onion"]).as_deref(), Some("[::1]:8334"));
    assert_eq!(target(&["-bind=[::1]:5=onion", "-bind=::1=onion"]).as_deref(), Some("[::1]:5"));
    let asks = |arguments: &[&str]| tor(arguments).is_some_and(|tor| tor.asks_for_proxy);
    assert!(asks(&[]) && asks(&["-proxy=::1", "-listen"]));
    assert!(!asks(&["-onion=::1"]) && !asks(&["-noonion"]));
    let reaches = |arguments: &[&str]| tor(arguments).is_some_and(|tor| tor.reaches);
    assert!(reaches(&[]) && !reaches(&["-onlynet=ipv4"]));
}

#[test]
fn sockets_for_tor_are_bound_beside_others_or_alone() {
    let listening = |arguments: &[&str]| node(arguments).listening;
    let alone = listening(&["-bind=127.0.0.1:5=onion"]);
    assert_eq!((alone.on, alone.everywhere, alone.bind), (true, false, vec![]));
    assert_eq!(alone.onion, [socket("127.0.0.1:5")]);
    assert_eq!(alone.told_port, 8333);
    let without_service = listening(&["-bind=127.0.0.1=onion", "-listenonion=0"]);
    assert_eq!(without_service.onion, [socket("127.0.0.1:8334")], "of a service of the operator's");
    assert!(listening(&["-connect=a", "-bind=127.0.0.1=onion"]).on);
    let home = Home::with_config("bind=127.0.0.1:6=onion\n");
    let Command::Node(options) = home.config(&[]).command else { panic!("a node") };
    assert_eq!(options.listening.onion, [socket("127.0.0.1:6")]);

    assert_eq!(error(&["-bind=127.0.0.1=onion", "-listen=0"]), "-bind is of no use with -listen=0");
    for value in
        ["127.0.0.1=tor", "=onion", "a=onion", "127.0.0.1:0=onion", "127.0.0.1=onion=onion"]
    {
        let text = error(&[&format!("-bind={value}")]);
        assert!(text.starts_with(&format!("-bind={value}: expected an IP address")), "{text}");
    }
    let default = |arguments: &[&str]| listening(arguments).onion[0].to_string();
    assert_eq!(default(&["-port=65534"]), "127.0.0.1:65535");
    assert_eq!(default(&["-port=65535"]), "127.0.0.1:65534");
    assert_eq!(default(&["-port=65535", "-bind=::1=onion"]), "[::1]:65534");
    // Next to where others are told to call.
    assert_eq!(default(&["-port=7", "-bind=::2", "-bind=[::1]:10"]), "127.0.0.1:11");
    assert_eq!(default(&["-bind=::1", "-whitebind=[::1]:9"]), "127.0.0.1:10");
}

#[test]
fn what_does_not_listen_is_named_where_it_stands() {
    let file = |text: &str, arguments: &[&str]| Home::with_config(text).error(arguments);
    let of = |place: &str| format!(".godwit/godwit.conf:{place} is of no use with listen=0");
    assert_eq!(file("listen=0\nlistenonion=1\n", &[]), of("2: listenonion"));
    assert_eq!(file("natpmp=1\nlisten=0\n", &[]), of("1: natpmp"));
    assert_eq!(file("whitebind=127.0.0.1:1\n", &["-listen=0"]), of("1: whitebind"));
    let regtest = "listen=0\n[regtest]\nbind=127.0.0.1\n";
    assert_eq!(file(regtest, &["-regtest"]), of("3: bind"));
    let on_the_line = file("listen=0\n", &["-listenonion"]);
    assert_eq!(on_the_line, "-listenonion is of no use with -listen=0");
    // It is the node that listens.
    let import = Home::with_config("listen=0\nlistenonion=1\n").config(&["import", "a"]);
    assert_eq!(import.passed_over, [""; 0]);
}
