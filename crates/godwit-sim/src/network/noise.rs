//! Messages that peers send unasked.

use std::sync::OnceLock;
use std::time::Duration;

use godwit_p2p::{
    AddressEntry, Command, Host, Inventory, InventoryKind, Locator, Message, NetAddress, Services,
};
use godwit_primitives::BlockHash;
use godwit_primitives::sha256::sha256d;
use godwit_stream::DataStream;

use super::conduct::Noise;
use super::out::{Out, Prepared};
use super::session::Session;
use crate::rng::Rng;

/// Entries of a large `inv` or `getdata` (Core `MAX_INV_SZ`).
const MAX_INVENTORY: usize = 50_000;
/// Addresses in a message (Core `MAX_ADDR_TO_SEND`).
const MAX_ADDRESSES: usize = 1_000;
/// Length that a message announces at most (Core `MAX_PROTOCOL_MESSAGE_LENGTH`).
const MAX_PAYLOAD: u32 = 4_000_000;

impl Session {
    pub(super) fn make_noise(&mut self, now: Duration) {
        let Some((noise, count, pause)) = self.conduct.noise else { return };
        if self.next_noise.is_none_or(|at| at > now) {
            return;
        }
        self.next_noise = Some(now + pause);
        // A node that does not take the last messages gets no new ones: the test's memory has to be bounded,
        // too.
        if self.is_backed_up() {
            return;
        }
        for _ in 0..count {
            let out = self.noise(now, noise);
            self.answer(now, out);
        }
    }

    fn noise(&mut self, now: Duration, noise: Noise) -> Out {
        let chain = self.chain(now);
        let rng = &mut self.rng;
        let message = match noise {
            Noise::Inventory => return Out::Prepared(flood(&INVENTORIES, rng)),
            Noise::Transactions => Message::Inv(unknown(InventoryKind::WTX, 100, rng)),
            Noise::Addresses => {
                Message::Addr(addresses(rng, self.conduct.view.at(now).tip().header.time))
            }
            Noise::GetData => return Out::Prepared(flood(&REQUESTS, rng)),
            Noise::GetDataUnread => {
                let blocks = chain.blocks().iter();
                let entry = |hash| Inventory::block(InventoryKind::WITNESS_BLOCK, hash);
                Message::GetData(blocks.map(|block| entry(block.hash)).collect())
            }
            Noise::StrippedUnread => {
                let blocks = chain.blocks().iter();
                let entry = |hash| Inventory::block(InventoryKind::BLOCK, hash);
                Message::GetData(blocks.map(|block| entry(block.hash)).collect())
            }
            Noise::GetHeadersUnread => Message::GetHeaders(Locator {
                hashes: vec![chain.at(0).expect("genesis").hash],
                stop: BlockHash::ZERO,
            }),
            Noise::Headers => {
                let all = chain.blocks().iter().skip(1).take(2_000);
                Message::Headers(all.map(|block| block.header).collect())
            }
            Noise::TooManyEntries => return Out::Prepared(flood(&TOO_MANY, rng)),
            Noise::Pings => Message::Ping(Some(rng.next_u64())),
            other => return raw(other, rng),
        };
        Out::Message(message)
    }
}

/// Large messages of one kind, made once: drawing, encoding and hashing new ones each time was nearly all of
/// the work of a run with a peer that floods the node.
struct Floods {
    command: Command,
    kind: InventoryKind,
    entries: usize,
    made: [OnceLock<Prepared>; FLOODS],
}

/// Number of different messages of a kind.
const FLOODS: usize = 8;

static INVENTORIES: Floods = Floods::new(Command::INV, InventoryKind::BLOCK, MAX_INVENTORY);
static REQUESTS: Floods =
    Floods::new(Command::GETDATA, InventoryKind::WITNESS_BLOCK, MAX_INVENTORY);
static TOO_MANY: Floods = Floods::new(Command::INV, InventoryKind::BLOCK, MAX_INVENTORY + 1);

impl Floods {
    const fn new(command: Command, kind: InventoryKind, entries: usize) -> Self {
        Self { command, kind, entries, made: [const { OnceLock::new() }; FLOODS] }
    }

    fn make(&self, n: usize) -> Prepared {
        let entries = unknown(self.kind, self.entries, &mut Rng::new(n as u64));
        let mut payload = DataStream::new();
        match self.command {
            Command::INV => Message::Inv(entries).encode(&mut payload),
            _ => Message::GetData(entries).encode(&mut payload),
        }
        let payload = payload.as_slice().to_vec();
        let [a, b, c, d, ..] = sha256d(&payload);
        Prepared { command: self.command, payload, checksum: [a, b, c, d] }
    }
}

/// One of the messages. Draws as much randomness as making a new one would, so that a seed's run stays what
/// it was when each message was new.
fn flood(floods: &'static Floods, rng: &mut Rng) -> &'static Prepared {
    let mut hash = [0; 32];
    (0..floods.entries).for_each(|_| rng.fill(&mut hash));
    let n = usize::from(hash[0]) % FLOODS;
    floods.made[n].get_or_init(|| floods.make(n))
}

/// Noise that is not a message.
fn raw(noise: Noise, rng: &mut Rng) -> Out {
    let random = |rng: &mut Rng, len| {
        let mut bytes = vec![0; len];
        rng.fill(&mut bytes);
        bytes
    };
    match noise {
        Noise::Announced => {
            let payload = random(rng, 100);
            Out::Forged { command: Command::CMPCTBLOCK, announced: MAX_PAYLOAD, payload }
        }
        Noise::Oversized => {
            let payload = random(rng, 2_000);
            Out::Forged { command: Command::PING, announced: 2_000, payload }
        }
        Noise::WrongMagic => {
            let mut bytes = vec![0xf9, 0xbe, 0xb4, 0xd9];
            bytes.extend(random(rng, 60));
            Out::Raw(bytes)
        }
        Noise::Truncated => {
            let mut payload = DataStream::new();
            payload.write_compact_size(10);
            payload.write(&random(rng, 50));
            Out::Payload(Command::INV, payload.as_slice().to_vec())
        }
        Noise::WrongChecksum => {
            let payload = random(rng, 200);
            // The checksum is that of all 200 bytes, the length says 100.
            Out::Forged { command: Command::new("ping"), announced: 100, payload }
        }
        Noise::Unknown => Out::Payload(Command::new("nonsense"), random(rng, 3_000)),
        _ => {
            let len = rng.between(1, 5_000) as usize;
            Out::Raw(random(rng, len))
        }
    }
}

fn unknown(kind: InventoryKind, count: usize, rng: &mut Rng) -> Vec<Inventory> {
    let entry = |_| {
        let mut hash = [0; 32];
        rng.fill(&mut hash);
        Inventory { kind, hash }
    };
    (0..count).map(entry).collect()
}

/// Routable addresses at which nobody listens.
fn addresses(rng: &mut Rng, time: u32) -> Vec<AddressEntry> {
    let entry = |_| AddressEntry {
        time,
        services: Services::NETWORK | Services::WITNESS,
        address: NetAddress::new(
            Host::Ipv4([rng.between(60, 90) as u8, rng.next_u64() as u8, rng.next_u64() as u8, 1]),
            18_444,
        ),
    };
    (0..MAX_ADDRESSES).map(entry).collect()
}
