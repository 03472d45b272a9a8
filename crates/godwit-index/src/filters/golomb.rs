//! Basic block filters as BIP158 has them: the scripts of a block and of the coins that it spends, hashed to
//! numbers, sorted, and their differences in a Golomb-Rice code.

use std::hash::Hasher;

use godwit_primitives::{Block, BlockHash, Coin};
use godwit_stream::{DataStream, SpanReader};
use siphasher::sip::SipHasher24;

/// Bits of a difference that are written as they are (`P`).
const REMAINDER_BITS: u32 = 19;
/// One over the rate of false matches (`M`).
const INVERSE_RATE: u64 = 784_931;

const OP_RETURN: u8 = 0x6a;

/// The filter's bytes: how many elements it has, and their code.
pub(super) fn basic_filter(block: &Block, spent: &[Coin]) -> Vec<u8> {
    let view = block.view();
    let created = view.txs().flat_map(|tx| tx.outputs()).map(|output| output.script_pubkey);
    let created = created.filter(|script| script.first() != Some(&OP_RETURN));
    let spent = spent.iter().map(|coin| coin.script_pubkey.as_slice());
    let mut scripts: Vec<&[u8]> =
        created.chain(spent).filter(|script| !script.is_empty()).collect();
    scripts.sort_unstable();
    scripts.dedup();
    encode(&block.hash(), &scripts)
}

/// What elements are hashed to in the filter of a block that has `count` of them, in order.
fn numbers<'e>(
    block: &BlockHash,
    count: u64,
    elements: impl Iterator<Item = &'e [u8]>,
    numbers: &mut Vec<u64>,
) {
    let range = u128::from(count) * u128::from(INVERSE_RATE);
    let key = block.to_bytes().first_chunk().copied().expect("32 bytes begin with 16");
    numbers.clear();
    numbers.extend(elements.map(|element| {
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(element);
        ((u128::from(hasher.finish()) * range) >> 64) as u64
    }));
    numbers.sort_unstable();
}

/// Whether a filter has any of these elements, or says so by chance; `None` where it is no filter. `wanted`
/// is room for their numbers.
pub(super) fn matches_any<'e>(
    block: &BlockHash,
    filter: &[u8],
    elements: impl Iterator<Item = &'e [u8]>,
    wanted: &mut Vec<u64>,
) -> Option<bool> {
    let mut reader = SpanReader::new(filter);
    // An element takes more than a byte.
    let count = reader.compact_size_any().ok().filter(|count| *count <= filter.len() as u64)?;
    numbers(block, count, elements, wanted);
    let (mut bits, mut last, mut wanted) = (BitReader::new(reader.rest()), 0_u64, wanted.iter());
    let Some(mut next) = wanted.next() else { return Some(false) };
    for _ in 0..count {
        last = last.checked_add(bits.difference()?)?;
        while *next < last {
            let Some(behind) = wanted.next() else { return Some(false) };
            next = behind;
        }
        if *next == last {
            return Some(true);
        }
    }
    Some(false)
}

fn encode(block: &BlockHash, elements: &[&[u8]]) -> Vec<u8> {
    let mut out: DataStream = DataStream::new();
    out.write_compact_size(elements.len() as u64);
    let mut numbers = Vec::with_capacity(elements.len());
    self::numbers(block, elements.len() as u64, elements.iter().copied(), &mut numbers);
    let mut bits = BitWriter::default();
    let mut last = 0;
    for number in numbers {
        let difference = number - last;
        (0..difference >> REMAINDER_BITS).for_each(|_| bits.write(1, 1));
        bits.write(0, 1);
        bits.write(difference, REMAINDER_BITS);
        last = number;
    }
    out.write(&bits.finish());
    out.as_slice().to_vec()
}

/// Bits, the highest of a byte first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Of the last byte that are used.
    used: u32,
}

impl BitWriter {
    /// The lowest bits of a number, the highest of them first.
    fn write(&mut self, value: u64, count: u32) {
        for n in (0..count).rev() {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
                self.used = 0;
            }
            let bit = (value >> n & 1) as u8;
            let last = self.bytes.last_mut().expect("there is a byte");
            *last |= bit << (7 - self.used);
            self.used += 1;
        }
    }

    fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The same, read.
struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn bit(&mut self) -> Option<u64> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(u64::from(bit))
    }

    /// A difference of two numbers.
    fn difference(&mut self) -> Option<u64> {
        let mut ones = 0_u64;
        while self.bit()? == 1 {
            ones += 1;
        }
        let mut low = 0;
        for _ in 0..REMAINDER_BITS {
            low = low << 1 | self.bit()?;
        }
        Some((ones << REMAINDER_BITS) + low)
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::sha256::sha256d;
    use serde_json::Value;

    use super::*;

    fn reversed(hex: &Value) -> Vec<u8> {
        let mut bytes = hex::decode(hex.as_str().expect("a text")).expect("hexadecimal");
        bytes.reverse();
        bytes
    }

    /// BIP158's test vectors: height, hash, block, scripts of the coins it spends, previous header, filter,
    /// header.
    #[test]
    fn the_filters_of_bip158_come_out() {
        let Some(file) = godwit_testdata::shared_file("vectors/core/blockfilters.json") else {
            return;
        };
        let rows: Vec<Vec<Value>> = serde_json::from_slice(&file).expect("JSON");
        assert!(rows.len() > 10);
        for row in &rows[1..] {
            let text =
                |n: usize| hex::decode(row[n].as_str().expect("a text")).expect("hexadecimal");
            let block = Block::from_bytes(&text(2)).expect("a block");
            let script = |script: &Value| Coin {
                value: 0,
                script_pubkey: hex::decode(script.as_str().expect("a text"))
                    .expect("hexadecimal")
                    .into(),
                height: 0,
                coinbase: false,
            };
            let spent: Vec<Coin> = row[3].as_array().expect("a list").iter().map(script).collect();
            let filter = basic_filter(&block, &spent);
            assert_eq!(filter, text(5), "{}", row[0]);
            let header = sha256d(&[&sha256d(&filter)[..], &reversed(&row[4])].concat());
            assert_eq!(header.to_vec(), reversed(&row[6]), "{}", row[0]);
        }
    }

    /// Beside the numbers themselves, looked for one by one.
    #[test]
    fn a_filter_has_its_elements_and_hardly_others() {
        let block = BlockHash::from_bytes([6; 32]);
        let scripts: Vec<[u8; 4]> = (0..2_000_u32).map(u32::to_le_bytes).collect();
        let elements: Vec<&[u8]> = scripts.iter().map(|script| &script[..]).collect();
        for count in [0, 1, 2, 300] {
            let filter = encode(&block, &elements[..count]);
            let mut all = Vec::new();
            numbers(&block, count as u64, elements[..count].iter().copied(), &mut all);
            let mut room = Vec::new();
            let mut matches = |wanted: &[&[u8]]| {
                matches_any(&block, &filter, wanted.iter().copied(), &mut room).expect("a filter")
            };
            for (n, element) in elements.iter().enumerate() {
                let mut own = Vec::new();
                numbers(&block, count as u64, std::iter::once(*element), &mut own);
                let expected = all.contains(&own[0]);
                assert_eq!(matches(&[element]), expected, "{n} of {count}");
                assert!(expected || n >= count);
            }
            assert!(!matches(&[]));
            assert_eq!(matches(&elements[count.saturating_sub(1)..]), count > 0);
            assert_eq!(matches(&elements[..500]), count > 0);
        }
        // What is cut off, or is no filter, is told.
        let filter = encode(&block, &elements[..300]);
        let last = [elements[1_999]];
        for bytes in [&filter[..0], &filter[..2], &filter[..filter.len() / 2], &[0xff; 40]] {
            let found = matches_any(&block, bytes, last.iter().copied(), &mut Vec::new());
            assert_ne!(found, Some(true), "{bytes:?}");
        }
        assert_eq!(matches_any(&block, &[1, 0xff], last.iter().copied(), &mut Vec::new()), None);
    }

    /// Bits at a byte's end, a difference of many ones, and no elements at all.
    #[test]
    fn a_code_decodes_to_the_numbers_it_was_made_of() {
        let block = BlockHash::from_bytes([5; 32]);
        assert_eq!(encode(&block, &[]), [0]);
        for count in [1u32, 2, 3, 100, 1_000] {
            let scripts: Vec<[u8; 4]> = (0..count).map(u32::to_le_bytes).collect();
            let elements: Vec<&[u8]> = scripts.iter().map(|script| &script[..]).collect();
            let bytes = encode(&block, &elements);
            let prefix = if count < 253 { 1 } else { 3 };
            let mut bits =
                bytes[prefix..].iter().flat_map(|byte| (0..8).rev().map(move |n| byte >> n & 1));
            let (mut number, mut numbers) = (0u64, Vec::new());
            for _ in 0..count {
                let ones = bits.by_ref().take_while(|bit| *bit == 1).count() as u64;
                let low = (0..REMAINDER_BITS)
                    .fold(0, |low, _| low << 1 | u64::from(bits.next().expect("a bit")));
                number += (ones << REMAINDER_BITS) + low;
                numbers.push(number);
            }
            assert!(bits.all(|bit| bit == 0) && numbers.is_sorted());
            let range = u64::from(count) * INVERSE_RATE;
            assert!(numbers.last().is_some_and(|last| *last < range));
        }
    }
}
