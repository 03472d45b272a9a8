mod connections;
mod files;
mod pages;
mod ranges;
mod tables;
mod zmq;

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use godwit_api::{CookiePermissions, Deprecated, Whitelist};
use godwit_primitives::network::Deployment;
use godwit_primitives::{BlockHash, Network};
use godwit_program::options::{CONFIG_FILE, DEFAULT_DATADIR};
use tempfile::TempDir;

use super::*;

/// Core's words.
const SEVERAL_NETWORKS: &str = "Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. \
                                Can use at most one.";

const HASH: &str = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";

/// A home directory whose data directory has this configuration file.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Home(TempDir::new().expect("a temporary directory"))
    }

    fn with_config(text: &str) -> Self {
        let home = Home::new();
        home.write(&format!("{DEFAULT_DATADIR}/{CONFIG_FILE}"), text);
        home
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("inside the home")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn parse(&self, arguments: &[&str]) -> Result<Invocation, OptionsError> {
        let cores = NonZeroUsize::new(4).expect("not zero");
        let environment = Environment { home: Some(self.0.path().to_owned()), cores };
        parse(arguments.iter().map(OsString::from), &environment)
    }

    fn config(&self, arguments: &[&str]) -> Config {
        match self.parse(arguments) {
            Ok(Invocation::Run(config)) => *config,
            other => panic!("{arguments:?}: {other:?}"),
        }
    }

    /// The message, with the home directory cut out.
    fn error(&self, arguments: &[&str]) -> String {
        let home = format!("{}/", self.0.path().display());
        match self.parse(arguments) {
            Err(error) => error.to_string().replace(&home, ""),
            Ok(other) => panic!("{arguments:?}: {other:?}"),
        }
    }
}

fn config(arguments: &[&str]) -> Config {
    Home::new().config(arguments)
}

fn import(config: Config) -> ImportOptions {
    match config.command {
        Command::Import(options) => options,
        other => panic!("{other:?}"),
    }
}

fn error(arguments: &[&str]) -> String {
    Home::new().error(arguments)
}

fn file_error(text: &str) -> String {
    Home::with_config(text).error(&["utxo", "stats"])
}

fn genesis() -> BlockHash {
    HASH.parse().expect("64 digits")
}

#[test]
fn defaults() {
    let home = Home::new();
    let config = home.config(&["import", "a.dat"]);
    assert_eq!(config.params, Params::new(Network::Main));
    assert_eq!(config.datadir, home.path(".godwit"));
    assert_eq!(config.network_dir().as_os_str(), home.path(".godwit").as_os_str());
    assert_eq!((config.config_file.clone(), config.memory), (None, MemoryOptions::default()));
    let options = import(config);
    assert_eq!(options.paths, [PathBuf::from("a.dat")]);
    assert_eq!(options.script_threads.get(), 4);
    assert_eq!((options.stop_at_height, options.verdicts), (None, None));
}

#[test]
fn without_probes_on_regtest_genesis_stands_in_for_mains_block_of_bip34() {
    let params = config(&["-regtest", "import", "a.dat", "-test=bip34", "-test=bip94"]).params;
    let regtest = Params::new(Network::Regtest);
    let (height, hash) = (0, Some(regtest.genesis_hash));
    let bip34 = Params { bip34_height: height, bip34_hash: hash, ..regtest.clone() };
    assert_eq!(params, Params { enforce_bip94: true, ..bip34 });
    assert_eq!(config(&["-regtest", "import", "a.dat"]).params, regtest, "unless asked for");
    let error = error(&["import", "a.dat", "-test=bip34"]);
    assert!(error.contains("regtest"), "{error}");
}

#[test]
fn every_option_of_import() {
    let config = config(&[
        "-chain=regtest",
        "import",
        "a.dat",
        "-datadir=/d",
        "--dbcache=100",
        "-par=3",
        &format!("-assumevalid={HASH}"),
        "-stopatheight=7",
        "-testactivationheight=segwit@5",
        "-testactivationheight=csv@6",
        "-test=bip94",
        "--verdicts",
        "v.json",
        "b/blocks",
    ]);
    let mut params = Params::new(Network::Regtest);
    params.set_activation_height(Deployment::Segwit, 5);
    params.set_activation_height(Deployment::Csv, 6);
    params.enforce_bip94 = true;
    params.assume_valid = Some(genesis());
    assert_eq!(config.params, params);
    assert_eq!(config.network_dir(), PathBuf::from("/d/regtest"));
    assert_eq!(config.memory.coins, Some(100 << 20));
    let options = import(config);
    assert_eq!(options.paths, [PathBuf::from("a.dat"), PathBuf::from("b/blocks")]);
    assert_eq!(options.script_threads.get(), 3);
    assert_eq!(options.stop_at_height, Some(7));
    assert_eq!(options.verdicts, Some(PathBuf::from("v.json")));
}

