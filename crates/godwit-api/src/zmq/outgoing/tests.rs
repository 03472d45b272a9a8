use super::*;

/// A socket that takes so many bytes and no more.
fn taking(mut left: usize, out: &mut Vec<u8>) -> impl FnMut(&[IoSlice<'_>]) -> io::Result<usize> {
    move |slices| {
        if left == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).take(left).collect();
        left -= all.len();
        out.extend_from_slice(&all);
        Ok(all.len())
    }
}

fn message(bytes: &[u8], kept: &Rc<Kept>) -> Rc<Message> {
    Rc::new(Message::new(bytes.to_vec(), kept))
}

const SUBSCRIBER_BYTES: usize = 1 << 20;

fn with_mark(high_water_mark: usize) -> Outgoing {
    Outgoing::new(Limits { high_water_mark, bytes: SUBSCRIBER_BYTES })
}

#[test]
fn messages_beyond_the_mark_are_dropped_and_the_rest_goes_in_order() {
    let (kept, mut outgoing) = (Rc::default(), with_mark(3));
    let taken: Vec<bool> = (0..5_u8).map(|n| outgoing.push(&message(&[n; 10], &kept))).collect();
    assert_eq!(taken, [true, true, true, false, false]);
    assert_eq!((outgoing.bytes(), kept.bytes()), (30, 30));
    // In pieces of any size, and with the mark reached again as soon as one is gone.
    let mut out = Vec::new();
    assert_eq!(outgoing.flush(taking(13, &mut out)).ok(), Some(false));
    assert_eq!(outgoing.bytes(), 20);
    assert!(outgoing.push(&message(&[9; 10], &kept)) && !outgoing.push(&message(&[9], &kept)));
    assert_eq!(outgoing.flush(taking(100, &mut out)).ok(), Some(true));
    let expected = [0, 1, 2, 9].map(|n| [n; 10]).concat();
    assert_eq!((out, outgoing.bytes(), kept.bytes()), (expected, 0, 0));
}

#[test]
fn bytes_are_bounded_but_a_single_message_always_fits() {
    let (kept, mut outgoing) = (Rc::default(), with_mark(0));
    let large = message(&vec![0; SUBSCRIBER_BYTES + 1], &kept);
    assert!(outgoing.push(&large) && !outgoing.push(&message(&[0], &kept)));
    let mut outgoing = with_mark(0);
    let half = message(&vec![0; SUBSCRIBER_BYTES / 2], &kept);
    assert!(outgoing.push(&half) && outgoing.push(&half) && !outgoing.push(&message(&[0], &kept)));
    assert_eq!(kept.bytes(), SUBSCRIBER_BYTES + 1 + SUBSCRIBER_BYTES / 2, "each counts once");
    drop((large, outgoing, half));
}

#[test]
fn what_the_protocol_says_goes_between_messages() {
    let (kept, mut outgoing) = (Rc::default(), with_mark(0));
    outgoing.say(b"hello");
    outgoing.push(&message(b"first", &kept));
    outgoing.push(&message(b"second", &kept));
    let mut out = Vec::new();
    assert_eq!(outgoing.flush(taking(7, &mut out)).ok(), Some(false));
    outgoing.say(b"pong");
    assert_eq!(outgoing.flush(taking(100, &mut out)).ok(), Some(true));
    assert_eq!(out, b"hellofirstpongsecond");
    // Who pings and does not read is not answered for ever.
    (0..1000).for_each(|_| outgoing.say(&[0; 100]));
    let mut out = Vec::new();
    assert_eq!(outgoing.flush(taking(usize::MAX, &mut out)).ok(), Some(true));
    assert_eq!(out.len(), MAX_CONTROL_BYTES / 100 * 100);
}

#[test]
fn a_connection_that_fails_says_so() {
    let (kept, mut outgoing) = (Rc::default(), with_mark(0));
    outgoing.push(&message(b"x", &kept));
    assert!(outgoing.flush(|_| Ok(0)).is_err());
    assert!(outgoing.flush(|_| Err(io::ErrorKind::BrokenPipe.into())).is_err());
}
