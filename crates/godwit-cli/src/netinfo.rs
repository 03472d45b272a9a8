//! `-netinfo`: the connections, at a glance.

use std::time::{SystemTime, UNIX_EPOCH};

use godwit_primitives::Network;
use godwit_rpc::Json;

use crate::{Failed, batch, member, unexpected};

const METHODS: [&str; 2] = ["getpeerinfo", "getnetworkinfo"];

/// Networks by name, and how a column of them is headed.
const NETWORKS: [(&str, &str); 7] = [
    ("not_publicly_routable", "npr"),
    ("ipv4", "ipv4"),
    ("ipv6", "ipv6"),
    ("onion", "onion"),
    ("i2p", "i2p"),
    ("cjdns", "cjdns"),
    ("internal", "int"),
];

/// The oldest server that says what is shown here.
const OLDEST_SERVER: i64 = 209_900;

pub(crate) const HELP: &str = "-netinfo (level [outonly]) | help

Prints the connections of the node, from getpeerinfo and getnetworkinfo.

  level    0  the number of connections by network (default)
           1  and a list of the peers
           2  the list with addresses
           3  the list with versions
           4  the list with both
  outonly  only the peers that the node connected to; o for short

Columns of the list:

  <->      in or out: who opened the connection
  type     full, block (no transactions or addresses), manual, feeler, addr (to ask for addresses)
  net      the network
  serv     what it offers: n NETWORK, b BLOOM, w WITNESS, c COMPACT_FILTERS, l NETWORK_LIMITED, 2 P2P_V2
  v        version of the transport protocol
  mping    shortest ping, in milliseconds
  ping     last ping, in milliseconds
  send     seconds since the last message to it
  recv     seconds since the last message from it
  txn      minutes since its last new transaction; * where none are exchanged
  blk      minutes since its last new block
  hb       compact blocks: . we asked it for them, * it asked us
  addrp    addresses that were taken from it; . where none are exchanged
  addrl    addresses that were too many
  age      minutes since the connection began
  asmap    the autonomous system of its address
  id       its number";

/// What is to be shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    level: u8,
    outbound_only: bool,
}

impl Shown {
    /// Of the words behind `-netinfo`.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let more = "For more information, run: godwit-cli -netinfo help";
        let Some(first) = words.first() else { return Ok(Self::default()) };
        // Digits alone, as in Core: Rust takes a plus sign before them.
        let level: Option<u8> = first.parse().ok().filter(|_| !first.starts_with('+'));
        let level =
            level.ok_or_else(|| format!("invalid -netinfo level argument: {first}\n{more}"))?;
        let outbound_only = match words.get(1).map(String::as_str) {
            None => false,
            Some("o" | "outonly") if level > 0 => true,
            Some(other) if level > 0 => {
                return Err(format!("invalid -netinfo outonly argument: {other}\n{more}"));
            }
            Some(other) => {
                return Err(format!(
                    "invalid -netinfo outonly argument: {other}\nThe outonly argument is only valid for a \
                     level greater than 0 (the first argument). {more}"
                ));
            }
        };
        Ok(Self { level: level.min(4), outbound_only })
    }

    fn details(self) -> bool {
        self.level > 0
    }
}

pub(crate) fn request() -> Json {
    batch::request(&METHODS)
}

fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.get(name).and_then(|value| value.as_text().ok()).unwrap_or_default()
}

fn number(json: &Json, name: &str) -> i64 {
    json.get(name).and_then(|value| value.as_integer().ok()).unwrap_or(0)
}

fn flag(json: &Json, name: &str, missing: bool) -> bool {
    json.get(name).and_then(|value| value.as_bool().ok()).unwrap_or(missing)
}

fn list<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    json.get(name).and_then(|value| value.as_list().ok()).unwrap_or_default()
}

/// Seconds as rounded milliseconds.
fn ping(peer: &Json, name: &str) -> (f64, String) {
    let Some(Json::Number(digits)) = peer.get(name) else { return (-1.0, String::new()) };
    let seconds: f64 = digits.parse().unwrap_or(-1.0);
    let milliseconds = (seconds * 1000.0).round();
    (seconds, if milliseconds > 999_999.0 { "-".to_owned() } else { format!("{milliseconds}") })
}

/// A letter for each service.
fn services(names: &[Json]) -> String {
    let letter = |name: &Json| match name.as_text().unwrap_or_default() {
        "NETWORK_LIMITED" => Some('l'),
        "P2P_V2" => Some('2'),
        name => name.chars().next().map(|letter| letter.to_ascii_lowercase()),
    };
    names.iter().filter_map(letter).collect()
}

