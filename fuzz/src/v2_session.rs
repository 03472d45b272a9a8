//! Two encrypted transports whose bytes somebody changes on the way: each side receives what the other
//! has sent, in order, up to the first change, and nothing else.

use std::mem;

use godwit_p2p::{Command, Protocol, Transport};
use godwit_stream::DataStream;

use crate::input::Input;
use crate::source::Pieces;
use crate::transport::{ALL, MAGIC, Seen, pool, receive, secrets, written};

/// Sent at once, so that keys change, which they do after 224 packets.
const BURST: usize = 100;

/// Beyond this an input says nothing new.
const MAX_STEPS: usize = 64;

const COMMANDS: &[Command] =
    &[Command::PING, Command::BLOCK, Command::INV, Command::VERSION, Command::GETDATA];

/// One direction of a connection.
#[derive(Default)]
struct Direction {
    /// On the way.
    bytes: Vec<u8>,
    sent: Vec<Seen>,
    received: Vec<Seen>,
    /// What is on the way, or was, is not what was sent.
    changed: bool,
    /// The receiver has given up.
    ended: bool,
}

impl Direction {
    fn send(&mut self, from: &mut Transport, command: Command, payload: Vec<u8>) {
        from.send(command, DataStream::from(&payload[..]).into());
        self.sent.push(Seen::Frame(command, payload));
    }

    /// Lets some of what is on the way arrive. A changed key ends the connection for both sides, so an
    /// error is one when nothing was `changed` in either direction.
    fn deliver(&mut self, to: &mut Transport, count: usize, sizes: [usize; 2], changed: bool) {
        let rest = self.bytes.split_off(count.min(self.bytes.len()));
        let bytes = mem::replace(&mut self.bytes, rest);
        if self.ended {
            return;
        }
        for seen in receive(to, &mut Pieces::new(&bytes, sizes), &ALL, usize::MAX) {
            if let Seen::Error(error) = &seen {
                assert!(changed, "{error}, though nothing was changed");
                self.ended = true;
            } else {
                self.received.push(seen);
            }
        }
        assert!(self.sent.starts_with(&self.received), "something else than what was sent");
    }

    fn change(&mut self, input: &mut Input<'_>) {
        let (place, mask) = (usize::from(input.u16()), input.u8());
        if let Some(byte) = self.bytes.get_mut(place) {
            *byte ^= mask;
            self.changed |= mask != 0;
        }
    }
}

/// Lengths of garbage, sizes of pieces, then steps: who does it, what, how much.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let [first, second] = [(); 2].map(|()| usize::from(input.u16()) % 4_096);
    let sizes = [usize::from(input.u8()), usize::from(input.u16())];
    let initiator = Transport::new_v2_initiator(MAGIC, pool(), secrets(1, first));
    let responder = Transport::new_v2_responder(MAGIC, pool(), secrets(2, second));
    let mut sides = [initiator, responder].map(|side| side.expect("locked memory"));
    let mut ways = [Direction::default(), Direction::default()];
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        step(&mut input, &mut sides, &mut ways, sizes);
    }
    // What is still on the way arrives.
    for _ in 0..4 {
        for from in [0, 1] {
            let sent = written(&mut sides[from]);
            ways[from].bytes.extend(sent);
            let changed = ways.iter().any(|way| way.changed);
            ways[from].deliver(&mut sides[1 - from], usize::MAX, sizes, changed);
        }
    }
    if ways.iter().all(|way| !way.changed) {
        ways.iter().for_each(|way| assert_eq!(way.received, way.sent));
        let [ours, theirs] = sides.map(|side| side.protocol());
        assert_eq!(ours, theirs);
        assert!(matches!(ours, Protocol::V2 { .. }), "{ours}");
    }
}

fn step(
    input: &mut Input<'_>,
    sides: &mut [Transport; 2],
    ways: &mut [Direction; 2],
    sizes: [usize; 2],
) {
    let what = input.u8();
    let from = usize::from(what & 1);
    let changed = ways.iter().any(|way| way.changed);
    let way = &mut ways[from];
    match what >> 1 & 3 {
        0 => {
            let command = *input.choice(COMMANDS);
            let length = usize::from(input.u16()) % 1_025;
            way.send(&mut sides[from], command, vec![what; length]);
        }
        1 => (0..BURST).for_each(|n| way.send(&mut sides[from], Command::PING, vec![n as u8; 8])),
        2 => way.deliver(&mut sides[1 - from], usize::from(input.u16()), sizes, changed),
        _ => way.change(input),
    }
    way.bytes.extend(written(&mut sides[from]));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let start = [100, 0, 200, 0, 255, 255, 255];
    let arrive = |from: u8| [4 | from, 255, 255];
    let meet = [&arrive(0)[..], &[1, 0, 8, 0], &arrive(1), &[0, 1, 0, 4], &arrive(0)].concat();
    let keys_change = [&[2, 3, 2, 2][..], &arrive(0), &arrive(1), &[3, 3], &arrive(1)].concat();
    let bit_of_a_packet = [&[0, 1, 0, 4][..], &[6, 40, 0, 4]].concat();
    let bit_of_a_key = [6, 20, 0, 128];
    [
        [&start[..], &meet].concat(),
        [&start[..], &meet, &keys_change].concat(),
        [&start[..], &meet, &bit_of_a_packet, &arrive(0)].concat(),
        [&start[..], &[0, 0, 8, 0], &bit_of_a_key, &arrive(0), &arrive(1)].concat(),
        [&[0, 0, 0, 0, 1, 3, 0][..], &meet, &keys_change].concat(),
    ]
    .to_vec()
}
