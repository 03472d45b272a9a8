//! The search for a match against the definition and against Core's loop, for every table of which
//! signature fits which key.

use godwit_verify::{Check, KeyBytes};

use crate::multisig::{Known, MatchOrder, Multisig, Signed};

/// Signature `i` and key `j` can be told apart in a check.
fn multisig(signatures: usize, keys: usize) -> Multisig {
    let signed =
        (0..signatures).map(|i| Signed { signature: [i as u8; 64], message: [0; 32] }).collect();
    Multisig::new(signed, (0..keys).map(|j| KeyBytes::Compressed([j as u8; 33])).collect())
}

fn pair(check: &Check) -> (usize, usize) {
    match check {
        Check::Ecdsa { key: KeyBytes::Compressed(key), signature, .. } => {
            (signature[0].into(), key[0].into())
        }
        other => panic!("{other:?}"),
    }
}

/// Whether it is proven, the checks in order, and the rounds.
fn search(
    order: MatchOrder,
    (m, n): (usize, usize),
    fits: impl Fn(usize, usize) -> bool,
) -> (bool, Vec<(usize, usize)>, usize) {
    let mut multisig = multisig(m, n);
    let (mut asked, mut rounds) = (Vec::new(), 0);
    loop {
        rounds += 1;
        let pairs: Vec<_> = multisig.checks(order).iter().map(pair).collect();
        let refused =
            pairs.iter().zip(0..).map(|((i, j), bit)| u32::from(!fits(*i, *j)) << bit).sum();
        asked.extend(pairs);
        match multisig.advance(order, refused) {
            Known::Open => {}
            known => return (known == Known::Proven, asked, rounds),
        }
    }
}

/// EvalScript, OP_CHECKMULTISIG: the pairs that it checks, and its result.
fn core(
    (mut m, mut n): (usize, usize),
    fits: impl Fn(usize, usize) -> bool,
) -> (bool, Vec<(usize, usize)>) {
    let mut asked = Vec::new();
    while m > 0 {
        asked.push((m - 1, n - 1));
        m -= usize::from(fits(m - 1, n - 1));
        n -= 1;
        if m > n {
            return (false, asked);
        }
    }
    (true, asked)
}

#[test]
fn every_table_is_answered_as_by_core() {
    let mut tables = 0;
    for n in 1..=4 {
        for m in 1..=n {
            for table in 0..1u32 << (m * n) {
                let fits = |i: usize, j: usize| table >> (i * n + j) & 1 == 1;
                let (valid, by_core) = core((m, n), fits);
                assert_eq!(search(MatchOrder::Core, (m, n), fits).1, by_core);
                for order in [MatchOrder::Core, MatchOrder::Ends] {
                    let (proven, asked, _) = search(order, (m, n), fits);
                    assert_eq!(proven, valid, "{m} of {n}, {table:b}, {order:?}");
                    assert!(asked.len() <= n, "{m} of {n}: {asked:?}");
                }
                tables += 1;
            }
        }
    }
    println!("{tables} tables");
}

/// No signer can make it more than twice as many as Core's, which lanes make up for.
#[test]
fn no_match_takes_twice_the_checks_of_core() {
    for n in 1..=6 {
        for signers in (1..1u32 << n).map(|set| (0..n).filter(move |key| set >> key & 1 == 1)) {
            let signers: Vec<usize> = signers.collect();
            let fits = |i: usize, j: usize| signers[i] == j;
            let by_core = core((signers.len(), n), fits).1.len();
            let by_ends = search(MatchOrder::Ends, (signers.len(), n), fits).1.len();
            assert!(by_ends <= 2 * by_core, "{signers:?} of {n}: {by_ends}, {by_core}");
            assert!(signers.len() > 1 || by_ends == by_core, "{signers:?} of {n}");
        }
    }
}

/// Each signature fits one key: what real ones do.
#[test]
fn two_of_three_take_two_checks_and_two_thirds() {
    let signers = [[0, 1], [0, 2], [1, 2]];
    let checks = signers.map(|signers| {
        let (proven, asked, rounds) = search(MatchOrder::Ends, (2, 3), |i, j| signers[i] == j);
        assert!(proven && rounds <= 2);
        asked.len()
    });
    assert_eq!(checks, [3, 2, 3]);
}

#[test]
fn all_of_n_are_one_round() {
    for n in 1..=20 {
        let (proven, asked, rounds) = search(MatchOrder::Ends, (n, n), |i, j| i == j);
        assert_eq!((proven, asked.len(), rounds), (true, n, 1));
    }
}

#[test]
fn the_largest_use_no_key_twice() {
    for m in 1..=20 {
        for first in 0..=20 - m {
            let fits = |i: usize, j: usize| i + first == j;
            for order in [MatchOrder::Core, MatchOrder::Ends] {
                let (proven, asked, _) = search(order, (m, 20), fits);
                assert!(proven);
                let mut keys: Vec<_> = asked.iter().map(|(_, key)| *key).collect();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), asked.len());
            }
        }
    }
}
