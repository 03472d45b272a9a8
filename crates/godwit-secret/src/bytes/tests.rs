use super::*;
use crate::Declassified;

fn bytes(content: &[u8]) -> SecretBytes {
    let mut secret = SecretBytes::new();
    secret.extend_from_slice(content).expect("memory");
    secret
}

#[test]
fn it_grows_and_shrinks_and_keeps_its_content() {
    let mut secret = SecretBytes::new();
    let mut twin = Vec::new();
    for byte in (0..=255).cycle().take(3000) {
        secret.push(byte).expect("memory");
        twin.push(byte);
    }
    secret.expose_secret(|bytes| assert_eq!(bytes, twin));
    secret.truncate(1700);
    secret.extend_from_slice(b"tail").expect("memory");
    twin.truncate(1700);
    twin.extend_from_slice(b"tail");
    secret.expose_secret(|bytes| assert_eq!(bytes, twin));
    secret.truncate(5000);
    assert_eq!(secret.len(), 1704);
    secret.clear();
    assert!(secret.is_empty());
    assert!(secret.block.as_slice().iter().all(|byte| *byte == 0), "shortening wipes");
}

#[test]
fn secrets_join_inside_locked_memory() {
    let whole = bytes(b"left right");
    let mut joined = SecretBytes::copy_of(&bytes(b"left")).expect("memory");
    joined.push(b' ').expect("memory");
    joined
        .extend_from_secret(SecretSlice::from(&whole).get(5..10).expect("a part"))
        .expect("memory");
    assert_eq!(joined, whole);
    assert_ne!(joined, bytes(b"left wrong"));
    assert_ne!(joined, bytes(b"left"));
}

#[test]
fn the_plain_source_is_wiped() {
    let mut plain = vec![7; 1000];
    let secret = SecretBytes::from_plain_and_wipe(&mut plain[..999]).expect("memory");
    assert_eq!((plain[0], plain[998], plain[999]), (0, 0, 7));
    assert_eq!(secret.expose_secret(|bytes| Declassified(bytes.len())).0, 999);
}

#[test]
fn it_reads_from_a_source_until_its_end() {
    let mut source: &[u8] = b"a passphrase\nrest";
    let mut secret = SecretBytes::new();
    assert_eq!(secret.read_from(&mut source, 13).expect("a source"), 13);
    assert_eq!(source, b"rest");
    assert_eq!(secret.read_from(&mut source, 100).expect("a source"), 4);
    assert_eq!(secret.read_from(&mut source, 100).expect("a source"), 0);
    assert_eq!(secret, bytes(b"a passphrase\nrest"));
    assert_eq!(format!("{secret:?}"), "SecretBytes([redacted])");
}

struct Liar;

impl io::Read for Liar {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        target.fill(7);
        Ok(target.len() + 1)
    }
}

#[test]
fn a_source_that_claims_too_much_is_an_error() {
    let mut secret = SecretBytes::new();
    assert!(matches!(secret.read_from(&mut Liar, 8), Err(ReadError::Source(_))));
    assert!(secret.is_empty());
    assert!(secret.block.as_slice().iter().all(|byte| *byte == 0), "what it wrote is wiped");
}

#[test]
fn no_length_overflows() {
    let mut secret = bytes(b"x");
    assert!(matches!(secret.reserve(usize::MAX), Err(LockError::Map { .. })));
    assert!(matches!(secret.reserve(usize::MAX / 2), Err(LockError::Map { .. })));
    assert_eq!(secret, bytes(b"x"));
}
