//! The code of the node beside a writer of maps, a search for the longest prefix and a reader that makes a
//! tree of a map first.

use std::net::Ipv6Addr;

use data_encoding::HEXLOWER;
use proptest::prelude::*;

use super::*;

/// Core `netbase_tests.cpp`, `asmap_test_vectors`.
const CORE_MAP: &str = "fd38d50f7d5d665357f64bba6bfc190d6078a7e68e5d3ac032edf47f8b5755f87881bfd3633d9aa7c1fa279b3\
     6fe26c63bbc9de44e0f04e5a382d8e1cddbe1c26653bc939d4327f287e8b4d1f8aff33176787cb0ff7cb28e3f\
     daef0f8f47357f801c9f7ff7a99f7f9c9f99de7f3156ae00f23eb27a303bc486aa3ccc31ec19394c2f8a53ddd\
     ea3cc56257f3b7e9b1f488be9c1137db823759aa4e071eef2e984aaf97b52d5f88d0f373dd190fe45e06efef1\
     df7278be680a73a74c76db4dd910f1d30752c57fe2bc9f079f1a1e1b036c2a69219f11c5e11980a3fa51f4f82\
     d36373de73b1863a8c27e36ae0e4f705be3d76ecff038a75bc0f92ba7e7f6f4080f1c47c34d095367ecf4406c\
     1e3bbc17ba4d6f79ea3f031b876799ac268b1e0ea9babf0f9a8e5f6c55e363c6363df46afc696d7afceaf49b6\
     e62df9e9dc27e70664cafe5c53df66dd0b8237678ada90e73f05ec60e6f6e96c3cbb1ea2f9dece115d5bdba10\
     33e53662a7d72a29477b5beb35710591d3e23e5f0379baea62ffdee535bcdf879cbf69b88d7ea37c8015381cf\
     63dc33d28f757a4a5e15d6a08";

/// Core `test/data/asmap.raw`: 250.0.0.0/8 is of 1000, 101.n.0.0/16 of n, from 1 to 8.
const CORE_FILE: &str = "fb03ec0fb03fc0fe00fb03ec0fb03fc0fe00fb03ec0fb0fffffeffedb0ff\
     d486e628290000400000400040990100800180040000050006001cf039";

/// The largest number of a system that a map can hold.
const LARGEST: u32 = 33_521_664;

fn from_hex(text: &str) -> Asmap {
    Asmap::new(HEXLOWER.decode(text.as_bytes()).expect("hexadecimal")).expect("a map")
}

/// The map of Core's vectors, which are in `net_groups.rs`.
pub(crate) fn core_map() -> Asmap {
    from_hex(CORE_MAP)
}

/// A map of prefixes: address, bits and system of each.
pub(crate) fn map_of(prefixes: &[(&str, u32, u32)]) -> Asmap {
    let prefix = |&(address, len, system): &(&str, u32, u32)| Prefix {
        address: address.parse::<Ipv6Addr>().expect(address).to_bits(),
        len,
        system,
    };
    let prefixes: Vec<Prefix> = prefixes.iter().map(prefix).collect();
    Asmap::new(encoded(&prefixes).expect("not empty")).expect("a map")
}

#[derive(Clone, Copy, Debug)]
struct Prefix {
    address: u128,
    len: u32,
    system: u32,
}

impl Prefix {
    fn contains(&self, address: u128) -> bool {
        (self.address ^ address).checked_shr(128 - self.len).unwrap_or(0) == 0
    }
}

/// The system of the longest prefix, the last one of equal length.
fn longest(prefixes: &[Prefix], address: u128) -> u32 {
    let containing = prefixes.iter().filter(|prefix| prefix.contains(address));
    containing.max_by_key(|prefix| prefix.len).map_or(0, |prefix| prefix.system)
}

fn bit_of(address: u128, at: u32) -> bool {
    address >> (127 - at) & 1 == 1
}

/// What prefixes come to.
#[derive(Clone, Debug, PartialEq)]
enum Trie {
    Leaf(u32),
    Split(Box<[Trie; 2]>),
}