#[test]
fn utxo_commands() {
    let command = |arguments: &[&str]| config(arguments).command;
    assert_eq!(command(&["utxo", "stats"]), Command::UtxoStats);
    assert_eq!(command(&["utxo", "dump", "f"]), Command::UtxoDump { file: "f".into() });
    assert_eq!(
        command(&["utxo", "load", "f"]),
        Command::UtxoLoad { file: "f".into(), expected: None }
    );
    let expected = Some(UtxoHash(genesis().to_bytes()));
    assert_eq!(
        command(&["utxo", "load", "f", "-utxohash", HASH]),
        Command::UtxoLoad { file: "f".into(), expected }
    );
}

#[test]
fn spellings_of_a_value() {
    for spelling in [
        &["utxo", "stats", "-dbcache=300"][..],
        &["utxo", "stats", "--dbcache=300"],
        &["utxo", "stats", "-dbcache", "300"],
        &["--dbcache", "300", "utxo", "stats"],
        &["utxo", "-dbcache=300", "stats"],
        &["-dbcache=100", "utxo", "stats", "-dbcache=300"],
    ] {
        assert_eq!(config(spelling).memory.coins, Some(300 << 20), "{spelling:?}");
    }
}

#[test]
fn spellings_of_a_flag() {
    let network = |flag: &str| config(&["utxo", "stats", flag]).params.network;
    for on in ["-regtest", "--regtest", "-regtest=1", "-noregtest=0", "-chain=regtest"] {
        assert_eq!(network(on), Network::Regtest, "{on}");
    }
    for off in ["-noregtest", "--noregtest", "-regtest=0", "-noregtest=1"] {
        assert_eq!(network(off), Network::Main, "{off}");
    }
    let flags = ["-testnet", "-testnet4", "-signet", "-regtest"];
    assert_eq!(flags.map(network)[..], Network::ALL[1..]);
}

#[test]
fn memory() {
    let coins = |arguments: &[&str]| config(arguments).memory.coins.expect("given");
    let dbcache = |text: &str| coins(&["utxo", "stats", "-dbcache", text]);
    assert_eq!([dbcache("0"), dbcache("4"), dbcache("5")], [4 << 20, 4 << 20, 5 << 20]);
    assert_eq!(dbcache("16777216"), 1 << 44);
    let memory = |arguments: &[&str]| config(arguments).memory;
    let total = |mib: u64, coins| MemoryOptions { total: Some(mib << 20), coins };
    assert_eq!(memory(&["-memory=448"]), total(448, None));
    assert_eq!(
        memory(&["import", "a", "-memory=1024", "-dbcache=400"]),
        total(1024, Some(400 << 20))
    );
    assert_eq!(error(&["-memory=447"]), "-memory=447: expected at least 448 MiB");
    let too_much = "-dbcache=900: more than the other parts leave of -memory, which is ";
    let error_of_much = error(&["-memory=1024", "-dbcache=900"]);
    let most = error_of_much.strip_prefix(too_much).and_then(|most| most.strip_suffix(" MiB"));
    let most: u64 = most.expect("it is said").parse().expect("a number");
    let dbcache = |mib: u64| format!("-dbcache={mib}");
    assert_eq!(memory(&["-memory=1024", &dbcache(most)]), total(1024, Some(most << 20)));
    let more = format!(
        "-dbcache={}: more than the other parts leave of -memory, which is {most} MiB",
        most + 1
    );
    assert_eq!(error(&["-memory=1024", &dbcache(most + 1)]), more);
    let nothing = "-dbcache=4: -memory leaves nothing that could be set aside for coins alone";
    assert_eq!(error(&["-memory=448", "-dbcache=1"]), nothing);
    assert_eq!(error(&["-memory=460", "-dbcache=4"]), nothing);
    // As the help says.
    assert_eq!(memory(&["-memory=480", "-dbcache=4"]), total(480, Some(4 << 20)));
}

