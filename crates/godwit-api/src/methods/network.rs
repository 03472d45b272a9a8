//! `getnetworkinfo`, `getnettotals`, `getconnectioncount`, `setnetworkactive`.

use std::time::{SystemTime, UNIX_EPOCH};

use godwit_p2p::{AddressNetwork, NodeCommand, OwnAddress, Reachable, Services};
use godwit_rpc::{Json, RpcError};

use super::Call;
use crate::seam::{NodeState, Proxies};

/// As Core's release whose answers these are: clients decide by it what they may ask.
pub(crate) const VERSION: u32 = 310_000;
/// The text that goes with it. Some compare what follows the first slash, others its beginning.
const RELEASE: &str = "/Satoshi:31.0.0";
pub(crate) const PROTOCOL_VERSION: u32 = 70_016;
/// Satoshi per thousand bytes (Core's default).
const RELAY_FEE: i64 = 100;

/// Those that can be reached, in the order in which they are listed.
pub(super) const NETWORKS: [AddressNetwork; 5] = [
    AddressNetwork::Ipv4,
    AddressNetwork::Ipv6,
    AddressNetwork::Onion,
    AddressNetwork::I2p,
    AddressNetwork::Cjdns,
];

/// What the node offers, of what it stores now.
pub(super) fn services(node: &dyn NodeState) -> Services {
    let chain = node.chain();
    node.peers().services(chain.prune_height(), chain.tip_point().height)
}

pub(super) fn services_names(services: Services) -> Json {
    let names = services.to_string();
    names.split(", ").filter(|name| !name.is_empty()).collect()
}

pub(super) fn services_hex(services: Services) -> Json {
    format!("{:016x}", services.0).into()
}

pub(super) fn network_name(network: AddressNetwork) -> &'static str {
    match network {
        AddressNetwork::Unroutable => "not_publicly_routable",
        AddressNetwork::Ipv4 => "ipv4",
        AddressNetwork::Ipv6 => "ipv6",
        AddressNetwork::Onion => "onion",
        AddressNetwork::I2p => "i2p",
        AddressNetwork::Cjdns => "cjdns",
    }
}

fn networks(reachable: Reachable, proxies: Proxies) -> Json {
    let network = |network| {
        let proxy = match network {
            AddressNetwork::Ipv4 | AddressNetwork::Ipv6 | AddressNetwork::Cjdns => proxies.clearnet,
            AddressNetwork::Onion => proxies.onion,
            _ => None,
        };
        let is_reachable = reachable.contains(network);
        Json::object([
            ("name", network_name(network).into()),
            ("limited", (!is_reachable).into()),
            ("reachable", is_reachable.into()),
            ("proxy", proxy.map_or(String::new(), |proxy| proxy.to_string()).into()),
            ("proxy_randomize_credentials", proxy.is_some().into()),
        ])
    };
    NETWORKS.into_iter().map(network).collect()
}

fn own_address(own: &OwnAddress) -> Json {
    Json::object([
        ("address", own.address.host.to_string().into()),
        ("port", own.address.port.into()),
        ("score", own.score.into()),
    ])
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let seam = call.node.clone();
    let (services, ahead, (inbound, outbound), own, reached, snapshot) =
        call.node.ask(move |node| {
            let peers = node.peers();
            let own: Vec<OwnAddress> = peers.own_addresses().iter().collect();
            let reached = networks(peers.reachable(), seam.proxies());
            let counts = peers.connection_counts();
            (services(node), peers.clock_offset(), counts, own, reached, seam.snapshot())
        })?;
    Ok(Json::object([
        ("version", VERSION.into()),
        ("subversion", format!("{RELEASE}/godwit:{}/", call.api.program.version).into()),
        ("protocolversion", PROTOCOL_VERSION.into()),
        ("localservices", services_hex(services)),
        ("localservicesnames", services_names(services)),
        // Core Lightning refuses a node that says no.
        ("localrelay", true.into()),
        ("timeoffset", ahead.into()),
        ("networkactive", snapshot.network_active.into()),
        ("connections", (inbound + outbound).into()),
        ("connections_in", inbound.into()),
        ("connections_out", outbound.into()),
        ("networks", reached),
        ("relayfee", Json::amount(RELAY_FEE)),
        ("incrementalfee", Json::amount(RELAY_FEE)),
        ("localaddresses", own.iter().map(own_address).collect()),
        ("warnings", call.warnings(&snapshot)),
    ]))
}

pub(super) fn connection_count(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (inbound, outbound) = call.node.ask(|node| node.peers().connection_counts())?;
    Ok((inbound + outbound).into())
}

/// Seconds over which uploads are counted.
const DAY: u64 = 24 * 60 * 60;

pub(super) fn totals(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (traffic, upload) =
        call.node.ask(|node| (node.peers().total_traffic(), node.peers().upload()))?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let target = Json::object([
        ("timeframe", DAY.into()),
        ("target", upload.target.into()),
        ("target_reached", upload.reached.into()),
        ("serve_historical_blocks", (!upload.refuses_old_blocks).into()),
        ("bytes_left_in_cycle", upload.bytes_left.into()),
        ("time_left_in_cycle", upload.seconds_left.into()),
    ]);
    Ok(Json::object([
        ("totalbytesrecv", traffic.received.into()),
        ("totalbytessent", traffic.sent.into()),
        ("timemillis", millis.into()),
        ("uploadtarget", target),
    ]))
}

pub(super) fn set_active(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let active = call.arg(0).as_bool()?;
    call.node
        .change(move |node| {
            node.command(NodeCommand::SetNetworkActive(active));
            node.network_active()
        })
        .map(Json::from)
}