impl Trie {
    fn new(prefixes: &[Prefix]) -> Self {
        let mut sorted = prefixes.to_vec();
        sorted.sort_by_key(|prefix| prefix.len);
        sorted.iter().fold(Self::Leaf(0), |trie, prefix| trie.with(prefix, 0))
    }

    fn with(self, prefix: &Prefix, depth: u32) -> Self {
        if depth == prefix.len {
            return Self::Leaf(prefix.system);
        }
        let mut sides = match self {
            Self::Leaf(system) => [Self::Leaf(system), Self::Leaf(system)],
            Self::Split(sides) => *sides,
        };
        let side = usize::from(bit_of(prefix.address, depth));
        sides[side] = sides[side].clone().with(prefix, depth + 1);
        match sides {
            [Self::Leaf(a), Self::Leaf(b)] if a == b => Self::Leaf(a),
            sides => Self::Split(Box::new(sides)),
        }
    }

    fn has_gap(&self) -> bool {
        match self {
            Self::Leaf(system) => *system == 0,
            Self::Split(sides) => sides.iter().any(Self::has_gap),
        }
    }
}

/// Bits of a map, as they are written.
#[derive(Clone, Debug, Default)]
struct Writer(Vec<bool>);

impl Writer {
    fn number(&mut self, value: u32, least: u32, sizes: std::ops::RangeInclusive<u32>) {
        let (mut first, last) = (least, *sizes.end());
        for size in sizes {
            let is_here = value - first < 1 << size;
            if size != last {
                self.0.push(!is_here);
            }
            if is_here {
                return self.0.extend((0..size).rev().map(|bit| (value - first) >> bit & 1 == 1));
            }
            first += 1 << size;
        }
        panic!("{value} is too large");
    }

    fn give(&mut self, system: u32) {
        self.0.push(false);
        self.number(system, 1, 15..=24);
    }

    fn set_default(&mut self, system: u32) {
        self.0.extend([true, true, true]);
        self.number(system, 1, 15..=24);
    }

    fn compare(&mut self, pattern: &[bool]) {
        self.0.extend([true, true, false]);
        let value = pattern.iter().fold(1, |value, bit| value << 1 | u32::from(*bit));
        self.number(value, 2, 1..=8);
    }

    fn jump(&mut self, distance: usize) {
        self.0.extend([true, false]);
        self.number(distance as u32, 17, 5..=30);
    }