fn node(arguments: &[&str]) -> NodeOptions {
    match config(arguments).command {
        Command::Node(options) => *options,
        other => panic!("{other:?}"),
    }
}

/// The server as it is without options, on this port.
fn default_rpc(port: u16) -> Option<RpcOptions> {
    Some(RpcOptions {
        addresses: vec![
            format!("[::1]:{port}").parse().unwrap(),
            format!("127.0.0.1:{port}").parse().unwrap(),
        ],
        allowed: Vec::new(),
        auth: Vec::new(),
        login: None,
        cookie: Cookie::File(".cookie".into(), CookiePermissions::Owner),
        whitelist: Whitelist::default(),
        rest: false,
        deprecated: Deprecated::default(),
        threads: 16,
        queue: 64,
        timeout: Some(Duration::from_secs(30)),
        web: None,
        metrics: None,
        remarks: Vec::new(),
    })
}

#[test]
fn options_of_the_rpc_server_are_read() {
    let rpc = |arguments: &[&str]| config(arguments).rpc;
    assert_eq!(rpc(&["-server=0", "-rpcport=1"]), None);
    assert_eq!(rpc(&["-rpcport=99"]), default_rpc(99));
    let addresses = |arguments: &[&str]| {
        let rpc = rpc(arguments).expect("a server");
        (rpc.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), rpc.remarks.len())
    };
    // Each of the two alone opens nothing.
    let own = vec!["[::1]:8332".to_owned(), "127.0.0.1:8332".to_owned()];
    assert_eq!(addresses(&["-rpcbind=0.0.0.0"]), (own.clone(), 1));
    assert_eq!(addresses(&["-rpcallowip=10.0.0.0/8"]), (own, 1));
    let both = ["-rpcbind=10.0.0.1", "-rpcbind=[::]:7", "-rpcallowip=10.0.0.0/8"];
    assert_eq!(addresses(&both), (vec!["10.0.0.1:8332".to_owned(), "[::]:7".to_owned()], 0));
    let timeout = |option: &str| rpc(&[option]).expect("a server").timeout;
    let year = std::time::Duration::from_secs(31_536_000);
    assert_eq!(timeout("-rpcservertimeout=31536000"), Some(year));
    assert_eq!(["-rpcservertimeout=0", "-rpcservertimeout=-1"].map(timeout), [None, None]);
    let threads = |option: &str| rpc(&[option]).expect("a server").threads;
    let queue = |option: &str| rpc(&[option]).expect("a server").queue;
    let given = ["-rpcthreads=-5", "-rpcthreads=0", "-rpcthreads=1", "-rpcthreads=256"];
    assert_eq!(given.map(threads), [1, 1, 1, 256]);
    let given = ["-rpcworkqueue=-5", "-rpcworkqueue=0", "-rpcworkqueue=1", "-rpcworkqueue=10000"];
    assert_eq!(given.map(queue), [1, 1, 1, 10_000]);
    let cookie = |arguments: &[&str]| rpc(arguments).expect("a server").cookie;
    assert!(rpc(&["-rest"]).is_some_and(|rpc| rpc.rest));
    let deprecated = |arguments: &[&str]| {
        let rpc = rpc(arguments).expect("a server");
        (rpc.deprecated, rpc.remarks.len())
    };
    let [bip125, full_rbf, warnings] = [true; 3];
    let all = ["-deprecatedrpc=bip125", "-deprecatedrpc=fullrbf", "-deprecatedrpc=warnings"];
    assert_eq!(deprecated(&all), (Deprecated { bip125, full_rbf, warnings }, 0));
    let one = Deprecated { full_rbf, ..Deprecated::default() };
    assert_eq!(deprecated(&["-deprecatedrpc=fullrbf", "-deprecatedrpc=accounts"]), (one, 1));
    assert_eq!(deprecated(&["-deprecatedrpc=1", "-deprecatedrpc=x"]), (Deprecated::default(), 1));
    assert_eq!(deprecated(&["-deprecatedrpc="]), (Deprecated::default(), 1));
    assert_eq!(cookie(&["-norpccookiefile"]), Cookie::Off);
    assert_eq!(cookie(&["-rpcpassword=x"]), Cookie::Off);
    let group = Cookie::File("/a/b".into(), CookiePermissions::Group);
    assert_eq!(cookie(&["-rpccookiefile=/a/b", "-rpccookieperms=group"]), group);
    let secret = rpc(&["-rpcuser=me", "-rpcpassword=hunter2"]).expect("a server");
    assert_eq!(
        secret.login.as_ref().map(|(user, password)| (&**user, password.text())),
        Some(("me", "hunter2"))
    );
    assert!(!format!("{secret:?}").contains("hunter2"), "a password is not shown");
    for wrong in [
        "-rpcauth=a",
        "-rpcallowip=a",
        "-rpcport=0",
        "-rpcport=+1",
        "-rpccookieperms=x",
        "-rpcthreads=257",
        "-rpcthreads=x",
        "-rpcworkqueue=10001",
        "-rpcbind=a",
        "-rpcservertimeout=31536001",
        "-rpcservertimeout=18446744073709551615",
        "-rpcallowip=::ffff:10.0.0.1/33",
    ] {
        assert!(!error(&[wrong]).is_empty(), "{wrong}");
    }
}

