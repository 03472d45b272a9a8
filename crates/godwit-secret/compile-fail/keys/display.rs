use godwit_keys::{Entry, ExtendedPrivateKey, KeyStore, Mnemonic, PrivateKey, StoredKey};

fn key(key: &PrivateKey) -> String {
    key.to_string()
}

fn extended(key: &ExtendedPrivateKey) -> String {
    key.to_string()
}

fn stored(key: &StoredKey) -> String {
    key.to_string()
}

fn mnemonic(mnemonic: &Mnemonic) -> String {
    mnemonic.to_string()
}

fn entry(entry: &Entry) -> String {
    entry.to_string()
}

fn store(store: &KeyStore) -> String {
    store.to_string()
}

fn main() {}
