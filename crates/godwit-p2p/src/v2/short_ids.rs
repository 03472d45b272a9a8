//! Names of messages inside a packet: one byte, or a zero and twelve bytes as in v1.
//!
//! Source: BIP324 "Message types", Core `net.cpp` `V2_MESSAGE_IDS`.

use crate::frame::Command;

/// Longest name of a message in a packet, in bytes: a zero and the twelve bytes of v1.
pub(crate) const MAX_NAME_SIZE: usize = 13;

/// The command of each one-byte name, from 1 on; `None` where none is defined.
const SHORT_IDS: [Option<Command>; 37] = [
    Some(Command::ADDR),
    Some(Command::BLOCK),
    Some(Command::BLOCKTXN),
    Some(Command::CMPCTBLOCK),
    Some(Command::FEEFILTER),
    Some(Command::FILTERADD),
    Some(Command::FILTERCLEAR),
    Some(Command::FILTERLOAD),
    Some(Command::GETBLOCKS),
    Some(Command::GETBLOCKTXN),
    Some(Command::GETDATA),
    Some(Command::GETHEADERS),
    Some(Command::HEADERS),
    Some(Command::INV),
    Some(Command::MEMPOOL),
    Some(Command::new("merkleblock")),
    Some(Command::NOTFOUND),
    Some(Command::PING),
    Some(Command::PONG),
    Some(Command::SENDCMPCT),
    Some(Command::TX),
    Some(Command::GETCFILTERS),
    Some(Command::new("cfilter")),
    Some(Command::GETCFHEADERS),
    Some(Command::new("cfheaders")),
    Some(Command::GETCFCHECKPT),
    Some(Command::new("cfcheckpt")),
    Some(Command::ADDRV2),
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    Some(Command::new("feature")),
];

/// A message's name as it is found at the start of a packet's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// A command, which need not be valid, and the length of its name in bytes.
    Command(Command, usize),
    /// One byte without meaning, or fewer bytes than a name has.
    Unknown,
}

/// Reads the name at the start of `contents`, which must be complete or longer than any name.
pub(crate) fn parse_name(contents: &[u8]) -> Name {
    match contents.split_first() {
        Some((0, rest)) => match rest.first_chunk() {
            Some(name) => Name::Command(Command::from_bytes(*name), MAX_NAME_SIZE),
            None => Name::Unknown,
        },
        Some((id, _)) => match SHORT_IDS.get(usize::from(*id) - 1) {
            Some(Some(command)) => Name::Command(*command, 1),
            _ => Name::Unknown,
        },
        None => Name::Unknown,
    }
}

/// Writes the name of `command` to the front of `target` and returns its length.
pub(crate) fn write_name(command: Command, target: &mut [u8; MAX_NAME_SIZE]) -> usize {
    match SHORT_IDS.iter().position(|known| *known == Some(command)) {
        Some(index) => {
            target[0] = index as u8 + 1;
            1
        }
        None => {
            target[0] = 0;
            target[1..].copy_from_slice(&command.to_bytes());
            MAX_NAME_SIZE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(command: Command) -> Vec<u8> {
        let mut target = [0xff; MAX_NAME_SIZE];
        let len = write_name(command, &mut target);
        target[..len].to_vec()
    }

    #[test]
    fn names_are_the_bip_s() {
        let table = [(Command::ADDR, 1), (Command::BLOCK, 2), (Command::PING, 18)];
        for (command, id) in table.into_iter().chain([(Command::ADDRV2, 28)]) {
            assert_eq!(written(command), [id], "{command}");
        }
        assert_eq!(written(Command::new("feature")), [37]);
        assert_eq!(written(Command::VERSION), b"\0version\0\0\0\0\0");
        assert_eq!(written(Command::new("abcdefghijkl")), b"\0abcdefghijkl");
    }

    #[test]
    fn every_name_is_read_as_it_was_written() {
        let long = [Command::VERACK, Command::from_bytes([0xff; 12]), Command::from_bytes([0; 12])];
        for command in SHORT_IDS.into_iter().flatten().chain(long) {
            let mut contents = written(command);
            let len = contents.len();
            contents.extend_from_slice(b"payload");
            assert_eq!(parse_name(&contents), Name::Command(command, len));
        }
    }

    #[test]
    fn what_is_no_name_is_found() {
        for contents in [&[][..], &[0; 12], &[29, 1, 2], &[36], &[38], &[255]] {
            assert_eq!(parse_name(contents), Name::Unknown, "{contents:?}");
        }
        assert_eq!(parse_name(&[0; 13]), Name::Command(Command::from_bytes([0; 12]), 13));
    }
}
