//! Transactions read where they lie (Bitcoin Core `primitives/transaction.h`; BIP144).

use godwit_stream::{DecodeError, SpanReader, compact_size_len};

use crate::sha256::{Sha256, sha256d};
use crate::{Amount, OutPoint, Transaction, TxIn, TxOut, Txid, Wtxid};

/// Size of a transaction without inputs and outputs, in bytes: the least there is.
pub(crate) const MIN_TX_SIZE: usize = 10;

const VERSION_SIZE: usize = 4;
const MARKER_AND_FLAG_SIZE: usize = 2;
const LOCK_TIME_SIZE: usize = 4;
/// What precedes and follows an input's script: outpoint; sequence.
const BEFORE_SCRIPT_SIG: usize = OutPoint::SIZE;
const AFTER_SCRIPT_SIG: usize = 4;
/// What precedes an output's script: the value.
const BEFORE_SCRIPT_PUBKEY: usize = 8;

const WITNESS_FLAG: u8 = 1;

const PARSED: &str = "the bytes were parsed when the view was made";

/// Where the parts of a transaction lie, in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TxLayout {
    /// The count of outputs.
    pub(crate) outputs: u32,
    /// The witnesses; the lock time when there are none.
    pub(crate) witnesses: u32,
    /// Behind the lock time.
    pub(crate) end: u32,
}

impl TxLayout {
    /// Passes over one transaction. `reader` must not hold more than `u32::MAX` bytes.
    #[inline]
    pub(crate) fn parse(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let start = reader.position();
        reader.skip(VERSION_SIZE)?;
        let mut inputs = reader.compact_size()?;
        let mut flag = 0;
        if inputs == 0 {
            flag = reader.u8()?;
            if flag == 0 {
                return Self::parse_empty(reader, start);
            }
            inputs = reader.compact_size()?;
        }
        let (outputs, witnesses) = Self::skip_inputs_and_outputs(reader, start, inputs)?;
        if flag & WITNESS_FLAG != 0 && !skip_witnesses(reader, inputs)? {
            return Err(DecodeError::SuperfluousWitness);
        }
        if flag & !WITNESS_FLAG != 0 {
            return Err(DecodeError::UnknownTransactionFlag);
        }
        reader.skip(LOCK_TIME_SIZE)?;
        let end = reader.position() - start;
        Ok(Self { outputs, witnesses, end: end as u32 })
    }

    /// Passes over what is between the count of inputs and the witnesses; where the outputs begin, and where
    /// they end.
    #[inline]
    fn skip_inputs_and_outputs(
        reader: &mut SpanReader<'_>,
        start: usize,
        inputs: u64,
    ) -> Result<(u32, u32), DecodeError> {
        for _ in 0..inputs {
            skip_script(reader, BEFORE_SCRIPT_SIG, AFTER_SCRIPT_SIG)?;
        }
        let outputs = reader.position() - start;
        for _ in 0..reader.compact_size()? {
            skip_script(reader, BEFORE_SCRIPT_PUBKEY, 0)?;
        }
        Ok((outputs as u32, (reader.position() - start) as u32))
    }

    /// As [`parse`](Self::parse), of a transaction that has no witness even if it has no inputs.
    fn parse_plain(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let start = reader.position();
        reader.skip(VERSION_SIZE)?;
        let inputs = reader.compact_size()?;
        let (outputs, witnesses) = Self::skip_inputs_and_outputs(reader, start, inputs)?;
        reader.skip(LOCK_TIME_SIZE)?;
        Ok(Self { outputs, witnesses, end: (reader.position() - start) as u32 })
    }

    /// Neither inputs nor outputs: what was read as the flag is the count of outputs.
    #[cold]
    fn parse_empty(reader: &mut SpanReader<'_>, start: usize) -> Result<Self, DecodeError> {
        let witnesses = (reader.position() - start) as u32;
        reader.skip(LOCK_TIME_SIZE)?;
        let end = (reader.position() - start) as u32;
        Ok(Self { outputs: witnesses - 1, witnesses, end })
    }

    /// Bytes that only the form with witness has.
    #[inline]
    pub(crate) fn witness_size(&self) -> usize {
        match self.end as usize - self.witnesses as usize - LOCK_TIME_SIZE {
            0 => 0,
            size => size + MARKER_AND_FLAG_SIZE,
        }
    }
}

