//! Counts and lengths in messages, on both sides of each limit.

use super::*;

fn too_many(command: Command, count: usize, limit: usize) -> Result<Message, MessageError> {
    Err(MessageError::TooMany { command, count: count as u64, limit })
}

/// Count, then as many copies of `entry`.
fn list(count: usize, entry: &[u8]) -> Vec<u8> {
    let mut out = DataStream::new();
    out.write_compact_size(count as u64);
    out.write(&entry.repeat(count));
    out.as_slice().to_vec()
}

#[test]
fn counts_end_where_core_s_do() {
    let lists = [
        (Command::INV, MAX_INVENTORY, 36),
        (Command::GETDATA, MAX_INVENTORY, 36),
        (Command::NOTFOUND, MAX_INVENTORY, 36),
        (Command::HEADERS, MAX_HEADERS, 81),
        (Command::ADDR, MAX_ADDRESSES, 30),
    ];
    for (command, limit, size) in lists {
        let entry = vec![0; size];
        assert!(decoded(command, &list(limit, &entry)).is_ok(), "{command}");
        let above = decoded(command, &list(limit + 1, &entry));
        assert_eq!(above, too_many(command, limit + 1, limit));
    }
    let addrv2 = [&[0; 5][..], &[1, 4, 1, 2, 3, 4], &[0; 2]].concat();
    assert!(decoded(Command::ADDRV2, &list(1_000, &addrv2)).is_ok());
    let above = decoded(Command::ADDRV2, &list(1_001, &addrv2));
    assert_eq!(above, too_many(Command::ADDRV2, 1_001, 1_000));
    for command in [Command::GETHEADERS, Command::GETBLOCKS] {
        let payload = |count| [&[0; 4][..], &list(count, &[0; 32]), &[0; 32]].concat();
        assert!(decoded(command, &payload(101)).is_ok());
        assert_eq!(decoded(command, &payload(102)), too_many(command, 102, 101));
    }
}

/// Else a peer could have room made for what it never sends (B9).
#[test]
fn b9_a_count_without_entries_is_refused_at_once() {
    for (command, limit) in [
        (Command::INV, MAX_INVENTORY),
        (Command::HEADERS, MAX_HEADERS),
        (Command::ADDR, MAX_ADDRESSES),
        (Command::ADDRV2, MAX_ADDRESSES),
    ] {
        let mut out = DataStream::new();
        out.write_compact_size(limit as u64);
        let end = Err(MessageError::Malformed(DecodeError::UnexpectedEnd));
        assert_eq!(decoded(command, out.as_slice()), end);
    }
}

#[test]
fn unknown_addresses_count_and_lead_nowhere() {
    let known = [&[0; 5][..], &[1, 4, 1, 2, 3, 4], &[0x20, 0x8d]].concat();
    let unknown = [&[0; 5][..], &[0xaa, 2, 1, 2], &[0; 2]].concat();
    let entries = [&[3][..], &unknown, &known, &unknown].concat();
    match decoded(Command::ADDRV2, &entries) {
        Ok(Message::AddrV2(entries)) => {
            let told: Vec<String> = entries.iter().map(|entry| entry.address.to_string()).collect();
            assert_eq!(told, ["[::]:0", "1.2.3.4:8333", "[::]:0"]);
        }
        other => panic!("{other:?}"),
    }
    let above = decoded(Command::ADDRV2, &list(1_001, &unknown));
    assert_eq!(above, too_many(Command::ADDRV2, 1_001, 1_000));
}

#[test]
fn a_user_agent_has_at_most_256_bytes() {
    let payload = |len: usize| [&[0; 80][..], &list(len, b"a"), &[0; 5]].concat();
    match decoded(Command::VERSION, &payload(256)) {
        Ok(Message::Version(version)) => assert_eq!(version.user_agent, "a".repeat(256)),
        other => panic!("{other:?}"),
    }
    let above = decoded(Command::VERSION, &payload(257));
    assert_eq!(above, Err(MessageError::UserAgentTooLong));
}

#[test]
fn a_header_may_claim_transactions_that_are_not_there() {
    let payload = [&[2][..], &[1; 80], &[0xfd, 0, 1], &[2; 80], &[0]].concat();
    match decoded(Command::HEADERS, &payload) {
        Ok(Message::Headers(headers)) => assert_eq!(headers.len(), 2),
        other => panic!("{other:?}"),
    }
}

fn request(differences: &[u64]) -> Result<Message, MessageError> {
    let mut out = DataStream::from(&[7; 32][..]);
    out.write_compact_size(differences.len() as u64);
    differences.iter().for_each(|&difference| out.write_compact_size(difference));
    decoded(Command::GETBLOCKTXN, out.as_slice())
}

fn positions(differences: &[u64]) -> Result<Vec<u16>, MessageError> {
    request(differences).map(|message| match message {
        Message::GetBlockTxn(request) => request.positions,
        other => panic!("{other:?}"),
    })
}

