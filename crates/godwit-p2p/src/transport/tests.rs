use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use godwit_primitives::BlockHash;
use godwit_primitives::sha256::sha256d;
use godwit_stream::{BufferPool, DataStream, PoolLimits};
use proptest::prelude::*;

use super::*;
use crate::MAX_PAYLOAD;

const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
const NO_BLOCK: ReceiveLimits = ReceiveLimits { expects_block: false, expects_compact: false };
const BLOCK: ReceiveLimits = ReceiveLimits { expects_block: true, expects_compact: true };
const ALL: usize = usize::MAX;

fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 8, buffer_bytes: 8 << 20, total_bytes: 32 << 20 })
}

fn transport() -> Transport {
    Transport::new_v1(MAGIC, pool())
}

/// A frame, written by hand.
fn frame(command: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = header(command, payload.len() as u32);
    bytes[20..].copy_from_slice(&sha256d(payload)[..4]);
    bytes.extend_from_slice(payload);
    bytes
}

/// A header that announces `length` bytes, with no proper checksum.
fn header(command: &[u8], length: u32) -> Vec<u8> {
    let mut name = [0; 12];
    name[..command.len()].copy_from_slice(command);
    [&MAGIC[..], &name, &length.to_le_bytes(), &[0; 4]].concat()
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Gives its pieces one read at a time, then would block, or ends.
struct Source {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that were given.
    given: usize,
    ends: bool,
}

impl Source {
    fn new(pieces: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { pieces: pieces.into_iter().collect(), given: 0, ends: false }
    }
}

impl io::Read for Source {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.pieces.front() else {
            return if self.ends { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        };
        if piece.is_empty() {
            self.pieces.pop_front();
            return Err(ErrorKind::Interrupted.into());
        }
        let rest = &piece[self.given..];
        let count = rest.len().min(target.len());
        target[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        if self.given == piece.len() {
            self.pieces.pop_front();
            self.given = 0;
        }
        Ok(count)
    }
}

/// Everything that comes of `bytes`, read as `limits` say.
fn receive_all(bytes: &[u8], limits: &ReceiveLimits) -> Vec<String> {
    let mut transport = transport();
    let mut source = Source::new([bytes.to_vec()]);
    received(&mut transport, &mut source, limits, ALL)
}

fn received(
    transport: &mut Transport,
    source: &mut Source,
    limits: &ReceiveLimits,
    budget: usize,
) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match transport.receive(source, limits, budget) {
            Ok(Receive::Frame(frame)) => {
                let sum = sha256d(frame.payload.unread())[0];
                seen.push(format!("{} {} {sum}", frame.command, frame.payload.len()));
            }
            Ok(Receive::Discarded(Discard { command, bytes, why, .. })) => {
                seen.push(format!("{command} {bytes} {why:?}"));
            }
            Ok(Receive::BudgetUsed) => {}
            Ok(Receive::Pending) => return seen,
            Ok(Receive::Closed) => {
                seen.push("closed".to_owned());
                return seen;
            }
            Err(error) => {
                seen.push(error.to_string());
                return seen;
            }
        }
    }
}

fn mixed_stream() -> Vec<u8> {
    let mut wrong = frame(b"inv", &payload(37));
    wrong[20] ^= 1;
    [
        frame(b"verack", b""),
        frame(b"block", &payload(100_000)),
        frame(b"tx", &payload(20_000)),
        frame(b"getaddr", b""),
        wrong,
        frame(b"pi\x01ng", b"12345678"),
        frame(b"whatever", b""),
        frame(b"ping", b"12345678"),
        frame(b"headers", &payload(162_003)),
    ]
    .concat()
}

#[test]
fn messages_are_cut_out_of_the_stream() {
    let seen = receive_all(&mixed_stream(), &BLOCK);
    let sum = |len| sha256d(&payload(len))[0];
    assert_eq!(
        seen,
        [
            format!("verack 0 {}", sum(0)),
            format!("block 100000 {}", sum(100_000)),
            "tx 20000 Unknown".to_owned(),
            format!("getaddr 0 {}", sum(0)),
            "inv 37 WrongChecksum".to_owned(),
            "ping 8 InvalidCommand".to_owned(),
            "whatever 0 Unknown".to_owned(),
            format!("ping 8 {}", sha256d(b"12345678")[0]),
            format!("headers 162003 {}", sum(162_003)),
        ]
    );
    assert_eq!(receive_all(&mixed_stream(), &NO_BLOCK)[1], "block 100000 UnexpectedBlock");
}

