//! Whether a request comes from a page of this server, or from none.
//!
//! A site elsewhere may have its name resolved to this machine (DNS rebinding), and a page of another
//! local server may ask this one. A browser tells both apart in its headers: the name in `Host` is the
//! site's, and `Origin` and `Sec-Fetch-Site` are set by the browser alone.

use std::net::{IpAddr, Ipv6Addr};

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The only value of a header; `None` if it is not there, `Err` if it is there twice or is no text.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Whether this machine calls itself so. An address that only it reaches is no other's name; the port may be
/// that of a tunnel.
fn is_our_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => name.parse().ok().map(IpAddr::V4),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

/// Whether a request may be answered.
pub(super) fn may_be_answered(headers: &HeaderMap) -> bool {
    let Ok(Some(host)) = only(headers, HOST) else { return false };
    let is_of_page = match only(headers, ORIGIN) {
        Ok(None) => true,
        Ok(Some(origin)) => origin.strip_prefix("http://") == Some(host),
        Err(()) => false,
    };
    // Whoever follows a link elsewhere to this page sees it; the page with the link does not.
    let is_shown = only(headers, FETCH_DEST) == Ok(Some("document"));
    let is_own = match only(headers, FETCH_SITE) {
        Ok(site) => site.is_none_or(|site| matches!(site, "same-origin" | "none")),
        Err(()) => false,
    };
    is_our_name(host) && is_of_page && (is_own || is_shown)
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn answered(headers: &[(HeaderName, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_static(value));
        }
        may_be_answered(&map)
    }

    #[test]
    fn w1_a_name_of_others_that_leads_here_is_refused() {
        for host in [
            "localhost",
            "localhost:8338",
            "LOCALHOST:1",
            "127.0.0.1:8338",
            "127.0.0.2:8338",
            "127.255.0.1",
            "[::1]:8338",
        ] {
            assert!(answered(&[(HOST, host)]), "{host}");
        }
        for host in [
            "",
            "attacker.example",
            "attacker.example:8338",
            "localhost.attacker.example",
            "127.0.0.1.nip.io:8338",
            "127.1:8338",
            "127.0.0.2.attacker.example",
            "[127.0.0.1]:8338",
            "[::2]:8338",
            "[::1",
            "192.168.1.7:8338",
            "localhost:99999",
            "localhost:",
            "::1",
            "0.0.0.0:8338",
            "localhost:8338:1",
            "user@localhost:8338",
        ] {
            assert!(!answered(&[(HOST, host)]), "{host}");
        }
        assert!(!answered(&[]));
        assert!(!answered(&[(HOST, "localhost"), (HOST, "localhost")]));
    }

    #[test]
    fn w1_pages_of_other_servers_are_refused() {
        let host = (HOST, "localhost:8338");
        assert!(answered(&[host.clone(), (ORIGIN, "http://localhost:8338")]));
        for origin in [
            "http://attacker.example",
            "https://localhost:8338",
            "http://localhost:3000",
            "null",
            "http://127.0.0.1:8338",
            "",
        ] {
            assert!(!answered(&[host.clone(), (ORIGIN, origin)]), "{origin}");
        }
        for (site, is_answered) in [
            ("same-origin", true),
            ("none", true),
            ("same-site", false),
            ("cross-site", false),
            ("", false),
        ] {
            assert_eq!(answered(&[host.clone(), (FETCH_SITE, site)]), is_answered, "{site}");
        }
        let link = |dest| answered(&[host.clone(), (FETCH_SITE, "cross-site"), (FETCH_DEST, dest)]);
        assert!(link("document") && !link("iframe") && !link("empty") && !link("script"));
    }
}
