//! Methods about peers.

use super::{NOT_YET, absent, optional, or, present, required};
use crate::table::Category::Network;
use crate::table::{Kind, Method};

pub(super) const ROWS: &[Method] = &[
    present(
        Network,
        "addnode",
        "Keeps a connection to a peer, gives it up, or tries to connect once.",
        &[
            required("node", Kind::Text, "The peer's address or name, perhaps with a port."),
            required("command", Kind::Text, "add, remove or onetry."),
            optional("v2transport", Kind::Bool, "Whether to begin with the encrypted protocol."),
        ],
    ),
    present(Network, "clearbanned", "Ends all bans.", &[]),
    present(
        Network,
        "disconnectnode",
        "Ends the connection to a peer, named by its address or its id.",
        &[
            optional("address", Kind::Text, "The peer's address, as in getpeerinfo."),
            optional("nodeid", Kind::Number, "The peer's id, as in getpeerinfo."),
        ],
    ),
    absent(Network, "exportasmap", NOT_YET),
    present(
        Network,
        "getaddednodeinfo",
        "The peers of addnode, and whether they are connected.",
        &[optional("node", Kind::Text, "Only this one.")],
    ),
    present(
        Network,
        "getaddrmaninfo",
        "How many addresses of peers this node knows, by network.",
        &[],
    ),
    present(Network, "getconnectioncount", "The number of connections.", &[]),
    present(Network, "getnettotals", "Bytes received and sent since the start.", &[]),
    present(Network, "getnetworkinfo", "Version, services and connections of this node.", &[]),
    present(
        Network,
        "getnodeaddresses",
        "Addresses of peers that this node knows.",
        &[
            or("count", Kind::Number, "1", "How many at most; 0 for all that are worth telling."),
            optional("network", Kind::Text, "Only addresses of this network."),
        ],
    ),
    present(Network, "getpeerinfo", "The connected peers.", &[]),
    present(Network, "listbanned", "The addresses that setban has banned.", &[]),
    present(Network, "ping", "Pings all peers; getpeerinfo shows the times.", &[]),
    present(
        Network,
        "setban",
        "Bans an address or a range of them, or ends a ban: no connection is opened to them or accepted.",
        &[
            required("subnet", Kind::Text, "An address, or one with a number of bits or a mask."),
            required("command", Kind::Text, "add or remove."),
            or("bantime", Kind::Number, "0", "For how many seconds, or until when; 0 for a day."),
            or("absolute", Kind::Bool, "false", "bantime is a time, in seconds since 1970."),
        ],
    ),
    present(
        Network,
        "setnetworkactive",
        "Turns connections to peers on or off.",
        &[required("state", Kind::Bool, "On or off.")],
    ),
];
