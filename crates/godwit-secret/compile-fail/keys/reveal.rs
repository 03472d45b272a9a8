use godwit_keys::{ExtendedPrivateKey, KeyStore, Mnemonic, PrivateKey};
use godwit_secret::SecretString;

// What the crate itself reveals by is not public.

fn number(key: &PrivateKey) -> [u8; 32] {
    key.secret().expose_secret(|number| *number)
}

fn library(key: &PrivateKey) {
    key.use_key(|key| Ok(key.secret_bytes())).unwrap();
}

fn xprv(key: &ExtendedPrivateKey) -> String {
    key.to_base58().unwrap().expose_secret(str::to_owned)
}

fn bytes(key: &ExtendedPrivateKey) {
    key.to_bytes().unwrap();
}

fn words(mnemonic: &Mnemonic) -> String {
    mnemonic.text().expose_secret(str::to_owned)
}

fn seed(mnemonic: &Mnemonic, passphrase: &SecretString) -> Vec<u8> {
    mnemonic.seed(passphrase).unwrap().expose_secret(<[u8]>::to_vec)
}

fn file_key(store: &KeyStore) {
    store.key;
}

fn wif(key: &PrivateKey) {
    godwit_keys::wif::to_wif(key, godwit_keys::NetworkKind::Main, true).unwrap();
}

fn main() {}
