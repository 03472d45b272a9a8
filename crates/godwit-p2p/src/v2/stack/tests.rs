//! How much stack the computations use: painted before and looked at behind them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use godwit_secret::{Declassified, SecretArray};

use super::super::cipher::LENGTH_SIZE;
use super::super::handshake::{HANDSHAKE_STACK, Handshake, PUBLIC_KEY_SIZE, public_key};
use super::super::session::{CIPHER_STACK, Session};
use super::*;

const PAINT: u8 = 0xa5;

/// More than anything here uses.
const PAINTED: usize = 256 << 10;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// The part of its room that a computation may use: compilers and processors differ.
fn three_quarters(room: usize) -> usize {
    room / 4 * 3
}

#[inline(never)]
fn paint() {
    let mut dead = [PAINT; PAINTED];
    black_box(&mut dead);
}

/// Bytes of stack below its caller's frame that an operation and its frame use.
#[inline(never)]
fn used(operation: impl FnOnce()) -> usize {
    let memory = File::open("/proc/self/mem").expect("the own memory can be read");
    let mut below = vec![0; PAINTED];
    let here = 0u8;
    let end = black_box(&raw const here).addr();
    paint();
    operation();
    memory.read_exact_at(&mut below, (end - PAINTED) as u64).expect("it was painted");
    PAINTED - below.iter().take_while(|byte| **byte == PAINT).count()
}

fn key(byte: u8) -> SecretArray<32> {
    SecretArray::from_plain_and_wipe(&mut [byte; 32]).expect("locked memory")
}

fn side(byte: u8, initiator: bool) -> Handshake {
    Handshake::new(key(byte), [byte; 32], initiator, MAGIC).expect("a key")
}

fn pair() -> [Session; 2] {
    let (ours, theirs) = (side(3, true), side(4, false));
    let (public, others) = (*ours.public_key(), *theirs.public_key());
    [ours.agree(&others), theirs.agree(&public)]
}

#[test]
fn what_is_used_is_seen_to_the_last_frame() {
    #[inline(never)]
    fn with_array<const SIZE: usize>() {
        let mut array = [1u8; SIZE];
        black_box(&mut array);
    }
    let sizes = [used(with_array::<10_000>), used(with_array::<60_000>)];
    assert!((10_000..12_000).contains(&sizes[0]), "{sizes:?}");
    assert!((60_000..62_000).contains(&sizes[1]), "{sizes:?}");
}

#[test]
fn an_agreement_leaves_a_quarter_of_its_room() {
    let theirs = *side(9, true).public_key();
    for byte in 1..=50 {
        let (key, mut public) = (key(byte), None);
        let making = used(|| {
            public = in_own_frame(|| {
                key.expose_secret(|key| Declassified(public_key(key, [byte; 32]))).0
            });
        });
        assert_eq!(public.expect("a key"), *side(byte, true).public_key());
        let (handshake, mut session) = (side(byte, byte % 2 == 0), None);
        let agreeing = used(|| session = Some(in_own_frame(|| handshake.derive(&theirs))));
        drop(session);
        let most = three_quarters(HANDSHAKE_STACK);
        assert!(making.max(agreeing) <= most, "{making} and {agreeing} of {HANDSHAKE_STACK}");
    }
}

/// Over changes of keys, which are at every 224th packet.
#[test]
fn ciphers_leave_a_quarter_of_their_room() {
    let [mut ours, mut theirs] = pair();
    let mut bytes = vec![7; 5_000];
    let sizes = [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 255, 256, 257, 511, 512, 1_024, 5_000];
    let mut most = [0; 6];
    let mut note = |n: usize, used: usize| most[n] = most[n].max(used);
    for packet in 0..500 {
        let contents = &mut bytes[..sizes[packet % sizes.len()]];
        let (mut length, mut header, mut tag) = ([1, 2, 0], [0], [0; 16]);
        let additional = [packet as u8; 33];
        note(0, used(|| in_own_frame(|| ours.send_length.apply(&mut length))));
        note(
            1,
            used(|| {
                tag = in_own_frame(|| ours.send_packet.seal([&mut header, contents], &additional));
            }),
        );
        note(2, used(|| in_own_frame(|| theirs.receive_length.apply(&mut length))));
        assert_eq!(length, [1, 2, 0], "{LENGTH_SIZE} bytes");
        note(
            3,
            used(|| {
                in_own_frame(|| {
                    theirs.receive_packet.begin(&additional);
                    theirs.receive_packet.open(&mut header);
                });
            }),
        );
        note(4, used(|| in_own_frame(|| theirs.receive_packet.open(contents))));
        let mut right = false;
        note(5, used(|| right = in_own_frame(|| theirs.receive_packet.finish(&tag))));
        assert!(right && contents.iter().all(|byte| *byte == 7), "packet {packet}");
    }
    assert!(most.iter().all(|used| *used <= three_quarters(CIPHER_STACK)), "{most:?}");
}

/// With the wipes, as a connection calls them: nothing is written below what they overwrite.
#[test]
fn nothing_is_left_below_what_is_wiped() {
    let wiped = |used: usize, room: usize| (room..room + 2_048).contains(&used);
    let (ours, theirs) = (side(3, true), side(4, false));
    let public: [u8; PUBLIC_KEY_SIZE] = *theirs.public_key();
    let mut session = None;
    let agreeing = used(|| session = Some(ours.agree(&public)));
    assert!(wiped(agreeing, HANDSHAKE_STACK), "{agreeing}");
    let mut session = session.expect("it was made");
    for len in [0, 64, 256, 5_000] {
        let (mut head, mut contents) = ([0; 4], vec![0; len]);
        let mut tag = [0; 16];
        let sealing = used(|| tag = session.seal(&mut head, &mut contents, &[1; 33]));
        assert_ne!(tag, [0; 16]);
        assert!(wiped(sealing, CIPHER_STACK), "{sealing}");
        let opening = used(|| session.open(&mut contents));
        assert!(wiped(opening, CIPHER_STACK), "{opening}");
    }
}
