//! The server's address and the login, taken from the options.

use std::time::Duration;

use godwit_client::{Login, Server};

use crate::arguments::{Arguments, default_port};

/// Seconds (Core `DEFAULT_HTTP_CLIENT_TIMEOUT`).
const DEFAULT_TIMEOUT: i64 = 900;
/// What stands for no limit.
const FOR_EVER: Duration = Duration::from_secs(5 * 365 * 24 * 60 * 60);

/// A port. Digits alone, as in Core: Rust takes a plus sign before them.
fn parse_port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0 && !text.starts_with('+'))
}

/// A host and perhaps a port; an IPv6 address with a port stands in brackets.
fn split(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => None,
        Some(port) => Some(parse_port(port)?),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some((host.to_owned(), port))
}

pub(crate) fn server(arguments: &Arguments) -> Result<Server, String> {
    let named = arguments.value("rpcconnect").unwrap_or("127.0.0.1");
    let (host, port) =
        split(named).ok_or_else(|| format!("Invalid port provided in -rpcconnect: {named}"))?;
    let port = match arguments.text("rpcport") {
        None => port.unwrap_or(default_port(arguments.network)),
        Some(text) => {
            let number = parse_port(text)
                .ok_or_else(|| format!("Invalid port provided in -rpcport: {text}"))?;
            if port.is_some() {
                godwit_program::complain(&format!(
                    "Warning: Port specified in both -rpcconnect and -rpcport. Using -rpcport {number}"
                ));
            }
            number
        }
    };
    let timeout = arguments.limit("rpcclienttimeout", DEFAULT_TIMEOUT)?.unwrap_or(FOR_EVER);
    Ok(Server { host, port, timeout })
}

pub(crate) fn login(arguments: &Arguments, password: Option<String>) -> Login {
    let cookie = match arguments.is_off("rpccookiefile") {
        true => None,
        false => {
            let named = arguments.value("rpccookiefile").filter(|file| !file.is_empty());
            let file = named.unwrap_or(".cookie");
            Some(arguments.network_dir().join(file))
        }
    };
    Login {
        user: arguments.value("rpcuser").unwrap_or_default().to_owned(),
        password: password.filter(|password| !password.is_empty()),
        cookie,
        config_file: arguments.config_file.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let split = |text| split(text).map(|(host, port)| format!("{host} {port:?}"));
        assert_eq!(split("a").as_deref(), Some("a None"));
        assert_eq!(split("a:1").as_deref(), Some("a Some(1)"));
        assert_eq!(split("::1").as_deref(), Some("::1 None"));
        assert_eq!(split("[::1]:2").as_deref(), Some("::1 Some(2)"));
        assert_eq!(split("a:0"), None);
        assert_eq!(split("a:b"), None);
        assert_eq!(split("a:+1"), None);
        assert_eq!(["1", "065535"].map(parse_port), [Some(1), Some(65_535)]);
        assert_eq!(["+1", "-1", "0", "", "65536"].map(parse_port), [None; 5]);
    }
}
