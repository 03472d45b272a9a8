use godwit_keys::{ExtendedPrivateKey, Mnemonic, PrivateKey};
use godwit_stream::DataStream;

fn key(key: &PrivateKey, stream: &mut DataStream) {
    stream.put(key);
}

fn extended(key: &ExtendedPrivateKey, stream: &mut DataStream) {
    stream.put(key);
}

fn mnemonic(mnemonic: &Mnemonic, stream: &mut DataStream) {
    stream.put(mnemonic);
}

fn main() {}
