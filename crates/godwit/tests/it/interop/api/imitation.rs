//! A server that has what no node of these tests has: wallets, and peers of all kinds. Both clients are
//! shown it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::super::process::cached;
use super::cli::{assert_same, words};
use crate::client::{ask, said};

/// Peers with and without each of what is shown. Times are in the middle of a minute, or never.
fn peers() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    json!([
        {
            "id": 3, "addr": "127.0.0.1:8333", "network": "ipv4", "inbound": false,
            "connection_type": "outbound-full-relay", "servicesnames": ["NETWORK", "WITNESS", "P2P_V2"],
            "transport_protocol_type": "v2", "version": 70016, "subver": "/Satoshi:31.0.0/",
            "conntime": now - 90, "lastsend": 0, "lastrecv": 0, "last_block": now - 150,
            "last_transaction": now - 210, "minping": 0.0123, "pingtime": 1.5, "relaytxes": true,
            "addr_relay_enabled": true, "addr_processed": 12_345_678, "addr_rate_limited": 12_345_678,
            "bip152_hb_to": true, "bip152_hb_from": true, "mapped_as": 64_496
        },
        {
            "id": 123, "addr": "[2001:db8::1]:8333", "network": "ipv6", "inbound": true,
            "connection_type": "inbound", "servicesnames": ["NETWORK_LIMITED"],
            "transport_protocol_type": "detecting", "version": 0, "subver": "", "conntime": now - 9030,
            "lastsend": 0, "lastrecv": 0, "last_block": 0, "last_transaction": 0, "relaytxes": false,
            "addr_relay_enabled": false, "addr_processed": 0, "addr_rate_limited": 0,
            "bip152_hb_to": false, "bip152_hb_from": false
        },
        {
            "id": 4, "addr": "a.onion:8333", "network": "onion", "inbound": false,
            "connection_type": "block-relay-only", "servicesnames": [], "version": 70016,
            "transport_protocol_type": "v1", "subver": "/x/", "conntime": now - 90, "lastsend": 0,
            "lastrecv": 0, "last_block": 0, "last_transaction": 0, "minping": 2000.0,
            "pingtime": 0.0004, "bip152_hb_to": false, "bip152_hb_from": true
        },
        {
            "id": 5, "addr": "127.0.0.1:1", "network": "not_publicly_routable", "inbound": false,
            "connection_type": "manual", "servicesnames": ["NETWORK"], "version": 70016,
            "transport_protocol_type": "v1", "subver": "/y/", "conntime": now - 90, "lastsend": 0,
            "lastrecv": 0, "last_block": 0, "last_transaction": 0, "bip152_hb_to": false,
            "bip152_hb_from": false
        }
    ])
}

fn result(method: &str) -> Result<Value, Value> {
    let network = |name: &str, reachable: bool, proxy: &str| json!({ "name": name, "reachable": reachable, "proxy": proxy });
    Ok(match method {
        "getpeerinfo" => peers(),
        "getnetworkinfo" => json!({
            "version": 310_000, "subversion": "/Satoshi:31.0.0/", "protocolversion": 70016,
            "timeoffset": -1, "connections": 4, "connections_in": 1, "connections_out": 3,
            "relayfee": 0.000_01, "localservicesnames": ["NETWORK", "COMPACT_FILTERS"], "warnings": "",
            "networks": [
                network("ipv4", true, "127.0.0.1:9050"),
                network("ipv6", true, "127.0.0.1:9050"),
                network("onion", true, "127.0.0.1:9051"),
                network("i2p", false, "")
            ],
            "localaddresses": [
                { "address": "192.0.2.1", "port": 8333, "score": 4 },
                { "address": "abcdefgh.onion", "port": 8334, "score": 12 }
            ]
        }),
        "getblockchaininfo" => json!({
            "chain": "main", "blocks": 5, "headers": 9, "difficulty": 1.5, "verificationprogress": 0.43
        }),
        "getwalletinfo" => {
            json!({ "walletname": "", "keypoolsize": 1000, "unlocked_until": 1_700_000_000 })
        }
        "getbalances" => json!({ "mine": { "trusted": 12.5 } }),
        "listwallets" => json!(["", "savings"]),
        "getaddrmaninfo" => json!({
            "ipv4": { "new": 3, "tried": 1, "total": 4 },
            "all_networks": { "new": 3, "tried": 1, "total": 4 }
        }),
        "getnewaddress" => json!("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"),
        "generatetoaddress" => json!(["00", "01"]),
        "getbalance" => return Err(json!({ "code": -19, "message": "Several are loaded." })),
        _ => return Err(json!({ "code": -32601, "message": "Method not found" })),
    })
}

fn reply(request: &Value) -> Value {
    let result = result(request["method"].as_str().expect("a method"));
    let (result, error) = match result {
        Ok(result) => (result, Value::Null),
        Err(error) => (Value::Null, error),
    };
    json!({ "result": result, "error": error, "id": request["id"] })
}

/// Answers one request.
fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).expect("a request") > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    let request: Value = serde_json::from_slice(&body).expect("JSON");
    let answer = match &request {
        Value::Array(all) => all.iter().map(reply).collect(),
        one => reply(one),
    };
    let text = answer.to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
    reader.get_mut().write_all((head + &text).as_bytes()).expect("the client reads");
}

#[test]
fn both_clients_show_wallets_and_peers_alike() {
    let Some(program) = cached("bitcoin-cli", "bitcoind/build/bin/bitcoin-cli") else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // Ends with the process.
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    for command in [
        vec!["-getinfo"],
        vec!["-getinfo", "-color=always"],
        vec!["-getinfo", "-rpcwallet=savings"],
        vec!["-addrinfo"],
        vec!["-generate"],
        vec!["-generate", "3", "500"],
        vec!["-generate", "0"],
        vec!["-generate", "1", "2", "3"],
        vec!["-generate", "x"],
        vec!["-rpcwait", "-generate"],
        vec!["getbalance"],
        vec!["-netinfo"],
        vec!["-netinfo", "1"],
        vec!["-netinfo", "2"],
        vec!["-netinfo", "3"],
        vec!["-netinfo", "4"],
        vec!["-netinfo", "255", "outonly"],
        vec!["-netinfo", "256"],
    ] {
        let mut core = Command::new(&program);
        core.args(words(port, &command));
        let both = [ask(&words(port, &command), ""), said(core, "")];
        // Each says its own name in the first line.
        let [ours, theirs] = both.map(|mut said| {
            if let Some((_, rest)) = said.out.split_once(" regtest - server ") {
                said.out = rest.to_owned();
            }
            said
        });
        assert_same(&ours, &theirs, &command);
    }
}
