//! The first blocks, built from their parts.

use crate::{Amount, BlockHeader, COIN, Network, OutPoint};

const MESSAGE: &str = "The Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
const TESTNET4_MESSAGE: &str =
    "03/May/2024 000000000000000000001ebd58c244970b3aa9d783bb001011fbe8ea8e98e00e";

/// The public key that the first coinbase pays, except on testnet4.
const PUBKEY: [u8; 65] = [
    0x04, 0x67, 0x8a, 0xfd, 0xb0, 0xfe, 0x55, 0x48, 0x27, 0x19, 0x67, 0xf1, 0xa6, 0x71, 0x30, 0xb7,
    0x10, 0x5c, 0xd6, 0xa8, 0x28, 0xe0, 0x39, 0x09, 0xa6, 0x79, 0x62, 0xe0, 0xea, 0x1f, 0x61, 0xde,
    0xb6, 0x49, 0xf6, 0xbc, 0x3f, 0x4c, 0xef, 0x38, 0xc4, 0xf3, 0x55, 0x04, 0xe5, 0x1e, 0xc1, 0x12,
    0xde, 0x5c, 0x38, 0x4d, 0xf7, 0xba, 0x0b, 0x8d, 0x57, 0x8a, 0x4c, 0x70, 0x2b, 0x6b, 0xf1, 0x1d,
    0x5f,
];
/// Nobody's key: testnet4's first coinbase cannot be spent.
const TESTNET4_PUBKEY: [u8; 33] = [0; 33];

const OP_PUSHDATA1: u8 = 0x4c;
const OP_CHECKSIG: u8 = 0xac;
const REWARD: Amount = 50 * COIN;

/// Header, transaction count, coinbase.
pub(super) fn block(network: Network, header: &BlockHeader) -> Vec<u8> {
    let mut bytes = header.to_bytes().to_vec();
    bytes.push(1);
    bytes.extend(coinbase(network));
    bytes
}

fn coinbase(network: Network) -> Vec<u8> {
    let (message, pubkey): (&str, &[u8]) = match network {
        Network::Testnet4 => (TESTNET4_MESSAGE, &TESTNET4_PUBKEY),
        _ => (MESSAGE, &PUBKEY),
    };
    // The numbers 486604799 (0x1d00ffff) and 4, as every genesis coinbase has them.
    let mut script_sig = vec![0x04, 0xff, 0xff, 0x00, 0x1d, 0x01, 0x04];
    push(&mut script_sig, message.as_bytes());
    let mut script_pubkey = Vec::new();
    push(&mut script_pubkey, pubkey);
    script_pubkey.push(OP_CHECKSIG);

    let mut tx = 1u32.to_le_bytes().to_vec();
    tx.push(1);
    tx.extend(OutPoint::NULL.to_bytes());
    tx.push(script_sig.len() as u8);
    tx.extend(script_sig);
    tx.extend(u32::MAX.to_le_bytes());
    tx.push(1);
    tx.extend(REWARD.to_le_bytes());
    tx.push(script_pubkey.len() as u8);
    tx.extend(script_pubkey);
    tx.extend(0u32.to_le_bytes());
    tx
}

fn push(script: &mut Vec<u8>, data: &[u8]) {
    if data.len() >= usize::from(OP_PUSHDATA1) {
        script.push(OP_PUSHDATA1);
    }
    script.push(data.len() as u8);
    script.extend_from_slice(data);
}
