mod by_system;

use std::collections::{BTreeMap, BTreeSet};

use godwit_primitives::sha256::sha256d;
use proptest::prelude::*;

use super::places::{BUCKET_SIZE, NEW_BUCKETS};
use super::*;
use crate::Reachable;
use crate::net_address::Host;
use crate::saved_file::SavedFileError;
use crate::seeds::SEED_SERVICES;

const NOW: i64 = 1_700_000_000;
const DAY: i64 = 24 * 60 * 60;
const ALL: Reachable = Reachable { ipv4: true, ipv6: true, onion: true, i2p: true, cjdns: true };

fn ipv4(a: u8, b: u8, c: u8, d: u8) -> NetAddress {
    NetAddress::new(Host::Ipv4([a, b, c, d]), 8333)
}

/// Routable addresses, all different, spread over the /16 groups.
fn numbered(n: u32) -> NetAddress {
    let [_, a, b, c] = n.to_be_bytes();
    NetAddress::new(Host::Ipv4([60 + a % 8, c, b, a / 8 + 1]), 8333)
}

fn onion(n: u8) -> NetAddress {
    NetAddress::new(Host::OnionV3([n; 32]), 8333)
}

fn seen(address: NetAddress, ago: i64) -> AddressEntry {
    AddressEntry { time: (NOW - ago) as u32, services: SEED_SERVICES, address }
}

fn source(a: u8, b: u8) -> Source {
    Source::Host(Host::Ipv4([a, b, 1, 1]))
}

fn book() -> AddressBook {
    AddressBook::new([7; 32])
}

fn add(book: &mut AddressBook, address: NetAddress) -> bool {
    book.add(NOW, &[seen(address, 0)], source(9, 9), 0) == 1
}

fn entry<'a>(book: &'a AddressBook, address: &NetAddress) -> &'a Entry {
    &book.entries[&book.ids[address]]
}

/// What Core's `CheckAddrman` checks.
fn check(book: &AddressBook) {
    assert_eq!(book.entries.len(), book.ids.len());
    assert_eq!(book.entries.len(), book.order.len());
    assert!(book.len() <= MAX_ENTRIES);
    let mut references: BTreeMap<EntryId, u8> = BTreeMap::new();
    for (place, slot) in book.new.held() {
        let address = &book.entries[&slot.id].address;
        assert_eq!(book.placing.place_in_new_bucket(address, place.bucket), place);
        assert_eq!(slot.network, address.network());
        *references.entry(slot.id).or_default() += 1;
    }
    let mut tried = BTreeSet::new();
    for (place, slot) in book.tried.held() {
        let address = &book.entries[&slot.id].address;
        assert_eq!(book.placing.tried_place(address), place);
        assert_eq!(slot.network, address.network());
        assert!(tried.insert(slot.id), "two tried places");
    }
    for (id, entry) in &book.entries {
        assert_eq!(book.ids[&entry.address], *id);
        assert_eq!(book.order[entry.rank], *id);
        assert_eq!(references.get(id).copied().unwrap_or(0), entry.references);
        assert_eq!(tried.contains(id), entry.tried);
        assert_eq!(entry.tried, entry.references == 0, "either new or tried");
        assert!(entry.references <= MAX_REFERENCES);
        assert!(!entry.tried || entry.last_success > 0);
    }
    assert!(book.collisions.len() <= MAX_COLLISIONS);
}

#[test]
fn addresses_that_lead_nowhere_are_left_out() {
    let mut book = book();
    for address in [ipv4(10, 0, 0, 1), ipv4(127, 0, 0, 1), ipv4(0, 0, 0, 0), ipv4(192, 168, 1, 1)] {
        assert!(!add(&mut book, address));
    }
    assert!(book.is_empty());
    assert!(add(&mut book, ipv4(1, 2, 3, 4)));
    assert!(add(&mut book, onion(1)));
    check(&book);
}

