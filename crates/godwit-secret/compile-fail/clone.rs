use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};

fn array(secret: &SecretArray<32>) -> SecretArray<32> {
    secret.clone()
}

fn bytes(secret: &SecretBytes) -> SecretBytes {
    secret.clone()
}

fn string(secret: &SecretString) -> SecretString {
    secret.clone()
}

fn stream(secret: &SecretStream) -> SecretStream {
    secret.clone()
}

fn main() {}
