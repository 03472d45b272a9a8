use super::*;

/// What libzmq 4.3 sends first, and then, as a subscriber.
fn greeting_of_libzmq() -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    bytes.extend(b"NULL");
    bytes.resize(GREETING_BYTES, 0);
    bytes
}

const READY_OF_LIBZMQ: &[u8] =
    b"\x04\x26\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB\x08Identity\x00\x00\x00\x00";

fn heard(bytes: &[u8], chunk: usize) -> Result<Vec<Said>, WireError> {
    let mut incoming = Incoming::default();
    let mut said = Vec::new();
    for bytes in bytes.chunks(chunk) {
        incoming.push(bytes);
        while let Some(next) = incoming.next()? {
            said.push(next);
        }
    }
    Ok(said)
}

fn after_handshake(frames: &[u8]) -> Result<Vec<Said>, WireError> {
    let all = [&greeting_of_libzmq(), READY_OF_LIBZMQ, frames].concat();
    let whole = heard(&all, all.len())?;
    for chunk in [1, 2, 7, 63] {
        assert_eq!(heard(&all, chunk).as_ref(), Ok(&whole), "in chunks of {chunk}");
    }
    Ok(whole[1..].to_vec())
}

#[test]
fn subscriptions_are_messages_or_commands() {
    let topic = || b"raw".to_vec();
    for (frames, expected) in [
        (&b"\x00\x04\x01raw"[..], Said::Subscribe(topic())),
        (b"\x00\x04\x00raw", Said::Cancel(topic())),
        (b"\x02\x00\x00\x00\x00\x00\x00\x00\x04\x01raw", Said::Subscribe(topic())),
        (b"\x04\x0d\x09SUBSCRIBEraw", Said::Subscribe(topic())),
        (b"\x04\x0a\x06CANCELraw", Said::Cancel(topic())),
        (b"\x04\x0a\x09SUBSCRIBE", Said::Subscribe(Vec::new())),
        (b"\x00\x01\x01", Said::Subscribe(Vec::new())),
        (b"\x04\x08\x04PING\x00\x01x", Said::Ping(b"x".to_vec())),
        (b"\x04\x07\x04PING\x00\x01", Said::Ping(Vec::new())),
        (b"\x04\x06\x04PING\x00", Said::Other),
        (b"\x04\x06\x05PING\x00", Said::Other),
        (b"\x00\x00", Said::Other),
        (b"\x01\x02\x01r", Said::Other),
        (b"\x00\x01\x02", Said::Other),
        (b"\x04\x00", Said::Other),
    ] {
        assert_eq!(after_handshake(frames), Ok(vec![expected]), "{frames:?}");
    }
}

#[test]
fn who_is_no_subscriber_is_told_apart() {
    let with = |place: usize, byte: u8| {
        let mut greeting = greeting_of_libzmq();
        greeting[place] = byte;
        heard(&greeting, GREETING_BYTES)
    };
    assert_eq!(with(63, 9), Ok(Vec::new()), "what a greeting is filled with does not matter");
    assert_eq!(with(11, 0), Ok(Vec::new()), "3.0");
    assert_eq!(with(0, 0), Err(WireError::NotZmtp));
    assert_eq!(with(9, 0), Err(WireError::NotZmtp));
    assert_eq!(with(10, 2), Err(WireError::OldVersion));
    assert_eq!(with(12, b'C'), Err(WireError::OtherMechanism));
    assert_eq!(with(16, b'X'), Err(WireError::OtherMechanism));
    // It is noticed before the greeting is complete.
    assert_eq!(heard(b"GET / HTTP/1.1\r\n", 1), Err(WireError::NotZmtp));

    let ready = |frame: &[u8]| heard(&[&greeting_of_libzmq(), frame].concat(), 99).map(drop);
    assert_eq!(ready(&super::ready()), Err(WireError::NotSubscriber), "a publisher");
    assert_eq!(ready(b"\x04\x1a\x05READY\x0bSOCKET-type\x00\x00\x00\x04XSUB"), Ok(()));
    assert_eq!(ready(b"\x00\x04\x01raw"), Err(WireError::NotReady));
    assert_eq!(ready(b"\x04\x06\x05READY"), Err(WireError::NotReady));
    assert_eq!(ready(b"\x04\x0b\x05READY\xff\xff\xff\xff\xff"), Err(WireError::NotReady));
    assert_eq!(
        ready(b"\x04\x16\x05READY\x0bSocket-Type\xff\xff\xff\xff"),
        Err(WireError::NotReady)
    );
}

