//! What is refused before the run ends.

use std::fs;
use std::path::PathBuf;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// A file in the directory of the node.
fn file(node: &Node, name: &str) -> PathBuf {
    node.network_dir().join(name)
}

fn at(node: &Node, name: &str) -> String {
    file(node, name).display().to_string()
}

/// The snapshot with other bytes at an offset, as `bad.dat`.
fn change(node: &Node, at: usize, to: &[u8]) {
    let mut bytes = SNAPSHOT.clone();
    bytes[at..at + to.len()].copy_from_slice(to);
    fs::write(file(node, "bad.dat"), bytes).expect("a file");
}

#[test]
fn a_file_that_cannot_be_opened_is_refused() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let cannot = |name: &str| format!("Couldn't open file {name} for reading.");
    refuses(&godwit, "absent.dat", -8, &cannot(&at(&node, "absent.dat")));
    refuses(&godwit, &at(&node, "absent.dat"), -8, &cannot(&at(&node, "absent.dat")));
    refuses(&godwit, "", -8, &cannot(""));
    mknodat(CWD, file(&node, "pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    refuses(&godwit, "pipe", -8, &cannot(&at(&node, "pipe")));
    let misfit = godwit.rpc.try_call("loadtxoutset", &json!([7]));
    let Err(RpcError::Refused(error)) = misfit else { panic!("{misfit:?}") };
    assert_eq!(error["code"], -3, "{error}");
    assert!(!node.log().contains("The node pauses"), "the run went on");
}

#[test]
fn a_file_that_begins_no_snapshot_of_the_network_is_refused() {
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let refused = |path: &str, why: &str| {
        let text = format!("Unable to parse metadata: {why}: iostream error");
        refuses(&godwit, path, -22, &text);
    };
    refused(".", "AutoFile::read: fread failed");
    fs::write(file(&node, "bad.dat"), &SNAPSHOT[..50]).expect("a file");
    refused("bad.dat", "AutoFile::read: end of file");
    change(&node, 0, b"x");
    refused(
        "bad.dat",
        "Invalid UTXO set snapshot magic bytes. Please check if this is indeed a snapshot file or if \
         you are using an outdated snapshot format.",
    );
    change(&node, 5, &[3]);
    let version = "Version of snapshot 3 does not match any of the supported versions.";
    refused("bad.dat", version);
    change(&node, 7, &[0xf9, 0xbe, 0xb4, 0xd9]);
    refused(
        "bad.dat",
        "The network of the snapshot (main) does not match the network of this node (regtest).",
    );
    change(&node, 7, &[1]);
    refused(
        "bad.dat",
        "This snapshot has been created for an unrecognized network. This could be a custom signet, a \
         new testnet or possibly caused by data corruption.",
    );
    assert!(!node.log().contains("The node pauses"), "the run went on");
}

/// The snapshot is refused for its block.
#[track_caller]
fn cannot(godwit: &Answering<'_>, node: &Node, name: &str, why: &str) {
    let text = format!("Unable to load UTXO snapshot: {why}. ({})", at(node, name));
    refuses(godwit, name, -32603, &text);
}

fn submit_header(godwit: &Answering<'_>, height: u64) {
    let header = hex::encode(&CHAIN[height as usize - 1][..80]);
    godwit.call("submitheader", &json!([header]));
}

#[test]
fn a_block_that_is_not_in_the_best_chain_of_headers_is_refused() {
    let node = Node::new("regtest");
    with_headers(&node, BASE as usize - 1);
    let mut godwit = Answering::start(&node, &[]);
    change(&node, 11, &hash(BASE - 1).to_bytes());
    let unknown = format!(
        "assumeutxo block hash in snapshot metadata not recognized (hash: {}). The following snapshot \
         heights are available: 110, 200, 299",
        hash(BASE - 1)
    );
    cannot(&godwit, &node, "bad.dat", &unknown);
    let headers = format!(
        "The base block header ({BASE_HASH}) must appear in the headers chain. Make sure all headers are \
         syncing, and call loadtxoutset again"
    );
    cannot(&godwit, &node, "snapshot.dat", &headers);
    submit_header(&godwit, BASE);

    // Headers of another branch that is longer.
    let forked = "A forked headers-chain with more work than the chain with the snapshot base block header \
                  exists. Please proceed to sync without AssumeUtxo.";
    for header in &branch(BASE - 2, 3) {
        godwit.call("submitheader", &json!([header]));
    }
    cannot(&godwit, &node, "snapshot.dat", forked);
    submit_header(&godwit, BASE + 1);
    submit_header(&godwit, BASE + 2);

    // An invalid block.
    godwit.call("invalidateblock", &json!([hash(BASE - 20).to_string()]));
    let invalid = format!("The base block header ({BASE_HASH}) is part of an invalid chain");
    cannot(&godwit, &node, "snapshot.dat", &invalid);
    assert!(!node.log().contains("The node pauses"), "the run went on");
    // And once nothing of that is so any more:
    godwit.call("reconsiderblock", &json!([hash(BASE - 20).to_string()]));
    assert_eq!(godwit.call("getblockcount", &json!([])), BEFORE);
    assert_eq!(load(&godwit, "snapshot.dat").expect("a good snapshot"), result_of(&node));
    assert!(godwit.running.terminate().1.success());
}

/// A chain with one block less than the snapshot's, and then with as many.
#[test]
fn a_snapshot_that_is_not_ahead_is_refused() {
    for (height, is_ahead) in [(BASE - 1, true), (BASE, false)] {
        let node = Node::new("regtest");
        let blocks = node.beside("blocks.dat");
        write_dat(&blocks, &CHAIN[..height as usize]);
        node.import(&blocks);
        fs::write(snapshot_of(&node), &*SNAPSHOT).expect("a file");
        let mut godwit = Answering::start(&node, &[]);
        if is_ahead {
            submit_header(&godwit, BASE);
            assert_eq!(load(&godwit, "snapshot.dat").expect("it is ahead"), result_of(&node));
        } else {
            let work = "Population failed: Work does not exceed active chainstate";
            cannot(&godwit, &node, "snapshot.dat", work);
        }
        assert_eq!(node.log().contains("The node pauses"), is_ahead);
        assert_eq!(godwit.call("getblockcount", &json!([])), BASE);
        assert!(godwit.running.terminate().1.success());
    }
}

/// Headers of `count` blocks on top of the chain's block at `fork`, in hexadecimal.
fn branch(fork: u64, count: u32) -> Vec<String> {
    let mut parent = header(&CHAIN[fork as usize - 1]);
    (0..count)
        .map(|n| {
            let mut header = BlockHeader {
                prev_blockhash: parent.block_hash(),
                merkle_root: MerkleRoot::from_bytes([n as u8; 32]),
                time: parent.time + 1,
                nonce: 0,
                ..parent
            };
            while header.block_hash().to_bytes()[31] > 0x7f {
                header.nonce += 1;
            }
            parent = header;
            let mut bytes: DataStream = DataStream::new();
            bytes.put(&header);
            hex::encode(bytes.as_slice())
        })
        .collect()
}