#[test]
fn time_is_penalised_unless_a_node_speaks_of_itself() {
    let (mut book, address) = (book(), ipv4(1, 2, 3, 4));
    book.add(NOW, &[seen(address, 100)], source(9, 9), TIME_PENALTY);
    assert_eq!(i64::from(entry(&book, &address).time), NOW - 100 - i64::from(TIME_PENALTY));

    let other = ipv4(1, 2, 3, 5);
    book.add(NOW, &[seen(other, 100)], Source::Host(other.host), TIME_PENALTY);
    assert_eq!(i64::from(entry(&book, &other).time), NOW - 100);

    let early = AddressEntry { time: 5, ..seen(ipv4(1, 2, 3, 6), 0) };
    book.add(NOW, &[early], source(9, 9), TIME_PENALTY);
    assert_eq!(entry(&book, &early.address).time, 0);
}

#[test]
fn known_address_takes_over_services_and_a_clearly_newer_time() {
    let (mut book, address) = (book(), ipv4(1, 2, 3, 4));
    let told = |ago, services| AddressEntry { services: Services(services), ..seen(address, ago) };
    book.add(NOW, &[told(10_000, 1)], source(9, 9), 0);
    // Online nodes are brought up to date when an hour has passed, not sooner.
    book.add(NOW, &[told(10_000 - 3600, 8)], source(9, 9), 0);
    assert_eq!(i64::from(entry(&book, &address).time), NOW - 10_000);
    assert_eq!(entry(&book, &address).services, Services(9));
    book.add(NOW, &[told(10_000 - 3601, 0)], source(9, 9), 0);
    assert_eq!(i64::from(entry(&book, &address).time), NOW - 10_000 + 3601);

    // Others when a day has passed.
    let old = ipv4(1, 2, 3, 5);
    book.add(NOW, &[seen(old, 10 * DAY)], source(9, 9), 0);
    book.add(NOW, &[seen(old, 9 * DAY)], source(9, 9), 0);
    assert_eq!(i64::from(entry(&book, &old).time), NOW - 10 * DAY);
    book.add(NOW, &[seen(old, 9 * DAY - 1)], source(9, 9), 0);
    assert_eq!(i64::from(entry(&book, &old).time), NOW - 9 * DAY + 1);
}

#[test]
fn terrible_at_each_boundary() {
    let told = seen(ipv4(1, 2, 3, 4), 0);
    let fresh = Entry::new(&told, source(9, 9), 0);
    let terrible = |change: &dyn Fn(&mut Entry)| {
        let mut entry = fresh.clone();
        change(&mut entry);
        entry.is_terrible(NOW)
    };
    assert!(!terrible(&|_| {}));
    assert!(!terrible(&|entry| entry.time = (NOW + 600) as u32));
    assert!(terrible(&|entry| entry.time = (NOW + 601) as u32));
    assert!(!terrible(&|entry| entry.time = (NOW - 30 * DAY) as u32));
    assert!(terrible(&|entry| entry.time = (NOW - 30 * DAY - 1) as u32));
    assert!(!terrible(&|entry| entry.attempts = 2));
    assert!(terrible(&|entry| entry.attempts = 3));
    assert!(!terrible(&|entry| (entry.attempts, entry.last_try) = (3, NOW - 60)), "just tried");
    assert!(terrible(&|entry| (entry.attempts, entry.last_try) = (3, NOW - 61)));
    let failed = |attempts, ago| {
        terrible(&|entry| (entry.attempts, entry.last_success) = (attempts, NOW - ago))
    };
    assert!(!failed(9, 8 * DAY));
    assert!(!failed(10, 7 * DAY));
    assert!(failed(10, 7 * DAY + 1));
}

#[test]
fn attempts_count_once_between_two_successes() {
    let (mut book, address) = (book(), ipv4(1, 2, 3, 4));
    add(&mut book, address);
    book.attempt(NOW, &address, false);
    assert_eq!((entry(&book, &address).attempts, entry(&book, &address).last_try), (0, NOW));
    book.attempt(NOW, &address, true);
    book.attempt(NOW + 1, &address, true);
    assert_eq!(entry(&book, &address).attempts, 1, "nobody answered in between: we may be offline");
    add(&mut book, ipv4(5, 6, 7, 8));
    book.good(NOW + 2, &ipv4(5, 6, 7, 8));
    book.attempt(NOW + 3, &address, true);
    assert_eq!(entry(&book, &address).attempts, 2);
    book.good(NOW + 4, &address);
    assert_eq!(entry(&book, &address).attempts, 0);
    book.attempt(NOW, &ipv4(8, 8, 8, 8), true);
    check(&book);
}

