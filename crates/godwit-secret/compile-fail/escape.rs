use godwit_secret::{SecretArray, SecretBytes, SecretString};

fn array(secret: &SecretArray<32>) -> &[u8; 32] {
    secret.expose_secret(|bytes| bytes)
}

fn bytes(secret: &SecretBytes) -> &[u8] {
    secret.expose_secret(|bytes| bytes)
}

fn string(secret: &SecretString) -> &str {
    secret.expose_secret(|text| text)
}

fn main() {}
