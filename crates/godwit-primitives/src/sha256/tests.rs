use std::time::{Duration, Instant};

use godwit_testdata::shared_file;
use proptest::prelude::*;
use sha2::Digest;

use super::*;

/// Every way to compress many messages that this CPU has, the chosen one or not.
#[cfg(target_arch = "x86_64")]
fn compressions() -> Vec<choice::Compression> {
    use choice::Compression;
    let vectors = [None, vector::Vectors::detect_avx512(), vector::Vectors::detect_avx2()];
    let mut all = Vec::new();
    for extensions in [None, x86::ShaExtensions::detect()] {
        all.extend(vectors.iter().map(|&vectors| Compression { vectors, extensions }));
    }
    all
}

fn naive(message: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(sha2::Sha256::digest(message)).into()
}

/// Bytes that differ from message to message and from position to position.
fn message(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(131) ^ seed.wrapping_mul(89) ^ (i >> 8)) as u8).collect()
}

fn split(message: &[u8], first: usize, second: usize) -> [&[u8]; 3] {
    let (first, second) = (first.min(second), first.max(second));
    [&message[..first], &message[first..second], &message[second..]]
}

fn check_spans(messages: &[Vec<u8>], cuts: &[(usize, usize)]) {
    let expected: Vec<_> = messages.iter().map(|m| naive(m)).collect();
    let spans = |i: usize| split(&messages[i], cuts[i].0, cuts[i].1);
    let mut digests = vec![[0; 32]; messages.len()];
    sha256d_spans_many(messages.len(), spans, &mut digests);
    assert_eq!(digests, expected);
    let mut portable = vec![[0; 32]; messages.len()];
    sha256d_spans_portable(spans, &mut portable);
    assert_eq!(portable, expected);
    #[cfg(target_arch = "x86_64")]
    for compression in compressions() {
        let mut digests = vec![[0; 32]; messages.len()];
        compression.sha256d_spans(spans, &mut digests);
        assert_eq!(digests, expected, "{compression:?}");
    }
}

#[test]
fn double_hash_of_nothing() {
    let expected = "5df6e0e2761359d30a8275058e299fcc0381534545f55cf43e41983f5d4c9456";
    assert_eq!(hex::encode(sha256d(&[])), expected);
    let mut digests = [[0; 32]; 1];
    sha256d_many(&[&[]], &mut digests);
    assert_eq!(hex::encode(digests[0]), expected);
}

#[test]
fn every_length_up_to_300_whole_and_in_pieces() {
    let messages: Vec<_> = (0..=300).map(|len| message(len, len)).collect();
    let whole: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
    let mut digests = vec![[0; 32]; messages.len()];
    sha256d_many(&whole, &mut digests);
    for (message, digest) in messages.iter().zip(&digests) {
        assert_eq!(*digest, naive(message), "length {}", message.len());
    }
    for cut in [0, 1, 4, 63, 64, 65, 128] {
        let cuts: Vec<_> =
            messages.iter().map(|m| (cut.min(m.len()), m.len().saturating_sub(4))).collect();
        check_spans(&messages, &cuts);
    }
}

#[test]
fn every_number_of_messages_around_the_lanes() {
    for n in 0..=35 {
        let messages: Vec<_> = (0..n).map(|i| message(i * 97 % 200, i)).collect();
        let cuts: Vec<_> = messages.iter().map(|m| (m.len() / 3, m.len() / 2)).collect();
        check_spans(&messages, &cuts);
    }
}

/// As many of one length as fill groups once and twice, less one and more one; beside others.
#[test]
fn every_number_of_messages_of_one_length_around_the_groups() {
    for n in [7, 8, 9, 15, 16, 17, 31, 32, 33, 40] {
        for len in [0, 55, 56, 119, 120, 1526, 1527, 1528, 1600] {
            let messages: Vec<_> =
                (0..n + 3).map(|i| message(if i < n { len } else { 300 * (i - n) }, i)).collect();
            let cuts: Vec<_> = messages.iter().map(|m| (4.min(m.len()), m.len() / 2)).collect();
            check_spans(&messages, &cuts);
        }
    }
}

#[test]
fn one_long_message_among_short_ones() {
    for long_at in 0..9 {
        let messages: Vec<_> =
            (0..9).map(|i| message(if i == long_at { 70_001 } else { 60 + i }, i)).collect();
        let cuts: Vec<_> = messages.iter().map(|m| (5, m.len() - 5)).collect();
        check_spans(&messages, &cuts);
    }
}

