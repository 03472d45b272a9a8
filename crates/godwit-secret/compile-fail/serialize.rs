use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};
use serde::{Serialize, Serializer};

fn array(secret: &SecretArray<32>, serializer: impl Serializer) {
    Serialize::serialize(secret, serializer).ok();
}

fn bytes(secret: &SecretBytes, serializer: impl Serializer) {
    Serialize::serialize(secret, serializer).ok();
}

fn string(secret: &SecretString, serializer: impl Serializer) {
    Serialize::serialize(secret, serializer).ok();
}

fn stream(secret: &SecretStream, serializer: impl Serializer) {
    Serialize::serialize(secret, serializer).ok();
}

fn main() {}