#[test]
fn good_moves_to_tried_and_leaves_the_time() {
    let (mut book, address) = (book(), ipv4(1, 2, 3, 4));
    assert!(!book.good(NOW, &address), "unknown");
    book.add(NOW, &[seen(address, 5000)], source(9, 9), 0);
    assert!(book.good(NOW, &address));
    assert!(!book.good(NOW, &address), "already there");
    assert_eq!((book.tried_len(), book.len()), (1, 1));
    let time = |book: &AddressBook| i64::from(entry(book, &address).time);
    assert_eq!(time(&book), NOW - 5000);
    book.connected(NOW - 5000 + 1200, &address);
    assert_eq!(time(&book), NOW - 5000);
    book.connected(NOW - 5000 + 1201, &address);
    assert_eq!(time(&book), NOW - 5000 + 1201);
    book.set_services(&address, Services(1));
    assert_eq!(entry(&book, &address).services, Services(1));
    check(&book);
}

#[test]
fn addresses_are_counted_by_network_and_by_whether_they_answered() {
    let mut book = book();
    assert!(book.counts().is_empty());
    for address in [ipv4(1, 2, 3, 4), ipv4(5, 6, 7, 8), onion(1)] {
        assert!(add(&mut book, address));
    }
    book.good(NOW, &ipv4(1, 2, 3, 4));
    let mut counts = book.counts();
    counts.sort_by_key(|count| count.new + count.tried);
    let expected = [(AddressNetwork::Onion, 1, 0), (AddressNetwork::Ipv4, 1, 1)];
    assert_eq!(counts, expected.map(|(network, new, tried)| AddressCount { network, new, tried }));
}

#[test]
fn addresses_of_one_group_share_few_buckets() {
    let book = book();
    let address = |n: u32| ipv4(60, 1, (n >> 8) as u8, n as u8);
    let tried: BTreeSet<_> =
        (0..5000).map(|n| book.placing.tried_place(&address(n)).bucket).collect();
    assert!((2..=8).contains(&tried.len()), "{} tried buckets", tried.len());
    let from = |source: Source, n| book.placing.new_place(&numbered(n), source).bucket;
    let new: BTreeSet<_> = (0..50_000).map(|n| from(source(9, 9), n)).collect();
    assert!((32..=64).contains(&new.len()), "{} new buckets of one source", new.len());
    let same: BTreeSet<_> =
        (0..200).map(|d| from(Source::Host(Host::Ipv4([9, 9, d, 77])), 5)).collect();
    assert_eq!(same.len(), 1, "sources of one group are one source");
    let seeds: BTreeSet<_> = (0..100).map(|n| from(Source::name(&n.to_string()), 5)).collect();
    assert!(seeds.len() > 80, "each seed is a group of its own");
}

#[test]
fn places_depend_on_all_of_the_key() {
    let place =
        |key: [u8; 32]| Placing::new(key, NetGroups::default()).tried_place(&ipv4(1, 2, 3, 4));
    let places: BTreeSet<_> = (0..32)
        .map(|at| {
            let mut key = [0; 32];
            key[at] = 1;
            let place = place(key);
            (place.bucket, place.position)
        })
        .collect();
    assert!(places.len() >= 31, "{} of 32", places.len());
}

/// Two addresses with the same tried place, and different new ones.
fn colliding(book: &AddressBook) -> (NetAddress, NetAddress) {
    let mut places = BTreeMap::new();
    for n in 0.. {
        let place = book.placing.tried_place(&numbered(n));
        if let Some(other) = places.insert((place.bucket, place.position), n) {
            let source = source(9, 9);
            let new = |n| book.placing.new_place(&numbered(n), source);
            if new(n) != new(other) {
                return (numbered(other), numbered(n));
            }
        }
    }
    unreachable!("there are more addresses than places")
}

fn with_collision(answered: i64) -> (AddressBook, NetAddress, NetAddress) {
    let mut book = book();
    let (holder, newcomer) = colliding(&book);
    add(&mut book, holder);
    add(&mut book, newcomer);
    assert!(book.good(answered, &holder));
    assert!(!book.good(NOW, &newcomer));
    assert_eq!(book.select_collision().map(|candidate| candidate.address), Some(holder));
    check(&book);
    (book, holder, newcomer)
}

