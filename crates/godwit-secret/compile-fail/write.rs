use godwit_secret::{SecretArray, SecretBytes, SecretString};
use godwit_stream::DataStream;

fn array(secret: &SecretArray<32>, stream: &mut DataStream) {
    stream.write(secret);
}

fn bytes(secret: &SecretBytes, stream: &mut DataStream) {
    stream.write(secret);
}

fn string(secret: &SecretString, stream: &mut DataStream) {
    stream.write(secret);
}

fn main() {}