fn service_list(names: &[Json]) -> String {
    let name = |name: &Json| name.as_text().unwrap_or_default().to_lowercase().replace('_', " ");
    names.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn kind(name: &str) -> &str {
    match name {
        "outbound-full-relay" => "full",
        "block-relay-only" => "block",
        "manual" | "feeler" => name,
        "addr-fetch" => "addr",
        "private-broadcast" => "priv",
        _ => "",
    }
}

/// Connections by direction and network; the last column is their sum.
#[derive(Default)]
struct Counts {
    rows: [[u32; NETWORKS.len() + 1]; 3],
    block_only: u32,
    manual: u32,
}

const INBOUND: usize = 0;
const OUTBOUND: usize = 1;
const TOTAL: usize = 2;

impl Counts {
    fn of(peers: &[Json]) -> Self {
        let mut counts = Self::default();
        for peer in peers {
            let Some(network) = network_of(peer) else { continue };
            let direction = if flag(peer, "inbound", false) { INBOUND } else { OUTBOUND };
            for (row, column) in [direction, TOTAL]
                .into_iter()
                .flat_map(|row| [(row, network), (row, NETWORKS.len())])
            {
                counts.rows[row][column] += 1;
            }
            match text(peer, "connection_type") {
                "block-relay-only" => counts.block_only += 1,
                "manual" => counts.manual += 1,
                _ => {}
            }
        }
        counts
    }

    fn table(&self, info: &Json) -> String {
        let mut table = String::from("     ");
        let mut columns = Vec::new();
        for network in list(info, "networks") {
            let name = text(network, "name");
            let known = NETWORKS.iter().position(|(known, _)| *known == name);
            if let Some(column) = known.filter(|_| flag(network, "reachable", false)) {
                table.push_str(&format!("{name:>8}"));
                columns.push(column);
            }
        }
        // Nobody can choose these; they are shown where there are some.
        for column in [0, NETWORKS.len() - 1] {
            if self.rows[TOTAL][column] > 0 {
                table.push_str(&format!("{:>8}", NETWORKS[column].1));
                columns.push(column);
            }
        }
        table.push_str("   total   block");
        if self.manual > 0 {
            table.push_str("  manual");
        }
        for (row, name) in [(INBOUND, "in"), (OUTBOUND, "out"), (TOTAL, "total")] {
            table.push_str(&format!("\n{name:<5}"));
            for column in &columns {
                table.push_str(&format!("{:>8}", self.rows[row][*column]));
            }
            table.push_str(&format!("   {:>5}", self.rows[row][NETWORKS.len()]));
            if row == OUTBOUND {
                table.push_str(&format!("   {:>5}", self.block_only));
                if self.manual > 0 {
                    table.push_str(&format!("   {:>5}", self.manual));
                }
            }
        }
        table
    }
}

fn network_of(peer: &Json) -> Option<usize> {
    NETWORKS.iter().position(|(name, _)| *name == text(peer, "network"))
}

/// A line of the list; columns whose width depends on all lines stand by themselves.
struct Line {
    outbound: bool,
    shortest_ping: f64,
    start: String,
    services: String,
    middle: String,
    addresses: String,
    limited: String,
    age: String,
    system: String,
    id: String,
    address: String,
    version: String,
}

/// Time since a moment that may never have been, in units of so many seconds.
fn since(now: i64, moment: i64, unit: i64) -> String {
    if moment == 0 { String::new() } else { ((now - moment) / unit).to_string() }
}

impl Line {
    fn of(peer: &Json, now: i64) -> Self {
        let network = network_of(peer).map_or("", |network| NETWORKS[network].1);
        let ((shortest_ping, shortest), (_, last)) =
            (ping(peer, "minping"), ping(peer, "pingtime"));
        let outbound = !flag(peer, "inbound", false);
        let transport = match peer.get("transport_protocol_type") {
            None => "v1",
            Some(_) => text(peer, "transport_protocol_type"),
        };
        let transport = transport.strip_prefix('v').filter(|v| v.len() == 1).unwrap_or(" ");
        let transaction = match number(peer, "last_transaction") {
            0 if flag(peer, "relaytxes", true) => String::new(),
            0 => "*".to_owned(),
            moment => since(now, moment, 60),
        };
        let processed = match number(peer, "addr_processed") {
            0 if flag(peer, "addr_relay_enabled", false) => String::new(),
            0 => ".".to_owned(),
            count => count.to_string(),
        };
        let or_empty = |count: i64| if count == 0 { String::new() } else { count.to_string() };
        let compact = |name, mark| if flag(peer, name, false) { mark } else { ' ' };
        let version = format!("{}{}", number(peer, "version"), text(peer, "subver"));
        Self {
            outbound,
            shortest_ping,
            start: format!(
                "{:>3} {:>6} {network:>5}",
                if outbound { "out" } else { "in" },
                kind(text(peer, "connection_type"))
            ),
            services: services(list(peer, "servicesnames")),
            middle: format!(
                "{transport:>2}{shortest:>7}{last:>7}{:>5}{:>5}{transaction:>5}{:>5}  {}{}",
                since(now, number(peer, "lastsend"), 1),
                since(now, number(peer, "lastrecv"), 1),
                since(now, number(peer, "last_block"), 60),
                compact("bip152_hb_to", '.'),
                compact("bip152_hb_from", '*'),
            ),
            addresses: processed,
            limited: or_empty(number(peer, "addr_rate_limited")),
            age: since(now, number(peer, "conntime"), 60),
            system: or_empty(number(peer, "mapped_as")),
            id: number(peer, "id").to_string(),
            address: text(peer, "addr").to_owned(),
            version: if version == "0" { String::new() } else { version },
        }
    }
}

fn listed(mut lines: Vec<Line>, shown: Shown) -> String {
    lines.sort_by(|a, b| {
        a.outbound.cmp(&b.outbound).then(a.shortest_ping.total_cmp(&b.shortest_ping))
    });
    let widest = |column: fn(&Line) -> &str, least: usize| {
        lines.iter().map(|line| column(line).len()).fold(least, usize::max)
    };
    let serv = widest(|line| &line.services, 6);
    let addrp = widest(|line| &line.addresses, 5);
    let addrl = widest(|line| &line.limited, 6);
    let age = widest(|line| &line.age, 5);
    let id = widest(|line| &line.id, 2);
    let systems = lines.iter().any(|line| !line.system.is_empty());
    let (addresses, versions) = (matches!(shown.level, 2 | 4), matches!(shown.level, 3 | 4));
    let address = if addresses { widest(|line| &line.address, 0) + 1 } else { 0 };
    let (head_address, head_version) =
        (if addresses { "address" } else { "" }, if versions { "version" } else { "" });
    let mut text = format!(
        "<->   type   net {:>serv$}  v  mping   ping send recv  txn  blk  hb {:>addrp$}{:>addrl$}{:>age$} \
         {}{:>id$} {head_address:<address$}{head_version}\n",
        "serv",
        "addrp",
        "addrl",
        "age",
        if systems { " asmap " } else { "" },
        "id",
    );
    for line in &lines {
        let Line { start, services, middle, limited, .. } = line;
        let (system, system_width) = (&line.system, if systems { 7 } else { 0 });
        text.push_str(&format!(
            "{start} {services:>serv$} {middle} {:>addrp$}{limited:>addrl$}{:>age$}{system:>system_width$} \
             {:>id$} {:<address$}{}\n",
            line.addresses,
            line.age,
            line.id,
            if addresses { &line.address } else { "" },
            if versions { &line.version } else { "" },
        ));
    }
    text.push_str(&format!(
        "                {:>serv$}         ms     ms  sec  sec  min  min                {:>age$}\n\n",
        "", "min"
    ));
    text
}

pub(crate) fn shown(reply: &Json, shown: Shown, network: Network) -> Result<String, Failed> {
    let answers = batch::results(reply, &[0, 1], METHODS.len())?;
    let info = &answers[1];
    let version: i64 = member(info, "version").as_integer().map_err(unexpected)?;
    if version < OLDEST_SERVER {
        return Err("-netinfo requires bitcoind server to be running v0.21.0 and up".into());
    }
    let peers = answers[0].as_list();
    let peers = peers.map_err(|_| "JSON value is not an object or array as expected")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    let services_line = list(info, "localservicesnames");
    let mut text = format!(
        "godwit client v{}{} - server {}{}{}\n\n",
        env!("CARGO_PKG_VERSION"),
        match network {
            Network::Main => "",
            Network::Testnet3 => " testnet",
            Network::Testnet4 => " testnet4",
            Network::Signet => " signet",
            Network::Regtest => " regtest",
        },
        number(info, "protocolversion"),
        self::text(info, "subversion"),
        match shown.details() {
            true => format!(" - services {}", services(services_line)),
            false => String::new(),
        },
    );
    let wanted = |peer: &&Json| {
        network_of(peer).is_some() && !(shown.outbound_only && flag(peer, "inbound", false))
    };
    let lines: Vec<Line> = peers.iter().filter(wanted).map(|peer| Line::of(peer, now)).collect();
    if shown.details() && !lines.is_empty() {
        text.push_str(&listed(lines, shown));
    }
    text.push_str(&Counts::of(peers).table(info));
    if !shown.details() {
        text.push_str(&format!("\n\nLocal services: {}", service_list(services_line)));
    }
    text.push_str("\n\nLocal addresses");
    let local = list(info, "localaddresses");
    if local.is_empty() {
        text.push_str(": n/a\n");
    }
    let width = local.iter().map(|at| self::text(at, "address").len() + 1).max().unwrap_or(0);
    for at in local {
        text.push_str(&format!(
            "\n{:<width$}    port {:>6}    score {:>6}",
            self::text(at, "address"),
            number(at, "port"),
            number(at, "score")
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_digits_alone() {
        let level = |word: &str| Shown::parse(&[word.to_owned()]).map(|shown| shown.level);
        assert_eq!(["0", "1", "01", "255"].map(level), [Ok(0), Ok(1), Ok(1), Ok(4)]);
        for refused in ["+1", "-1", "256", ""] {
            let error = level(refused).expect_err(refused);
            assert!(error.starts_with("invalid -netinfo level argument: "), "{error}");
        }
    }
}