#[test]
fn assumed_block() {
    let assumed = |option: &str| config(&["import", "a", option]).params.assume_valid;
    assert_eq!(assumed(&format!("-assumevalid={HASH}")), Some(genesis()));
    assert_eq!([assumed("-assumevalid=0"), assumed("-noassumevalid")], [None, None]);
    assert_eq!(assumed("-par=1"), Params::new(Network::Main).assume_valid);
    assert!(Params::new(Network::Main).assume_valid.is_some());
}

#[test]
fn custom_signet() {
    let config = config(&["utxo", "stats", "-signet", "-signetchallenge=51"]);
    assert_eq!(config.params, Params::with_signet_challenge(vec![0x51]));
}

#[test]
fn a_signet_has_one_challenge() {
    let home = Home::with_config("[signet]\nsignetchallenge=51\n");
    let signet = ["utxo", "stats", "-signet"];
    assert!(home.parse(&[&signet[..], &["-signetchallenge=51"]].concat()).is_ok());
    let several = "-signetchallenge=52: another one was given before; a signet has one";
    assert_eq!(home.error(&[&signet[..], &["-signetchallenge=52"]].concat()), several);
    let twice = [&signet[..], &["-signetchallenge=51", "-signetchallenge=52"]].concat();
    assert_eq!(error(&twice), several);
}

#[test]
fn words_that_look_like_options() {
    let options = import(config(&["import", "-", "--", "-regtest", "--"]));
    assert_eq!(options.paths, ["-", "-regtest", "--"].map(PathBuf::from));
    let path = OsString::from_vec(vec![b'a', 0xff]);
    let environment = Environment { home: None, cores: NonZeroUsize::MIN };
    let datadir = OsString::from_vec(b"-datadir=\xfe".to_vec());
    let parsed = parse(["import".into(), datadir, path.clone()], &environment);
    let Ok(Invocation::Run(config)) = parsed else { panic!("{parsed:?}") };
    assert_eq!(config.datadir, PathBuf::from(OsString::from_vec(vec![0xfe])));
    assert_eq!(import(*config).paths, [PathBuf::from(path)]);
}

#[test]
fn help_and_version_need_no_command() {
    for flag in ["-help", "--help", "-h", "-?", "-version"] {
        let printed = Home::new().parse(&[flag]).expect("no command is needed");
        assert!(
            matches!(printed, Invocation::Print(text) if text.starts_with("godwit v")),
            "{flag}"
        );
    }
    let with_command = Home::new().parse(&["import", "-help"]);
    assert!(matches!(with_command, Ok(Invocation::Print(_))));
}

