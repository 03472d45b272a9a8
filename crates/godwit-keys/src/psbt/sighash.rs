//! The content that a signature commits to: its sighash type, and the hash that is signed.

use std::collections::BTreeMap;
use std::fmt;

use bitcoin::psbt::Input;
use bitcoin::sighash::{EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::{Script, TapLeafHash, Transaction, TxOut};

use super::limits::MAX_LEGACY_HASHING;
use super::spent::{InputObjection, SpendKind, Spent};

/// The type of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighash {
    /// In legacy and segwit version 0 scripts.
    Ecdsa(EcdsaSighashType),
    Taproot(TapSighashType),
}

impl Sighash {
    /// The type that an input asks for; by itself it is the one that commits to everything.
    pub(super) fn of(input: &Input, kind: SpendKind) -> Result<Self, InputObjection> {
        let number = input.sighash_type.map_or(0, |kind| kind.to_u32());
        let unknown = InputObjection::UnknownSighash(number);
        match kind {
            SpendKind::Tr => input.taproot_hash_ty().map(Self::Taproot).map_err(|_| unknown),
            _ => input.ecdsa_hash_ty().map(Self::Ecdsa).map_err(|_| unknown),
        }
    }

    /// Whether it commits to all inputs and outputs.
    pub fn is_usual(self) -> bool {
        match self {
            Self::Ecdsa(kind) => kind == EcdsaSighashType::All,
            Self::Taproot(kind) => {
                matches!(kind, TapSighashType::Default | TapSighashType::All)
            }
        }
    }

    /// Other inputs may be added.
    pub(super) fn anyone_can_pay(self) -> bool {
        self.number() & 0x80 != 0
    }

    /// It commits to no output.
    pub(super) fn none(self) -> bool {
        self.number() & 0x1f == EcdsaSighashType::None as u32
    }

    /// It commits to the output beside the input alone.
    pub(super) fn single(self) -> bool {
        self.number() & 0x1f == EcdsaSighashType::Single as u32
    }

    fn number(self) -> u32 {
        match self {
            Self::Ecdsa(kind) => kind as u32,
            Self::Taproot(kind) => kind as u32,
        }
    }
}

impl fmt::Display for Sighash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ecdsa(kind) => kind.fmt(f),
            Self::Taproot(kind) => kind.fmt(f),
        }
    }
}

/// The hashes that the signatures of one transaction sign.
pub(super) struct Digests<'a> {
    transaction: &'a Transaction,
    cache: SighashCache<&'a Transaction>,
    /// The output that each input spends, where it is known.
    spent: Vec<Option<TxOut>>,
    /// The same, if all are known.
    all: Option<Vec<TxOut>>,
    /// Hashes that were computed, by input, leaf and type: each key of a multisig signs the same, and a
    /// legacy hash takes as long as the transaction is.
    made: BTreeMap<(usize, Option<TapLeafHash>, u32), [u8; 32]>,
    /// Bytes that one legacy hash takes, without its script.
    size: usize,
    /// Bytes that were hashed for legacy signatures; see [`MAX_LEGACY_HASHING`].
    hashed: usize,
}

impl<'a> Digests<'a> {
    pub(super) fn new(transaction: &'a Transaction, spent: Vec<Option<TxOut>>) -> Self {
        let all = spent.iter().cloned().collect();
        let (cache, made) = (SighashCache::new(transaction), BTreeMap::new());
        let size = transaction.base_size();
        Digests { transaction, cache, spent, all, made, size, hashed: 0 }
    }

    /// The hash for an ECDSA signature.
    pub(super) fn ecdsa(
        &mut self,
        index: usize,
        spent: &Spent,
        kind: EcdsaSighashType,
    ) -> Result<[u8; 32], InputObjection> {
        self.check_single(index, Sighash::Ecdsa(kind))?;
        let place = (index, None, kind.to_u32());
        if let Some(digest) = self.made.get(&place) {
            return Ok(*digest);
        }
        if spent.kind.is_legacy() {
            self.charge(&spent.script)?;
        }
        let Spent { script, output, .. } = spent;
        let digest = match spent.kind {
            SpendKind::Bare | SpendKind::Pkh | SpendKind::Sh => self
                .cache
                .legacy_signature_hash(index, script, kind.to_u32())
                .ok()
                .map(|hash| *AsRef::<[u8; 32]>::as_ref(&hash)),
            SpendKind::Wpkh | SpendKind::ShWpkh => self
                .cache
                .p2wpkh_signature_hash(index, script, output.value, kind)
                .ok()
                .map(|hash| *AsRef::<[u8; 32]>::as_ref(&hash)),
            SpendKind::Wsh | SpendKind::ShWsh => self
                .cache
                .p2wsh_signature_hash(index, script, output.value, kind)
                .ok()
                .map(|hash| *AsRef::<[u8; 32]>::as_ref(&hash)),
            SpendKind::Tr => None,
        };
        let digest = digest.ok_or(InputObjection::UnknownScript)?;
        self.made.insert(place, digest);
        Ok(digest)
    }

    /// The hash for a taproot signature; `leaf` for the script path.
    pub(super) fn taproot(
        &mut self,
        index: usize,
        leaf: Option<TapLeafHash>,
        kind: TapSighashType,
    ) -> Result<[u8; 32], InputObjection> {
        self.check_single(index, Sighash::Taproot(kind))?;
        let place = (index, leaf, kind as u32);
        if let Some(digest) = self.made.get(&place) {
            return Ok(*digest);
        }
        let own = self.spent.get(index).and_then(Option::as_ref);
        let prevouts = match (&self.all, own) {
            (Some(all), _) => Prevouts::All(all),
            (None, Some(own)) if Sighash::Taproot(kind).anyone_can_pay() => {
                Prevouts::One(index, own.clone())
            }
            _ => return Err(InputObjection::MissingOtherOutput),
        };
        let hash = match leaf {
            None => self.cache.taproot_key_spend_signature_hash(index, &prevouts, kind),
            Some(leaf) => {
                self.cache.taproot_script_spend_signature_hash(index, &prevouts, leaf, kind)
            }
        };
        let hash = hash.map_err(|_| InputObjection::UnknownScript)?;
        let digest = *AsRef::<[u8; 32]>::as_ref(&hash);
        self.made.insert(place, digest);
        Ok(digest)
    }

    /// What a legacy hash takes, before it is computed.
    fn charge(&mut self, script: &Script) -> Result<(), InputObjection> {
        let hashed = self.hashed.saturating_add(self.size).saturating_add(script.len());
        if hashed > MAX_LEGACY_HASHING {
            return Err(InputObjection::TooMuchToHash);
        }
        self.hashed = hashed;
        #[cfg(test)]
        super::work::note_legacy_hash();
        Ok(())
    }

    fn check_single(&self, index: usize, kind: Sighash) -> Result<(), InputObjection> {
        match kind.single() && index >= self.transaction.output.len() {
            true => Err(InputObjection::SingleWithoutOutput),
            false => Ok(()),
        }
    }
}