#[test]
fn what_is_long_or_odd_ends_a_connection() {
    let frame = |length: u64| {
        let body = vec![1; usize::try_from(length.min(2000)).expect("it fits")];
        [&[2], &length.to_be_bytes()[..], &body].concat()
    };
    assert!(after_handshake(&frame(1024)).is_ok());
    for length in [1025, u64::from(u32::MAX), u64::MAX] {
        assert_eq!(after_handshake(&frame(length)), Err(WireError::LongFrame));
    }
    for bit in 3..8 {
        assert_eq!(after_handshake(&[1 << bit, 0]), Err(WireError::OddFrame));
    }
}

#[test]
fn only_so_many_subscriptions_are_kept() {
    let mut subscriptions = Subscriptions::default();
    for n in 0..MAX_SUBSCRIPTIONS {
        assert_eq!(subscriptions.add(vec![b'x', n as u8]), Ok(()));
    }
    assert_eq!(subscriptions.add(Vec::new()), Err(WireError::ManySubscriptions));
    subscriptions.cancel(b"x");
    assert_eq!(subscriptions.add(Vec::new()), Err(WireError::ManySubscriptions));
    subscriptions.cancel(b"x\x00");
    assert_eq!(subscriptions.add(Vec::new()), Ok(()));
}

#[test]
fn a_topic_is_wanted_by_its_beginning_as_often_as_it_was_asked_for() {
    let mut subscriptions = Subscriptions::default();
    assert!(!subscriptions.want(b"rawtx"));
    for _ in 0..2 {
        subscriptions.add(b"raw".to_vec()).expect("there is room");
    }
    assert!(subscriptions.want(b"rawtx") && subscriptions.want(b"rawblock"));
    assert!(!subscriptions.want(b"ra") && !subscriptions.want(b"hashtx"));
    subscriptions.cancel(b"raw");
    assert!(subscriptions.want(b"rawtx"));
    subscriptions.cancel(b"raw");
    assert!(!subscriptions.want(b"rawtx"));
}

#[test]
fn a_message_has_a_frame_for_each_part() {
    assert_eq!(message(&[b"a", b"bc"]), b"\x01\x01a\x00\x02bc");
    let long = message(&[&[7; 255], &[7; 256]]);
    assert_eq!(&long[..2], [1, 255]);
    assert_eq!(&long[257..266], [2, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(long.len(), 266 + 256);
    assert_eq!(long.capacity(), long.len(), "what it takes is what it counts");
}

/// Whatever is sent, it is understood or refused.
#[test]
fn any_bytes_are_read() {
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..20_000 {
        let mut bytes = [greeting_of_libzmq(), READY_OF_LIBZMQ.to_vec()].concat();
        for _ in 0..next(4) {
            let place = next(bytes.len());
            bytes[place] = next(256) as u8;
        }
        bytes.extend(
            (0..next(60)).map(|_| if next(3) == 0 { next(256) as u8 } else { next(6) as u8 }),
        );
        let mut incoming = Incoming::default();
        for chunk in bytes.chunks(1 + next(40)) {
            incoming.push(chunk);
            let mut said = incoming.next();
            while let Ok(Some(_)) = said {
                said = incoming.next();
            }
            if said.is_err() {
                break;
            }
        }
    }
}
