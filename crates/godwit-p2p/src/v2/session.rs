//! An encrypted connection: seals and opens packets.
//!
//! A packet is the length of its contents (3 bytes, encrypted), a header byte and the contents
//! (encrypted), and a tag of 16 bytes over header, contents and additional data that are not sent:
//! the garbage before the first packet of each direction, nothing for the others.
//!
//! Each function wipes what its computations left on the stack.

use godwit_secret::Releasable;

use super::cipher::{LENGTH_SIZE, LengthCipher, Opener, Sealer};
use super::mac::TAG_SIZE;
use super::stack::on_wiped_stack;

/// Length of what ends the garbage, in bytes.
pub(crate) const TERMINATOR_SIZE: usize = 16;

/// Length of the header inside a packet, in bytes.
pub(crate) const HEADER_SIZE: usize = 1;

/// By how much a packet is longer than its contents, in bytes.
pub(crate) const EXPANSION: usize = LENGTH_SIZE + HEADER_SIZE + TAG_SIZE;

/// The header's bit for a decoy: the contents are to be ignored.
pub(crate) const IGNORE: u8 = 0x80;

/// Stack to wipe, in bytes: more than the ciphers use.
pub(super) const CIPHER_STACK: usize = 8 << 10;

/// Keys and packet counters of both directions.
pub(crate) struct Session {
    pub(super) send_length: LengthCipher,
    pub(super) send_packet: Sealer,
    pub(super) receive_length: LengthCipher,
    pub(super) receive_packet: Opener,
    pub(super) send_terminator: [u8; TERMINATOR_SIZE],
    pub(super) receive_terminator: [u8; TERMINATOR_SIZE],
    pub(super) session_id: [u8; 32],
}

impl Releasable for Session {}

impl Session {
    /// The terminator of our garbage.
    pub(crate) fn send_terminator(&self) -> &[u8; TERMINATOR_SIZE] {
        &self.send_terminator
    }

    /// The terminator of the other side's garbage.
    pub(crate) fn receive_terminator(&self) -> &[u8; TERMINATOR_SIZE] {
        &self.receive_terminator
    }

    /// Identifies the connection; both sides have the same. It is no secret.
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

    /// Begins the next packet; decrypts `bytes`, the first ones after the length, in place.
    pub(crate) fn open_first(&mut self, bytes: &mut [u8], additional: &[u8]) {
        on_wiped_stack::<CIPHER_STACK, _>(|| {
            self.receive_packet.begin(additional);
            self.receive_packet.open(bytes);
        });
    }

    /// Decrypts the next bytes of the packet in place. They must not be trusted before
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