#[test]
fn mistakes_on_the_command_line() {
    for (arguments, message) in [
        (&["-verdicts=f"][..], "-verdicts is not an option of the node; -help lists them"),
        (&["-bind=::1", "-listen=0"], "-bind is of no use with -listen=0"),
        (&["import", "a", "-listen"], "-listen is not an option of import; -help lists them"),
        (&["-maxconections=1"], "unknown option -maxconections; did you mean -maxconnections?"),
        (&["imprt", "a"], "unknown command 'imprt'; did you mean import?"),
        (&["utxo", "stat"], "unknown command 'utxo stat'; did you mean utxo stats?"),
        (&["utxo"], "'utxo' is incomplete; say one of utxo stats, utxo dump, utxo load"),
        (&["mine", "a"], "unknown command 'mine'; see -help"),
        (&["import"], "usage: godwit import [options] PATH... (operands given: 0)"),
        (&["utxo", "stats", "a"], "usage: godwit utxo stats [options] (operands given: 1)"),
        (&["utxo", "dump"], "usage: godwit utxo dump [options] FILE (operands given: 0)"),
        (&["utxo", "load", "a", "b"], "usage: godwit utxo load [options] FILE (operands given: 2)"),
        (&["import", "-dbcahce=1"], "unknown option -dbcahce; did you mean -dbcache?"),
        (&["import", "--notesnet"], "unknown option -notesnet; did you mean -notestnet?"),
        (&["import", "-cjdnsreachable=1"], "unknown option -cjdnsreachable; see -help"),
        (&["import", "-test.dbcache=1"], "unknown option -test.dbcache; see -help"),
        (&["utxo", "stats", "-par=1"], "-par is not an option of utxo stats; -help lists them"),
        (
            &["utxo", "dump", "f", "-utxohash=0"],
            "-utxohash=0: expected a hash_serialized_3 in 64 hexadecimal digits",
        ),
        (&["import", "a", "-datadir"], "-datadir needs a value: -datadir=DIR"),
        (&["import", "a", "-par", "-1"], "-par needs a value: -par=N"),
        (&["-norpccookiefile=0"], "-norpccookiefile=0: expected 1, or -rpccookiefile with a value"),
        (&["-noprune=0"], "-noprune=0: expected 1, or -prune with a value"),
        (&["-nolisten=x"], "-nolisten=x: expected 0 or 1"),
        (&["import", "a", "-nodbcache"], "-dbcache cannot be switched off with -nodbcache"),
        (
            &["import", "a", "-noassumevalid=0"],
            "-noassumevalid=0: expected 1, or -assumevalid with a value",
        ),
        (&["import", "a", "-signet", "-regtest"], SEVERAL_NETWORKS),
        (
            &["import", "a", "-testactivationheight=csv@1"],
            "-testactivationheight is for test, testnet4, signet, regtest, but the network is main",
        ),
        (
            &["import", "a", "-signet", "-test=bip94"],
            "-test is for regtest, but the network is signet",
        ),
        (
            &["import", "a", "-signetchallenge=51"],
            "-signetchallenge is for signet, but the network is main",
        ),
    ] {
        assert_eq!(error(arguments), message, "{arguments:?}");
    }
    let homeless = Environment { home: None, cores: NonZeroUsize::MIN };
    let no_datadir = parse(["utxo".into(), "stats".into()], &homeless).expect_err("no home");
    assert_eq!(no_datadir.to_string(), "no home directory; give -datadir=DIR");
}

#[test]
fn the_nearer_source_counts() {
    let home = Home::with_config(
        "# all networks\ndbcache = 10 # MiB\nsignet.dbcache=30\n\n[regtest]\n dbcache=20\r\n",
    );
    let dbcache = |arguments: &[&str]| {
        let arguments = [&["utxo", "stats"], arguments].concat();
        home.config(&arguments).memory.coins.expect("in the file") >> 20
    };
    assert_eq!(dbcache(&[]), 10);
    assert_eq!(dbcache(&["-regtest"]), 20);
    assert_eq!(dbcache(&["-signet"]), 30);
    assert_eq!(dbcache(&["-regtest", "-dbcache=40"]), 40);
    let file = home.config(&["utxo", "stats"]).config_file;
    assert_eq!(file, Some(home.path(".godwit/godwit.conf")));
}

#[test]
fn network_of_the_file() {
    let network = |text: &str, arguments: &[&str]| {
        let arguments = [&["utxo", "stats"], arguments].concat();
        Home::with_config(text).config(&arguments).params.network
    };
    assert_eq!(network("regtest=1\n", &[]), Network::Regtest);
    assert_eq!(network("chain=test\n", &[]), Network::Testnet3);
    assert_eq!(network("regtest=1\n", &["-signet"]), Network::Signet);
    assert_eq!(network("regtest=1\n", &["-noregtest"]), Network::Main);
    assert_eq!(network("chain=signet\nsignet=1\n", &[]), Network::Signet);
    let several = |line: usize| format!(".godwit/godwit.conf:{line}: {SEVERAL_NETWORKS}");
    assert_eq!(file_error("chain=test\nsignet=1\nregtest=0\n"), several(2));
    assert_eq!(file_error("signet=1\n\ntestnet=1\n"), several(3));
    let file = Home::with_config("signet=1\nregtest=1\n");
    assert_eq!(file.error(&["utxo", "stats", "-testnet", "-testnet4"]), SEVERAL_NETWORKS);
}

