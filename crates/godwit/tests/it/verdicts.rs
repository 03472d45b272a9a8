//! `import --verdicts`: one line of JSON for each record.

use std::fs;
use std::path::Path;

use godwit::exit::Exit;
use godwit_sim::hostile::{Suite, suites};
use godwit_testdata::shared_data;
use serde_json::{Value, json};

use crate::blocks::{header, small_chain, write_dat};
use crate::node::Node;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the verdicts");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn the_regtest_reorganisation_is_judged_block_by_block() {
    let Some(dir) = shared_data() else { return };
    let branches = fs::read(dir.join("chains/regtest_reorg.json")).expect("the branches");
    let branches: [Vec<String>; 2] = serde_json::from_slice(&branches).expect("two branches");
    let [first, second] = branches
        .map(|branch| branch.iter().map(|b| hex::decode(b).expect("hex")).collect::<Vec<_>>());
    let node = Node::new("regtest");
    let (path, verdicts) = (node.beside("reorg.dat"), node.beside("verdicts.jsonl"));
    write_dat(&path, first.iter().chain(&second));
    node.run(&[&"import", &"--verdicts", &verdicts, &path]).expect(Exit::Success);

    // The second branch starts above height 5; only its sixth block has more work than the tip.
    let mut expected = Vec::new();
    for (n, block) in first.iter().chain(&second).enumerate() {
        let hash = header(block).block_hash().to_string();
        let inconclusive = (10..15).contains(&n);
        let verdict = if inconclusive { "inconclusive" } else { "accept" };
        let height = match n {
            0..10 => n + 1,
            10..15 => 10,
            _ => n - 4,
        };
        let tip =
            if inconclusive { header(&first[9]).block_hash().to_string() } else { hash.clone() };
        expected
            .push(json!({"n": n, "hash": hash, "verdict": verdict, "tip": tip, "height": height}));
    }
    assert_eq!(lines(&verdicts), expected);
    let stats = node.stats();
    assert_eq!(stats["muhash"], "5289e6b512d21dbcb52ee10b28b8995d94066bb4a28c255b697e74640ee84c13");
    // Once more: every record is known.
    node.run(&[&"import", &"--verdicts", &verdicts, &path]).expect(Exit::Success);
    assert!(lines(&verdicts).iter().all(|line| line["verdict"] == "duplicate"));
}

#[test]
fn records_are_judged_strictly_in_their_order() {
    let node = Node::new("regtest");
    let (path, verdicts) = (node.beside("chain.dat"), node.beside("verdicts.jsonl"));
    let [a, b, c] = [0, 1, 2].map(|n| &small_chain()[n]);
    let mut damaged = b.clone();
    *damaged.last_mut().expect("bytes") ^= 1;
    let mut longer = b.clone();
    longer.extend([1, 2, 3]);
    let undecodable = [&b[..80], &[0xff]].concat();
    write_dat(&path, [b, a, &undecodable, &damaged, &longer, a, c]);
    node.run(&[&"import", &"--verdicts", &verdicts, &path]).expect(Exit::Success);
    let said: Vec<Value> =
        lines(&verdicts).into_iter().map(|mut line| line["verdict"].take()).collect();
    let expected = [
        "prev-blk-not-found",
        "accept",
        "Block decode failed",
        "bad-txnmrklroot",
        "accept",
        "duplicate",
        "accept",
    ];
    assert_eq!(said, expected);
}

/// Each suite is a run with the options that it needs. The same blocks are judged beside Core's
/// chainstate in godwit-chain; here the words on the way out are.
#[test]
fn hostile_blocks_get_their_words() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.expect("after 1970").as_secs() as u32;
    let mut judged = 0;
    for suite in suites(now) {
        // Nothing is cross-checked: what the lanes say stands alone.
        judged += judge_suite(&suite, &["-scriptengine=native", "-crosscheck=0"]);
        judged += judge_suite(&suite, &["-scriptengine=core"]);
    }
    assert!(judged >= 600, "{judged} blocks");
}

fn judge_suite(suite: &Suite, engine: &[&str]) -> usize {
    let node = Node::new("regtest");
    let (path, verdicts) = (node.beside("hostile.dat"), node.beside("verdicts.jsonl"));
    // What is no possible record is never seen as one.
    let is_record = |block: &&(&Vec<u8>, &str)| (80..=4_000_000).contains(&block.0.len());
    let base = suite.base.iter().map(|block| (block, "accept"));
    let cases = suite.cases.iter().flat_map(|case| case.blocks.iter().zip(&case.expect));
    let cases = cases.map(|(block, expected)| (block, expected.unwrap_or("accept")));
    let blocks: Vec<(&Vec<u8>, &str)> = base.chain(cases).collect();
    let blocks: Vec<_> = blocks.iter().filter(is_record).collect();
    write_dat(&path, blocks.iter().map(|(block, _)| *block));
    let activation = suite.options.activation.iter();
    let activation =
        activation.map(|(name, height)| format!("-testactivationheight={name}@{height}"));
    let bip94 = suite.options.bip94.then(|| "-test=bip94".to_owned());
    let options: Vec<String> = activation.chain(bip94).collect();
    let mut command = node.command(&[&"import", &"-par=2", &"--verdicts", &verdicts, &path]);
    let output = command.args(engine).args(&options).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(Exit::Success.code().into()), "{}", suite.name);
    let lines = lines(&verdicts);
    assert_eq!(lines.len(), blocks.len(), "{}", suite.name);
    for (line, (block, expected)) in lines.iter().zip(&blocks) {
        let said = line["verdict"].as_str().expect("a word");
        assert_eq!(said, *expected, "{}: {line}, {} bytes", suite.name, block.len());
    }
    blocks.len()
}
