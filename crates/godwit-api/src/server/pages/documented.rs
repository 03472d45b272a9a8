//! Compares the tables of `docs/page.md` with what is served.

use std::collections::BTreeSet;
use std::fs;

use godwit_rpc::Json;

use crate::sync::{report_of_all, sync_json};

/// What stands in backquotes in the first cells of a table's rows, each with the second cell of its row.
pub(super) fn rows(table: &str) -> BTreeSet<(String, String)> {
    // Where cargo runs a test: see the one of the page about JSON-RPC.
    let page = fs::read_to_string("../../docs/page.md").expect("the page is there");
    let (begin, end) = (format!("<!-- {table}: begin -->\n"), format!("<!-- {table}: end -->"));
    let (_, rest) = page.split_once(&begin).expect("the table begins");
    let (rows, _) = rest.split_once(&end).expect("the table ends");
    let mut found = BTreeSet::new();
    for row in rows.lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, names, second, ..] = cells[..] else { continue };
        for name in names.split('`').skip(1).step_by(2) {
            found.insert((name.to_owned(), second.to_owned()));
        }
    }
    found
}

/// The names of what is no object, with those of the objects that it is in.
fn leaves(json: &Json, name: &str, found: &mut BTreeSet<String>) {
    match json {
        Json::Object(fields) => {
            for (key, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                leaves(value, &format!("{name}{dot}{key}"), found);
            }
        }
        Json::List(items) if matches!(items.first(), Some(Json::Object(_))) => {
            leaves(&items[0], &format!("{name}[]"), found);
        }
        _ => {
            found.insert(name.to_owned());
        }
    }
}

#[test]
fn every_field_of_the_status_is_in_the_documentation() {
    let mut served = BTreeSet::new();
    leaves(&sync_json(&report_of_all(), "main", "1"), "", &mut served);
    let listed: BTreeSet<String> = rows("fields").into_iter().map(|(name, _)| name).collect();
    assert_eq!(listed, served, "the table of fields in docs/page.md");
}
