//! The page in a browser: what Chromium makes of it in some seconds of virtual time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use super::{PAGE, Shown};
use crate::sync::with_small_chain;

/// Serves a page with a status of its own, as often as it is asked.
fn imitation(page: String, status: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (page, status) = (page.clone(), status.clone());
            // A browser may connect before it has anything to ask.
            thread::spawn(move || reply(stream, &page, &status));
        }
    });
    port
}

fn reply(mut stream: TcpStream, page: &str, status: &str) {
    let mut head = [0; 4096];
    let Ok(count) = stream.read(&mut head) else { return };
    let asked = String::from_utf8_lossy(&head[..count]).into_owned();
    let (kind, body) = match asked.starts_with("GET /status.json") {
        true => ("application/json", status),
        false => ("text/html", page),
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\nConnection: \
         close\r\n\r\n{body}",
        body.len()
    );
    let (Ok(()) | Err(_)) = stream.write_all(answer.as_bytes());
}

/// The document after 20 s with this status, and with a script of the test behind that of the page. None
/// without Chromium.
fn document(status: &Value, script: &str) -> Option<String> {
    let page = PAGE.replace("</body>", &format!("<script>{script}</script></body>"));
    let port = imitation(page, status.to_string());
    let profile = tempfile::tempdir().expect("a directory");
    let Ok(chromium) = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("http://127.0.0.1:{port}/"))
        .output()
    else {
        godwit_testdata::skip("no chromium here");
        return None;
    };
    Some(String::from_utf8_lossy(&chromium.stdout).into_owned())
}

/// Of a node, with one peer of this address and program.
fn status_with_peer(address: &str, program: &str) -> Value {
    let node = with_small_chain();
    let mut status = Shown::start(&node).status();
    status["peers"] = json!([{
        "id": 1, "addr": address, "subver": program, "inbound": false, "bytes_per_second": 0, "bytesrecv": 0,
        "inflight": 0
    }]);
    status
}

#[test]
fn w2_names_that_peers_give_themselves_are_text_on_the_page() {
    let name = "<img src=x onerror=\"document.title='owned'\"></td><script>document.title='owned'</script>";
    let Some(page) = document(&status_with_peer(name, name), "") else { return };
    let shown = page.matches("&lt;img src=x onerror=").count();
    assert_eq!(shown, 2, "address and program: {page}");
    assert!(!page.contains("<img") && !page.contains("<title>owned"), "{page}");
}

#[test]
fn a_node_that_hangs_is_said_not_to_answer() {
    let mut status = status_with_peer("203.0.113.1:8333", "/Satoshi:28.0.0/");
    status["stage"] = json!("synced");
    // The second look and all behind it end only if the page ends them.
    let hang = "window.fetch = (_, { signal }) => new Promise((_, fail) => \
                signal?.addEventListener('abort', () => fail(signal.reason)));";
    let Some(page) = document(&status, hang) else { return };
    for said in [
        "<title>godwit: no answer</title>",
        "role=\"status\">no answer</span>",
        "role=\"alert\">The node does not answer. The figures below are from before.</p>",
        "203.0.113.1:8333",
    ] {
        assert!(page.contains(said), "{said} in {page}");
    }
}

#[test]
fn a_node_that_starts_is_said_to_start_and_no_card_is_empty() {
    let status = json!({ "stage": "starting", "text": "Indexing block files… (1%)" });
    let Some(page) = document(&status, "") else { return };
    for said in [
        "role=\"alert\">The node is starting.</p>",
        "Indexing block files… (1%)",
        // All cards but the first are hidden.
        "<div class=\"cards unknown\" id=\"cards\">",
    ] {
        assert!(page.contains(said), "{said} in {page}");
    }
}

#[test]
fn a_page_whose_script_does_not_run_says_so_instead_of_empty_cards() {
    assert!(PAGE.contains("<noscript><p class=\"banner\">This page needs JavaScript."));
    assert!(PAGE.contains("<div class=\"cards unknown\" id=\"cards\" hidden>"));
}

#[test]
fn what_is_selected_on_the_page_stays_selected() {
    let status = status_with_peer("203.0.113.1:8333", "/Satoshi:28.0.0/");
    let select = "let nodes = [];
        setTimeout(() => {
            nodes = ['#peers td', '#disk dt', '#memory dd', '#legend li'].map((at) => document.querySelector(at));
            getSelection().selectAllChildren(nodes[0]);
        }, 1500);
        setTimeout(() => {
            document.body.dataset.selected = getSelection().toString();
            document.body.dataset.kept = nodes.map((node) => node.isConnected).join();
        }, 4500);";
    let Some(page) = document(&status, select) else { return };
    for seen in ["data-selected=\"1: 203.0.113.1:8333\"", "data-kept=\"true,true,true,true\""] {
        assert!(page.contains(seen), "{seen} in {page}");
    }
}

#[test]
fn what_the_page_draws_can_be_read_on_a_phone_on_paper_and_in_colours_of_the_system() {
    let mut status = status_with_peer("203.0.113.1:8333", "/Satoshi:28.0.0/");
    status["memory"] = json!({
        "coins": 700 << 20, "coin_indexes": 1, "headers": 1, "blocks": 1, "peers": 0, "answers": 1
    });
    status["memory_resident"] = json!(900 << 20);
    status["memory_budget"] = json!(1 << 30);
    let look = "document.querySelector('main').style.width = '300px';
        setTimeout(() => {
            const seen = document.body.dataset;
            seen.scale = document.getElementById('rate').getScreenCTM().a.toFixed(2);
            const parts = [...document.querySelectorAll('#parts > i')].filter((part) => !part.hidden);
            const small = parts.filter((part) => part.dataset.name !== 'coins');
            seen.small = small.map((part) => part.clientWidth).join();
            const colours = ['.bar', '.bar > i', '.parts', '.parts > i', '.key'].map((at) => {
                const { printColorAdjust, forcedColorAdjust } = getComputedStyle(document.querySelector(at));
                return `${printColorAdjust} ${forcedColorAdjust}`;
            });
            seen.colours = [...new Set(colours)].join();
        }, 1500);";
    let Some(page) = document(&status, look) else { return };
    for seen in [
        // Texts of plots are as large as they are drawn.
        "data-scale=\"1.00\"",
        // None for peers, which hold nothing.
        "data-small=\"3,3,3,3\"",
        "data-colours=\"exact none\"",
        "together, of \u{2011}memory",
        "answers to programs",
        "resident, of the whole process",
    ] {
        assert!(page.contains(seen), "{seen} in {page}");
    }
}
