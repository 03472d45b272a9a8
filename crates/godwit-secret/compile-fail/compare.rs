use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};

fn array(secret: &SecretArray<32>, guess: &[u8]) -> bool {
    *secret == *guess
}

fn bytes(secret: &SecretBytes, guess: &[u8]) -> bool {
    *secret == *guess
}

fn string(secret: &SecretString, guess: &[u8]) -> bool {
    *secret == *guess
}

fn stream(secret: &SecretStream, guess: &[u8]) -> bool {
    *secret == *guess
}

fn main() {}
