//! The table of methods has every line of bitcoind's `help`.

use std::collections::BTreeMap;

use godwit_rpc::METHODS;
use serde_json::json;

use super::super::bitcoind;

/// Not in the `help` of the bitcoind here: of godwit alone, or of a bitcoind with libzmq.
const APART: [&str; 2] = ["getsyncstatus", "getzmqnotifications"];

#[test]
fn every_method_of_bitcoind_is_present_or_absent_with_a_reason() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let help = bitcoind.rpc.call("help", &json!([]));
    let (mut theirs, mut category) = (BTreeMap::new(), "");
    for line in help.as_str().expect("a text").lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("== ").and_then(|line| line.strip_suffix(" ==")) {
            Some(heading) => category = heading,
            None => {
                let name = line.split(' ').next().expect("a word");
                theirs.insert(name.to_owned(), category);
            }
        }
    }
    assert!(theirs.len() > 90, "{theirs:?}");
    let is_listed = |name: &&str| !APART.contains(name);
    let listed = METHODS.iter().filter(|method| method.category.name() != "Hidden");
    let ours: BTreeMap<String, &str> = listed
        .filter(|method| is_listed(&method.name))
        .map(|method| (method.name.to_owned(), method.category.name()))
        .collect();
    assert_eq!(ours, theirs);
}
