//! The program that holds private keys: the encrypted key file, PSBTs, and a search of its own memory for
//! copies of keys. The node is another program, which links none of this.

mod agree;
mod keys;
mod message;
mod network;
pub mod options;
mod psbt;
pub mod residue_check;
pub mod run;
mod signed_message;