/// Core `blockencodings_tests.cpp`, the three `TransactionsRequest` tests.
#[test]
fn core_transactions_request() {
    assert_eq!(positions(&[0, 0, 1, 0]), Ok(vec![0, 1, 3, 4]));
    assert_eq!(positions(&[0xffff]), Ok(vec![0xffff]));
    assert_eq!(positions(&[0x10000]), Err(MessageError::PositionTooLarge));
    let overflow = [0x7000, 0x10000 - 0x7000 - 2, 0];
    assert_eq!(positions(&overflow), Err(MessageError::PositionTooLarge));
    assert_eq!(positions(&overflow[..2]), Ok(vec![0x7000, 0xffff]));
    assert_eq!(positions(&[0; 0x10000]).map(|all| all.len()), Ok(0x10000));
    assert_eq!(positions(&[0; 0x10001]), Err(MessageError::PositionTooLarge));
    assert_eq!(positions(&[0x0200_0000]), Err(MessageError::PositionTooLarge));
    let too_large = Err(MessageError::Malformed(DecodeError::CompactSizeTooLarge));
    assert_eq!(positions(&[0x0200_0001]), too_large);
}

/// The longest request of all, which the transport's limit must let through.
#[test]
fn a_request_for_every_position_fits() {
    let positions = (0..=u16::MAX).collect();
    let request = BlockTransactionsRequest { block_hash: BlockHash::ZERO, positions };
    let payload = encoded(&Message::GetBlockTxn(request));
    assert_eq!(Some(payload.len() as u32), crate::payload_limit(Command::GETBLOCKTXN));
}

fn compact(short_ids: usize, prefilled: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = DataStream::from(&[1; 88][..]);
    out.write(&list(short_ids, &[9; 6]));
    out.write_compact_size(prefilled.len() as u64);
    for (difference, transaction) in prefilled {
        out.write_compact_size(*difference);
        out.write(transaction);
    }
    out.as_slice().to_vec()
}

fn compact_positions(
    short_ids: usize,
    prefilled: &[(u64, Vec<u8>)],
) -> Result<Vec<u16>, MessageError> {
    match decoded(Command::CMPCTBLOCK, &compact(short_ids, prefilled))? {
        Message::CmpctBlock(block) => {
            assert_eq!(block.transaction_count(), short_ids + prefilled.len());
            Ok(block.prefilled_positions)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn positions_of_a_compact_block_must_add_up() {
    let tx = || transaction(1);
    assert_eq!(compact_positions(0, &[(0, tx())]), Ok(vec![0]));
    assert_eq!(compact_positions(3, &[(0, tx()), (1, tx())]), Ok(vec![0, 2]));
    assert_eq!(compact_positions(3, &[(3, tx()), (0, tx())]), Ok(vec![3, 4]));
    assert_eq!(compact_positions(2, &[]), Ok(vec![]));
    let invalid = Err(MessageError::InvalidCompactBlock);
    assert_eq!(compact_positions(0, &[]), invalid, "nothing at all");
    assert_eq!(compact_positions(0, &[(1, tx())]), invalid, "position 0 is nowhere");
    assert_eq!(compact_positions(3, &[(4, tx())]), invalid);
    assert_eq!(compact_positions(3, &[(0, tx()), (4, tx())]), invalid);
    assert_eq!(compact_positions(3, &[(0xffff, tx()), (0xffff, tx())]), invalid);
    assert_eq!(compact_positions(3, &[(0, vec![0; 10])]), invalid, "neither inputs nor outputs");
    let mut without_target = compact(1, &[]);
    without_target[72..76].fill(0);
    let found = decoded(Command::CMPCTBLOCK, &without_target);
    assert_eq!(found, Err(MessageError::InvalidCompactBlock));
    let too_large = Err(MessageError::PositionTooLarge);
    assert_eq!(compact_positions(3, &[(0x1_0000, tx())]), too_large);
}

#[test]
fn a_compact_block_has_at_most_65535_transactions() {
    let tx = || transaction(1);
    assert_eq!(compact_positions(65_534, &[(65_534, tx())]), Ok(vec![65_534]));
    let too_large = Err(MessageError::PositionTooLarge);
    assert_eq!(compact_positions(65_535, &[(0, tx())]), too_large);
    assert_eq!(compact_positions(65_535, &[]), Ok(vec![]));
    assert_eq!(compact_positions(65_536, &[]), too_large);
    let answer = |count| {
        let payload = [&[0; 32][..], &list(count, &transaction(1))].concat();
        decoded(Command::BLOCKTXN, &payload)
    };
    assert!(answer(65_535).is_ok());
    assert_eq!(answer(65_536), Err(MessageError::PositionTooLarge));
}

#[test]
fn a_transaction_that_is_none_is_malformed() {
    let mut broken = transaction(1);
    broken[4] = 0;
    let payload = [&[0; 32][..], &[1], &broken].concat();
    let error = decoded(Command::BLOCKTXN, &payload).expect_err("it is no transaction");
    assert!(matches!(error, MessageError::Malformed(_)));
}