#[test]
fn every_byte_of_checksum_and_payload_counts() {
    let right = frame(b"ping", b"12345678");
    for at in 20..right.len() {
        let mut wrong = right.clone();
        wrong[at] ^= 0x80;
        assert_eq!(receive_all(&wrong, &BLOCK), ["ping 8 WrongChecksum"], "{at}");
    }
}

#[test]
fn byte_by_byte_is_as_good_as_at_once() {
    let bytes = mixed_stream();
    let at_once = receive_all(&bytes, &BLOCK);
    let mut transport = transport();
    let mut source = Source::new(bytes.iter().map(|&byte| vec![byte]));
    assert_eq!(received(&mut transport, &mut source, &BLOCK, ALL), at_once);
    assert_eq!(transport.total_received(), bytes.len() as u64);
    // An interrupted read and one that would block between any two bytes.
    let mut transport = self::transport();
    let mut seen = Vec::new();
    for &byte in &bytes {
        let mut source = Source::new([vec![], vec![byte]]);
        seen.extend(received(&mut transport, &mut source, &BLOCK, ALL));
    }
    assert_eq!(seen, at_once);
}

#[test]
fn the_budget_bounds_what_is_read() {
    let bytes = mixed_stream();
    for budget in [1, 23, 24, 25, 1_000, 70_000] {
        let mut transport = transport();
        let mut source = Source::new([bytes.clone()]);
        let mut before = 0;
        while let Ok(receive) = transport.receive(&mut source, &BLOCK, budget) {
            let read = transport.total_received() - before;
            before = transport.total_received();
            assert!(read <= budget as u64, "{read} > {budget}");
            match receive {
                Receive::Pending => break,
                Receive::BudgetUsed => assert_eq!(read, budget as u64),
                _ => {}
            }
        }
        assert_eq!(before, bytes.len() as u64);
        let mut source = Source::new([bytes.clone()]);
        let seen = received(&mut self::transport(), &mut source, &BLOCK, budget);
        assert_eq!(seen, receive_all(&bytes, &BLOCK));
    }
    let nothing = transport().receive(&mut Source::new([bytes]), &BLOCK, 0);
    assert!(matches!(nothing, Ok(Receive::BudgetUsed)));
}

#[test]
fn the_end_of_the_source_is_told_wherever_it_is() {
    let bytes = frame(b"ping", b"12345678");
    for end in 0..=bytes.len() {
        let mut source = Source { ends: true, ..Source::new([bytes[..end].to_vec()]) };
        let seen = received(&mut transport(), &mut source, &BLOCK, ALL);
        assert_eq!(seen.last().map(String::as_str), Some("closed"), "{end}");
        assert_eq!(seen.len(), if end == bytes.len() { 2 } else { 1 }, "{end}");
    }
}

#[test]
fn another_network_or_protocol_is_refused() {
    let mut bytes = frame(b"version", &payload(86));
    bytes[3] = 0xd8;
    assert_eq!(receive_all(&bytes, &BLOCK), ["wrong network magic f9beb4d8"]);
    let http = b"GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    assert_eq!(receive_all(http, &BLOCK), ["wrong network magic 47455420"]);
}

#[test]
fn an_error_of_the_source_is_handed_on() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(ErrorKind::ConnectionReset.into())
        }
    }
    let error = transport().receive(&mut Broken, &BLOCK, ALL).expect_err("it is broken");
    assert!(
        matches!(error, TransportError::Io(error) if error.kind() == ErrorKind::ConnectionReset)
    );
}

