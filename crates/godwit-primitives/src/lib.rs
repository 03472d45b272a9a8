//! Bitcoin's data: hashes, amounts, outpoints, headers, transactions and blocks, the coin, and the
//! parameters of the networks.
//!
//! Nothing here decides whether a block is valid. A value of these types is well-formed and no more;
//! the rules live in `godwit-consensus`, scripts in `godwit-script`.

#![warn(missing_docs)]

mod amount;
mod block;
pub mod coin;
mod hash;
mod header;
pub mod merkle;
pub mod muhash;
pub mod network;
mod outpoint;
pub mod script_flags;
pub mod sha256;
mod transaction;
mod tx_view;
pub mod work;

pub use amount::{Amount, COIN, MAX_MONEY, money_range};
pub use block::{Block, BlockView, UnhashedBlock};
pub use coin::{Coin, CoinView, Lock, ScriptBytes};
pub use hash::{BlockHash, HashParseError, MerkleRoot, ReversedHex, Txid, Wtxid};
pub use header::{BlockHeader, HEADER_SIZE};
pub use network::{Network, Params};
pub use outpoint::OutPoint;
pub use script_flags::ScriptFlags;
pub use transaction::{Transaction, TxIn, TxOut};
pub use tx_view::{
    InputView, Inputs, OutputView, Outputs, TxView, WitnessItems, WitnessView, Witnesses,
};
pub use work::Work;
