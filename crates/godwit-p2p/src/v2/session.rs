//! An encrypted connection: packets out and in.
//!
//! A packet is the length of its contents (3 bytes, encrypted), then a header byte and the contents
//! (encrypted), then a tag of 16 bytes over both and over additional data that are not sent: for the
//! first packet of each direction the garbage before it, else nothing.
//!
//! Each function here wipes what its computations left on the stack.

use super::cipher::{LENGTH_SIZE, LengthCipher, Opener, Sealer};
use super::handshake::TERMINATOR_SIZE;
use super::mac::TAG_SIZE;
use super::stack::on_wiped_stack;

/// Length of the header inside a packet, in bytes.
pub(crate) const HEADER_SIZE: usize = 1;

/// By how much a packet is longer than its contents, in bytes.
pub(crate) const EXPANSION: usize = LENGTH_SIZE + HEADER_SIZE + TAG_SIZE;

/// The bit of the header that says that the contents mean nothing.
pub(crate) const IGNORE: u8 = 0x80;

/// More stack than the ciphers use, in bytes.
pub(super) const CIPHER_STACK: usize = 8 << 10;

/// Keys and places of both directions.
pub(crate) struct Session {
    pub(super) send_length: LengthCipher,
    pub(super) send_packet: Sealer,
    pub(super) receive_length: LengthCipher,
    pub(super) receive_packet: Opener,
    pub(super) send_terminator: [u8; TERMINATOR_SIZE],
    pub(super) receive_terminator: [u8; TERMINATOR_SIZE],
    pub(super) session_id: [u8; 32],
}

impl Session {
    /// What ends our garbage.
    pub(crate) fn send_terminator(&self) -> &[u8; TERMINATOR_SIZE] {
        &self.send_terminator
    }

    /// What ends the other side's garbage.
    pub(crate) fn receive_terminator(&self) -> &[u8; TERMINATOR_SIZE] {
        &self.receive_terminator
    }

    /// Names the connection; both sides have the same. It is no secret.
    pub(crate) fn session_id(&self) -> &[u8; 32] {
        &self.session_id
    }

    /// Encrypts the next packet in place: its length goes to the front of `head`, whose rest is the
    /// header and the first bytes of the contents; `payload` is the rest of the contents.
    ///
    /// # Panics
    ///
    /// When `head` has no room for length and header, or the length does not fit its three bytes.
    pub(crate) fn seal(
        &mut self,
        head: &mut [u8],
        payload: &mut [u8],
        additional: &[u8],
    ) -> [u8; TAG_SIZE] {
        let (length, head) = head.split_first_chunk_mut::<LENGTH_SIZE>().expect("room for it");
        let contents = head.len().checked_sub(HEADER_SIZE).expect("room for it") + payload.len();
        assert!(contents < 1 << 24, "a packet's length has three bytes");
        length.copy_from_slice(&(contents as u32).to_le_bytes()[..LENGTH_SIZE]);
        on_wiped_stack::<CIPHER_STACK, _>(|| {
            self.send_length.apply(length);
            self.send_packet.seal([head, payload], additional)
        })
    }

    /// Decrypts the length of the next packet's contents.
    pub(crate) fn open_length(&mut self, mut length: [u8; LENGTH_SIZE]) -> usize {
        on_wiped_stack::<CIPHER_STACK, _>(|| self.receive_length.apply(&mut length));
        let [low, middle, high] = length;
        u32::from_le_bytes([low, middle, high, 0]) as usize
    }

    /// Starts the next packet, with `bytes` as its first behind the length.
    pub(crate) fn open_first(&mut self, bytes: &mut [u8], additional: &[u8]) {
        on_wiped_stack::<CIPHER_STACK, _>(|| {
            self.receive_packet.begin(additional);
            self.receive_packet.open(bytes);
        });
    }

    /// Decrypts the next bytes of the packet in place. They are not to be trusted before
    /// [`finish`](Self::finish).
    pub(crate) fn open(&mut self, bytes: &mut [u8]) {
        on_wiped_stack::<CIPHER_STACK, _>(|| self.receive_packet.open(bytes));
    }

    /// Whether the packet is what the other side sent.
    pub(crate) fn finish(&mut self, tag: &[u8; TAG_SIZE]) -> bool {
        on_wiped_stack::<CIPHER_STACK, _>(|| self.receive_packet.finish(tag))
    }
}

#[cfg(test)]
mod tests;
