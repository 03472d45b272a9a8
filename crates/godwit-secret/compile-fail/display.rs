use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};

fn array(secret: &SecretArray<32>) {
    println!("{secret}");
}

fn bytes(secret: &SecretBytes) {
    println!("{secret}");
}

fn string(secret: &SecretString) {
    println!("{secret}");
}

fn stream(secret: &SecretStream) {
    println!("{secret}");
}

fn main() {}