#[test]
fn each_limit_holds_to_the_byte() {
    let limits = [
        ("version", 1_024),
        ("verack", 1_024),
        ("wtxidrelay", 1_024),
        ("sendaddrv2", 1_024),
        ("sendheaders", 1_024),
        ("sendcmpct", 1_024),
        ("feefilter", 1_024),
        ("ping", 1_024),
        ("pong", 1_024),
        ("getaddr", 1_024),
        ("addr", 3 + 1_000 * 30),
        ("addrv2", 3 + 1_000 * (4 + 9 + 1 + 3 + 512 + 2)),
        ("inv", 3 + 50_000 * 36),
        ("getdata", 3 + 50_000 * 36),
        ("notfound", 4_000_000),
        ("getheaders", 4 + 1 + 101 * 32 + 32),
        ("getblocks", 4 + 1 + 101 * 32 + 32),
        ("headers", 3 + 2_000 * 81),
        ("getblocktxn", 32 + 5 + 65_536),
        ("block", 4_000_000),
        ("cmpctblock", 4_000_000),
        ("blocktxn", 4_000_000),
        ("tx", 4_000_000),
        ("mempool", 4_000_000),
        ("whatever", 4_000_000),
        ("\x01", 4_000_000),
    ];
    for (command, limit) in limits {
        let mut transport = transport();
        let mut source = Source::new([header(command.as_bytes(), limit)]);
        let accepted = transport.receive(&mut source, &BLOCK, ALL);
        assert!(matches!(accepted, Ok(Receive::Pending)), "{command}");
        let mut source = Source::new([header(command.as_bytes(), limit + 1), vec![0; 100]]);
        let error = self::transport().receive(&mut source, &BLOCK, ALL).expect_err(command);
        assert!(
            matches!(error, TransportError::TooLarge { bytes, .. } if bytes == limit + 1),
            "{command}"
        );
        assert_eq!(source.pieces.len(), 1, "{command}: the payload is not even read");
    }
    for length in [MAX_PAYLOAD + 1, 0x0200_0001, u32::MAX] {
        assert_eq!(receive_all(&header(b"block", length), &BLOCK).len(), 1);
    }
}

/// Core ignores a `notfound` of more entries than it could have asked for.
#[test]
fn b9_a_notfound_of_more_than_50000_entries_is_passed_over() {
    for (entries, end) in [(50_000, "notfound 1800003 "), (50_001, "notfound 1800039 TooLong")] {
        let payload = [&[0xfd, 0x50, 0xc3][..], &vec![0; entries * 36]].concat();
        let bytes = [frame(b"notfound", &payload), frame(b"ping", &[0; 8])].concat();
        let seen = receive_all(&bytes, &NO_BLOCK);
        assert!(seen[0].starts_with(end) && seen[1].starts_with("ping"), "{seen:?}");
    }
}

#[test]
fn b9_memory_grows_with_received_bytes_only() {
    for (command, length) in [("block", 4_000_000), ("headers", 162_003), ("inv", 1_800_003)] {
        let mut transport = transport();
        let mut source = Source::new([header(command.as_bytes(), length)]);
        assert!(matches!(transport.receive(&mut source, &BLOCK, ALL), Ok(Receive::Pending)));
        assert_eq!(transport.buffered_bytes(), 0, "{command}: announced, nothing sent");
        let mut sent = 0;
        for step in [1, 1, 60_000, 5_534, 1, 30_000, 100_000, 500_000, 900_000] {
            let step = step.min(length as usize - 1 - sent);
            source.pieces.push_back(vec![0; step]);
            assert!(matches!(transport.receive(&mut source, &BLOCK, ALL), Ok(Receive::Pending)));
            sent += step;
            let held = transport.buffered_bytes();
            let bound = (64 * 1024).max(2 * sent);
            assert!(held >= sent && held <= bound, "{command}: {held} held for {sent}");
            assert_eq!(transport.incoming(), Some((Command::new(command), sent, length as usize)));
        }
    }
}

#[test]
fn b9_small_messages_get_no_more_than_they_announce() {
    let mut transport = transport();
    let mut source = Source::new([header(b"ping", 8), vec![1]]);
    assert!(matches!(transport.receive(&mut source, &BLOCK, ALL), Ok(Receive::Pending)));
    assert_eq!(transport.buffered_bytes(), 8);
}

#[test]
fn b9_what_is_dropped_is_never_kept() {
    for command in ["block", "tx", "whatever", "\x01", "mempool", "notfound"] {
        let mut transport = transport();
        let mut source = Source::new([header(command.as_bytes(), 3_000_000), vec![0; 2_999_999]]);
        assert!(matches!(transport.receive(&mut source, &NO_BLOCK, ALL), Ok(Receive::Pending)));
        assert_eq!(transport.buffered_bytes(), 0, "{command}");
        let (_, received, announced) = transport.incoming().expect("it goes on");
        assert_eq!((received, announced), (2_999_999, 3_000_000));
        // No checksum is asked of what nobody looks at.
        source.pieces.push_back(vec![0; 1]);
        let end = transport.receive(&mut source, &NO_BLOCK, ALL);
        assert!(matches!(end, Ok(Receive::Discarded(Discard { bytes: 3_000_000, .. }))));
        assert_eq!(transport.incoming(), None);
    }
}

