//! A peer that offers one block, whatever is in it, or asks for many. It shares no code with godwit's own
//! protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use godwit_primitives::sha256::sha256d;
use godwit_sim::miner::REGTEST_MAGIC;

use super::LIMIT;

/// The protocol version of Bitcoin Core since wtxidrelay (BIP339).
const VERSION: i32 = 70_016;
/// NODE_NETWORK and NODE_WITNESS: blocks are only taken from peers that have them whole.
const SERVICES: u64 = 1 | 8;
/// MSG_BLOCK of an inventory.
const BLOCK: u32 = 2;
/// MSG_WITNESS_FLAG of an inventory (BIP144).
const WITNESS: u32 = 1 << 30;
/// Largest payload of any message.
const MAX_PAYLOAD: usize = 4_000_000;

/// What a node says about filters to one request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answers {
    /// Names and payloads.
    pub(super) messages: Vec<(String, Vec<u8>)>,
    /// It closed the connection.
    pub(super) ended: bool,
}

/// A connection to a node, behind the handshake.
pub(super) struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Connects to a node; `height` is what this peer claims to have.
    pub(super) fn connect(port: u16, height: u32) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the node listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a time is not zero");
        stream.set_write_timeout(Some(LIMIT)).expect("a time is not zero");
        let mut peer = Self { stream };
        peer.send("version", &version(height));
        let (mut has_version, mut has_verack) = (false, false);
        while !(has_version && has_verack) {
            let (command, _) = peer.receive().expect("the node greets");
            match command.as_str() {
                "version" => {
                    has_version = true;
                    peer.send("verack", &[]);
                }
                "verack" => has_verack = true,
                _ => {}
            }
        }
        peer
    }

    /// Announces a block, and sends header and block when it is asked for them.
    pub(super) fn deliver(&mut self, block: &[u8]) {
        let hash = sha256d(&block[..80]);
        let mut inventory = vec![1];
        inventory.extend(BLOCK.to_le_bytes());
        inventory.extend(hash);
        self.send("inv", &inventory);
        loop {
            let (command, payload) = self.receive().expect("the node asks for the block");
            match command.as_str() {
                "getheaders" => {
                    let mut headers = vec![1];
                    headers.extend(&block[..80]);
                    headers.push(0);
                    self.send("headers", &headers);
                }
                "getdata" if names(&payload, &hash) => {
                    self.send("block", block);
                    return;
                }
                "ping" => self.send("pong", &payload),
                _ => {}
            }
        }
    }

    /// Sends the headers of a few blocks.
    pub(super) fn headers(&mut self, blocks: &[Vec<u8>]) {
        let mut headers = vec![u8::try_from(blocks.len()).expect("few")];
        for block in blocks {
            headers.extend(&block[..80]);
            headers.push(0);
        }
        self.send("headers", &headers);
    }

    /// Asks for blocks, with witness, in one message.
    pub(super) fn ask_for(&mut self, blocks: &[Vec<u8>]) {
        let count = u16::try_from(blocks.len()).expect("no more than fit a message");
        assert!(count >= 0xfd, "its compact size is three bytes");
        let mut inventory = vec![0xfd];
        inventory.extend(count.to_le_bytes());
        for block in blocks {
            inventory.extend((BLOCK | WITNESS).to_le_bytes());
            inventory.extend(sha256d(&block[..80]));
        }
        self.send("getdata", &inventory);
    }

    /// The next block that the node sends; whatever else it says is passed over, but for `notfound`.
    #[track_caller]
    pub(super) fn next_block(&mut self) -> Vec<u8> {
        loop {
            let (command, payload) = self.receive().expect("the node sends blocks");
            match command.as_str() {
                "block" => return payload,
                "notfound" => panic!("the node says that it has not what it has"),
                "ping" => self.send("pong", &payload),
                _ => {}
            }
        }
    }

    /// Sends a message; the answers of these names until one of another name that has to come: the `pong`
    /// that is asked for behind it, or the end of the connection.
    pub(super) fn answers(&mut self, command: &str, payload: &[u8]) -> Answers {
        self.send(command, payload);
        self.send("ping", &[5; 8]);
        let mut messages = Vec::new();
        loop {
            match self.receive() {
                None => return Answers { messages, ended: true },
                Some((name, _)) if name == "pong" => return Answers { messages, ended: false },
                Some((name, payload)) if name == "ping" => self.send("pong", &payload),
                Some((name, payload)) if name.starts_with("cf") => messages.push((name, payload)),
                Some(_) => {}
            }
        }
    }

    /// Hashes of the blocks that the node has announced by now.
    #[track_caller]
    pub(super) fn announced(&mut self) -> Vec<[u8; 32]> {
        self.send("ping", &[6; 8]);
        let mut announced = Vec::new();
        loop {
            let (command, payload) = self.receive().expect("the node keeps the connection");
            match command.as_str() {
                "pong" => return announced,
                "ping" => self.send("pong", &payload),
                "inv" => announced.extend(
                    payload[1..]
                        .chunks_exact(36)
                        .filter(|entry| entry[..4] == BLOCK.to_le_bytes())
                        .map(|entry| <[u8; 32]>::try_from(&entry[4..]).expect("32 bytes")),
                ),
                "headers" | "cmpctblock" => panic!("it was asked for no {command}"),
                _ => {}
            }
        }
    }

    /// Waits until the node announces this block.
    #[track_caller]
    pub(super) fn until_announced(&mut self, block: &[u8]) {
        let hash = sha256d(&block[..80]);
        loop {
            let (command, payload) = self.receive().expect("the node keeps the connection");
            match command.as_str() {
                "ping" => self.send("pong", &payload),
                "inv" if names(&payload, &hash) => return,
                _ => {}
            }
        }
    }

    /// Waits until the node closes the connection.
    #[track_caller]
    pub(super) fn expect_disconnect(mut self) {
        while let Some((command, payload)) = self.receive() {
            if command == "ping" {
                self.send("pong", &payload);
            }
        }
    }

    fn send(&mut self, command: &str, payload: &[u8]) {
        let mut message = REGTEST_MAGIC.to_vec();
        message.extend(command.as_bytes());
        message.resize(16, 0);
        let length = u32::try_from(payload.len()).expect("a message is small");
        message.extend(length.to_le_bytes());
        message.extend(&sha256d(payload)[..4]);
        message.extend(payload);
        match self.stream.write_all(&message) {
            // The node may have left; the next receive notices.
            Err(error)
                if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {}
            result => result.expect("the node reads"),
        }
    }

    /// The next message; `None` when the node has closed the connection.
    #[track_caller]
    fn receive(&mut self) -> Option<(String, Vec<u8>)> {
        let mut header = [0; 24];
        match self.stream.read_exact(&mut header) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                return None;
            }
            result => result.expect("the node says something or leaves"),
        }
        assert_eq!(header[..4], REGTEST_MAGIC);
        let command = String::from_utf8_lossy(&header[4..16]).trim_end_matches('\0').to_owned();
        let length = u32::from_le_bytes(header[16..20].try_into().expect("four bytes")) as usize;
        assert!(length <= MAX_PAYLOAD, "{command} of {length} bytes");
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).expect("the node sends whole messages");
        assert_eq!(header[20..], sha256d(&payload)[..4], "checksum of {command}");
        Some((command, payload))
    }
}

/// Whether a `getdata` or an `inv` of less than 253 entries names the whole block.
fn names(payload: &[u8], hash: &[u8; 32]) -> bool {
    payload[1..].chunks_exact(36).any(|entry| {
        let kind = u32::from_le_bytes(entry[..4].try_into().expect("four bytes"));
        kind & !WITNESS == BLOCK && entry[4..] == hash[..]
    })
}

fn version(height: u32) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is not 1970").as_secs();
    let mut payload = VERSION.to_le_bytes().to_vec();
    payload.extend(SERVICES.to_le_bytes());
    payload.extend(now.to_le_bytes());
    // Receiver and sender: services, address, port; nobody looks at them.
    payload.extend([0; 2 * 26]);
    // A nonce other than the node's own.
    payload.extend(now.to_be_bytes());
    payload.extend(b"\x06/liar/");
    payload.extend(height.to_le_bytes());
    // No transactions, please.
    payload.push(0);
    payload
}
