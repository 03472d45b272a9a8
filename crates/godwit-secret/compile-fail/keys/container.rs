use godwit_keys::{DescriptorError, ExtendedPrivateKey, KeyError, Mnemonic, PrivateKey, StoredKey};
use godwit_secret::SecretBytes;

// Keys may be returned one by one and in `Option` or `Result`; containers of keys, or with anything beside
// them, are of no type that is known to hold nothing in ordinary memory.

fn one(secret: &SecretBytes) -> Result<Option<PrivateKey>, KeyError> {
    secret.expose_secret(|_| Ok(None))
}

fn extended(secret: &SecretBytes) -> Result<ExtendedPrivateKey, KeyError> {
    secret.expose_secret(|_| Err(KeyError::OutOfRange))
}

fn words(secret: &SecretBytes) -> Option<Result<Mnemonic, DescriptorError>> {
    secret.expose_secret(|_| None)
}

fn many(secret: &SecretBytes) -> Vec<PrivateKey> {
    secret.expose_secret(|_| Vec::new())
}

fn with_an_origin(secret: &SecretBytes) -> Option<StoredKey> {
    secret.expose_secret(|_| None)
}

fn with_a_number(secret: &SecretBytes) -> Option<(PrivateKey, u64)> {
    secret.expose_secret(|_| None)
}

fn main() {}