#[test]
fn a_block_that_was_not_asked_for_is_named_by_its_header() {
    for (command, length, named) in
        [("block", 79, false), ("block", 80, true), ("block", 900, true), ("blocktxn", 900, false)]
    {
        let payload = payload(length);
        let hash = named.then(|| BlockHash::from_bytes(sha256d(&payload[..80])));
        for step in [1, 7, 2_000] {
            let bytes = frame(command.as_bytes(), &payload);
            let mut source = Source::new(bytes.chunks(step).map(<[u8]>::to_vec));
            let end = transport().receive(&mut source, &NO_BLOCK, ALL);
            let Ok(Receive::Discarded(Discard { block, .. })) = end else { panic!("{end:?}") };
            assert_eq!(block, hash, "{command} {length}");
        }
    }
}

#[test]
fn a_block_that_has_begun_is_finished_when_none_is_expected_any_more() {
    let bytes = frame(b"block", &payload(300_000));
    let mut transport = transport();
    let mut source = Source::new([bytes[..100_000].to_vec()]);
    assert!(matches!(transport.receive(&mut source, &BLOCK, ALL), Ok(Receive::Pending)));
    source.pieces.push_back(bytes[100_000..].to_vec());
    let end = transport.receive(&mut source, &NO_BLOCK, ALL);
    assert!(matches!(end, Ok(Receive::Frame(Frame { command: Command::BLOCK, .. }))));
}

#[test]
fn blocks_use_the_pool_and_nothing_else_does() {
    let pool = pool();
    let mut transport = Transport::new_v1(MAGIC, pool.clone());
    let mut source = Source::new([frame(b"headers", &payload(100_000))]);
    received(&mut transport, &mut source, &BLOCK, ALL);
    assert_eq!(pool.idle(), (0, 0));
    source.pieces.push_back(frame(b"block", &payload(1_000_000)));
    let Ok(Receive::Frame(first)) = transport.receive(&mut source, &BLOCK, ALL) else {
        panic!("a whole block was sent");
    };
    let memory = first.payload.as_slice().as_ptr();
    assert_eq!(first.payload.as_slice(), payload(1_000_000));
    drop(first);
    assert_eq!(pool.idle().0, 1);
    // A header alone does not take it.
    let bytes = frame(b"block", &payload(900_000));
    source.pieces.push_back(bytes[..24].to_vec());
    assert!(matches!(transport.receive(&mut source, &BLOCK, ALL), Ok(Receive::Pending)));
    assert_eq!((pool.idle().0, transport.buffered_bytes()), (1, 0));
    source.pieces.push_back(bytes[24..].to_vec());
    let Ok(Receive::Frame(second)) = transport.receive(&mut source, &BLOCK, ALL) else {
        panic!("a whole block was sent");
    };
    assert_eq!(second.payload.as_slice().as_ptr(), memory, "reused and not copied");
    assert_eq!(second.payload.unread(), payload(900_000));
}

