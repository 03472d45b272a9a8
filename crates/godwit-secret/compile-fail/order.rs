use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};

fn array(a: &SecretArray<32>, b: &SecretArray<32>) -> bool {
    a < b
}

fn bytes(a: &SecretBytes, b: &SecretBytes) -> bool {
    a < b
}

fn string(a: &SecretString, b: &SecretString) -> bool {
    a < b
}

fn stream(a: &SecretStream, b: &SecretStream) -> bool {
    a < b
}

fn main() {}
