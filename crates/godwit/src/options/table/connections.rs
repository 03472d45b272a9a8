//! The table of the options that concern the node's peers.

use std::ffi::OsStr;

use godwit_p2p::{NetAddress, PermissionError};
use godwit_program::options::{FilePlace, Form, OptionSpec, Setter, values as plain};

use super::{CONNECTIONS, Draft, Godwit, OF_NODE, setting, values};
use crate::options::rpc::PlainPassword;
use values::OrOff;

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec<Godwit>] = &[
    connection_flag(
        "networkactive",
        "Connect and accept connections (default: 1).",
        |draft, text| {
            draft.connections.network_active = Some(plain::flag(text)?);
            Some(())
        },
    ),
    connection_flag(
        "listen",
        "Accept connections from others (default: 1, but 0 with -connect, -proxy or \
         -maxconnections=0, unless -bind or -whitebind is given).",
        |draft, text| {
            draft.connections.listening.on = Some(plain::flag(text)?);
            Some(())
        },
    ),
    OptionSpec {
        repeats: true,
        file: FilePlace::PerNetwork,
        ..connection_setting(
            "bind",
            "ADDRESS[:PORT][=onion]",
            "an IP address and perhaps a port, and perhaps =onion behind them; [ADDRESS]:PORT for IPv6",
            "Listen on this address (default: all of them). With =onion it is for peers that Tor \
             passes on from an onion service (default: with -listenonion 127.0.0.1, and the next \
             port). May be given several times.",
            |draft, text| {
                let (listening, text) = (&mut draft.connections.listening, text.to_str()?);
                let (bindings, address) = match text.strip_suffix("=onion") {
                    Some(address) => (&mut listening.onion_bind, address),
                    None => (&mut listening.bind, text),
                };
                bindings.push(values::ip_port(OsStr::new(address))?);
                Some(())
            },
        )
    },
    OptionSpec {
        file: FilePlace::PerNetwork,
        ..connection_setting(
            "port",
            "PORT",
            "a port from 1 to 65535",
            "Listen on this port (default: 8333, test 18333, testnet4 48333, signet 38333, regtest \
             18444).",
            |draft, text| {
                draft.connections.listening.port = Some(plain::port(text)?);
                Some(())
            },
        )
    },
    connection_setting(
        "maxconnections",
        "N",
        "a number of connections",
        "Keep at most N connections (default: 125), those of -addnode and -connect aside.",
        |draft, text| {
            draft.connections.max_connections = Some(plain::number(text)?);
            Some(())
        },
    ),
    OptionSpec {
        form: Form::Value { placeholder: "HOST[:PORT]", expected: HOST_EXPECTED, off: Some("0") },
        repeats: true,
        file: FilePlace::PerNetwork,
        ..connection_setting(
            "connect",
            "",
            "",
            "Connect only to this peer (and those of -addnode); with -noconnect, only to those of \
             -addnode. May be given several times.",
            |draft, text| {
                if text == "0" {
                    draft.connections.connect = Some(Vec::new());
                } else {
                    let peer = values::host_port(text)?;
                    draft.connections.connect.get_or_insert_default().push(peer);
                }
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        file: FilePlace::PerNetwork,
        ..connection_setting(
            "addnode",
            "HOST[:PORT]",
            HOST_EXPECTED,
            "Stay connected to this peer, besides others (8 at once). May be given several times.",
            |draft, text| {
                draft.connections.add_nodes.push(values::host_port(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        repeats: true,
        ..connection_setting(
            "seednode",
            "HOST[:PORT]",
            HOST_EXPECTED,
            "Ask this peer for addresses of other ones. May be given several times.",
            |draft, text| {
                draft.connections.seed_nodes.push(values::host_port(text)?);
                Some(())
            },
        )
    },
    connection_flag(
        "dnsseed",
        "Look up addresses of peers by name when too few are known (default: 1, but 0 with -connect, \
         -maxconnections=0, or -onlynet without ipv4 and ipv6).",
        |draft, text| {
            draft.connections.seeds.dns = Some(plain::flag(text)?);
            Some(())
        },
    ),
    connection_flag(
        "fixedseeds",
        "Use addresses that are compiled in if no other source names peers (default: 1). Of no effect \
         with -connect and -maxconnections=0.",
        |draft, text| plain::flag(text).map(|on| draft.connections.seeds.fixed = Some(on)),
    ),
    OptionSpec {
        form: PROXY_FORM,
        ..connection_setting(
            "proxy",
            "",
            "",
            "Connect through this SOCKS5 proxy (default port: 9050), which resolves names too.",
            |draft, text| {
                draft.connections.proxy = Some(OrOff::parse(text, values::ip_port)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: PROXY_FORM,
        ..connection_setting(
            "onion",
            "",
            "",
            "Reach onion addresses through this SOCKS5 proxy (default: that of -proxy); -noonion \
             does not reach them.",
            |draft, text| {
                draft.connections.onion = Some(OrOff::parse(text, values::ip_port)?);
                Some(())
            },
        )
    },
    connection_flag(
        "listenonion",
        "Have Tor make an onion service, at which this node can be reached, and use its proxy to onion \
         addresses unless -onion is given (default: as -listen). Nothing happens if Tor has no control \
         port. The service's key is kept in onion_v3_private_key.",
        |draft, text| plain::flag(text).map(|on| draft.connections.tor.listen = Some(on)),
    ),
    connection_setting(
        "torcontrol",
        "ADDRESS[:PORT]",
        "the IP address of Tor and perhaps the port of its ControlPort",
        "Ask Tor there (default: 127.0.0.1:9051). It authenticates by its cookie file, which this node \
         has to be able to read, by -torpassword, or not at all.",
        |draft, text| {
            draft.connections.tor.control = Some(values::ip_port(text)?);
            Some(())
        },
    ),
    connection_setting(
        "torpassword",
        "PASSWORD",
        "a password",
        "The password of Tor's control port, of which Tor has the HashedControlPassword. All users who \
         can read the file, or see the list of processes, know it: Tor's cookie file is better.",
        |draft, text| {
            draft.connections.tor.password = Some(PlainPassword::new(values::named(text)?));
            Some(())
        },
    ),
    OptionSpec {
        repeats: true,
        ..connection_setting(
            "onlynet",
            "NETWORK",
            "ipv4, ipv6 or onion; I2P and CJDNS cannot be reached",
            "Choose peers only in this network: ipv4, ipv6 or onion. Those of -connect, -addnode and \
             -seednode, and peers that connect to us, are not affected. May be given several times.",
            |draft, text| {
                draft.connections.only_networks.push(values::network(text)?);
                Some(())
            },
        )
    },
    OptionSpec {
        form: Form::Value { placeholder: "FILE", expected: "", off: Some("0") },
        repeats: false,
        ..explained_setting(
            "asmap",
            "",
            "Group peers by autonomous system, as this file maps IP addresses to them, and not by prefix: in \
             the address book, and so that connections lead to different ones. A relative path is one in the \
             network's data directory.",
            |draft, text| {
                draft.connections.asmap = Some(values::asmap(text)?);
                Ok(())
            },
        )
    },
    connection_flag(
        "v2transport",
        "Encrypt connections to peers that can do that too (BIP324, default: 1).",
        |draft, text| plain::flag(text).map(|on| draft.connections.v2_transport = Some(on)),
    ),
    explained_setting(
        "externalip",
        "ADDRESS[:PORT]",
        "Tell peers that this node can be reached at this IP, onion or I2P address (default port: that \
         of -bind, -whitebind or -port). May be given several times.",
        |draft, text| {
            let text = text.to_string_lossy();
            let address = NetAddress::parse(&text, 0).ok().filter(NetAddress::is_valid);
            let unresolved = || format!("Cannot resolve -externalip address: '{text}'");
            draft.connections.listening.external.push(address.ok_or_else(unresolved)?);
            Ok(())
        },
    ),
    connection_flag(
        "discover",
        "Find out where this node can be reached, from the addresses of its interfaces and from what \
         peers say (default: 1, but 0 with -externalip or -proxy, or without -listen).",
        |draft, text| plain::flag(text).map(|on| draft.connections.listening.discover = Some(on)),
    ),
    connection_flag(
        "natpmp",
        "Have the router forward the port on which this node listens, by PCP or NAT-PMP, and tell peers the \
         address that it gives (default: 0).",
        |draft, text| plain::flag(text).map(|on| draft.connections.listening.natpmp = on),
    ),
    explained_setting(
        "whitelist",
        "[PERMISSIONS@]IP[/NET]",
        "Let peers at this address or in this network, such as 1.2.3.0/24, do more than others. \
         Permissions are named before an @ with commas between them (default: noban,mempool,download): \
         noban (do not ban, discourage or evict them, or disconnect them for exceeding an allowance; \
         implies download), download (old blocks above -maxuploadtarget, headers of a chain with less \
         than the minimum work), addr (other addresses with each answer, and as many of theirs as they \
         send), mempool (they may ask what is in the mempool: nothing), relay (they may announce \
         transactions, which are ignored); bloomfilter and forcerelay are accepted and change nothing; \
         all means all of them. With in among them they are for peers that connect to us (also without \
         in and out), with out for those of -addnode and -connect, with both for both. May be given \
         several times.",
        |draft, text| {
            let text = text.to_string_lossy();
            draft.connections.whitelist.add(&text).map_err(|error| error.to_string())
        },
    ),
    explained_setting(
        "whitebind",
        "[PERMISSIONS@]ADDRESS:PORT",
        "Listen on this address, and let peers that connect there do more than others; permissions are \
         those of -whitelist, without out. May be given several times.",
        |draft, text| {
            let parsed = text.to_string_lossy().parse();
            parsed
                .map(|binding| draft.connections.listening.white_bind.push(binding))
                .map_err(|error: PermissionError| error.to_string())
        },
    ),
    connection_setting(
        "maxuploadtarget",
        "N[UNIT]",
        BYTES_EXPECTED,
        "Try to send no more than this in 24 hours, blocks of the last week aside; 0 for no limit \
         (default: 0). Without a unit in MiB; k, m, g, t are powers of 1000, K, M, G, T of 1024.",
        |draft, text| {
            draft.connections.traffic.upload_target = Some(values::bytes(text, 1 << 20)?);
            Some(())
        },
    ),
    connection_setting(
        "maxdownloadrate",
        "N[UNIT]",
        BYTES_EXPECTED,
        "Receive no more than this in a second; 0 for no limit (default: 0). Without a unit in KiB, \
         else as -maxuploadtarget.",
        |draft, text| {
            draft.connections.traffic.download_rate = Some(values::bytes(text, 1 << 10)?);
            Some(())
        },
    ),
];

const HOST_EXPECTED: &str = "a name or an IP address and perhaps a port; [ADDRESS]:PORT for IPv6";
const PROXY_FORM: Form = Form::Value {
    placeholder: "ADDRESS[:PORT]",
    expected: "the IP address of a proxy and perhaps its port, or 0 for none",
    off: Some("0"),
};
const BYTES_EXPECTED: &str = "a number, perhaps with a unit k, K, m, M, g, G, t or T";

/// A setting of the node that concerns its peers.
const fn connection_setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let every = setting(name, placeholder, expected, help, set);
    OptionSpec { commands: OF_NODE, group: CONNECTIONS, ..every }
}

/// A setting that says itself what is wrong with its value, and may be given several times.
const fn explained_setting(
    name: &'static str,
    placeholder: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Result<(), String>,
) -> OptionSpec<Godwit> {
    OptionSpec {
        repeats: true,
        set: Setter::Explained(set),
        ..connection_setting(name, placeholder, "", help, |_, _| None)
    }
}

const fn connection_flag(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    OptionSpec { form: Form::Flag, ..connection_setting(name, "", "", help, set) }
}