#[test]
fn holder_that_answered_lately_keeps_its_place() {
    let (mut book, holder, newcomer) = with_collision(NOW - REPLACEMENT + 1);
    book.resolve_collisions(NOW);
    assert!(entry(&book, &holder).tried && !entry(&book, &newcomer).tried);
    assert_eq!(book.select_collision(), None);
    check(&book);
}

#[test]
fn holder_that_does_not_answer_its_test_is_replaced() {
    let (mut book, holder, newcomer) = with_collision(NOW - REPLACEMENT);
    book.resolve_collisions(NOW);
    assert!(entry(&book, &holder).tried, "it has to be tested first");
    book.attempt(NOW, &holder, true);
    book.resolve_collisions(NOW + TEST_TIME);
    assert!(entry(&book, &holder).tried, "it still may answer");
    book.resolve_collisions(NOW + TEST_TIME + 1);
    assert!(!entry(&book, &holder).tried && entry(&book, &newcomer).tried);
    assert_eq!(book.select_collision(), None);
    check(&book);
}

#[test]
fn holder_that_answers_its_test_stays() {
    let (mut book, holder, newcomer) = with_collision(NOW - REPLACEMENT);
    book.attempt(NOW, &holder, true);
    book.good(NOW + 1, &holder);
    book.resolve_collisions(NOW + 100);
    assert!(entry(&book, &holder).tried && !entry(&book, &newcomer).tried);
    check(&book);
}

#[test]
fn holder_that_can_not_be_tested_goes_in_the_end() {
    let (mut book, holder, newcomer) = with_collision(NOW - REPLACEMENT);
    book.resolve_collisions(NOW + TEST_WINDOW);
    assert!(entry(&book, &holder).tried);
    book.resolve_collisions(NOW + TEST_WINDOW + 1);
    assert!(!entry(&book, &holder).tried && entry(&book, &newcomer).tried);
    check(&book);
}

#[test]
fn select_keeps_to_the_table_and_the_networks() {
    let mut book = book();
    assert_eq!(book.select(NOW, false, ALL), None);
    for n in 0..50 {
        add(&mut book, numbered(n));
    }
    add(&mut book, onion(1));
    let onions = Reachable { ipv4: false, ipv6: false, ..ALL };
    let picked = |book: &mut AddressBook, new_only, networks| {
        book.select(NOW, new_only, networks).map(|candidate| candidate.address)
    };
    assert_eq!(picked(&mut book, false, onions), Some(onion(1)));
    assert_eq!(picked(&mut book, false, Reachable { onion: false, ..onions }), None);
    book.good(NOW, &onion(1));
    assert_eq!(picked(&mut book, true, onions), None);
    assert_eq!(picked(&mut book, false, onions), Some(onion(1)), "also just after a success");
    let tried = (0..1000).filter(|_| picked(&mut book, false, ALL) == Some(onion(1))).count();
    // Half of the draws go to the tried table; the rule about recent attempts does not change that.
    assert!((400..600).contains(&tried), "{tried} of 1000");
    assert!((0..200).all(|_| picked(&mut book, true, ALL) != Some(onion(1))));
}

#[test]
fn select_prefers_addresses_without_failures() {
    let mut book = book();
    let (fine, failed) = (numbered(1), numbered(2));
    add(&mut book, fine);
    add(&mut book, failed);
    let id = book.ids[&failed];
    book.entries.get_mut(&id).expect("added").attempts = 2;
    let mut count = 0;
    for _ in 0..2000 {
        count += u32::from(book.select(NOW, false, ALL).expect("some").address == failed);
    }
    // The first draw takes `failed` with 0.66² = 0.44, so about 0.22 + (a share of what is redrawn).
    assert!((400..850).contains(&count), "{count} of 2000");
}

