//! `-getinfo`: the state of the node at a glance.

use std::io::{self, IsTerminal};

use godwit_rpc::Json;

use crate::arguments::Arguments;
use crate::{Failed, batch, member, unexpected};

const METHODS: [&str; 4] = ["getnetworkinfo", "getblockchaininfo", "getwalletinfo", "getbalances"];

/// Twentieths of the bar that shows how far the chain is.
const BAR: usize = 20;

/// What is shown coloured.
struct Colours {
    reset: &'static str,
    green: &'static str,
    blue: &'static str,
    yellow: &'static str,
    magenta: &'static str,
    cyan: &'static str,
}

impl Colours {
    fn of(arguments: &Arguments) -> Result<Self, String> {
        let coloured = match arguments.value("color").unwrap_or("auto") {
            "auto" => io::stdout().is_terminal(),
            "always" => true,
            "never" => false,
            _ => {
                return Err("Invalid value for -color option. Valid values: always, auto, never."
                    .to_owned());
            }
        };
        Ok(if coloured {
            Self {
                reset: "\x1b[0m",
                green: "\x1b[32m",
                blue: "\x1b[34m",
                yellow: "\x1b[33m",
                magenta: "\x1b[35m",
                cyan: "\x1b[36m",
            }
        } else {
            Self { reset: "", green: "", blue: "", yellow: "", magenta: "", cyan: "" }
        })
    }
}

/// All questions at once.
pub(crate) fn request() -> Json {
    batch::request(&METHODS)
}

/// A scalar as it is shown.
fn plain(value: Option<&Json>) -> String {
    match value {
        Some(Json::Text(text)) => text.clone(),
        Some(Json::Number(text)) => text.clone(),
        Some(Json::Bool(value)) => value.to_string(),
        _ => String::new(),
    }
}

fn bar(progress: f64) -> String {
    if !(0.0..0.99).contains(&progress) {
        return String::new();
    }
    let step = 1.0 / BAR as f64;
    let count = |share: f64| (0..=BAR).take_while(|n| (*n as f64) < share / step).count();
    format!("{}{} ", "▒".repeat(count(progress)), "░".repeat(count(1.0 - progress)))
}

/// `balances` are those of the wallets, where there are several.
pub(crate) fn shown(
    reply: &Json,
    balances: &[(String, Json)],
    arguments: &Arguments,
) -> Result<String, Failed> {
    let colours = Colours::of(arguments)?;
    let results = batch::results(reply, &[0, 1], METHODS.len())?;
    let [network, chain, wallet, own] = &results[..] else { unreachable!("as many as asked") };
    let Colours { reset, green, blue, yellow, magenta, cyan } = colours;
    let progress = member(chain, "verificationprogress").as_real().map_err(unexpected)?;
    let mut text = format!("{blue}Chain: {}{reset}\n", plain(chain.get("chain")));
    text.push_str(&format!("Blocks: {}\n", plain(chain.get("blocks"))));
    text.push_str(&format!("Headers: {}\n", plain(chain.get("headers"))));
    text.push_str(&format!("Verification progress: {}{:.4}%\n", bar(progress), progress * 100.0));
    text.push_str(&format!("Difficulty: {}\n\n", plain(chain.get("difficulty"))));
    text.push_str(&format!(
        "{green}Network: in {}, out {}, total {}{reset}\n",
        plain(network.get("connections_in")),
        plain(network.get("connections_out")),
        plain(network.get("connections"))
    ));
    text.push_str(&format!("Version: {}\n", plain(network.get("version"))));
    text.push_str(&format!("Time offset (s): {}\n", plain(network.get("timeoffset"))));
    text.push_str(&format!("Proxies: {}\n", proxies(network)));
    text.push_str(&format!(
        "Min tx relay fee rate (BTC/kvB): {}\n\n",
        plain(network.get("relayfee"))
    ));
    if let Json::Object(_) = wallet {
        let name = plain(wallet.get("walletname"));
        let name = if name.is_empty() { "\"\"" } else { &name };
        text.push_str(&format!("{magenta}Wallet: {name}{reset}\n"));
        text.push_str(&format!("Keypool size: {}\n", plain(wallet.get("keypoolsize"))));
        if let Some(until) = wallet.get("unlocked_until").filter(|until| !until.is_null()) {
            text.push_str(&format!("Unlocked until: {}\n", plain(Some(until))));
        }
    }
    if let Some(mine) = own.get("mine") {
        text.push_str(&format!("{cyan}Balance:{reset} {}\n\n", plain(mine.get("trusted"))));
    }
    if !balances.is_empty() {
        text.push_str(&format!("{cyan}Balances{reset}\n"));
        let shown = balances.iter().map(|(name, balance)| (name, plain(Some(balance))));
        let shown: Vec<(&String, String)> = shown.collect();
        let width = shown.iter().map(|(_, balance)| balance.len()).fold(10, usize::max);
        for (name, balance) in shown {
            let name = if name.is_empty() { "\"\"" } else { name };
            text.push_str(&format!("{balance:>width$} {name}\n"));
        }
        text.push('\n');
    }
    let warnings: Vec<String> = match network.get("warnings") {
        Some(Json::List(warnings)) => warnings.iter().map(|text| plain(Some(text))).collect(),
        other => vec![plain(other)].into_iter().filter(|text| !text.is_empty()).collect(),
    };
    let warnings = if warnings.is_empty() { "(none)".to_owned() } else { warnings.join("; ") };
    text.push_str(&format!("{yellow}Warnings:{reset} {warnings}"));
    Ok(text)
}

/// Each proxy with its networks.
fn proxies(network: &Json) -> String {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let networks = network.get("networks").and_then(|networks| networks.as_list().ok());
    for network in networks.unwrap_or_default() {
        let (proxy, name) = (plain(network.get("proxy")), plain(network.get("name")));
        match all.iter_mut().find(|(known, _)| *known == proxy) {
            _ if proxy.is_empty() => {}
            Some((_, names)) => names.push(name),
            None => all.push((proxy, vec![name])),
        }
    }
    if all.is_empty() {
        return "n/a".to_owned();
    }
    let shown = all.iter().map(|(proxy, names)| format!("{proxy} ({})", names.join(", ")));
    shown.collect::<Vec<_>>().join(", ")
}
