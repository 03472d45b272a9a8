//! `-web`, `-metrics` and the command `status`.

use super::*;

fn places(arguments: &[&str]) -> [Option<String>; 2] {
    let rpc = Home::new().config(arguments).rpc.expect("a server");
    [rpc.web, rpc.metrics].map(|place| place.map(|address| address.to_string()))
}

#[test]
fn page_and_figures_are_off_unless_they_are_switched_on() {
    assert_eq!(places(&[]), [None, None]);
    let usual = [Some("127.0.0.1:8338".to_owned()), Some("127.0.0.1:9332".to_owned())];
    assert_eq!(places(&["-web", "-metrics"]), usual);
    assert_eq!(places(&["-web=1", "-metrics=127.0.0.1"]), usual);
    assert_eq!(places(&["-web", "-noweb", "-metrics=0"]), [None, None]);
    let elsewhere = [Some("[::1]:5".to_owned()), Some("0.0.0.0:7".to_owned())];
    assert_eq!(places(&["-web=[::1]:5", "-metrics=0.0.0.0:7"]), elsewhere);
    // A word behind it is a command, and no value.
    assert!(matches!(Home::new().config(&["-json", "status"]).command, Command::Status(_)));
    assert!(error(&["-web", "127.0.0.1"]).contains("unknown command"));
}

#[test]
fn who_asks_finds_port_and_password_where_the_node_does() {
    let home =
        Home::with_config("rpcuser=u\nrpcpassword=p\n[regtest]\nrpcport=5\nrpccookiefile=c\n");
    let Command::Status(options) = home.config(&["status", "-regtest"]).command else {
        panic!("another command")
    };
    assert_eq!(options.port, 5);
    assert_eq!(options.cookie, Some(PathBuf::from("c")));
    let login = options.login.map(|(user, password)| (user, password.text().to_owned()));
    assert_eq!(login, Some(("u".to_owned(), "p".to_owned())));
    let Command::Status(alone) = Home::new().config(&["status", "-norpccookiefile"]).command else {
        panic!("another command")
    };
    assert_eq!((alone.port, alone.cookie, alone.json), (8332, None, false));
}
