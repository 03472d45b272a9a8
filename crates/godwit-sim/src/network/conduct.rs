//! The conduct of a peer, right or wrong.

use std::sync::Arc;
use std::time::Duration;

use godwit_p2p::{AddressEntry, Services};

use super::branch::{Branch, View};

/// How a new tip is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announce {
    /// `inv`.
    Inventory,
    /// `headers` (BIP130), once the node has asked for that.
    Headers,
    /// `cmpctblock` (BIP152), where the node has asked for that; else `headers`.
    Compact,
}

/// The answer to `getheaders`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderConduct {
    /// The headers that the peer has.
    Serve,
    /// Nothing.
    Silent,
    /// Headers, the last of which does not meet its target.
    WithoutWork,
    /// Headers with one missing in the middle.
    Gap,
    /// More than 2,000 headers in a message.
    TooMany,
    /// Headers whose parents nobody knows, again and again.
    Unconnected,
    /// Short forks of the chain, different ones each time; each header meets its own target.
    LowWork,
    /// Full messages without end, of a chain that starts near genesis.
    Endless,
    /// The headers that the peer has, at this many bytes a second.
    Dribble(u64),
    /// The headers that the peer has, this many milliseconds late.
    Late(u64),
}

/// The answer to `getdata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockConduct {
    /// The blocks that the peer has; `notfound` for the rest.
    Serve,
    /// Nothing (B4).
    Silent,
    /// Blocks, at this many bytes a second (B4).
    Dribble(u64),
    /// All but the first that was asked for (B4).
    WithholdFirst,
    /// All but the tip.
    WithholdLast,
    /// `notfound` for everything (B6).
    NotFound,
    /// Another block than was asked for (B6).
    Other,
    /// The requested blocks, between blocks that nobody asked for (B6).
    Unrequested,
    /// The block with transactions repeated: same hash, other contents (CVE-2012-2459, A2).
    Mutated,
    /// The block with one bit flipped behind its header (B20).
    BitFlipped,
    /// Half of the message, then silence (B9).
    Truncated,
}

/// How a peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// Unencrypted; the peer understands nothing else.
    Plain,
    /// Encrypted (BIP324). Bytes that are not a message, or only pretend to be one, are sent as they are
    /// between packets.
    Encrypted,
    /// A key, then bytes in which the node never finds the garbage's end (B16).
    Garbage,
}

/// What a peer sends unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// `inv` of 50,000 blocks that do not exist (B7).
    Inventory,
    /// `inv` of transactions (B12).
    Transactions,
    /// 1,000 addresses (B10).
    Addresses,
    /// `getdata` of 50,000 unknown blocks (B8).
    GetData,
    /// `getdata` of existing blocks, whose answers are never read (B7).
    GetDataUnread,
    /// Such requests for blocks without witnesses (B7).
    StrippedUnread,
    /// `getheaders` from genesis, whose answers are never read (B7).
    GetHeadersUnread,
    /// Headers that the node already has.
    Headers,
    /// A frame's header that announces 4 MB, and a little of the payload (B9).
    Announced,
    /// A message above the limit of its kind.
    Oversized,
    /// Bytes of another network.
    WrongMagic,
    /// Random bytes.
    Garbage,
    /// A message that ends early.
    Truncated,
    /// A wrong checksum.
    WrongChecksum,
    /// `inv` with more entries than allowed.
    TooManyEntries,
    /// Pings.
    Pings,
    /// Messages of unknown kinds.
    Unknown,
}

/// Everything that characterises a peer.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// Name for the trace.
    pub name: &'static str,
    /// The peer keeps the protocol: the node must never punish it.
    pub honest: bool,
    /// Services that it claims.
    pub services: Services,
    /// User agent that it claims.
    pub user_agent: String,
    /// Seconds by which its clock is wrong.
    pub clock_error: i64,
    /// The chain that it has.
    pub view: View,
    /// How it announces a new tip.
    pub announce: Announce,
    /// How it answers `getheaders`.
    pub headers: HeaderConduct,
    /// How it answers `getdata`.
    pub blocks: BlockConduct,
    /// What it sends unasked, how many times in a row, and how long it waits between.
    pub noise: Option<(Noise, u32, Duration)>,
    /// Time before each answer.
    pub think: Duration,
    /// It leaves after a random time in this range.
    pub leaves: Option<(Duration, Duration)>,
    /// It completes no handshake.
    pub mute: bool,
    /// How it speaks.
    pub speech: Speech,
    /// Addresses for `getaddr`.
    pub gossip: Arc<Vec<AddressEntry>>,
}

impl Conduct {
    /// A good peer with that chain.
    pub fn honest(view: View) -> Self {
        Self {
            name: "honest",
            honest: true,
            services: Services::NETWORK | Services::WITNESS | Services::NETWORK_LIMITED,
            user_agent: "/Satoshi:28.0.0/".to_owned(),
            clock_error: 0,
            view,
            announce: Announce::Headers,
            headers: HeaderConduct::Serve,
            blocks: BlockConduct::Serve,
            noise: None,
            think: Duration::from_millis(1),
            leaves: None,
            mute: false,
            speech: Speech::Plain,
            gossip: Arc::default(),
        }
    }

    /// A good peer with always the same chain.
    pub fn honest_with(branch: &Arc<Branch>) -> Self {
        Self::honest(View::constant(Arc::clone(branch)))
    }

    /// A peer with that chain which is not good.
    pub fn hostile(name: &'static str, view: View) -> Self {
        Self { name, honest: false, ..Self::honest(view) }
    }

    /// The same peer, answering `getheaders` in another way.
    pub fn with_headers(self, headers: HeaderConduct) -> Self {
        Self { headers, ..self }
    }

    /// The same peer, answering `getdata` in another way.
    pub fn with_blocks(self, blocks: BlockConduct) -> Self {
        Self { blocks, ..self }
    }

    /// The same peer, sending `count` of these every `pause`.
    pub fn with_noise(self, noise: Noise, count: u32, pause: Duration) -> Self {
        Self { noise: Some((noise, count, pause)), ..self }
    }

    /// The same peer, speaking in another way.
    pub fn speaking(self, speech: Speech) -> Self {
        Self { speech, ..self }
    }

    /// Whether the peer reads what the node writes.
    pub(super) fn reads(&self) -> bool {
        let unread = |noise: &Noise| {
            let unread = [Noise::GetDataUnread, Noise::StrippedUnread, Noise::GetHeadersUnread];
            unread.contains(noise)
        };
        !self.noise.as_ref().is_some_and(|(noise, _, _)| unread(noise))
    }
}