#[test]
fn sample_is_a_bounded_share_without_terrible_ones() {
    let mut book = book();
    let mut stale = BTreeSet::new();
    for n in 0..10_000 {
        let ago = if n % 2 == 0 { 0 } else { 31 * DAY };
        let from = source((n / 200) as u8 + 11, 1);
        book.add(NOW, &[seen(numbered(n), ago)], from, 0);
        if ago > 0 {
            stale.insert(numbered(n));
        }
    }
    assert!(book.len() > 5000, "{}", book.len());
    let sample = book.sample(NOW);
    let unique: BTreeSet<_> = sample.iter().map(|entry| entry.address).collect();
    assert_eq!((sample.len(), unique.len()), (SAMPLE_ADDRESSES, SAMPLE_ADDRESSES));
    assert!(unique.is_disjoint(&stale));
    assert_ne!(book.sample(NOW), sample);
    check(&book);

    let mut small = self::book();
    for n in 0..100 {
        add(&mut small, numbered(n));
    }
    assert_eq!(small.sample(NOW).len(), small.len() * SAMPLE_PERCENT / 100);
}

#[test]
fn b10_a_flood_of_addresses_costs_bounded_memory_and_ids_do_not_run_out() {
    let mut book = book();
    book.next_id = EntryId::new(u64::from(u32::MAX) - 1000);
    for n in 0..300_000 {
        book.add(NOW, &[seen(numbered(n), 0)], source(9, 9), 0);
    }
    assert!(book.next_id.get() > u64::from(u32::MAX));
    // One group of sources has 64 of the 1024 buckets.
    assert!(book.len() <= 64 * BUCKET_SIZE, "{} addresses", book.len());
    check(&book);
    for n in 0..300_000 {
        let from = source((n / 1024 % 251) as u8, (n / 65_536) as u8);
        book.add(NOW, &[seen(numbered(n), 0)], from, 0);
    }
    assert!(book.len() <= NEW_BUCKETS * BUCKET_SIZE);
    assert!(book.len() > NEW_BUCKETS * BUCKET_SIZE / 2, "{} addresses", book.len());
    check(&book);
}

#[test]
fn b10_an_address_has_at_most_eight_places() {
    let (mut book, address) = (book(), ipv4(1, 2, 3, 4));
    for n in 0..200_000u32 {
        let [_, _, a, b] = n.to_be_bytes();
        // Newer each time: else it would be no news.
        let told = AddressEntry { time: (NOW - 300_000) as u32 + n, ..seen(address, 0) };
        book.add(NOW, &[told], source(a, b), 0);
    }
    assert!(entry(&book, &address).references > 1);
    assert!(entry(&book, &address).references <= MAX_REFERENCES);
    check(&book);
}

#[test]
fn b18_an_attacker_with_one_group_does_not_push_out_what_others_told() {
    let mut book = book();
    let honest: Vec<_> = (0..2000).map(numbered).collect();
    for (n, address) in honest.iter().enumerate() {
        book.add(NOW, &[seen(*address, 0)], source(n as u8, (n / 256) as u8), 0);
    }
    let before = honest.iter().filter(|address| book.ids.contains_key(address)).count();
    assert!(before > 1900, "{before}");
    for n in 100_000..400_000 {
        book.add(NOW, &[seen(numbered(n), 0)], source(66, 66), 0);
    }
    let after = honest.iter().filter(|address| book.ids.contains_key(address)).count();
    assert_eq!(before, after, "an entry that is not terrible and stands alone is not overwritten");
}

#[derive(Clone, Debug)]
enum Step {
    Add { address: u32, source: u8, ago: i64 },
    Good(u32),
    Attempt(u32),
    Resolve,
    Sample,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3000u32, any::<u8>(), 0..40 * DAY)
            .prop_map(|(address, source, ago)| Step::Add { address, source, ago }),
        3 => (0..3000u32).prop_map(Step::Good),
        1 => (0..3000u32).prop_map(Step::Attempt),
        1 => Just(Step::Resolve),
        1 => Just(Step::Sample),
    ]
}

fn run(book: &mut AddressBook, steps: &[Step]) {
    for (second, step) in steps.iter().enumerate() {
        let now = NOW + 300 * second as i64;
        match *step {
            Step::Add { address, source: from, ago } => {
                let told = seen(numbered(address), ago);
                book.add(now, &[told], source(from, 1), 60);
            }
            Step::Good(address) => _ = book.good(now, &numbered(address)),
            Step::Attempt(address) => book.attempt(now, &numbered(address), true),
            Step::Resolve => book.resolve_collisions(now),
            Step::Sample => _ = book.sample(now),
        }
    }
}

