use std::time::Instant;

use proptest::prelude::*;

use super::*;

/// The element that Core's `muhash_tests` calls `FromInt(i)`.
fn element(i: u8) -> [u8; 32] {
    let mut element = [0; 32];
    element[0] = i;
    element
}

fn set(elements: impl IntoIterator<Item = u8>) -> MuHash3072 {
    let mut set = MuHash3072::new();
    elements.into_iter().for_each(|i| set.insert(&element(i)));
    set
}

fn display(hash: [u8; 32]) -> String {
    hex::encode(hash.iter().rev().copied().collect::<Vec<_>>())
}

/// Bitcoin Core, `src/test/crypto_tests.cpp`, `muhash_tests`.
#[test]
fn core_vector_of_two_added_and_one_removed() {
    let mut hash = set([0, 1]);
    hash.remove(&element(2));
    let expected = "10d312b100cbd32ada024a6646e40d3482fcff103668d2625f10002a607d5863";
    assert_eq!(display(hash.finalize()), expected);
}

#[test]
fn core_vector_of_the_numerator() {
    let expected = "1fa093295ea30a6a3acdc7b3f770fa538eff537528e990e2910e40bbcfd7f6696b125690\
         1929094694b56316de342f593303dd12ac43e06dce1be1ff8301c845beb15468fff0ef00\
         2dbf80c29f26e6452bccc91b5cb9437ad410d2a67ea847887fa3c6a6553309946880fe20\
         db2c73fe0641adbd4e86edfee0d9f8cd0ee1230898873dc13ed8ddcaf045c80faa082774\
         279007a2253f8922ee3ef361d378a6af3ddaf180b190ac97e556888c36b3d1fb1c85aab9\
         ccd46e3deaeb7b7cf5db067a7e9ff86b658cf3acd6662bbcce37232daa753c48b794356c\
         020090c831a8304416e2aa7ad633c0ddb2f11be1be316a81be7f7e472071c042cb68faef\
         549c221ebff209273638b741aba5a81675c45a5fa92fea4ca821d7a324cb1e1a2ccd3b76\
         c4228ec8066dad2a5df6e1bd0de45c7dd5de8070bdb46db6c554cf9aefc9b7b2bbf9f75b\
         1864d9f95005314593905c0109b71f703d49944ae94477b51dac10a816bb6d1c700bafab\
         c8bd86fac8df24be519a2f2836b16392e18036cb13e48c5c";
    assert_eq!(hex::encode(set([1, 2]).numerator.to_bytes()), expected);
}

#[test]
fn core_vector_of_a_numerator_above_the_prime() {
    let numerator = Num3072::from_bytes(&[0xff; Num3072::SIZE]);
    let hash = MuHash3072 { numerator, denominator: Num3072::ONE };
    let expected = "3a31e6903aff0de9f62f9a9f7f8b861de76ce2cda09822b90014319ae5dc2271";
    // In internal byte order, other than the hash above.
    assert_eq!(hex::encode(hash.finalize()), expected);
}

#[test]
fn quotients_hash_as_their_sets_and_can_be_gone_on_from() {
    let mut sets = vec![MuHash3072::new(), set([1, 2]), set([])];
    sets[2].remove(&element(7));
    for n in 0..5 {
        let mut next = sets.last().expect("there are some").clone();
        next.insert(&element(40 + n));
        next.remove(&element(10 + n));
        sets.push(next);
    }
    for count in 0..=sets.len() {
        let quotients = MuHash3072::quotients(&sets[..count]);
        assert_eq!(quotients.len(), count);
        for (quotient, set) in quotients.iter().zip(&sets) {
            assert_eq!(quotient.hash(), set.finalize());
            let (mut next, mut from) = (set.clone(), MuHash3072::from(quotient));
            for set in [&mut next, &mut from] {
                set.remove(&element(99));
                set.insert(&element(98));
            }
            assert_eq!(from.finalize(), next.finalize());
        }
    }
    assert_eq!(MuHash3072::quotients(&sets[..1]), [Quotient::EMPTY]);
}

#[test]
fn removing_what_was_added_leaves_the_empty_set() {
    let mut hash = set([3, 4]);
    hash.remove(&element(4));
    hash.remove(&element(3));
    assert_eq!(hash.finalize(), MuHash3072::new().finalize());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn order_and_grouping_do_not_matter(
        mut changes in proptest::collection::vec((any::<u8>(), any::<bool>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let apply = |changes: &[(u8, bool)]| {
            let mut hash = MuHash3072::new();
            for &(i, added) in changes {
                if added { hash.insert(&element(i)) } else { hash.remove(&element(i)) }
            }
            hash
        };
        let expected = apply(&changes).finalize();
        let (front, back) = changes.split_at(cut.index(changes.len() + 1));
        let mut combined = apply(back);
        combined.combine(&apply(front));
        prop_assert_eq!(combined.finalize(), expected);
        changes.reverse();
        prop_assert_eq!(apply(&changes).finalize(), expected);
    }
}

#[test]
#[ignore = "benchmark: cargo test --release -p godwit-primitives muhash_speed -- --ignored --nocapture"]
fn muhash_speed() {
    // Best of many rounds, because other work may share the machine.
    let best = |rounds: u32, mut work: Box<dyn FnMut()>| {
        let time = |_| {
            let start = Instant::now();
            work();
            start.elapsed()
        };
        (0..rounds).map(time).min()
    };
    let mut hash = set([1]);
    hash.remove(&element(2));
    let mut growing = hash.clone();
    let insert = best(2_000, Box::new(move || growing.insert(b"element")));
    let finalize = best(20, Box::new(move || _ = std::hint::black_box(hash.finalize())));
    eprintln!("insert {insert:?}, finalize {finalize:?}");
}
