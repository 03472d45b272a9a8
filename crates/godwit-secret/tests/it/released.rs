//! What may leave a closure that was shown a secret; what may not, `compile-fail/container.rs` has.

use std::cmp::Ordering;
use std::io;

use godwit_secret::{
    Declassified, LockError, NotUtf8, RandomError, Releasable, SecretArray, SecretBox, SecretBytes,
    SecretSlice, SecretStream, SecretString, run_on_secret_stack,
};

#[test]
fn secrets_errors_and_answers_are_releasable() {
    fn releasable<T: Releasable>() {}
    releasable::<()>();
    releasable::<bool>();
    releasable::<Ordering>();
    releasable::<SecretArray<32>>();
    releasable::<SecretBox<[u8; 32]>>();
    releasable::<SecretBytes>();
    releasable::<SecretSlice<'_>>();
    releasable::<SecretStream>();
    releasable::<SecretString>();
    releasable::<Option<Result<SecretString, NotUtf8>>>();
    releasable::<Result<SecretBytes, LockError>>();
    releasable::<Result<(), RandomError>>();
    releasable::<Result<bool, io::ErrorKind>>();
    releasable::<Option<Declassified<Vec<u8>>>>();
}

#[test]
fn what_is_declassified_comes_out_as_it_was() {
    let secret = SecretArray::<4>::from_fn_in_place(|bytes| *bytes = *b"abcd").expect("memory");
    let first = |bytes: &[u8; 4]| bytes.first().copied().map(Declassified);
    assert_eq!(secret.expose_secret(first), Some(Declassified(b'a')));
    let inside = run_on_secret_stack(|| secret.expose_secret(|bytes| Declassified(bytes.to_vec())));
    assert_eq!(inside.expect("memory").0, b"abcd");
}