/// Takes as much as its script says, call by call.
#[derive(Default)]
struct Sink {
    taken: Vec<u8>,
    script: VecDeque<Result<usize, ErrorKind>>,
    calls: usize,
}

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.script.pop_front().unwrap_or(Ok(usize::MAX))?;
        let count = bytes.len().min(most);
        self.taken.extend_from_slice(&bytes[..count]);
        self.calls += 1;
        Ok(count)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.write(&bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn queue(transport: &mut Transport) -> Vec<u8> {
    let mut expected = Vec::new();
    for (command, len) in [("verack", 0), ("ping", 8), ("block", 70_000), ("getaddr", 0)] {
        // The header of a record in a block file: read before, not sent.
        let mut stream = DataStream::from(&b"12345678"[..]);
        stream.skip(8).expect("8 bytes");
        stream.write(&payload(len));
        transport.send(Command::new(command), stream.into());
        expected.extend(frame(command.as_bytes(), &payload(len)));
    }
    assert_eq!(transport.queued_bytes(), expected.len());
    expected
}

#[test]
fn what_is_sent_is_framed_and_written_at_once() {
    let mut transport = transport();
    let expected = queue(&mut transport);
    let mut sink = Sink::default();
    assert_eq!(transport.write(&mut sink, ALL).expect("it takes all"), Write::Done);
    assert_eq!((sink.calls, sink.taken == expected), (1, true));
    assert_eq!((transport.queued_bytes(), transport.total_sent()), (0, expected.len() as u64));
    assert_eq!(transport.write(&mut sink, 0).expect("nothing to do"), Write::Done);
}

#[test]
fn more_messages_than_one_call_takes_keep_their_order() {
    let mut transport = transport();
    let expected: Vec<u8> = (0..10).flat_map(|_| queue_one_by_one(&mut transport)).collect();
    let mut sink = Sink::default();
    assert_eq!(transport.write(&mut sink, ALL).expect("it takes all"), Write::Done);
    assert_eq!((sink.calls, sink.taken == expected), (3, true));
}

fn queue_one_by_one(transport: &mut Transport) -> Vec<u8> {
    let before = transport.queued_bytes();
    let mut expected = Vec::new();
    for command in ["verack", "ping", "pong", "getaddr"] {
        transport.send(Command::new(command), DataStream::from(command.as_bytes()).into());
        expected.extend(frame(command.as_bytes(), command.as_bytes()));
    }
    assert_eq!(transport.queued_bytes(), before + expected.len());
    expected
}

#[test]
fn b9_parts_of_blocks_are_kept_only_from_whom_they_are_expected() {
    let messages = [&b"block"[..], b"blocktxn", b"cmpctblock"].map(|name| frame(name, &payload(9)));
    let bytes = messages.concat();
    let kept = |expects_block, expects_compact| {
        let seen = receive_all(&bytes, &ReceiveLimits { expects_block, expects_compact });
        assert_eq!(seen.len(), 3);
        [0, 1, 2].map(|place: usize| !seen[place].ends_with("UnexpectedBlock"))
    };
    assert_eq!(kept(false, false), [false, false, false]);
    assert_eq!(kept(true, false), [true, true, false]);
    assert_eq!(kept(false, true), [false, false, true]);
}

#[test]
fn a_full_sink_and_a_used_budget_are_told_apart() {
    let mut transport = transport();
    let expected = queue(&mut transport);
    let script = [Ok(10), Err(ErrorKind::Interrupted), Ok(20), Err(ErrorKind::WouldBlock)];
    let mut sink = Sink { script: script.into(), ..Sink::default() };
    assert_eq!(transport.write(&mut sink, ALL).expect("no error"), Write::Pending);
    assert_eq!(sink.taken.len(), 30);
    assert_eq!(transport.queued_bytes(), expected.len() - 24, "the first message is out");
    assert_eq!(transport.write(&mut sink, 1_000).expect("no error"), Write::BudgetUsed);
    assert_eq!(sink.taken.len(), 1_030);
    sink.script = [Ok(0)].into();
    assert_eq!(transport.write(&mut sink, ALL).expect("no error"), Write::Closed);
    sink.script = [Err(ErrorKind::BrokenPipe)].into();
    let error = transport.write(&mut sink, ALL).expect_err("the script says so");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert_eq!(transport.write(&mut sink, ALL).expect("it takes all"), Write::Done);
    assert!(sink.taken == expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, magic: bool, expected: bool) {
        let bytes = if magic { [&MAGIC[..], &bytes].concat() } else { bytes };
        receive_all(&bytes, if expected { &BLOCK } else { &NO_BLOCK });
    }

    #[test]
    fn what_one_side_writes_the_other_reads(
        messages in prop::collection::vec((0..22usize, 0..2_000usize), 0..20),
        pieces in prop::collection::vec(1..3_000usize, 1..200),
        budget in 1..5_000usize,
    ) {
        let commands = ["block", "headers", "inv", "ping", "tx"];
        let (mut ours, mut theirs) = (transport(), transport());
        let mut expected = Vec::new();
        for (kind, len) in messages {
            let command = commands[kind % commands.len()];
            let len = if command == "ping" { len % 1_000 } else { len };
            ours.send(Command::new(command), DataStream::from(&payload(len)[..]).into());
            expected.push(match command {
                "tx" => format!("tx {len} Unknown"),
                _ => format!("{command} {len} {}", sha256d(&payload(len))[0]),
            });
        }
        let mut sink = Sink { script: pieces.iter().map(|&n| Ok(n)).collect(), ..Sink::default() };
        while ours.write(&mut sink, budget).expect("no error") != Write::Done {}
        let mut rest = &sink.taken[..];
        let cut = pieces.iter().cycle().map_while(|&n| {
            let (piece, after) = rest.split_at(n.min(rest.len()));
            rest = after;
            (!piece.is_empty()).then(|| piece.to_vec())
        });
        let mut source = Source::new(cut);
        prop_assert_eq!(received(&mut theirs, &mut source, &BLOCK, budget), expected);
    }
}