    /// Leaves that are the default are left out by patterns.
    fn trie(&mut self, trie: &Trie, default: u32) {
        let (mut pattern, mut trie) = (Vec::new(), trie);
        while let Trie::Split(sides) = trie {
            let Some(side) = sides.iter().position(|side| *side == Trie::Leaf(default)) else {
                break;
            };
            pattern.push(side == 0);
            trie = &sides[1 - side];
        }
        pattern.chunks(8).for_each(|pattern| self.compare(pattern));
        match trie {
            Trie::Leaf(system) => self.give(*system),
            Trie::Split(sides) => {
                let leaf = sides.iter().find_map(|side| match side {
                    Trie::Leaf(system) if *system != 0 => Some(*system),
                    _ => None,
                });
                // Nothing sets the default to none again.
                if let Some(system) = leaf.filter(|_| !trie.has_gap()) {
                    self.set_default(system);
                    return self.trie(trie, system);
                }
                let mut left = Self::default();
                left.trie(&sides[0], default);
                self.jump(left.0.len());
                self.0.extend(left.0);
                self.trie(&sides[1], default);
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let byte =
            |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
        self.0.chunks(8).map(byte).collect()
    }
}

/// A map of the prefixes; there is none of nothing.
fn encoded(prefixes: &[Prefix]) -> Option<Vec<u8>> {
    let trie = Trie::new(prefixes);
    let mut writer = Writer::default();
    (trie != Trie::Leaf(0)).then(|| {
        writer.trie(&trie, 0);
        writer.bytes()
    })
}

/// A map as a tree.
enum Tree {
    Return(u32),
    Jump(Box<[Tree; 2]>),
    Match(Vec<bool>, Box<Tree>),
    Default(u32, Box<Tree>),
}

/// A reader that goes down every branch.
struct Reader {
    bits: Vec<bool>,
}

impl Reader {
    fn new(bytes: &[u8]) -> Self {
        let bits = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
        Self { bits: bits.collect() }
    }

    /// The tree, if it keeps all rules.
    fn tree(&self, address_bits: u32) -> Option<Tree> {
        let mut at = 0;
        let tree = self.branch(&mut at, address_bits, 'j')?;
        let padding = &self.bits[at..];
        (padding.len() < 8 && !padding.contains(&true)).then_some(tree)
    }

    fn number(
        &self,
        at: &mut usize,
        least: u32,
        sizes: std::ops::RangeInclusive<u32>,
    ) -> Option<u32> {
        let (mut first, last) = (least, *sizes.end());
        for size in sizes {
            if size != last {
                let goes_on = *self.bits.get(*at)?;
                *at += 1;
                if goes_on {
                    first += 1 << size;
                    continue;
                }
            }
            let place = self.bits.get(*at..*at + size as usize)?;
            *at += size as usize;
            return Some(first + place.iter().fold(0, |place, bit| place << 1 | u32::from(*bit)));
        }
        None
    }

    /// The branch from here on; `before` is the instruction before: `j`, `d`, `m` or, for a short pattern,
    /// `s`.
    fn branch(&self, at: &mut usize, unread: u32, before: char) -> Option<Tree> {
        let mut ones = 0;
        while ones < 2 && *self.bits.get(*at)? {
            (ones, *at) = (ones + 1, *at + 1);
        }
        let third = *self.bits.get(*at)?;
        *at += 1;
        match (ones, third) {
            (0, _) if before == 'd' => None,
            (0, _) => Some(Tree::Return(self.number(at, 1, 15..=24)?)),
            (1, _) => {
                let distance = self.number(at, 17, 5..=30)? as usize;
                let (start, unread) = (*at, unread.checked_sub(1)?);
                let left = self.branch(at, unread, 'j')?;
                if *at != start + distance {
                    return None;
                }
                Some(Tree::Jump(Box::new([left, self.branch(at, unread, 'j')?])))
            }
            (_, false) => {
                let value = self.number(at, 2, 1..=8)?;
                let len = 31 - value.leading_zeros();
                let kind = if len < 8 { 's' } else { 'm' };
                if kind == 's' && before == 's' {
                    return None;
                }
                let pattern = (0..len).rev().map(|bit| value >> bit & 1 == 1).collect();
                let rest = self.branch(at, unread.checked_sub(len)?, kind)?;
                Some(Tree::Match(pattern, Box::new(rest)))
            }
            (_, true) if before == 'd' => None,
            (_, true) => {
                let system = self.number(at, 1, 15..=24)?;
                Some(Tree::Default(system, Box::new(self.branch(at, unread, 'd')?)))
            }
        }
    }
}

impl Tree {
    fn find(&self, address: u128, depth: u32, default: u32) -> u32 {
        match self {
            Self::Return(system) => *system,
            Self::Jump(sides) => {
                sides[usize::from(bit_of(address, depth))].find(address, depth + 1, default)
            }
            Self::Match(pattern, rest) => {
                let len = pattern.len() as u32;
                let is_same =
                    (0..len).all(|at| bit_of(address, depth + at) == pattern[at as usize]);
                if is_same { rest.find(address, depth + len, default) } else { default }
            }
            Self::Default(system, rest) => rest.find(address, depth, *system),
        }
    }
}

fn system() -> impl Strategy<Value = u32> {
    const EDGES: [u32; 7] = [1, 32_768, 32_769, 98_304, 98_305, LARGEST - 1, LARGEST];
    prop_oneof![1..6_u32, prop::sample::select(&EDGES[..]), 1..=LARGEST]
}

/// Some of them within others, some without a system.
fn prefixes() -> impl Strategy<Value = Vec<Prefix>> {
    let address = prop_oneof![
        any::<u128>(),
        (any::<u8>(), any::<u128>())
            .prop_map(|(n, low)| { u128::from(n & 3) << 126 | 0xffff << 32 | low & 0xffff_ffff })
    ];
    let system = prop_oneof![1 => Just(0), 6 => system()];
    let prefix = (address, 0..=128_u32, system).prop_map(|(address, len, system)| Prefix {
        address,
        len,
        system,
    });
    prop::collection::vec(prefix, 1..24)
}

/// Addresses at the edges of prefixes, and any.
fn near(prefixes: &[Prefix], others: &[u128]) -> Vec<u128> {
    let edges = prefixes.iter().flat_map(|prefix| {
        let low = u128::MAX.checked_shr(prefix.len).unwrap_or(0);
        let (first, last) = (prefix.address & !low, prefix.address | low);
        [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
    });
    edges.chain(others.iter().copied()).collect()
}

proptest! {
    #[test]
    fn a_map_knows_the_longest_prefix(prefixes in prefixes(), others: [u128; 8]) {
        let Some(bytes) = encoded(&prefixes) else { return Ok(()) };
        let map = Asmap::new(bytes).expect("a map");
        for address in near(&prefixes, &others) {
            let found = map.system_of(address.to_be_bytes()).map_or(0, NonZeroU32::get);
            prop_assert_eq!(found, longest(&prefixes, address), "{:x}", address);
        }
    }

    /// What passes is what the tree's reader takes, and leads nowhere else.
    #[test]
    fn a_damaged_map_is_refused_or_as_good_as_its_tree(
        prefixes in prefixes(),
        flips in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        cut in 0..3_usize,
        others: [u128; 4],
    ) {
        let Some(mut bytes) = encoded(&prefixes) else { return Ok(()) };
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        let bits = bytes.len() * 8;
        for flip in flips.iter().filter(|_| bits > 0) {
            let bit = flip.index(bits);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        same_as_tree(&bytes, &near(&prefixes, &others))?;
    }

    #[test]
    fn any_bytes_are_refused_or_as_good_as_their_tree(
        bytes in prop::collection::vec(any::<u8>(), 0..12),
        others: [u128; 4],
    ) {
        same_as_tree(&bytes, &others)?;
    }
}

fn same_as_tree(bytes: &[u8], addresses: &[u128]) -> Result<(), TestCaseError> {
    let tree = Reader::new(bytes).tree(ADDRESS_BITS);
    let checked = check(bytes, ADDRESS_BITS);
    prop_assert_eq!(checked.is_ok(), tree.is_some(), "{:?}", checked);
    let Some(tree) = tree else { return Ok(()) };
    for address in addresses {
        let found = interpret(bytes, &address.to_be_bytes());
        prop_assert_eq!(found, Some(tree.find(*address, 0, 0)));
    }
    Ok(())
}

#[test]
fn cores_file_says_what_core_says_of_it() {
    let map = from_hex(CORE_FILE);
    let system = |text: &str| {
        let address: std::net::Ipv4Addr = text.parse().expect(text);
        map.system_of(address.to_ipv6_mapped().octets()).map_or(0, NonZeroU32::get)
    };
    assert_eq!([system("250.1.2.1"), system("250.255.3.4")], [1_000; 2]);
    for n in 1..=8 {
        assert_eq!(system(&format!("101.{n}.0.0")), n);
        assert_eq!(system(&format!("101.{n}.255.255")), n);
    }
}

/// A map by its instructions.
fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    write(&mut writer);
    writer.bytes()
}

const FULL: [bool; 8] = [true; 8];

/// An instruction; of a pattern the number of its bits.
#[derive(Clone, Copy)]
enum Step {
    Give(u32),
    Default(u32),
    Match(usize),
    Jump(usize),
}

fn judged(steps: &[Step]) -> Result<(), AsmapError> {
    let map = written(|writer| {
        for step in steps {
            match *step {
                Step::Give(system) => writer.give(system),
                Step::Default(system) => writer.set_default(system),
                Step::Match(bits) => writer.compare(&FULL[..bits]),
                Step::Jump(distance) => writer.jump(distance),
            }
        }
    });
    check(&map, ADDRESS_BITS)
}

#[test]
fn a_map_ends_with_a_system_and_less_than_a_byte_of_zeros() {
    use AsmapError::*;
    let judged = |bytes: &[u8]| check(bytes, ADDRESS_BITS);
    // 17 bits, and 7 that fill the last byte.
    let one = written(|w| w.give(5));
    assert_eq!((judged(&one), one.len()), (Ok(()), 3));
    assert_eq!(judged(&[&one[..], &[0]].concat()), Err(Unreachable));
    assert_eq!(judged(&[one[0], one[1], one[2] | 0x80]), Err(Padding));
    assert_eq!(judged(&one[..2]), Err(CutShort));
    assert_eq!(judged(&[]), Err(NoReturn));
    assert_eq!(Asmap::new(vec![0; MAX_ASMAP_BYTES + 1]).err(), Some(TooLarge));
    assert_eq!(Asmap::new(vec![0; MAX_ASMAP_BYTES]).err(), Some(Unreachable));
}

#[test]
fn each_rule_is_named_and_its_edge_is_exact() {
    use AsmapError::*;
    use Step::*;
    for (steps, expected) in [
        (&[Default(5), Give(6)][..], Err(DefaultBeforeReturn)),
        (&[Default(5), Match(8), Give(6)], Ok(())),
        (&[Default(5), Default(6), Match(8), Give(6)], Err(TwoDefaults)),
        (&[Match(7), Match(7), Give(6)], Err(TwoShortMatches)),
        (&[Match(7), Default(5), Match(7), Give(6)], Ok(())),
        (&[Match(7), Match(8), Give(6)], Ok(())),
        // So in Core: only the pattern before counts.
        (&[Match(1), Match(8), Match(1), Give(6)], Ok(())),
        (&[Jump(17), Give(5), Give(6)], Ok(())),
        (&[Jump(18), Give(5), Give(6)], Err(Unreachable)),
        (&[Jump(17), Give(40_000), Give(6)], Err(JumpIntoInstruction)),
        (&[Jump(17), Default(5), Match(8), Give(6)], Err(JumpIntoInstruction)),
        (&[Jump(100), Give(5), Give(6)], Err(JumpBeyondEnd)),
        // The inner jump has eight bits, and so the branch 8, 17 and 17.
        (&[Jump(42), Jump(17), Give(5), Give(6), Give(7)], Ok(())),
        (&[Jump(34), Jump(34), Give(5), Give(6), Give(7)], Err(CrossingJumps)),
    ] {
        assert_eq!(judged(steps), expected);
    }
}

#[test]
fn no_more_is_read_than_an_address_has() {
    let full = written(|w| {
        w.compare(&FULL);
        w.jump(17);
        w.give(5);
        w.give(6);
    });
    assert_eq!(check(&full, 9), Ok(()));
    assert_eq!(check(&full, 8), Err(AsmapError::BeyondAddress));
    assert_eq!(check(&full, 7), Err(AsmapError::BeyondAddress));
    assert_eq!(interpret(&full, &[0xff]), None, "it was not checked for addresses so short");
    assert_eq!(interpret(&full, &[0xff, 0]), Some(5));
    assert_eq!(interpret(&full, &[0xff, 0x80]), Some(6));
    assert_eq!(interpret(&full, &[0xfe, 0x80]), Some(0));
}

#[test]
fn a_version_is_told_as_core_tells_hashes() {
    let map = from_hex(CORE_FILE);
    let AsmapVersion(hash) = map.version();
    assert_eq!(hash, sha256d(&HEXLOWER.decode(CORE_FILE.as_bytes()).expect("hexadecimal")));
    let shown = map.version().to_string();
    assert_eq!(shown.len(), 64);
    assert!(shown.ends_with(&format!("{:02x}{:02x}", hash[1], hash[0])));
}