#[test]
fn pairs_equal_their_naive_twin() {
    for len in 0..=70 {
        let hashes: Vec<[u8; 32]> = (0..len).map(|i| sha256(&message(i, len))).collect();
        let expected: Vec<_> =
            hashes.chunks_exact(2).map(|pair| naive(pair.as_flattened())).collect();
        let mut in_place = hashes.clone();
        sha256d_pairs(&mut in_place);
        assert_eq!(in_place[..len / 2], expected);
        #[cfg(target_arch = "x86_64")]
        for compression in compressions() {
            let mut in_place = hashes.clone();
            compression.sha256d_pairs(&mut in_place);
            assert_eq!(in_place[..len / 2], expected, "{compression:?}");
        }
        let mut portable = hashes;
        sha256d_pairs_portable(0, &mut portable);
        assert_eq!(portable[..len / 2], expected);
    }
}

#[test]
fn pieces_hash_like_the_whole() {
    let message = message(1000, 1);
    let mut hasher = Sha256::new();
    message.chunks(37).for_each(|piece| hasher.update(piece));
    assert_eq!(hasher.clone().finalize(), sha256(&message));
    assert_eq!(hasher.finalize_double(), sha256d(&message));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_messages_and_cuts(
        shapes in proptest::collection::vec((0usize..1_700, any::<usize>(), any::<usize>()), 0..80),
    ) {
        let messages: Vec<_> =
            shapes.iter().map(|&(len, seed, _)| message(len, seed)).collect();
        let cuts: Vec<_> = shapes
            .iter()
            .map(|&(len, a, b)| (a % (len + 1), b % (len + 1)))
            .collect();
        check_spans(&messages, &cuts);
    }
}

/// Messages and digests of NIST's CAVS 11.0 file `SHA256ShortMsg.rsp`.
fn nist_short_messages() -> Option<Vec<(Vec<u8>, [u8; 32])>> {
    let file = shared_file("vectors/crypto/nist_SHA256ShortMsg.rsp.zst")?;
    let text = String::from_utf8(file).unwrap();
    let field = |line: &str, name: &str| line.strip_prefix(name).map(str::to_owned);
    let mut vectors = Vec::new();
    let (mut bits, mut message) = (0, Vec::new());
    for line in text.lines() {
        if let Some(len) = field(line, "Len = ") {
            bits = len.parse().unwrap();
        } else if let Some(msg) = field(line, "Msg = ") {
            message = hex::decode(msg).unwrap();
            message.truncate(bits / 8);
        } else if let Some(digest) = field(line, "MD = ") {
            let digest = hex::decode(digest).unwrap().try_into().unwrap();
            vectors.push((std::mem::take(&mut message), digest));
        }
    }
    Some(vectors)
}

#[test]
fn nist_vectors() {
    let Some(vectors) = nist_short_messages() else { return };
    assert_eq!(vectors.len(), 65);
    let messages: Vec<&[u8]> = vectors.iter().map(|(message, _)| message.as_slice()).collect();
    let mut digests = vec![[0; 32]; vectors.len()];
    sha256d_many(&messages, &mut digests);
    for ((message, expected), double) in vectors.iter().zip(digests) {
        assert_eq!(sha256(message), *expected);
        assert_eq!(double, sha256(expected));
    }
}

/// Best of several rounds, because other work may share the machine.
fn best(rounds: usize, mut work: impl FnMut()) -> Duration {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap()
}

#[test]
#[ignore = "benchmark: cargo test --release -p godwit-primitives sha256_speed -- --ignored --nocapture"]
fn sha256_speed() {
    let speed = |bytes: usize, time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    for len in [64, 250, 400, 2_000, 20_000] {
        let count = 8_000_000 / len;
        let messages: Vec<_> = (0..count).map(|i| message(len + i % 64, i)).collect();
        let spans: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        let bytes = spans.iter().map(|span| span.len()).sum();
        let mut digests = vec![[0; 32]; count];
        let one = best(9, || {
            spans.iter().zip(&mut digests).for_each(|(span, digest)| *digest = sha256d(span));
        });
        eprintln!("{len:>6}-byte messages: ring {:.2} GB/s", speed(bytes, one));
        for compression in compressions() {
            let many = best(9, || {
                compression.sha256d_spans(|i| [spans[i], &[], &[]], &mut digests);
            });
            let ratio = one.as_secs_f64() / many.as_secs_f64();
            eprintln!("       {:.2} GB/s, ratio {ratio:.2}: {compression:?}", speed(bytes, many));
        }
    }
    let mut hashes = vec![[7; 32]; 1 << 16];
    let one = best(9, || sha256d_pairs_portable(0, &mut hashes));
    for compression in compressions() {
        let many = best(9, || compression.sha256d_pairs(&mut hashes));
        let ratio = one.as_secs_f64() / many.as_secs_f64();
        let rate = hashes.len() as f64 / 2.0 / many.as_secs_f64() / 1e6;
        eprintln!("merkle pairs: {rate:.1} M/s, ratio to ring {ratio:.2}: {compression:?}");
    }
    eprintln!("chosen: {:?}", choice::Compression::fastest());
}
