use godwit_secret::{Declassified, SecretArray, SecretBytes, SecretString};

fn array(secret: &SecretArray<32>) -> &[u8; 32] {
    secret.expose_secret(|bytes| Declassified(bytes)).0
}

fn bytes(secret: &SecretBytes) -> &[u8] {
    secret.expose_secret(|bytes| Declassified(bytes)).0
}

fn string(secret: &SecretString) -> &str {
    secret.expose_secret(|text| Declassified(text)).0
}

fn main() {}
