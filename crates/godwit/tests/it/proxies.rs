//! Nodes that reach others through SOCKS5 proxies. The proxy is a thread of the test: it resolves any
//! name to the port that it is told, and remembers what it was asked for.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use godwit::exit::Exit;

use crate::blocks::small_chain;
use crate::import::small_chain_stats;
use crate::node::Node;
use crate::sync::{free_port, serve, stops_in_time, with_small_chain};

const VERSION: u8 = 5;
const USERNAME_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const ADDRESS_NAME: u8 = 3;

/// An onion address that is well formed.
const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";

/// A name that no resolver knows (RFC 6761).
const NAME: &str = "node.invalid";

pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// Hosts and ports that it was asked for, in order.
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

impl Proxy {
    /// Every destination is the node that listens on `to`.
    pub(crate) fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&asked);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, asked) = (client.expect("it listens"), Arc::clone(&hears));
                // It ends in an error when one of the nodes does.
                thread::spawn(move || relay(client, to, &asked).ok());
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<(String, u16)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn field(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; length[0].into()];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// RFC 1928 and RFC 1929 as far as a node of ours goes, then bytes both ways.
fn relay(mut client: TcpStream, to: u16, asked: &Mutex<Vec<(String, u16)>>) -> io::Result<()> {
    let mut byte = [0];
    client.read_exact(&mut byte)?;
    assert_eq!(byte, [VERSION]);
    assert!(field(&mut client)?.contains(&USERNAME_PASSWORD), "connections are told apart");
    client.write_all(&[VERSION, USERNAME_PASSWORD])?;
    client.read_exact(&mut byte)?;
    let (_name, _password) = (field(&mut client)?, field(&mut client)?);
    client.write_all(&[1, 0])?;
    let mut request = [0; 4];
    client.read_exact(&mut request)?;
    assert_eq!(request, [VERSION, CONNECT, 0, ADDRESS_NAME]);
    let host = String::from_utf8(field(&mut client)?).expect("a name is text");
    let mut port = [0; 2];
    client.read_exact(&mut port)?;
    let mut all = asked.lock().unwrap_or_else(PoisonError::into_inner);
    all.push((host, u16::from_be_bytes(port)));
    drop(all);
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    client.write_all(&[VERSION, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || {
        io::copy(&mut from_server, &mut to_client).ok();
        to_client.shutdown(Shutdown::Both).ok();
    });
    io::copy(&mut client, &mut server).ok();
    server.shutdown(Shutdown::Both).ok();
    back.join().expect("it does not panic");
    Ok(())
}

/// A node that connects to this host alone, through these proxies, and syncs.
fn sync(host: &str, options: &[String]) {
    let node = Node::new("regtest");
    let connect = format!("-connect={host}");
    let stop = format!("-stopatheight={}", small_chain().len());
    let mut words: Vec<&dyn AsRef<OsStr>> = vec![&connect, &stop];
    words.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    node.run(&words).expect(Exit::Success);
    assert_eq!(node.stats(), small_chain_stats());
}

#[test]
fn a_node_syncs_through_its_proxy_and_asks_it_for_names_and_addresses() {
    let server = with_small_chain();
    let port = free_port();
    let serving = serve(&server, port);
    for host in [NAME, "9.9.9.9"] {
        let proxy = Proxy::start(port);
        sync(&format!("{host}:77"), &[format!("-proxy=127.0.0.1:{}", proxy.port)]);
        assert_eq!(proxy.asked(), [(host.to_owned(), 77)]);
    }
    // Who is on this machine is called there.
    let proxy = Proxy::start(port);
    sync(&format!("127.0.0.1:{port}"), &[format!("-proxy=127.0.0.1:{}", proxy.port)]);
    assert_eq!(proxy.asked().len(), 0);
    stops_in_time(serving);
}

#[test]
fn onion_addresses_have_a_proxy_of_their_own() {
    let server = with_small_chain();
    let port = free_port();
    let serving = serve(&server, port);
    let (usual, onion) = (Proxy::start(port), Proxy::start(port));
    let both =
        [format!("-proxy=127.0.0.1:{}", usual.port), format!("-onion=127.0.0.1:{}", onion.port)];
    sync(&format!("{ONION}:78"), &both);
    assert_eq!((usual.asked(), onion.asked()), (vec![], vec![(ONION.to_owned(), 78)]));
    sync(&format!("{NAME}:79"), &both);
    assert_eq!((usual.asked(), onion.asked().len()), (vec![(NAME.to_owned(), 79)], 1));
    // -proxy alone is for both, -onion alone for onion addresses.
    sync(&format!("{ONION}:80"), &both[..1]);
    assert_eq!(usual.asked()[1], (ONION.to_owned(), 80));
    sync(&format!("{ONION}:81"), &both[1..]);
    sync(&format!("127.0.0.1:{port}"), &both[1..]);
    assert_eq!((usual.asked().len(), onion.asked().len()), (2, 2));
    stops_in_time(serving);
}