#[test]
fn settings_of_other_commands_wait_in_the_file() {
    let home = Home::with_config("par=2\nassumevalid=0\n[regtest]\ntestactivationheight=csv@3\n");
    assert_eq!(home.config(&["utxo", "stats"]).command, Command::UtxoStats);
    assert_eq!(import(home.config(&["import", "a"])).script_threads.get(), 2);
    let regtest = home.config(&["import", "a", "-regtest", "-testactivationheight=cltv@4"]).params;
    assert_eq!((regtest.csv_height, regtest.bip65_height), (3, 4));
}

/// A file that bitcoind was run with.
#[test]
fn options_of_bitcoin_core_alone_are_passed_over_in_the_file_and_said() {
    let text = "daemon=1\ndbcache=9\nnodebug=x\n[signet]\ndisablewallet=1\n";
    let home = Home::with_config(text);
    let config = home.config(&["utxo", "stats"]);
    assert_eq!(config.memory.coins, Some(9 << 20));
    let file = home.path(".godwit/godwit.conf");
    let said = [(1, "daemon"), (3, "nodebug"), (5, "disablewallet")].map(|(line, name)| {
        format!("{}:{line}: godwit has no {name}: passed over", file.display())
    });
    assert_eq!(config.passed_over, said);
    // On the command line nobody inherits them.
    assert_eq!(home.error(&["-daemon"]), "unknown option -daemon; see -help");
}

/// The table of what ends a start, in the documentation, names them all.
#[test]
fn options_that_must_not_be_passed_over_are_refused_in_the_file_too() {
    let page = fs::read_to_string("../../docs/troubleshooting.md").expect("the page is there");
    let row = page.lines().find(|line| line.starts_with("| `includeconf`")).expect("a row");
    let documented: Vec<&str> =
        row.split('|').nth(1).expect("a cell").split('`').skip(1).step_by(2).collect();
    let of_core = [
        "includeconf",
        "blocksdir",
        "loadblock",
        "vbparams",
        "mocktime",
        "fastprune",
        "ipcbind",
        "privatebroadcast",
        "dns",
        "proxyrandomize",
        "uacomment",
    ];
    assert_eq!(documented, of_core);
    // Core had these once.
    for refused in of_core.into_iter().chain(["rpcssl", "gen"]) {
        let error = file_error(&format!("{refused}=1\n"));
        assert!(error.contains(&format!("unknown option {refused}")), "{error}");
    }
}

#[test]
fn no_option_of_ours_is_passed_over() {
    let absent = super::core_options::ABSENT;
    assert!(absent.is_sorted_by(|one, next| one < next));
    for name in absent {
        let error = Home::new().error(&[&format!("-{name}")]);
        assert!(error.starts_with(&format!("unknown option -{name}")), "{error}");
    }
}

#[test]
fn mistakes_in_the_file() {
    for (text, message) in [
        ("\ndbcahce=1\n", "2: unknown option dbcahce; did you mean dbcache?"),
        ("dbcache=x\n", "1: dbcache=x: expected a number of MiB, up to 16777216"),
        ("[test]\ndbcache=-1\n", "2: dbcache=-1: expected a number of MiB, up to 16777216"),
        ("dbcache\n", "1: expected name=value or [section]"),
        ("-dbcache=1\n", "1: options in the file have no leading dash"),
        (
            "rpcpassword=a#b\n",
            "1: a # in the line of rpcpassword is ambiguous; choose a password without one",
        ),
        ("[test]\nmain.dbcache=1\n", "2: unknown option main.dbcache; see -help"),
        ("[test]\nchain=test\n", "2: chain has to stand before the network sections"),
        ("verdicts=f\n", "1: verdicts is for the command line only"),
        ("dbcache=5\n#\ndbcache=5\n", "3: dbcache is given twice, first in line 1"),
        ("test=bip94\n", "1: test is for regtest, but the network is main"),
        ("nodbcache=1\n", "1: dbcache cannot be switched off with nodbcache"),
        ("regtest=\n", "1: regtest=: expected 0 or 1"),
    ] {
        assert_eq!(file_error(text), format!(".godwit/godwit.conf:{message}"), "{text:?}");
    }
    let home = Home::new();
    home.write(".godwit/godwit.conf", b"dbcache=5\nrpcuser=\xff\n");
    assert_eq!(home.error(&["utxo", "stats"]), ".godwit/godwit.conf:2: not UTF-8");
}