/// Passes over `before` bytes, a script or witness item, and `after` bytes.
#[inline]
fn skip_script(
    reader: &mut SpanReader<'_>,
    before: usize,
    after: usize,
) -> Result<(), DecodeError> {
    // Nearly all lengths take one byte; one bounds check then covers everything up to the next.
    if let Some(&len @ ..=252) = reader.rest().get(before) {
        return reader.skip(before + 1 + usize::from(len) + after);
    }
    reader.skip(before)?;
    let len = reader.compact_size()? as usize;
    reader.skip(len + after)
}

/// Passes over the witnesses of `inputs` inputs; whether any has an item.
fn skip_witnesses(reader: &mut SpanReader<'_>, inputs: u64) -> Result<bool, DecodeError> {
    let mut any = false;
    for _ in 0..inputs {
        let items = reader.compact_size()?;
        any |= items != 0;
        for _ in 0..items {
            skip_script(reader, 0, 0)?;
        }
    }
    Ok(any)
}

/// A transaction in the bytes of a block or message. Well-formed, not checked further.
///
/// | field | bytes | present |
/// | --- | --- | --- |
/// | version | 4 | |
/// | marker 0, flag 1 | 2 | with witness |
/// | inputs | compact size; 32 txid, 4 output number, script, 4 sequence each | |
/// | outputs | compact size; 8 value, script each | |
/// | witnesses, one for each input | compact size; items each | with witness |
/// | lock time | 4 | |
///
/// Scripts and witness items are a compact size and that many bytes. Every transaction has exactly
/// one encoding: compact sizes are canonical, and the witness form needs a witness that is not empty.
#[derive(Clone, Copy, Debug)]
pub struct TxView<'a> {
    bytes: &'a [u8],
    outputs: u32,
    witnesses: u32,
    txid: Option<&'a Txid>,
}