const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];

fn with_checksum(mut content: Vec<u8>) -> Vec<u8> {
    let checksum = sha256d(&content);
    content.extend(checksum);
    content
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_and_entries_agree_after_any_steps(steps in prop::collection::vec(step(), 0..600)) {
        let mut book = book();
        run(&mut book, &steps);
        check(&book);
    }

    #[test]
    fn file_brings_the_book_back(steps in prop::collection::vec(step(), 0..300)) {
        let mut book = book();
        run(&mut book, &steps);
        let bytes = book.to_bytes(MAGIC);
        let mut again = AddressBook::from_bytes(&bytes, MAGIC, [8; 32], NetGroups::default()).expect("just written");
        check(&again);
        prop_assert_eq!(again.to_bytes(MAGIC), bytes);
        for (id, entry) in &book.entries {
            let other = super::tests::entry(&again, &entry.address);
            let stored = Entry { last_try: 0, last_counted_try: 0, ..entry.clone() };
            prop_assert_eq!(other, &stored, "{:?}", id);
        }
        run(&mut again, &steps);
        check(&again);
    }

    #[test]
    fn one_seed_gives_one_book(steps in prop::collection::vec(step(), 0..200)) {
        let [mut a, mut b] = [book(), book()];
        run(&mut a, &steps);
        run(&mut b, &steps);
        prop_assert_eq!(a.select(NOW, false, ALL), b.select(NOW, false, ALL));
        prop_assert_eq!(a.to_bytes(MAGIC), b.to_bytes(MAGIC));
    }

    #[test]
    fn hostile_content_behind_a_good_checksum_is_refused_or_consistent(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut book = book();
        (0..40).for_each(|n| _ = add(&mut book, numbered(n)));
        (0..10).for_each(|n| _ = book.good(NOW, &numbered(n)));
        let mut content = book.to_bytes(MAGIC);
        content.truncate(content.len() - 32);
        for (at, byte) in changes {
            let at = at.index(content.len());
            content[at] = byte;
        }
        content.truncate(cut.map_or(content.len(), |cut| cut.index(content.len())));
        if let Ok(book) = AddressBook::from_bytes(&with_checksum(content), MAGIC, [8; 32], NetGroups::default()) {
            check_without_success(&book);
        }
    }
}

/// As [`check`], but a changed file may say that a tried address never answered.
fn check_without_success(book: &AddressBook) {
    let mut book =
        AddressBook::from_bytes(&book.to_bytes(MAGIC), MAGIC, [9; 32], NetGroups::default())
            .expect("written");
    book.entries.values_mut().for_each(|entry| entry.last_success = NOW);
    check(&book);
}

#[test]
fn damaged_file_is_refused() {
    let mut book = book();
    (0..5).for_each(|n| _ = add(&mut book, numbered(n)));
    let bytes = book.to_bytes(MAGIC);
    let read = |bytes: &[u8]| {
        AddressBook::from_bytes(bytes, MAGIC, [8; 32], NetGroups::default()).map(|book| book.len())
    };
    assert_eq!(read(&bytes), Ok(5));
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        let expected = match at {
            0..4 => SavedFileError::UnknownVersion(1 ^ 0x10 << (8 * at)),
            _ => SavedFileError::Damaged,
        };
        assert_eq!(read(&flipped), Err(expected), "byte {at}");
        assert_eq!(read(&bytes[..at]), Err(SavedFileError::Damaged), "{at} bytes");
    }
    assert_eq!(read(&[&bytes[..], &[0]].concat()), Err(SavedFileError::Damaged));
    let content = &bytes[..bytes.len() - 32];
    let longer = with_checksum([content, &[0]].concat());
    assert_eq!(read(&longer), Err(SavedFileError::Inconsistent));
    let other = AddressBook::from_bytes(&bytes, [1, 2, 3, 4], [8; 32], NetGroups::default())
        .map(|book| book.len());
    assert_eq!(other, Err(SavedFileError::WrongMagic(MAGIC)));
    let text = SavedFileError::WrongMagic(MAGIC).to_string();
    assert_eq!(text, "it is of another network (magic f9beb4d9)");
}
