//! Coins in the form in which memtables and runs hold them, many in one allocation.
//!
//! A spent coin comes from the store in this form and enters the undo record in nearly the same one, and a
//! new output enters the store in it. So code that only passes coins on neither decodes nor encodes them.

use godwit_primitives::coin::encode_output;
use godwit_primitives::{Amount, Coin, CoinView};
use godwit_stream::{DataStream, Encode};

/// Longest VarInt of a height with the coinbase bit.
const MAX_CODE_LEN: usize = 5;

/// Height and coinbase bit, as a coin begins.
#[derive(Clone, Copy, Debug)]
pub struct CoinCode {
    bytes: [u8; MAX_CODE_LEN],
    len: u8,
}

impl CoinCode {
    /// Of the coins that the transactions of a block at `height` create; `height` is below 2^31.
    pub fn new(height: u32, coinbase: bool) -> Self {
        let mut bytes = [0; MAX_CODE_LEN];
        let len = super::entry::write_var_int(height << 1 | u32::from(coinbase), &mut bytes);
        Self { bytes, len: len as u8 }
    }

    /// As a coin begins.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Where one lies; of no length, where there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    start: u32,
    len: u32,
}

/// Byte strings by number, some of them absent: whole coins ([`Coin`] encoded), or outputs, which are coins
/// without their [`CoinCode`]. At most 4 GiB.
#[derive(Clone, Debug, Default)]
pub struct CompressedCoins {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

impl CompressedCoins {
    /// None, with room for `count` of usual size.
    pub fn with_capacity(count: usize) -> Self {
        /// P2TR, the longest of the usual scripts, takes 44 with height and amount; others half of that.
        const USUAL: usize = 32;
        let (bytes, places) = (Vec::with_capacity(count * USUAL), Vec::with_capacity(count));
        Self { bytes, places }
    }

    /// `count` of them, all absent.
    pub fn absent(count: usize) -> Self {
        Self { bytes: Vec::new(), places: vec![Place::default(); count] }
    }

    /// How many, the absent ones included.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none, not even absent ones.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.places.capacity() * size_of::<Place>()
    }

    /// Number `n`, if it is there.
    #[inline]
    pub fn get(&self, n: usize) -> Option<&[u8]> {
        let Place { start, len } = *self.places.get(n)?;
        let bytes = &self.bytes[start as usize..(start + len) as usize];
        (!bytes.is_empty()).then_some(bytes)
    }

    /// Whether number `n` is there.
    #[inline]
    pub fn has(&self, n: usize) -> bool {
        self.places.get(n).is_some_and(|place| place.len > 0)
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|n| self.get(n))
    }

    /// Appends a coin.
    #[inline]
    pub fn push(&mut self, coin: &[u8]) {
        self.push_parts(&[coin]);
    }

    /// Appends the coin that an output becomes.
    #[inline]
    pub fn push_output(&mut self, code: &CoinCode, output: &[u8]) {
        self.push_parts(&[code.as_slice(), output]);
    }

    /// Appends an absent one.
    pub fn push_absent(&mut self) {
        self.places.push(Place::default());
    }

    /// Appends a coin that is in pieces.
    #[inline]
    pub(crate) fn push_parts(&mut self, parts: &[&[u8]]) {
        let place = self.append(parts);
        self.places.push(place);
    }

    #[inline]
    fn append(&mut self, parts: &[&[u8]]) -> Place {
        let start = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let end = u32::try_from(self.bytes.len()).expect("a block's coins are below 4 GiB");
        Place { start: start as u32, len: end - start as u32 }
    }

    /// Puts a coin in the place of number `n`, whose old bytes stay unused.
    pub fn set(&mut self, n: usize, coin: &[u8]) {
        self.places[n] = self.append(&[coin]);
    }

    /// As [`Self::set`], of a coin that is encoded for it.
    pub fn set_coin(&mut self, n: usize, coin: &Coin) {
        let mut stream = DataStream::new();
        coin.encode(&mut stream);
        self.set(n, stream.as_slice());
    }

    /// Leaves none, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Makes number `n` absent.
    pub fn forget(&mut self, n: usize) {
        self.places[n] = Place::default();
    }

    /// Coin number `n`, decoded; `None` where it is absent or no coin.
    pub fn coin(&self, n: usize) -> Option<Coin> {
        Coin::from_compressed(self.get(n)?).ok()
    }

    /// As [`Self::coin`], where it lies.
    #[inline]
    pub fn view(&self, n: usize) -> Option<CoinView<'_>> {
        CoinView::from_compressed(self.get(n)?).ok()
    }

    /// Appends each of `coins`.
    pub fn extend<'c>(&mut self, coins: impl IntoIterator<Item = &'c Coin>) {
        let mut stream = DataStream::new();
        for coin in coins {
            stream.clear();
            coin.encode(&mut stream);
            self.push(stream.as_slice());
        }
    }
}

