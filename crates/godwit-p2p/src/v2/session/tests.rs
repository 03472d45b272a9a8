use godwit_secret::SecretArray;

use super::super::Handshake;
use super::*;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

fn pair() -> (Session, Session) {
    let side = |byte: u8, initiator| {
        let key = SecretArray::from_plain_and_wipe(&mut [byte; 32]).expect("locked memory");
        Handshake::new(key, [byte; 32], initiator, MAGIC).expect("a key")
    };
    let (ours, theirs) = (side(3, true), side(4, false));
    let (public, others) = (*ours.public_key(), *theirs.public_key());
    (ours.agree(&others), theirs.agree(&public))
}

fn cross(from: &mut Session, to: &mut Session, contents: &[u8], additional: &[u8]) -> bool {
    let mut head = [0, 0, 0, IGNORE];
    let mut bytes = contents.to_vec();
    let tag = from.seal(&mut head, &mut bytes, additional);
    let (length, header) = head.split_first_chunk().expect("four bytes");
    assert_eq!(to.open_length(*length), contents.len());
    let mut header = [header[0]];
    to.open_first(&mut header, additional);
    bytes.chunks_mut(100).for_each(|piece| to.open(piece));
    let right = to.finish(&tag);
    assert!(!right || (header == [IGNORE] && bytes == contents));
    right
}

#[test]
fn packets_cross_in_both_directions_over_changes_of_keys() {
    let (mut ours, mut theirs) = pair();
    let contents: Vec<u8> = (0..300).map(|n| n as u8).collect();
    for n in 0..1_000 {
        let contents = &contents[..n * 37 % 301];
        assert!(cross(&mut ours, &mut theirs, contents, &[n as u8]), "packet {n}");
        if n % 3 == 0 {
            assert!(cross(&mut theirs, &mut ours, contents, &[]), "answer {n}");
        }
    }
}

#[test]
fn a_packet_that_was_left_out_breaks_the_rest() {
    let (mut ours, mut theirs) = pair();
    assert!(cross(&mut ours, &mut theirs, b"first", &[]));
    ours.seal(&mut [0; 4], &mut [], &[]);
    let mut head = [0; 4];
    let tag = ours.seal(&mut head, &mut [], &[]);
    theirs.open_length(*head.first_chunk().expect("four bytes"));
    theirs.open_first(&mut head[3..], &[]);
    assert!(!theirs.finish(&tag));
}

#[test]
#[should_panic(expected = "three bytes")]
fn what_is_too_long_for_a_packet_is_a_fault_of_the_caller() {
    pair().0.seal(&mut [0; 4], &mut vec![0; 1 << 24], &[]);
}
