//! Blocks read where they lie: the header, a compact size, the transactions.

use godwit_stream::{Decode, DecodeError, PooledStream, SpanReader};

use crate::sha256::{sha256d, sha256d_spans_many};
use crate::tx_view::{MIN_TX_SIZE, TxLayout};
use crate::{BlockHash, BlockHeader, HEADER_SIZE, TxView, Txid, Wtxid};

/// Where a transaction lies: its start from the block's start, the rest from its own start.
#[derive(Clone, Copy, Debug)]
struct TxSpan {
    start: u32,
    outputs: u32,
    witnesses: u32,
}

/// What one pass over a block's bytes finds: 12 bytes and a txid for each transaction.
#[derive(Debug)]
struct BlockIndex {
    header: BlockHeader,
    hash: BlockHash,
    txs: Vec<TxSpan>,
    txids: Vec<Txid>,
    len: u32,
    stripped_size: u32,
}

impl BlockIndex {
    /// Finds the transactions; does not hash them.
    fn parse(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes = &bytes[..bytes.len().min(u32::MAX as usize)];
        let mut reader = SpanReader::new(bytes);
        let header = BlockHeader::decode(&mut reader)?;
        let count = reader.compact_size()? as usize;
        if count > reader.remaining() / MIN_TX_SIZE {
            return Err(DecodeError::UnexpectedEnd);
        }
        let mut txs = Vec::with_capacity(count);
        let mut witness_size = 0;
        for _ in 0..count {
            let start = reader.position() as u32;
            let tx = TxLayout::parse(&mut reader)?;
            witness_size += tx.witness_size();
            txs.push(TxSpan { start, outputs: tx.outputs, witnesses: tx.witnesses });
        }
        let len = reader.position();
        Ok(Self {
            header,
            hash: BlockHash::from_bytes(sha256d(&bytes[..HEADER_SIZE])),
            txs,
            txids: Vec::new(),
            len: len as u32,
            stripped_size: (len - witness_size) as u32,
        })
    }

    /// Hashes all transactions, several at once.
    fn hash_txs(&mut self, bytes: &[u8]) {
        let view = BlockView { bytes: &bytes[..self.len as usize], index: self };
        let mut hashes = vec![[0; 32]; self.txs.len()];
        sha256d_spans_many(self.txs.len(), |i| view.tx_at(i, None).stripped_spans(), &mut hashes);
        self.txids = hashes.into_iter().map(Txid::from_bytes).collect();
    }
}

/// A block whose transactions are found and not hashed yet: half of what [`Block::decode`] does.
#[derive(Debug)]
pub struct UnhashedBlock {
    stream: PooledStream,
    index: BlockIndex,
}

impl UnhashedBlock {
    /// As [`Block::decode`].
    ///
    /// # Errors
    ///
    /// As [`Block::decode`].
    pub fn decode(stream: impl Into<PooledStream>) -> Result<Self, (DecodeError, PooledStream)> {
        let stream = stream.into();
        match BlockIndex::parse(stream.unread()) {
            Ok(index) => Ok(Self { stream, index }),
            Err(error) => Err((error, stream)),
        }
    }

    /// Hashes the transactions.
    pub fn hash(self) -> Block {
        let Self { stream, mut index } = self;
        index.hash_txs(stream.unread());
        Block { stream, index }
    }

    /// The stream as it was decoded, the cursor where the block begins.
    pub fn into_stream(self) -> PooledStream {
        self.stream
    }
}

/// A block and its bytes. Well-formed, not checked further.
#[derive(Debug)]
pub struct Block {
    stream: PooledStream,
    index: BlockIndex,
}

impl Block {
    /// The block at the cursor of `stream`, whose bytes it keeps, uncopied. Bytes behind the block are
    /// allowed and ignored, as Bitcoin Core does with block files and `submitblock`;
    /// [`block_len`](Self::block_len) says where they begin.
    ///
    /// # Errors
    ///
    /// The cases in which Bitcoin Core does not decode the bytes; the stream comes back unchanged.
    pub fn decode(stream: impl Into<PooledStream>) -> Result<Self, (DecodeError, PooledStream)> {
        UnhashedBlock::decode(stream).map(UnhashedBlock::hash)
    }