/// Encodes outputs, which then become coins without more than a copy.
#[derive(Default)]
pub struct OutputEncoder {
    stream: DataStream,
}

impl OutputEncoder {
    /// Appends an output to `outputs`.
    pub fn push(&mut self, value: Amount, script: &[u8], outputs: &mut CompressedCoins) {
        self.stream.clear();
        encode_output(value, script, &mut self.stream);
        outputs.push(self.stream.as_slice());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coin(n: u32) -> Coin {
        let script_pubkey = vec![0x51; n as usize % 50].into();
        Coin {
            value: i64::from(n) * 1_000,
            script_pubkey,
            // Codes of one to five bytes.
            height: n.pow(3) * 79,
            coinbase: n.is_multiple_of(3),
        }
    }

    #[test]
    fn an_output_with_a_code_is_the_coin() {
        let (mut whole, mut outputs, mut joined) = Default::default();
        let (mut encoder, coins) = (OutputEncoder::default(), (0..300).map(coin));
        let coins: Vec<Coin> = coins.collect();
        CompressedCoins::extend(&mut whole, &coins);
        for coin in &coins {
            encoder.push(coin.value, &coin.script_pubkey, &mut outputs);
        }
        for (n, coin) in coins.iter().enumerate() {
            let code = CoinCode::new(coin.height, coin.coinbase);
            CompressedCoins::push_output(&mut joined, &code, outputs.get(n).unwrap());
            assert_eq!(joined.get(n), whole.get(n), "{coin:?}");
            assert_eq!(joined.coin(n).as_ref(), Some(coin));
        }
    }

    #[test]
    fn codes_are_of_every_length() {
        let len = |height: u32| CoinCode::new(height, false).as_slice().len();
        let edges = [(63, 64), (8_255, 8_256), (1_056_831, 1_056_832), (135_274_559, 135_274_560)];
        for (n, (below, above)) in (1..).zip(edges) {
            assert_eq!((len(below), len(above)), (n, n + 1));
        }
        assert_eq!(len((1 << 31) - 1), MAX_CODE_LEN);
    }

    #[test]
    fn bytes_behind_a_coin_are_no_coin() {
        let mut coins = CompressedCoins::default();
        coins.extend(&[coin(30)]);
        let longer = [coins.get(0).unwrap(), &[0]].concat();
        coins.push(&longer);
        assert_eq!((coins.coin(0), coins.coin(1)), (Some(coin(30)), None));
    }

    #[test]
    fn places_are_set_and_forgotten() {
        let mut coins = CompressedCoins::absent(3);
        assert_eq!(
            (coins.len(), coins.has(1), coins.get(1), coins.coin(1)),
            (3, false, None, None)
        );
        coins.set(1, &[7; 4]);
        coins.set(0, &[8; 5]);
        coins.push(&[9; 3]);
        coins.push_absent();
        let all: Vec<Option<&[u8]>> = coins.iter().collect();
        let (first, second, last): (&[u8], &[u8], &[u8]) = (&[8; 5], &[7; 4], &[9; 3]);
        assert_eq!(all, [Some(first), Some(second), None, Some(last), None]);
        coins.forget(1);
        assert!(!coins.has(1) && coins.get(9).is_none());
        assert!(coins.memory() >= 12 + 5 * size_of::<Place>());
    }
}
