//! Bytes of a plain connection, in whatever pieces they come: what a naive reader finds in them, and
//! memory that they have earned.

use godwit_p2p::{Protocol, Transport};
use godwit_stream::DataStream;

use crate::input::Input;
use crate::source::Pieces;
use crate::transport::{MAGIC, expected_plain, frame, limits, mend_frames, pool, receive};

/// What is acceptable and whether frames are mended; two sizes of pieces; bytes read at once; then the
/// connection.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let mends = input.u8() & 1 != 0;
    let limits = limits(&mut input);
    let sizes = [usize::from(input.u8()), usize::from(input.u16())];
    let budget = usize::from(input.u16()).max(1);
    let mut bytes = input.rest().to_vec();
    if mends {
        mend_frames(&mut bytes);
    }
    let mut transport = Transport::new_v1(MAGIC, pool());
    let seen = receive(&mut transport, &mut Pieces::new(&bytes, sizes), &limits, budget);
    assert_eq!(seen, expected_plain(&bytes, &limits));
    assert_eq!(transport.protocol(), Protocol::V1);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages = crate::p2p_message::messages();
    let frames = messages.iter().map(|message| {
        let mut payload = DataStream::new();
        message.encode(&mut payload);
        frame(message.command(), payload.as_slice())
    });
    let all: Vec<Vec<u8>> = frames.collect();
    let settings = [[0, 3, 255, 255, 255, 255, 255], [1, 3, 1, 7, 0, 5, 0], [1, 0, 20, 0, 1, 0, 1]];
    settings.iter().map(|settings| [&settings[..], &all.concat()].concat()).collect()
}