    /// The block at the start of `bytes`, copied. As [`decode`](Self::decode).
    ///
    /// # Errors
    ///
    /// As [`decode`](Self::decode).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut index = BlockIndex::parse(bytes)?;
        index.hash_txs(bytes);
        let stream = godwit_stream::DataStream::from(&bytes[..index.len as usize]).into();
        Ok(Self { stream, index })
    }

    /// The block's content.
    #[inline]
    pub fn view(&self) -> BlockView<'_> {
        BlockView { bytes: &self.stream.unread()[..self.block_len()], index: &self.index }
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &BlockHeader {
        &self.index.header
    }

    /// Double SHA-256 of the header, computed once.
    #[inline]
    pub fn hash(&self) -> BlockHash {
        self.index.hash
    }

    /// Size of the buffer that holds the block, in bytes.
    pub fn buffer_capacity(&self) -> usize {
        self.stream.capacity()
    }

    /// The stream as it was decoded, the cursor where the block begins.
    pub fn into_stream(self) -> PooledStream {
        self.stream
    }

    /// Size of the block in bytes, without what followed it in the stream.
    #[inline]
    pub fn block_len(&self) -> usize {
        self.index.len as usize
    }
}

/// The content of a [`Block`].
#[derive(Clone, Copy, Debug)]
pub struct BlockView<'a> {
    bytes: &'a [u8],
    index: &'a BlockIndex,
}

impl<'a> BlockView<'a> {
    /// The header.
    #[inline]
    pub fn header(&self) -> &'a BlockHeader {
        &self.index.header
    }

    /// Double SHA-256 of the header.
    #[inline]
    pub fn hash(&self) -> BlockHash {
        self.index.hash
    }

    /// Exactly the block, as it was serialised.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Number of transactions; 0 is well-formed.
    #[inline]
    pub fn tx_count(&self) -> usize {
        self.index.txs.len()
    }

    /// Transaction `i`.
    ///
    /// # Panics
    ///
    /// When `i` is not below [`tx_count`](Self::tx_count).
    #[inline]
    pub fn tx(&self, i: usize) -> TxView<'a> {
        self.tx_at(i, Some(&self.index.txids[i]))
    }

    /// The transactions in order.
    #[inline]
    pub fn txs(&self) -> impl ExactSizeIterator<Item = TxView<'a>> + DoubleEndedIterator + use<'a> {
        let view = *self;
        (0..view.tx_count()).map(move |i| view.tx(i))
    }

    /// The transactions' hashes without witness, in order.
    #[inline]
    pub fn txids(&self) -> &'a [Txid] {
        &self.index.txids
    }

    /// The transactions' hashes with witness (BIP141), in order. Hashed with each call, several at
    /// once. The witness commitment takes zero in place of the first.
    pub fn wtxids(&self) -> Vec<Wtxid> {
        let with_witness: Vec<_> = self.txs().filter(TxView::has_witness).collect();
        let mut hashes = vec![[0; 32]; with_witness.len()];
        let spans = |i: usize| [with_witness[i].bytes(), &[], &[]];
        sha256d_spans_many(with_witness.len(), spans, &mut hashes);
        let mut hashes = hashes.into_iter();
        let wtxid = |tx: TxView<'_>| match tx.has_witness() {
            true => hashes.next().expect("one for each transaction with witness"),
            false => tx.txid().to_bytes(),
        };
        self.txs().map(wtxid).map(Wtxid::from_bytes).collect()
    }

    /// Whether any transaction has a witness.
    #[inline]
    pub fn has_witness(&self) -> bool {
        self.stripped_size() != self.total_size()
    }

    /// Size with witness, in bytes.
    #[inline]
    pub fn total_size(&self) -> usize {
        self.bytes.len()
    }

    /// Size without witness, in bytes.
    #[inline]
    pub fn stripped_size(&self) -> usize {
        self.index.stripped_size as usize
    }

    /// Weight (BIP141): three times the size without witness plus the size with it.
    #[inline]
    pub fn weight(&self) -> usize {
        3 * self.stripped_size() + self.total_size()
    }

    #[inline]
    fn tx_at(&self, i: usize, txid: Option<&'a Txid>) -> TxView<'a> {
        let TxSpan { start, outputs, witnesses } = self.index.txs[i];
        let end = self.index.txs.get(i + 1).map_or(self.bytes.len(), |next| next.start as usize);
        TxView::new(&self.bytes[start as usize..end], outputs, witnesses, txid)
    }
}

#[cfg(test)]
mod tests;
