use std::collections::HashSet;

use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};

fn array(secret: SecretArray<32>, set: &mut HashSet<SecretArray<32>>) {
    set.insert(secret);
}

fn bytes(secret: SecretBytes, set: &mut HashSet<SecretBytes>) {
    set.insert(secret);
}

fn string(secret: SecretString, set: &mut HashSet<SecretString>) {
    set.insert(secret);
}

fn stream(secret: SecretStream, set: &mut HashSet<SecretStream>) {
    set.insert(secret);
}

fn main() {}
