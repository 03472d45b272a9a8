//! A book whose hosts are grouped by autonomous system, and one whose map changes.

use super::*;
use crate::asmap::tests::map_of;

/// What [`numbered`] gives is of few systems: 60 to 63 of the first, 64 and 65 of the second, and what is
/// behind that of none.
fn few_systems(first: u32, second: u32) -> NetGroups {
    NetGroups::by_system(map_of(&[
        ("::ffff:60.0.0.0", 102, first),
        ("::ffff:64.0.0.0", 103, second),
        ("::ffff:9.0.0.0", 104, 9),
    ]))
}

fn filled(groups: NetGroups) -> AddressBook {
    let mut book = AddressBook::with_groups([7; 32], groups);
    for n in 0..3_000_u32 {
        // Of many sources, so that some are in several buckets.
        for by in 0..3 {
            book.add(NOW, &[seen(numbered(n), by)], source((n % 20) as u8 + 1, by as u8), 0);
        }
    }
    (0..600).for_each(|n| _ = book.good(NOW, &numbered(n)));
    check(&book);
    assert!(book.len() > 1_000 && book.tried_len() > 20, "{} {}", book.len(), book.tried_len());
    book
}

fn read(bytes: &[u8], groups: NetGroups) -> AddressBook {
    let book = AddressBook::from_bytes(bytes, MAGIC, [8; 32], groups).expect("just written");
    check(&book);
    book
}

/// Every address is where the groups of this book want it, and those that are missing were crowded out.
fn is_placed_anew(book: &AddressBook, before: &AddressBook) {
    for entry in before.entries.values() {
        let (tried, new) = (
            book.placing.tried_place(&entry.address),
            book.placing.new_place(&entry.address, entry.source),
        );
        let Some(id) = book.ids.get(&entry.address) else {
            assert!(book.new.get(new).is_some(), "{} had room", entry.address);
            assert!(!entry.tried || book.tried.get(tried).is_some(), "{}", entry.address);
            continue;
        };
        let now = &book.entries[id];
        let slot = if now.tried { book.tried.get(tried) } else { book.new.get(new) };
        assert_eq!(slot.map(|slot| slot.id), Some(*id), "{}", entry.address);
        assert_eq!(now.references, u8::from(!now.tried), "one place, by its first source");
        assert_eq!(now.source, entry.source);
    }
}

#[test]
fn addresses_of_one_system_share_the_buckets_of_one_group() {
    let groups = few_systems(1, 2);
    let placing = Placing::new([5; 32], groups);
    let of = |from: u8, to: u8| {
        let hosts = (0..40_000).map(numbered);
        hosts.filter(move |at| matches!(at.host, Host::Ipv4([a, ..]) if (from..to).contains(&a)))
    };
    let tried = |from, to| -> BTreeSet<usize> {
        of(from, to).map(|at| placing.tried_place(&at).bucket).collect()
    };
    let new = |from, to, by: Source| -> BTreeSet<usize> {
        of(from, to).map(|at| placing.new_place(&at, by).bucket).collect()
    };
    // Eight buckets for a group, and one for a group and one of its sources.
    assert!((2..=8).contains(&tried(60, 64).len()));
    assert_eq!(new(60, 64, source(1, 1)).len(), 1);
    let by_prefix = Placing::new([5; 32], NetGroups::default());
    let spread: BTreeSet<usize> = of(60, 64).map(|at| by_prefix.tried_place(&at).bucket).collect();
    assert!(spread.len() > 64, "{}", spread.len());
    // Sources of one system are one.
    let [a, b] = [source(9, 1), source(9, 200)].map(|by| new(60, 64, by));
    assert_eq!(a, b);
    assert_ne!(new(60, 64, source(9, 1)), new(60, 64, source(10, 1)));
}

#[test]
fn the_same_map_leaves_everything_in_its_place() {
    let book = filled(few_systems(1, 2));
    let bytes = book.to_bytes(MAGIC);
    assert_eq!(read(&bytes, few_systems(1, 2)).to_bytes(MAGIC), bytes);
    let without = filled(NetGroups::default()).to_bytes(MAGIC);
    assert_eq!(read(&without, NetGroups::default()).to_bytes(MAGIC), without);
    // The version of the map is between the buckets and the checksum, and nothing is without one.
    let map = few_systems(1, 2).version().expect("a map");
    assert_eq!(bytes[bytes.len() - 64..bytes.len() - 32], map.0);
}

#[test]
fn with_another_map_every_address_gets_the_place_that_it_has_now() {
    let (none, one, other) = (NetGroups::default(), few_systems(1, 2), few_systems(3, 3));
    for (before, after) in
        [(&none, &one), (&one, &none), (&one, &other), (&other, &one), (&none, &other)]
    {
        let book = filled(before.clone());
        let bytes = book.to_bytes(MAGIC);
        let moved = read(&bytes, after.clone());
        is_placed_anew(&moved, &book);
        assert!(!moved.is_empty() && moved.tried_len() > 0);
        let again = moved.to_bytes(MAGIC);
        assert_ne!(again, bytes);
        assert_eq!(read(&again, after.clone()).to_bytes(MAGIC), again, "once");
    }
}

#[test]
fn coverage_is_of_addresses_that_a_map_can_know() {
    let mut book = AddressBook::with_groups([7; 32], few_systems(1, 2));
    let addresses = [ipv4(60, 1, 1, 1), ipv4(61, 1, 1, 1), ipv4(65, 1, 1, 1), ipv4(70, 1, 1, 1)];
    for address in addresses.into_iter().chain([onion(1)]) {
        assert!(add(&mut book, address));
    }
    let all = MapCoverage { hosts: 4, systems: 2, unmapped: 1 };
    // Whether all at once or in parts; the onion address is looked at, too.
    for (at_most, parts) in [(1, 5), (2, 3), (4, 2), (5, 1), (6, 1)] {
        let mut count = BookCoverage::default();
        for part in 1..=parts {
            let found = book.count_coverage(&mut count, at_most);
            assert_eq!(found, (part == parts).then_some(all), "{at_most} at once, part {part}");
        }
    }
    // What is taken away between two parts is passed over.
    let (mut count, nothing) = (BookCoverage::default(), super::book());
    assert_eq!(book.count_coverage(&mut count, 2), None);
    assert!(nothing.count_coverage(&mut count, 2).is_some_and(|found| found.hosts <= 2));
}
