use godwit_keys::{Entry, ExtendedPrivateKey, KeyStore, Mnemonic, PrivateKey, StoredKey, Words};

fn key(key: &PrivateKey) -> PrivateKey {
    key.clone()
}

fn extended(key: &ExtendedPrivateKey) -> ExtendedPrivateKey {
    key.clone()
}

fn stored(key: &StoredKey) -> StoredKey {
    key.clone()
}

fn mnemonic(mnemonic: &Mnemonic) -> Mnemonic {
    mnemonic.clone()
}

fn words(words: &Words) -> Words {
    words.clone()
}

fn entry(entry: &Entry) -> Entry {
    entry.clone()
}

fn store(store: &KeyStore) -> KeyStore {
    store.clone()
}

fn main() {}
