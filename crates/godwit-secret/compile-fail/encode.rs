use godwit_secret::{SecretArray, SecretBytes, SecretStream, SecretString};
use godwit_stream::DataStream;

fn array(secret: &SecretArray<32>, stream: &mut DataStream) {
    stream.put(secret);
}

fn bytes(secret: &SecretBytes, stream: &mut DataStream) {
    stream.put(secret);
}

fn string(secret: &SecretString, stream: &mut DataStream) {
    stream.put(secret);
}

fn stream(secret: &SecretStream, stream: &mut DataStream) {
    stream.put(secret);
}

fn main() {}
