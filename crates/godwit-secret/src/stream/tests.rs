use super::*;
use crate::arena::process_pool;
use crate::{SecretArray, SecretBytes};

#[test]
fn it_reads_what_was_written() {
    let secret = SecretArray::<32>::random().expect("memory");
    let mut stream = SecretStream::new();
    stream.write(b"kind").expect("memory");
    stream.write_secret(&secret).expect("memory");
    stream.put(&7u32).expect("memory");
    assert_eq!(stream.len(), 4 + 32 + 4);
    stream.skip(4).expect("that much is there");
    assert_eq!(stream.read(32), Ok(SecretSlice::from(&secret)));
    assert_eq!(stream.read(5), Err(DecodeError::UnexpectedEnd));
    let number = SecretBytes::from_fn_in_place(4, |bytes| bytes.copy_from_slice(&[7, 0, 0, 0]));
    assert_eq!(stream.read(4), Ok(SecretSlice::from(&number.expect("memory"))));
    assert!(stream.is_empty());
    assert_eq!(stream.read(1), Err(DecodeError::UnexpectedEnd));
    stream.rewind(36).expect("that much was read");
    stream.skip(31).expect("that much is there");
    assert_eq!(stream.unread().len(), 5);
    assert_eq!(stream.rewind(1000), Err(DecodeError::UnexpectedEnd));
}

#[test]
fn growing_keeps_content_and_cursor_and_wipes_the_old_place() {
    let mut stream = SecretStream::with_capacity(16).expect("memory");
    stream.write(b"0123456789abcdef").expect("memory");
    stream.skip(4).expect("that much is there");
    let old = stream.stream.as_slice().as_ptr();
    stream.write(&[b'x'; 4000]).expect("memory");
    assert_ne!(stream.stream.as_slice().as_ptr(), old);
    assert!(process_pool().contains(stream.stream.as_slice().as_ptr().addr()));
    let rest = SecretBytes::from_fn_in_place(12, |bytes| bytes.copy_from_slice(b"456789abcdef"));
    assert_eq!(stream.read(12), Ok(SecretSlice::from(&rest.expect("memory"))));
    assert_eq!(stream.len(), 4000);
}

#[test]
fn clearing_and_cutting_wipe() {
    let mut stream = SecretStream::new();
    stream.write(&[7; 100]).expect("memory");
    stream.truncate(60);
    stream.truncate(200);
    assert_eq!(stream.len(), 60);
    stream.skip(50).expect("that much is there");
    stream.clear();
    assert!(stream.is_empty());
    stream.expose_secret_mut(|bytes| assert!(bytes.is_empty()));
    // The vector's memory is wiped beyond its length: reading lengthens it again without writing.
    let memory = stream.stream.read_from(&mut Untouching, 100);
    assert_eq!(memory.expect("a source"), 100);
    stream.unread().expose_secret(|bytes| assert_eq!(bytes, [0; 100]));
}

/// Claims to have filled what it is given, and leaves it as it is.
struct Untouching;

impl io::Read for Untouching {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        Ok(target.len())
    }
}

#[test]
fn it_reads_from_a_source_and_is_changed_in_place() {
    let mut stream = SecretStream::new();
    stream.write(b"frame").expect("memory");
    assert_eq!(stream.read_from(&mut &b"secret"[..], 100).expect("a source"), 6);
    stream.skip(5).expect("that much is there");
    stream.expose_secret_mut(|bytes| bytes.make_ascii_uppercase());
    stream.unread().expose_secret(|bytes| assert_eq!(bytes, b"SECRET"));
    assert_eq!(format!("{stream:?}"), "SecretStream([redacted])");
    assert!(matches!(stream.reserve(usize::MAX), Err(LockError::Map { .. })));
    assert_eq!(stream.len(), 6);
}
