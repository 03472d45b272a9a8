//! The table of the options that concern notifications over ZeroMQ.

use std::ffi::OsStr;

use godwit_api::Topic;
use godwit_program::options::{OptionSpec, values as plain};

use super::{Draft, Godwit, OF_NODE, ZMQ, setting};

/// Largest high-water mark, as in Core, which keeps it in an `int`.
const MAX_HIGH_WATER_MARK: u32 = i32::MAX as u32;

/// In the order in which the help lists them.
pub(super) const OPTIONS: &[OptionSpec<Godwit>] = &[
    publish("zmqpubhashblock", "Publish the hash of each new tip at this address.", address::<0>),
    publish(
        "zmqpubhashtx",
        "Publish at this address the id of each transaction of a block that is connected or disconnected, \
         and of each sent transaction that begins to wait for a block.",
        address::<1>,
    ),
    publish("zmqpubrawblock", "Publish each new tip there, the whole block.", address::<2>),
    publish(
        "zmqpubrawtx",
        "Publish at this address each transaction of a block that is connected or disconnected, and each \
         sent transaction that begins to wait for a block.",
        address::<3>,
    ),
    publish(
        "zmqpubsequence",
        "Publish at this address the hash of each block that is connected (C) or disconnected (D), and the \
         id of each sent transaction that begins (A) to wait for a block, or stops (R) without being in one.",
        address::<4>,
    ),
    mark("zmqpubhashblockhwm", high_water_mark::<0>),
    mark("zmqpubhashtxhwm", high_water_mark::<1>),
    mark("zmqpubrawblockhwm", high_water_mark::<2>),
    mark("zmqpubrawtxhwm", high_water_mark::<3>),
    mark("zmqpubsequencehwm", high_water_mark::<4>),
];

/// Of the topic at a place in their order.
fn address<const TOPIC: usize>(draft: &mut Draft, text: &OsStr) -> Option<()> {
    draft.zmq.addresses.push((Topic::ALL[TOPIC], text.to_str()?.parse().ok()?));
    Some(())
}

fn high_water_mark<const TOPIC: usize>(draft: &mut Draft, text: &OsStr) -> Option<()> {
    let mark = plain::number(text).filter(|mark| *mark <= MAX_HIGH_WATER_MARK)?;
    draft.zmq.marks.push((Topic::ALL[TOPIC], mark));
    Some(())
}

const fn publish(
    name: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Godwit> {
    let expected = "tcp://ADDRESS:PORT, with * for all addresses";
    let every = setting(name, "ADDRESS", expected, help, set);
    OptionSpec { commands: OF_NODE, group: ZMQ, repeats: true, ..every }
}

const fn mark(name: &'static str, set: fn(&mut Draft, &OsStr) -> Option<()>) -> OptionSpec<Godwit> {
    let expected = "a number of messages, up to 2147483647";
    let help = "Let this many of these messages wait for a subscriber, and no more than its part of \
                -memory holds; further ones are dropped for it (default: 1000; 0: only memory counts).";
    let every = setting(name, "N", expected, help, set);
    OptionSpec { commands: OF_NODE, group: ZMQ, ..every }
}
