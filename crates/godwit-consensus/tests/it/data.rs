//! Reading the shared data.

use std::fs;
use std::path::PathBuf;

use godwit_primitives::network::{Network, Params};
use godwit_primitives::{Block, BlockHeader};
use godwit_stream::SpanReader;
use godwit_testdata::read;
use serde_json::Value;

pub(crate) fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&read(path)).unwrap()
}

/// Names in a folder that end with one of `endings`, sorted.
pub(crate) fn names(folder: PathBuf, endings: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| endings.iter().any(|ending| name.ends_with(ending)))
        .collect();
    names.sort();
    names
}

/// The network as the names of shared files spell it.
pub(crate) fn params_of(name: &str) -> Params {
    Params::new(match name {
        "mainnet" => Network::Main,
        "testnet3" => Network::Testnet3,
        "testnet4" => Network::Testnet4,
        "signet" => Network::Signet,
        "regtest" => Network::Regtest,
        other => panic!("{other}"),
    })
}

pub(crate) fn headers(bytes: &[u8]) -> Vec<BlockHeader> {
    let mut reader = SpanReader::new(bytes);
    let mut headers = Vec::new();
    while !reader.is_empty() {
        headers.push(reader.get().unwrap());
    }
    headers
}

/// The blocks of a file in Core's framing: magic, length, block.
pub(crate) fn framed_blocks(bytes: &[u8]) -> Vec<Block> {
    let mut reader = SpanReader::new(bytes);
    let mut blocks = Vec::new();
    while !reader.is_empty() {
        reader.skip(4).unwrap();
        let size = reader.u32().unwrap() as usize;
        blocks.push(Block::from_bytes(reader.bytes(size).unwrap()).unwrap());
    }
    blocks
}
