//! A run read by `docs/formats.md` alone.

use std::collections::BTreeMap;

use godwit_primitives::{OutPoint, Txid};
use godwit_stream::{DataStream, SpanReader};
use siphasher::sip::SipHasher13;

use super::super::fixtures::{coin, hasher, long_coin, outpoint};
use super::*;

fn int(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// Kind, span and used payload of each block, after its checksum was checked.
fn blocks(file: &[u8], run: u64) -> Vec<(u8, u8, &[u8])> {
    let mut blocks = Vec::new();
    for (number, block) in (0u32..).zip(file.chunks(4096)) {
        let sum = [&run.to_le_bytes(), &number.to_le_bytes()[..], &block[4..]].concat();
        assert_eq!(int(&block[..4]), u64::from(crc32c::crc32c(&sum)));
        let used = int(&block[6..8]) as usize;
        assert!(block[8 + used..].iter().all(|byte| *byte == 0));
        blocks.push((block[4], block[5], &block[8..8 + used]));
    }
    blocks
}

fn payloads(blocks: &[(u8, u8, &[u8])], kind: u8) -> Vec<u8> {
    assert!(blocks.iter().all(|block| block.0 == kind));
    blocks.iter().flat_map(|block| block.2.to_vec()).collect()
}

fn key(outpoint: &OutPoint) -> u64 {
    SipHasher13::new_with_key(b"sixteen byte key").hash(&outpoint.to_bytes())
}

fn passes(filter: &[u8], key: u64, bits: u32) -> bool {
    const SALT: [u32; 8] = [
        0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947,
        0x5c6bfb31,
    ];
    let block = (u128::from((key << bits) >> 32) * (filter.len() as u128 / 32)) >> 32;
    let words = &filter[block as usize * 32..][..32];
    words
        .chunks(4)
        .zip(SALT)
        .all(|(word, salt)| int(word) >> ((key as u32).wrapping_mul(salt) >> 27) & 1 == 1)
}

/// The entries of a segment by outpoint, its index and its filter checked on the way.
fn entries(segment: &[(u8, u8, &[u8])], meta: &[u8], bits: u32) -> BTreeMap<OutPoint, Vec<u8>> {
    let (count, filter_len) = (int(&meta[5..9]) as usize, int(&meta[9..13]) as usize);
    let filter_blocks = filter_len.div_ceil(4088);
    let filter = payloads(&segment[count..count + filter_blocks], 3);
    let index = payloads(&segment[count + filter_blocks..], 4);
    assert_eq!((filter.len(), index.len()), (filter_len, count * 4));
    let (mut seen, mut keys, mut at) = (BTreeMap::new(), Vec::new(), 0);
    while at < count {
        let (kind, span, _) = segment[at];
        assert_eq!(kind, 1);
        let long = &segment[at..at + usize::from(span)];
        let bytes: Vec<u8> = long.iter().flat_map(|block| block.2.to_vec()).collect();
        assert!(long[1..].iter().all(|block| block.0 == 2));
        let (mut rest, first) = (&bytes[..], keys.len());
        while !rest.is_empty() {
            let (entry, tail) = rest[2..].split_at(int(&rest[..2]) as usize);
            let mut reader = SpanReader::new(entry);
            let txid = Txid::from_bytes(reader.array().unwrap());
            let outpoint = OutPoint { txid, vout: reader.var_int_u32().unwrap() };
            keys.push((key(&outpoint), outpoint));
            assert!(passes(&filter, key(&outpoint), bits));
            seen.insert(outpoint, reader.rest().to_vec());
            rest = tail;
        }
        assert!(span == 1 || keys.len() == first + 1);
        for n in at..at + usize::from(span) {
            assert_eq!(int(&index[4 * n..][..4]), keys[first].0 >> 32);
        }
        at += usize::from(span);
    }
    assert!(
        keys.is_sorted() && keys.iter().all(|(key, _)| *key >> (64 - bits) == u64::from(meta[0]))
    );
    let tombstones = seen.values().filter(|coin| coin.is_empty()).count();
    assert_eq!((int(&meta[13..21]), int(&meta[21..29])), (seen.len() as u64, tombstones as u64));
    assert_eq!((int(&meta[29..37]), int(&meta[37..45])), (keys[0].0, keys[keys.len() - 1].0));
    seen
}

/// The hash of an entry that goes into its segment's sum.
fn term((outpoint, coin): (&OutPoint, &Vec<u8>)) -> u128 {
    let txid = Txid::from_bytes(*b"godwit: the key of sums, derived");
    let k: Vec<u64> = (0..6).map(|vout| key(&OutPoint { txid, vout })).collect();
    let mut entry = DataStream::new();
    entry.put(&outpoint.txid);
    entry.write_var_int(u64::from(outpoint.vout));
    entry.write(coin);
    let entry = entry.as_slice();
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    let (mut x, mut y) = (0, 0);
    for pair in entry.chunks_exact(16).chain([&entry[entry.len() - 16..]]) {
        let (a, b) = (int(&pair[..8]), int(&pair[8..]));
        x = fold(a ^ k[0], b ^ k[1] ^ x);
        y = fold(a ^ k[2], b ^ k[3] ^ y);
    }
    let len = entry.len() as u64;
    u128::from(fold(x ^ k[4], len ^ k[5])) << 64 | u128::from(fold(y ^ k[5], len ^ k[4]))
}

#[test]
fn a_run_is_as_documented() {
    let (disk, bits) = (FaultDisk::new(), 2);
    let mut store = open(&disk, &Manifest::empty(bits as u8, &hasher())).unwrap();
    add(&mut store, &outpoint(9999), &coin(0), false);
    commit(&mut store);
    assert!(store.spend(&outpoint(9999)).unwrap().is_some());
    let mut expected = BTreeMap::from([(outpoint(9999).outpoint, Vec::new())]);
    for n in 0..8000 {
        let coin =
            if n < 2000 && n % 500 == 0 { long_coin(n, 4000 + n as usize * 4) } else { coin(n) };
        add(&mut store, &outpoint(n), &coin, false);
        let mut compressed = DataStream::new();
        compressed.put(&coin);
        expected.insert(outpoint(n).outpoint, compressed.as_slice().to_vec());
    }
    commit(&mut store);
    let file = disk.contents(&Path::new(DIR).join("0000000001.run")).unwrap();
    let parity = disk.contents(&Path::new(DIR).join("0000000001.parity")).unwrap();
    let blocks = blocks(&file, 1);
    assert!((65..2048).contains(&blocks.len()), "one group of stripes");
    for (stripe, parity) in parity.chunks(4096).enumerate() {
        let of_stripe = file.chunks(4096).skip(stripe).step_by(64);
        let sum = of_stripe.fold([0; 4096], |mut sum: [u8; 4096], block| {
            sum.iter_mut().zip(block).for_each(|(sum, byte)| *sum ^= byte);
            sum
        });
        assert_eq!(sum, parity, "stripe {stripe}");
    }
    assert_eq!(parity.len(), 64 * 4096);
    let (kind, _, footer) = blocks[blocks.len() - 1];
    assert_eq!((kind, &footer[..8], int(&footer[8..12])), (5, &b"gdwtutxo"[..], 2));
    assert_eq!((int(&footer[12..20]), int(&footer[20..28])), (1, key(&OutPoint::NULL)));
    assert_eq!((u32::from(footer[28]), footer.len()), (bits, 30 + 61 * usize::from(footer[29])));
    let starts = footer[30..].chunks(61).map(|meta| int(&meta[1..5]) as usize);
    let ends = starts.clone().skip(1).chain([blocks.len() - 1]);
    let mut seen = BTreeMap::new();
    for ((start, end), meta) in starts.zip(ends).zip(footer[30..].chunks(61)) {
        seen.append(&mut entries(&blocks[start..end], meta, bits));
    }
    assert!(seen == expected);
    let sums = footer[30..].chunks(61).map(|meta| u128::from_le_bytes(*meta.last_chunk().unwrap()));
    let sum = sums.fold(0, u128::wrapping_add);
    assert_eq!(sum, seen.iter().map(term).fold(0, u128::wrapping_add));
}
