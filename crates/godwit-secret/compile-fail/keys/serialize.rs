use godwit_keys::{Entry, ExtendedPrivateKey, Mnemonic, PrivateKey, StoredKey};
use serde::{Serialize, Serializer};

fn key(key: &PrivateKey, serializer: impl Serializer) {
    Serialize::serialize(key, serializer).ok();
}

fn extended(key: &ExtendedPrivateKey, serializer: impl Serializer) {
    Serialize::serialize(key, serializer).ok();
}

fn stored(key: &StoredKey, serializer: impl Serializer) {
    Serialize::serialize(key, serializer).ok();
}

fn mnemonic(mnemonic: &Mnemonic, serializer: impl Serializer) {
    Serialize::serialize(mnemonic, serializer).ok();
}

fn entry(entry: &Entry, serializer: impl Serializer) {
    Serialize::serialize(entry, serializer).ok();
}

fn main() {}
