use godwit_keys::{ExtendedPrivateKey, Mnemonic, PrivateKey};

fn key(key: &PrivateKey) -> bool {
    *key == [1u8; 32]
}

fn order(a: &PrivateKey, b: &PrivateKey) -> bool {
    a < b
}

fn extended(a: &ExtendedPrivateKey, b: &ExtendedPrivateKey) -> bool {
    a == b
}

fn mnemonic(a: &Mnemonic) -> bool {
    *a == "words"
}

fn main() {}
