//! What a closure that was shown a secret, or that runs on a secret stack, may return, and what it may write
//! into.
//!
//! Vectors, strings, arrays, boxes, maps and numbers are containers of bytes, which may be those of the
//! secret, so none of them is [`Releasable`]. What may be returned tells one of a few things (`bool`), or is
//! an error, or lies in locked memory itself. The rest has to be called what it is: [`Declassified`].
//!
//! A closure that is shown a secret is `Fn` and `Sync`, so that it captures nothing that it could write to:
//! no `&mut`, `Cell` or `RefCell`. What it writes into it is given as an argument, which is `Releasable` as
//! well, or is called [`Unprotected`]. Neither bound knows what is shared between threads (locks, atomics,
//! channels), statics, and files: the register has the first three, by their names.

use std::cmp::Ordering;
use std::convert::Infallible;
use std::fmt;
use std::io;

use godwit_stream::DecodeError;

use crate::{
    LockError, NotUtf8, RandomError, SecretArray, SecretBox, SecretBytes, SecretSlice,
    SecretStream, SecretString,
};

/// A type that holds no byte of a secret outside of locked memory: those of this module, whatever a closure
/// puts into them.
///
/// A crate implements it for its own types: for errors that say what is wrong and where, and for those that
/// keep what is secret in them in the types of this crate. That is a promise of the crate. The compiler does
/// not look into the fields, and a few have room for more: a public text, the path of a file, an
/// `io::Error`. So each implementation has a row in the register of `docs/memory-policy.md`, with a hash of
/// the type, and each use of [`Declassified`] has one too.
///
/// It is a bound on what is returned and on what is given to write into.
#[diagnostic::on_unimplemented(
    message = "`{Self}` could hold bytes of a secret in ordinary memory",
    label = "a closure that was shown a secret returns it, or writes into it",
    note = "use a secret type; or say `Declassified` of a result that is no secret, or `Unprotected` of memory to write into, with a row in docs/memory-policy.md"
)]
pub trait Releasable {}

/// What was made of a secret and is none: a public key, a signature, where the parts of a text stand.
///
/// A closure says so by returning it, once for each thing that it lets out, and the caller takes it out of
/// this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declassified<T>(pub T);

impl<T> Releasable for Declassified<T> {}

/// Memory outside of the arena that a closure writes into which is shown a secret: a text that is public, a
/// file's buffer, the state of a cipher on a stack that is wiped.
///
/// Whoever calls the closure says so, once for each such place, and the register has a row with the reason.
#[derive(Debug)]
pub struct Unprotected<T>(pub T);

impl<T> Releasable for Unprotected<T> {}

impl Releasable for () {}
impl Releasable for bool {}
impl Releasable for Ordering {}
impl Releasable for Infallible {}

impl<const N: usize> Releasable for SecretArray<N> {}
impl<T> Releasable for SecretBox<T> {}
impl Releasable for SecretBytes {}
impl Releasable for SecretSlice<'_> {}
impl Releasable for SecretStream {}
impl Releasable for SecretString {}

impl Releasable for fmt::Error {}
impl Releasable for DecodeError {}
impl Releasable for LockError {}
impl Releasable for NotUtf8 {}
impl Releasable for RandomError {}
// And not `io::Error`, which boxes what anybody puts into it.
impl Releasable for io::ErrorKind {}

impl<T: Releasable + ?Sized> Releasable for &mut T {}
impl<T: Releasable, U: Releasable> Releasable for (T, U) {}
impl<T: Releasable> Releasable for Option<T> {}
impl<T: Releasable, E: Releasable> Releasable for Result<T, E> {}