impl<'a> TxView<'a> {
    /// The transaction at the start of `bytes`; what follows it is ignored, and the length of
    /// [`bytes`](Self::bytes) says where that begins.
    ///
    /// # Errors
    ///
    /// The cases in which Bitcoin Core's `UnserializeTransaction` fails: truncated bytes, bad compact
    /// sizes, a witness form without witness, an unknown flag.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let layout = TxLayout::parse(&mut SpanReader::new(bytes))?;
        Ok(Self::new(&bytes[..layout.end as usize], layout.outputs, layout.witnesses, None))
    }

    /// As [`parse`](Self::parse), but read as one without witness: a transaction without inputs, which is not
    /// finished yet, can look like one with the marker of witnesses.
    ///
    /// # Errors
    ///
    /// Truncated bytes or bad compact sizes.
    pub fn parse_plain(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let layout = TxLayout::parse_plain(&mut SpanReader::new(bytes))?;
        Ok(Self::new(&bytes[..layout.end as usize], layout.outputs, layout.witnesses, None))
    }

    /// `bytes` is the transaction alone; the offsets are those of its [`TxLayout`].
    #[inline]
    pub(crate) fn new(
        bytes: &'a [u8],
        outputs: u32,
        witnesses: u32,
        txid: Option<&'a Txid>,
    ) -> Self {
        Self { bytes, outputs, witnesses, txid }
    }

    /// The transaction as it was serialised, with witness when it has one.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The version; unsigned since Bitcoin Core 28.
    #[inline]
    pub fn version(&self) -> u32 {
        self.reader_at(0).u32().expect(PARSED)
    }

    /// The lock time: a height below 500,000,000, else seconds since 1970.
    #[inline]
    pub fn lock_time(&self) -> u32 {
        self.reader_at(self.bytes.len() - LOCK_TIME_SIZE).u32().expect(PARSED)
    }

    /// Number of inputs.
    #[inline]
    pub fn input_count(&self) -> usize {
        self.reader_at(self.inputs_at()).compact_size().expect(PARSED) as usize
    }

    /// Number of outputs.
    #[inline]
    pub fn output_count(&self) -> usize {
        self.reader_at(self.outputs as usize).compact_size().expect(PARSED) as usize
    }

    /// The inputs in order.
    #[inline]
    pub fn inputs(&self) -> Inputs<'a> {
        let mut reader = self.reader_at(self.inputs_at());
        let left = reader.compact_size().expect(PARSED) as usize;
        Inputs { reader, left }
    }

    /// Input `i`, found by passing over those before it.
    pub fn input(&self, i: usize) -> Option<InputView<'a>> {
        self.inputs().nth(i)
    }

    /// The outputs in order.
    #[inline]
    pub fn outputs(&self) -> Outputs<'a> {
        let mut reader = self.reader_at(self.outputs as usize);
        let left = reader.compact_size().expect(PARSED) as usize;
        Outputs { reader, left }
    }

    /// The outputs as they were serialised, behind their count: what signatures commit to as a whole.
    #[inline]
    pub fn output_bytes(&self) -> &'a [u8] {
        let count = compact_size_len(self.output_count() as u64);
        &self.bytes[self.outputs as usize + count..self.witnesses as usize]
    }

    /// Output `i`, found by passing over those before it.
    pub fn output(&self, i: usize) -> Option<OutputView<'a>> {
        self.outputs().nth(i)
    }

    /// The witness of each input, in the inputs' order; empty ones when the transaction has none.
    #[inline]
    pub fn witnesses(&self) -> Witnesses<'a> {
        let end = self.bytes.len() - LOCK_TIME_SIZE;
        let bytes = &self.bytes[self.witnesses as usize..end];
        Witnesses { reader: SpanReader::new(bytes), left: self.input_count() }
    }

    /// Whether any input has a witness.
    #[inline]
    pub fn has_witness(&self) -> bool {
        self.witnesses as usize != self.bytes.len() - LOCK_TIME_SIZE
    }

    /// Size with witness, in bytes.
    #[inline]
    pub fn total_size(&self) -> usize {
        self.bytes.len()
    }

    /// Size without witness, in bytes.
    #[inline]
    pub fn stripped_size(&self) -> usize {
        self.stripped_spans().iter().map(|span| span.len()).sum()
    }

    /// Weight (BIP141): three times the size without witness plus the size with it.
    #[inline]
    pub fn weight(&self) -> usize {
        3 * self.stripped_size() + self.total_size()
    }

    /// The bytes without witness, in up to three pieces.
    #[inline]
    pub(crate) fn stripped_spans(&self) -> [&'a [u8]; 3] {
        if !self.has_witness() {
            return [self.bytes, &[], &[]];
        }
        let (version, rest) = self.bytes.split_at(VERSION_SIZE);
        let body = &rest[MARKER_AND_FLAG_SIZE..self.witnesses as usize - VERSION_SIZE];
        [version, body, &self.bytes[self.bytes.len() - LOCK_TIME_SIZE..]]
    }

    /// Double SHA-256 without witness. Free for a transaction of a block, hashed with each call for a
    /// [parsed](Self::parse) one.
    pub fn txid(&self) -> Txid {
        self.txid.copied().unwrap_or_else(|| {
            let mut hasher = Sha256::new();
            for span in self.stripped_spans() {
                hasher.update(span);
            }
            Txid::from_bytes(hasher.finalize_double())
        })
    }

    /// Double SHA-256 with witness (BIP141); equals the txid when there is none. Hashed with each
    /// call.
    pub fn wtxid(&self) -> Wtxid {
        match self.has_witness() {
            true => Wtxid::from_bytes(sha256d(self.bytes)),
            false => Wtxid::from_bytes(self.txid().to_bytes()),
        }
    }

    /// Whether the only input spends nothing: the first transaction of a block.
    #[inline]
    pub fn is_coinbase(&self) -> bool {
        let mut inputs = self.inputs();
        inputs.len() == 1 && inputs.next().is_some_and(|input| input.prevout.is_null())
    }

    /// A copy that does not need the bytes.
    pub fn to_owned(self) -> Transaction {
        let inputs = self.inputs().zip(self.witnesses()).map(|(input, witness)| TxIn {
            prevout: input.prevout,
            script_sig: input.script_sig.to_vec(),
            sequence: input.sequence,
            witness: witness.items().map(<[u8]>::to_vec).collect(),
        });
        let outputs = self.outputs().map(|output| TxOut {
            value: output.value,
            script_pubkey: output.script_pubkey.to_vec(),
        });
        Transaction {
            version: self.version(),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            lock_time: self.lock_time(),
        }
    }

    #[inline]
    fn reader_at(&self, at: usize) -> SpanReader<'a> {
        SpanReader::new(&self.bytes[at..])
    }

    #[inline]
    fn inputs_at(&self) -> usize {
        VERSION_SIZE + if self.has_witness() { MARKER_AND_FLAG_SIZE } else { 0 }
    }
}

