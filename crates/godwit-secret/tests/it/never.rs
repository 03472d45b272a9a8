//! Traits that secret types never implement, checked when this file is compiled, by any compiler.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::hash::Hash;
use std::ops::{Deref, DerefMut, Index};
use std::rc::Rc;

use godwit_secret::{SecretArray, SecretBox, SecretBytes, SecretSlice, SecretStream, SecretString};
use godwit_stream::{Decode, Encode};

/// Does not compile when `$type` implements one of the traits: the item is then ambiguous.
macro_rules! never {
    ($type:ty: $($bound:path),+ $(,)?) => {
        $(const _: fn() = || {
            trait Ambiguous<A> {
                fn item() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            struct Implements;
            impl<T: ?Sized + $bound> Ambiguous<Implements> for T {}
            let _ = <$type as Ambiguous<_>>::item;
        };)+
    };
}

macro_rules! leaks_nothing {
    ($($type:ty),+ $(,)?) => {
        $(never!(
            $type: Encode, Decode, fmt::Display, fmt::LowerHex, fmt::UpperHex, Hash, PartialOrd, Deref,
            DerefMut, Index<usize>, Index<std::ops::RangeFull>, AsRef<[u8]>, AsMut<[u8]>, AsRef<str>,
            Borrow<[u8]>, Borrow<str>, IntoIterator, Into<Vec<u8>>, Into<Box<[u8]>>, Into<String>,
            Into<[u8; 32]>, PartialEq<[u8]>, PartialEq<[u8; 32]>, PartialEq<Vec<u8>>, PartialEq<str>,
            PartialEq<String>, PartialEq<&'static [u8]>, PartialEq<&'static str>, serde::Serialize,
            std::io::Read,
        );)+
        // A slice of a secret is a reference, which may be copied.
    };
}

leaks_nothing!(
    SecretArray<32>,
    SecretBytes,
    SecretString,
    SecretStream,
    SecretSlice<'static>,
    SecretBox<[u8; 32]>,
);
never!(SecretArray<32>: Clone, Copy, From<[u8; 32]>, From<&'static [u8; 32]>, Default);
never!(SecretBytes: Clone, Copy, From<Vec<u8>>, From<&'static [u8]>);
never!(SecretString: Clone, Copy, From<String>, From<&'static str>, std::str::FromStr);
never!(SecretStream: Clone, Copy, From<Vec<u8>>, From<&'static [u8]>, std::io::Write);
never!(SecretBox<[u8; 32]>: Clone, Copy, PartialEq);
// A box is shared and sent as its value is.
never!(SecretBox<Cell<u8>>: Sync);
never!(SecretBox<Rc<u8>>: Send, Sync);

/// What a thread may be given.
#[test]
fn secrets_may_change_threads() {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<SecretArray<32>>();
    is_send_and_sync::<SecretBytes>();
    is_send_and_sync::<SecretString>();
    is_send_and_sync::<SecretStream>();
    is_send_and_sync::<SecretBox<[u8; 32]>>();
}
