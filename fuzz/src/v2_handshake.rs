//! Hostile bytes to an encrypted transport that does not know the other side's key yet: nothing comes
//! of them, unless they are those of a plain connection to a side that was called.

use godwit_p2p::{Protocol, Transport};

use crate::input::Input;
use crate::source::Pieces;
use crate::transport::{MAGIC, Seen, expected_plain, limits, pool, receive, secrets, written};

/// What is acceptable; which side we are; length of our garbage; two sizes of pieces; bytes read at
/// once; then the connection.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let limits = limits(&mut input);
    let initiator = input.u8() & 1 != 0;
    let garbage = usize::from(input.u16()) % 4_096;
    let sizes = [usize::from(input.u8()), usize::from(input.u16())];
    let budget = usize::from(input.u16()).max(1);
    let bytes = input.rest();
    let secrets = secrets(1, garbage);
    let mut transport = match initiator {
        true => Transport::new_v2_initiator(MAGIC, pool(), secrets),
        false => Transport::new_v2_responder(MAGIC, pool(), secrets),
    }
    .expect("locked memory");
    let first = written(&mut transport);
    assert_eq!(first.len(), if initiator { 64 + garbage } else { 0 });
    let mut source = Pieces::new(bytes, sizes);
    let seen = receive(&mut transport, &mut source, &limits, budget);
    let sent = written(&mut transport);
    if transport.protocol() == Protocol::V1 {
        assert!(!initiator && sent.is_empty());
        assert_eq!(seen, expected_plain(bytes, &limits));
        return;
    }
    // Nobody has proven to have the keys.
    assert_eq!(transport.protocol(), Protocol::Detecting);
    match &seen[..] {
        [] => {
            assert_eq!(transport.looks_refused(), initiator && bytes.is_empty());
            // Key, garbage, terminator, and less than a packet can be awaited.
            assert!(bytes.len() <= 64 + 4_095 + 16 + 4_000_100);
        }
        [Seen::Error(_)] => {
            let mut source = Pieces::whole(b"more");
            let after = transport.receive(&mut source, &limits, usize::MAX);
            assert!(!matches!(after, Ok(godwit_p2p::Receive::Frame(_))), "{after:?}");
        }
        other => panic!("{other:?} from somebody without keys"),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let plain = crate::p2p_frame::seeds().remove(0).split_off(7);
    let called = Transport::new_v2_initiator(MAGIC, pool(), secrets(2, 300));
    let encrypted = written(&mut called.expect("locked memory"));
    let whole = [3, 0, 0, 0, 255, 255, 255, 255, 255];
    let slow = [3, 1, 9, 0, 3, 50, 0, 70, 0];
    [whole, slow]
        .iter()
        .flat_map(|settings| {
            [&plain, &encrypted, &vec![0; 5_000]].map(|bytes| [&settings[..], bytes].concat())
        })
        .collect()
}
