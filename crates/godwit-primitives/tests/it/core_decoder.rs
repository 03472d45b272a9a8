//! The naive twin of the decoder: Bitcoin Core's `ReadCompactSize`, `Unserialize` and
//! `UnserializeTransaction` line by line, into owned values, without any short cut.

use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, Txid};

/// Core's `std::ios_base::failure`, whichever.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure;

pub(crate) struct Stream<'a> {
    bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn read(&mut self, n: usize) -> Result<Vec<u8>, Failure> {
        let mut read = Vec::new();
        for _ in 0..n {
            read.push(*self.bytes.get(self.at).ok_or(Failure)?);
            self.at += 1;
        }
        Ok(read)
    }

    fn number(&mut self, n: usize) -> Result<u64, Failure> {
        Ok(self.read(n)?.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    fn compact_size(&mut self) -> Result<u64, Failure> {
        let first = self.number(1)?;
        let size = match first {
            253 => self.number(2)?,
            254 => self.number(4)?,
            255 => self.number(8)?,
            _ => first,
        };
        let canonical = match first {
            253 => size >= 253,
            254 => size >= 0x1_0000,
            255 => size >= 0x1_0000_0000,
            _ => true,
        };
        if canonical && size <= 0x0200_0000 { Ok(size) } else { Err(Failure) }
    }

    fn vector<T>(
        &mut self,
        element: impl Fn(&mut Self) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut elements = Vec::new();
        for _ in 0..self.compact_size()? {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    fn script(&mut self) -> Result<Vec<u8>, Failure> {
        let len = self.compact_size()?;
        self.read(len as usize)
    }

    fn input(&mut self) -> Result<TxIn, Failure> {
        let txid = Txid::from_bytes(self.read(32)?.try_into().expect("32 bytes"));
        let prevout = OutPoint { txid, vout: self.number(4)? as u32 };
        let script_sig = self.script()?;
        Ok(TxIn { prevout, script_sig, sequence: self.number(4)? as u32, witness: Vec::new() })
    }

    fn output(&mut self) -> Result<TxOut, Failure> {
        let value = self.number(8)? as i64;
        Ok(TxOut { value, script_pubkey: self.script()? })
    }

    pub(crate) fn transaction(&mut self) -> Result<Transaction, Failure> {
        let mut tx = Transaction { version: self.number(4)? as u32, ..Transaction::default() };
        let mut flags = 0;
        tx.inputs = self.vector(Self::input)?;
        if tx.inputs.is_empty() {
            flags = self.number(1)?;
            if flags != 0 {
                tx.inputs = self.vector(Self::input)?;
                tx.outputs = self.vector(Self::output)?;
            }
        } else {
            tx.outputs = self.vector(Self::output)?;
        }
        if flags & 1 != 0 {
            flags ^= 1;
            for input in &mut tx.inputs {
                input.witness = self.vector(Self::script)?;
            }
            if tx.inputs.iter().all(|input| input.witness.is_empty()) {
                return Err(Failure);
            }
        }
        if flags != 0 {
            return Err(Failure);
        }
        tx.lock_time = self.number(4)? as u32;
        Ok(tx)
    }

    /// The transactions of a block.
    pub(crate) fn block(&mut self) -> Result<Vec<Transaction>, Failure> {
        self.read(80)?;
        self.vector(Self::transaction)
    }
}
