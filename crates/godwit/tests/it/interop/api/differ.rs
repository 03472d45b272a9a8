//! What two nodes answer, held against each other.

use serde_json::{Value, json};

use super::http::{exchange, post};

/// A difference that is meant to be: where, and why. `.*` at the end stands for all that is within, and `*`
/// elsewhere for any one name.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("getblockchaininfo", "size_on_disk", "bitcoind reserves space ahead"),
    ("getmininginfo", "currentblocktx", "each of the blocks that it assembled itself"),
    ("getmininginfo", "currentblockweight", "the same"),
    ("getmininginfo", "next.*", "a second may lie between the two questions"),
    ("getchainstates", "chainstates.*.coins_db_cache_bytes", "another format"),
    ("getchainstates", "chainstates.*.coins_tip_cache_bytes", "other caches"),
    ("getnetworkinfo", "version", "a release's number"),
    ("getnetworkinfo", "subversion", "a release's name, and godwit's behind it"),
    (
        "getnetworkinfo",
        "protocolversion",
        "70017 adds a message for features, of which there are none",
    ),
    ("getnetworkinfo", "localservices", "what each offers"),
    ("getnetworkinfo", "localservicesnames", "the same"),
    ("getnetworkinfo", "localaddresses", "bitcoind looks its addresses up"),
    ("getdeploymentinfo", "deployments.testdummy", "a deployment for tests of Bitcoin Core"),
    ("getdeploymentinfo", "deployments.taproot", "for clients that look there"),
    ("getmempoolinfo", "usage", "bitcoind's empty mempool takes memory"),
    ("getmempoolinfo", "unbroadcastcount", "bitcoind counts only what sendrawtransaction sent"),
    ("getmempoolentry", "unbroadcast", "the same"),
    ("getmempoolentry", "chunkweight", "godwit tells of the transaction alone"),
    ("getmempoolentry", "fees.chunk", "the same"),
    ("getmempoolentry", "time", "a second may lie between the two calls"),
    ("decodescript", "segwit.desc", "godwit reads no miniscript"),
    ("getmemoryinfo", "locked", "each has its own secrets"),
    ("help", "", "godwit words its help itself"),
    ("gettxoutsetinfo", "disk_size", "another format"),
    ("estimatesmartfee", "feerate", "godwit asks blocks, bitcoind what it saw wait for them"),
    ("estimatesmartfee", "errors", "the same"),
    ("estimatesmartfee", "blocks", "the same"),
    ("estimatesmartfee", "estimator", "the same"),
    ("uptime", "", "two programs"),
    ("getnettotals", "timemillis", "another moment"),
];

/// What bitcoind warns of because it is no release, and how godwit's warning of a snapshot begins
/// (`docs/rpc.md`).
const PRE_RELEASE: &str = "This is a pre-release test build";
const OF_SNAPSHOT: &str = "The coins up to block ";

/// The warnings that are not meant to be different.
fn common(warnings: &[Value]) -> Vec<&Value> {
    let is_own = |text: &str| text.starts_with(PRE_RELEASE) || text.starts_with(OF_SNAPSHOT);
    warnings.iter().filter(|warning| !warning.as_str().is_some_and(is_own)).collect()
}

/// Seconds that may lie between the two bans, where one node was told before the other one.
const SECONDS_APART: u64 = 5;

/// How much of the network's transactions may come meanwhile.
const PROGRESS_APART: f64 = 1e-3;

/// Whether two numbers are the same but for the seconds between the two questions: moments or spans of a ban,
/// and shares of a sync.
fn is_close(method: &str, path: &str, a: &serde_json::Number, b: &serde_json::Number) -> bool {
    if path.rsplit('.').next() == Some("verificationprogress") {
        let shares = a.as_f64().zip(b.as_f64());
        return shares.is_some_and(|(a, b)| (a - b).abs() <= PROGRESS_APART * a.max(b));
    }
    let seconds = a.as_i64().zip(b.as_i64());
    method == "listbanned" && seconds.is_some_and(|(a, b)| a.abs_diff(b) <= SECONDS_APART)
}

fn is_allowed(method: &str, path: &str) -> bool {
    let fits = |pattern: &str| {
        let (pattern, within) = match pattern.strip_suffix(".*") {
            Some(start) => (start, true),
            None => (pattern, false),
        };
        let (mut names, mut found) = (pattern.split('.'), path.split('.'));
        names.all(|name| found.next().is_some_and(|found| name == "*" || name == found))
            && (within || found.next().is_none())
    };
    ALLOWED.iter().any(|(of, pattern, _)| *of == method && fits(pattern))
}

/// Whether two numbers are the same, however they are written.
fn same_number(a: &serde_json::Number, b: &serde_json::Number) -> bool {
    let (a, b) = (a.to_string(), b.to_string());
    let value = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    let is_real = |text: &str| text.contains(['e', '.']);
    // An amount has its eight decimals in both.
    a == b
        || ((is_real(&a) || is_real(&b))
            && (value(&a) - value(&b)).abs() <= value(&a).abs() * 1e-15)
}

pub(super) fn compare(
    method: &str,
    path: &str,
    ours: &Value,
    theirs: &Value,
    found: &mut Vec<String>,
) {
    if is_allowed(method, path) {
        return;
    }
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
            for name in names {
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => compare(method, &at(name), a, b, found),
                    _ if is_allowed(method, &at(name)) => {}
                    (Some(_), None) => found.push(format!("{}: only godwit has it", at(name))),
                    _ => found.push(format!("{}: only bitcoind has it", at(name))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if path == "warnings" && common(a) == common(b) => {}
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (n, (a, b)) in a.iter().zip(b).enumerate() {
                compare(method, &at(&n.to_string()), a, b, found);
            }
        }
        (Value::Number(a), Value::Number(b))
            if same_number(a, b) || is_close(method, path, a, b) => {}
        (a, b) if a == b => {}
        (a, b) => {
            let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            found.push(format!("{path}: {} instead of {}", short(a), short(b)));
        }
    }
}

/// Asks both nodes the same, and tells what is different.
pub(super) fn differences(ours: u16, theirs: u16, method: &str, params: &Value) -> Vec<String> {
    let body = json!({ "id": "x", "method": method, "params": params }).to_string();
    let ask = |port| exchange(port, &post(&body)).expect("an answer");
    let (ours, theirs) = (ask(ours), ask(theirs));
    let mut found = Vec::new();
    if ours.status != theirs.status {
        found.push(format!("HTTP status {} instead of {}", ours.status, theirs.status));
    }
    let [mut ours, mut theirs] = [ours.json(), theirs.json()];
    if method == "getchaintips" {
        // Ends of equal height stand in no order.
        for tips in [&mut ours, &mut theirs].map(|reply| reply["result"].as_array_mut()) {
            tips.into_iter().for_each(|tips| tips.sort_by_key(|tip| tip["hash"].to_string()));
        }
    }
    compare(method, "", &ours["result"], &theirs["result"], &mut found);
    if ours["error"]["code"] != theirs["error"]["code"] {
        found.push(format!("error {} instead of {}", ours["error"], theirs["error"]));
    } else {
        let text =
            |reply: &Value| reply["error"]["message"].as_str().unwrap_or_default().to_owned();
        let (ours, theirs) = (text(&ours), text(&theirs));
        let both_help = ours.starts_with(method) && theirs.starts_with(method);
        if ours != theirs && !both_help {
            found.push(format!("message {ours:?} instead of {theirs:?}"));
        }
    }
    found.into_iter().map(|what| format!("{method} {params}: {what}")).collect()
}
