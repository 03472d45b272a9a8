//! Precomputed data of a transaction that is cheap to copy, however long the scripts are that the transaction
//! spends.
//!
//! `btck_script_pubkey_verify` copies the data it is given on every call, and with it `m_spent_outputs`:
//! every output that the transaction spends. The engine reads two things from these outputs
//! (interpreter.cpp): when the data is made, all scripts, for one hash of them all
//! (`m_spent_scripts_single_hash`); and later, for a signature with SIGHASH_ANYONECANPAY, the one output that
//! the input itself spends. The inputs that are judged with this data spend taproot outputs, whose scripts of
//! 34 bytes lie in the vector itself. So the data is made with every longer script left out, and then the
//! hash that resulted is replaced by the hash of the real scripts:
//!
//! ```text
//! outputs given:   P2TR   (blank)   P2TR        copied on each call: 48 bytes an input
//! m_spent_scripts_single_hash = SHA256(all of the real scripts)
//! ```
//!
//! The interface has no function for the second step. This code writes 32 bytes into an object of Core, but
//! only at a place that holds the hash expected there: if another version or another compiler's layout has
//! moved it, the caller falls back to data that holds every script. Whatever the engine refuses with blanked
//! data, the caller asks again with data that holds every script, so that only data made wholly by Core leads
//! to a refusal.

#![allow(unsafe_code)]

use std::ptr::NonNull;

use bitcoinkernel::prelude::*;
use bitcoinkernel::{Transaction, TxOut};
use libbitcoinkernel_sys::{
    btck_PrecomputedTransactionData, btck_ScriptPubkey, btck_ScriptVerifyStatus, btck_Transaction,
    btck_TransactionOutput, btck_precomputed_transaction_data_create,
    btck_precomputed_transaction_data_destroy, btck_script_pubkey_verify,
};

/// Where `m_spent_scripts_single_hash` lies in Core's `PrecomputedTransactionData`: behind four other
/// hashes, those of prevouts, sequences, outputs and spent amounts.
const SCRIPTS_HASH_AT: usize = 4 * 32;

/// Core's `PrecomputedTransactionData`, whose hash is of other scripts than those that it holds.
pub(crate) struct BlankedData {
    inner: NonNull<btck_PrecomputedTransactionData>,
}

// SAFETY: nothing changes the object once it is made, and no thread owns it.
unsafe impl Send for BlankedData {}
// SAFETY: the same.
unsafe impl Sync for BlankedData {}

/// BIP341's hashes of all scripts that a transaction spends.
pub(crate) struct ScriptHashes {
    /// Hash of the scripts that the data is made with.
    pub(crate) given: [u8; 32],
    /// Hash of the real scripts.
    pub(crate) real: [u8; 32],
}

impl BlankedData {
    /// `outputs` has one item for each input of `tx`. `None` if the hash of their scripts is not where it is
    /// expected, or if memory is short.
    pub(crate) fn new(tx: &Transaction, outputs: &[TxOut], hashes: &ScriptHashes) -> Option<Self> {
        assert_eq!(outputs.len(), tx.input_count(), "the engine would abort");
        let mut pointers: Vec<*const btck_TransactionOutput> =
            outputs.iter().map(output_pointer).collect();
        // SAFETY: `tx` and the outputs live, there are as many outputs as inputs, and the engine copies them.
        let inner = unsafe {
            btck_precomputed_transaction_data_create(
                tx_pointer(tx),
                pointers.as_mut_ptr(),
                pointers.len(),
            )
        };
        let data = BlankedData { inner: NonNull::new(inner)? };
        let place = data.inner.as_ptr().cast::<[u8; 32]>();
        // SAFETY: the pointer is to a `PrecomputedTransactionData` (bitcoinkernel.cpp, `Handle`), which is
        // longer than its first five hashes of 32 bytes, and nothing else has a pointer to it yet.
        unsafe {
            let place = place.byte_add(SCRIPTS_HASH_AT);
            if place.read() != hashes.given {
                return None;
            }
            place.write(hashes.real);
        }
        Some(data)
    }

    /// Whether the engine accepts an input; `None` if it gives no verdict. The input has to spend one of the
    /// outputs that were not blanked.
    pub(crate) fn verify(
        &self,
        script_pubkey: &impl ScriptPubkeyExt,
        amount: i64,
        tx: &Transaction,
        input: usize,
        flags: u32,
    ) -> Option<bool> {
        let index = u32::try_from(input).ok().filter(|_| input < tx.input_count())?;
        let mut status: btck_ScriptVerifyStatus = 0;
        // SAFETY: all three objects live, and the transaction has this input. Flags that the engine does not
        // know cannot get here: `ScriptFlags` has none.
        let accepted = unsafe {
            btck_script_pubkey_verify(
                script_pointer(script_pubkey),
                amount,
                tx_pointer(tx),
                self.inner.as_ptr(),
                index,
                flags,
                &mut status,
            )
        };
        (status == 0).then_some(accepted == 1)
    }
}

impl Drop for BlankedData {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the function that creates it, and is not used again.
        unsafe { btck_precomputed_transaction_data_destroy(self.inner.as_ptr()) }
    }
}

// The trait that has `as_ptr` is not public, but the traits that it is a bound of are.

fn tx_pointer(tx: &impl TransactionExt) -> *const btck_Transaction {
    tx.as_ptr()
}

fn output_pointer(output: &impl TxOutExt) -> *const btck_TransactionOutput {
    output.as_ptr()
}

fn script_pointer(script: &impl ScriptPubkeyExt) -> *const btck_ScriptPubkey {
    script.as_ptr()
}
