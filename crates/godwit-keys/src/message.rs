//! Signed messages: generic ones (BIP322), and the older form that only P2PKH addresses have.
//!
//! BIP322 signs a transaction that can never be mined: its input spends the output of another one that does
//! not exist, with the message in its script. It is made a PSBT here and signed like any other.
//!
//! Sources: BIP322; Bitcoin Core, `common/signmessage.cpp`.

mod error;
mod request;
mod verify;

use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use bitcoin::sign_message::{MessageSignature, signed_msg_hash};
use bitcoin::{NetworkKind, Script, Transaction};
use data_encoding::BASE64;
use miniscript::Descriptor;
use miniscript::descriptor::{DefiniteDescriptorKey, DescriptorPublicKey};
use miniscript::psbt::PsbtExt;

use crate::bip322::{to_sign, to_spend};
use crate::psbt::{
    Found, OwnScript, Psbt, SignPolicy, SigningKey, look_up_in, message_field, source_of,
};
use crate::store::KeyStore;

pub use crate::bip322::{MAX_MESSAGE, message_hash};
pub use crate::psbt::{MessageRequest, message_of};
pub use error::MessageError;
pub use request::{message_psbt, signature_of};
pub use verify::{MAX_SIGNATURE, MessageClaim, read_signature};

/// How a message is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFormat {
    /// As Core's `signmessage`: a signature from which the public key follows.
    Legacy,
    /// BIP322: the witness alone.
    Simple,
    /// BIP322: the whole transaction.
    Full,
}

impl MessageFormat {
    /// The one that most programs expect of an address.
    pub fn usual_of(script: &Script) -> Self {
        match script {
            script if script.is_p2pkh() => Self::Legacy,
            script if script.is_witness_program() => Self::Simple,
            _ => Self::Full,
        }
    }
}

/// In front of BIP322's formats (since its version of 2025; without one, all are still read).
const SIMPLE: &str = "smp";
const FULL: &str = "ful";
const PROOF_OF_FUNDS: &str = "pof";

/// Signs a message for a script of ours with the keys of a store, in base64.
///
/// # Errors
///
/// If the format is none of that script, or our keys alone do not satisfy it.
pub fn sign_message(
    store: &KeyStore,
    network: NetworkKind,
    own: &OwnScript,
    message: &str,
    format: MessageFormat,
) -> Result<String, MessageError> {
    let descriptor = definite(own)?;
    match format {
        MessageFormat::Legacy => sign_legacy(store, network, &descriptor, message),
        MessageFormat::Simple if !descriptor.script_pubkey().is_witness_program() => {
            Err(MessageError::Format)
        }
        MessageFormat::Simple => {
            let signed = signed(store, network, &descriptor, message)?;
            let witness = encode::serialize(&signed.input[0].witness);
            Ok(format!("{SIMPLE}{}", BASE64.encode(&witness)))
        }
        MessageFormat::Full => {
            let signed = signed(store, network, &descriptor, message)?;
            Ok(format!("{FULL}{}", BASE64.encode(&encode::serialize(&signed))))
        }
    }
}

fn definite(own: &OwnScript) -> Result<Descriptor<DefiniteDescriptorKey>, MessageError> {
    let descriptor: Descriptor<DescriptorPublicKey> =
        own.descriptor.parse().map_err(|_| MessageError::NotOurs)?;
    let descriptor = descriptor.at_derivation_index(own.index.unwrap_or(0));
    descriptor.map_err(|_| MessageError::NotOurs)
}

fn sign_legacy(
    store: &KeyStore,
    network: NetworkKind,
    descriptor: &Descriptor<DefiniteDescriptorKey>,
    message: &str,
) -> Result<String, MessageError> {
    let Descriptor::Pkh(pkh) = descriptor else { return Err(MessageError::Format) };
    let (source, public) = source_of(pkh.as_inner());
    match look_up_in(store, network, &source, &SigningKey::Ecdsa(public))? {
        Found::Ours(key) => {
            let digest = signed_msg_hash(message).to_byte_array();
            let signature = key.sign_recoverable(&digest)?;
            let signature = MessageSignature::new(signature, public.compressed);
            Ok(BASE64.encode(&signature.serialize()))
        }
        Found::NotOurs | Found::OtherKey => Err(MessageError::NotOurs),
    }
}

/// BIP322's transaction with our signatures, if these are all that it needs.
fn signed(
    store: &KeyStore,
    network: NetworkKind,
    descriptor: &Descriptor<DefiniteDescriptorKey>,
    message: &str,
) -> Result<Transaction, MessageError> {
    let mut psbt = of_descriptor(descriptor, message)?;
    let mut keys = |source: &_, key: &_| look_up_in(store, network, source, key);
    psbt.sign(&mut keys, &SignPolicy::default()).map_err(MessageError::Sign)?;
    psbt.finalize();
    psbt.extract().map_err(|_| MessageError::Unfinished)
}

/// A message and the descriptor that signs it as a PSBT that nobody has signed.
fn of_descriptor(
    descriptor: &Descriptor<DefiniteDescriptorKey>,
    message: &str,
) -> Result<Psbt, MessageError> {
    let spend = to_spend(&descriptor.script_pubkey(), message.as_bytes());
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(to_sign(&spend)).expect("it has no scripts");
    psbt.unknown.insert(message_field(), message.as_bytes().to_vec());
    if descriptor.desc_type().segwit_version().is_some() {
        psbt.inputs[0].witness_utxo = Some(spend.output[0].clone());
    }
    psbt.inputs[0].non_witness_utxo = Some(spend);
    psbt.update_input_with_descriptor(0, descriptor).map_err(|_| MessageError::NotOurs)?;
    Psbt::decode(&psbt.serialize()).map_err(|_| MessageError::Unfinished)
}

#[cfg(test)]
mod tests;