/// An input where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputView<'a> {
    /// The coin that it spends.
    pub prevout: OutPoint,
    /// The unlocking script; empty in native witness spends.
    pub script_sig: &'a [u8],
    /// Relative lock time and replacement signal (BIP68, BIP125).
    pub sequence: u32,
}

/// An output where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputView<'a> {
    /// Satoshi; any `i64`, the range is a consensus rule.
    pub value: Amount,
    /// The locking script.
    pub script_pubkey: &'a [u8],
}

/// The witness of one input where it lies.
#[derive(Clone, Copy, Debug)]
pub struct WitnessView<'a> {
    items: SpanReader<'a>,
    count: usize,
}

impl<'a> WitnessView<'a> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The items in order: stack elements, from the bottom.
    pub fn items(&self) -> WitnessItems<'a> {
        WitnessItems { reader: self.items, left: self.count }
    }

    /// Item `i`, found by passing over those before it.
    pub fn item(&self, i: usize) -> Option<&'a [u8]> {
        self.items().nth(i)
    }
}

/// Iterator over the inputs of a [`TxView`].
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    reader: SpanReader<'a>,
    left: usize,
}

/// Iterator over the outputs of a [`TxView`].
#[derive(Clone, Debug)]
pub struct Outputs<'a> {
    reader: SpanReader<'a>,
    left: usize,
}

/// Iterator over the witnesses of a [`TxView`].
#[derive(Clone, Debug)]
pub struct Witnesses<'a> {
    reader: SpanReader<'a>,
    left: usize,
}

/// Iterator over the items of a [`WitnessView`].
#[derive(Clone, Debug)]
pub struct WitnessItems<'a> {
    reader: SpanReader<'a>,
    left: usize,
}

#[inline]
fn script<'a>(reader: &mut SpanReader<'a>) -> Result<&'a [u8], DecodeError> {
    let len = reader.compact_size()?;
    reader.bytes(len as usize)
}

impl<'a> Inputs<'a> {
    #[inline]
    fn read(&mut self) -> Result<InputView<'a>, DecodeError> {
        let prevout = self.reader.get()?;
        let script_sig = script(&mut self.reader)?;
        Ok(InputView { prevout, script_sig, sequence: self.reader.u32()? })
    }
}

impl<'a> Outputs<'a> {
    #[inline]
    fn read(&mut self) -> Result<OutputView<'a>, DecodeError> {
        let value = self.reader.i64()?;
        Ok(OutputView { value, script_pubkey: script(&mut self.reader)? })
    }
}

impl<'a> Witnesses<'a> {
    #[inline]
    fn read(&mut self) -> Result<WitnessView<'a>, DecodeError> {
        // No witness form, no bytes: every witness is empty.
        if self.reader.is_empty() {
            return Ok(WitnessView { items: self.reader, count: 0 });
        }
        let count = self.reader.compact_size()? as usize;
        let items = self.reader;
        for _ in 0..count {
            skip_script(&mut self.reader, 0, 0)?;
        }
        Ok(WitnessView { items, count })
    }
}

impl<'a> WitnessItems<'a> {
    #[inline]
    fn read(&mut self) -> Result<&'a [u8], DecodeError> {
        script(&mut self.reader)
    }
}

macro_rules! counted_iterator {
    ($($iterator:ident => $item:ty),*) => {$(
        impl<'a> Iterator for $iterator<'a> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<Self::Item> {
                self.left = self.left.checked_sub(1)?;
                Some(self.read().expect(PARSED))
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                (self.left, Some(self.left))
            }
        }

        impl ExactSizeIterator for $iterator<'_> {}
    )*};
}

counted_iterator! {
    Inputs => InputView<'a>,
    Outputs => OutputView<'a>,
    Witnesses => WitnessView<'a>,
    WitnessItems => &'a [u8]
}
