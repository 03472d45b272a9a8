//! The frame of a message on the wire: network magic, command, length, checksum.
//!
//! Source: Core `protocol.{h,cpp}` `CMessageHeader`, `net.h`.

use std::fmt;

use godwit_stream::PooledStream;

/// Bytes before each payload: magic 4, command 12, length 4, checksum 4.
pub const FRAME_HEADER_SIZE: usize = 24;

/// The longest payload of any message, in bytes (Core `MAX_PROTOCOL_MESSAGE_LENGTH`).
pub const MAX_PAYLOAD: u32 = 4_000_000;

const COMMAND_SIZE: usize = 12;

/// A complete message whose checksum was right.
#[derive(Debug)]
pub struct Frame {
    pub command: Command,
    /// The payload, cursor at its start.
    pub payload: PooledStream,
}

/// A message's name: ASCII, padded with zeros to twelve bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Command([u8; COMMAND_SIZE]);

macro_rules! commands {
    ($($constant:ident $name:literal;)*) => {
        impl Command {
            $(pub const $constant: Self = Self::new($name);)*
        }
    };
}

commands! {
    VERSION "version";
    VERACK "verack";
    WTXIDRELAY "wtxidrelay";
    SENDADDRV2 "sendaddrv2";
    SENDHEADERS "sendheaders";
    SENDCMPCT "sendcmpct";
    FEEFILTER "feefilter";
    PING "ping";
    PONG "pong";
    GETADDR "getaddr";
    ADDR "addr";
    ADDRV2 "addrv2";
    INV "inv";
    GETDATA "getdata";
    NOTFOUND "notfound";
    GETHEADERS "getheaders";
    GETBLOCKS "getblocks";
    HEADERS "headers";
    BLOCK "block";
    CMPCTBLOCK "cmpctblock";
    GETBLOCKTXN "getblocktxn";
    BLOCKTXN "blocktxn";
    TX "tx";
    MEMPOOL "mempool";
    FILTERLOAD "filterload";
    FILTERADD "filteradd";
    FILTERCLEAR "filterclear";
    GETCFILTERS "getcfilters";
    GETCFHEADERS "getcfheaders";
    GETCFCHECKPT "getcfcheckpt";
    CFILTER "cfilter";
    CFHEADERS "cfheaders";
    CFCHECKPT "cfcheckpt";
}

impl Command {
    /// The command with this name.
    ///
    /// # Panics
    ///
    /// When `name` is empty, longer than twelve bytes or not printable ASCII.
    pub const fn new(name: &str) -> Self {
        let name = name.as_bytes();
        assert!(!name.is_empty() && name.len() <= COMMAND_SIZE, "one to twelve bytes");
        let mut bytes = [0; COMMAND_SIZE];
        let mut i = 0;
        while i < name.len() {
            assert!(is_printable(name[i]), "printable ASCII");
            bytes[i] = name[i];
            i += 1;
        }
        Self(bytes)
    }

    /// From the twelve bytes on the wire, valid or not.
    pub const fn from_bytes(bytes: [u8; COMMAND_SIZE]) -> Self {
        Self(bytes)
    }

    /// The twelve bytes on the wire.
    pub const fn to_bytes(self) -> [u8; COMMAND_SIZE] {
        self.0
    }

    /// Whether nothing more is read from a peer after this message until the engine says so
    /// (`NetCommand::ReadOn`): it asks for data that have to be read from disk. Core processes no
    /// further message while `m_getdata_requests` is not empty. (It answers requests for filters at once.)
    pub fn stops_reading(self) -> bool {
        matches!(
            self,
            Self::GETDATA
                | Self::GETBLOCKTXN
                | Self::GETCFILTERS
                | Self::GETCFHEADERS
                | Self::GETCFCHECKPT
        )
    }

    /// Whether it is printable ASCII followed by zeros alone (Core `IsMessageTypeValid`, for which
    /// twelve zeros are valid, too).
    pub fn is_valid(&self) -> bool {
        let (name, padding) = self.0.split_at(self.name_len());
        name.iter().copied().all(is_printable) && padding.iter().all(|&byte| byte == 0)
    }

    /// The name; of an invalid one, the part before the first byte that is not printable ASCII.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().take_while(|&&byte| is_printable(byte)).count();
        std::str::from_utf8(&self.0[..len]).expect("printable ASCII is UTF-8")
    }

    fn name_len(&self) -> usize {
        self.0.iter().position(|&byte| byte == 0).unwrap_or(COMMAND_SIZE)
    }
}

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=0x7e)
}

/// The name as Core logs it.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&sanitized(&self.0[..self.name_len()]))
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({})", self.0.escape_ascii())
    }
}

/// A peer's text without characters that could garble a log or control a terminal (Core
/// `SanitizeString`, `SAFE_CHARS_DEFAULT`).
pub(crate) fn sanitized(text: &[u8]) -> String {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b" .,;-_/:?@()".contains(byte);
    text.iter().copied().filter(safe).map(char::from).collect()
}

/// The 24 bytes before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) magic: [u8; 4],
    pub(crate) command: Command,
    /// Length of the payload in bytes.
    pub(crate) length: u32,
    /// First four bytes of the payload's double SHA-256.
    pub(crate) checksum: [u8; 4],
}

impl FrameHeader {
    pub(crate) fn from_bytes(bytes: &[u8; FRAME_HEADER_SIZE]) -> Self {
        let four = |at: usize| *bytes[at..].first_chunk().expect("inside the header");
        Self {
            magic: four(0),
            command: Command(*bytes[4..].first_chunk().expect("inside the header")),
            length: u32::from_le_bytes(four(16)),
            checksum: four(20),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; FRAME_HEADER_SIZE] {
        let mut bytes = [0; FRAME_HEADER_SIZE];
        bytes[..4].copy_from_slice(&self.magic);
        bytes[4..16].copy_from_slice(&self.command.0);
        bytes[16..20].copy_from_slice(&self.length.to_le_bytes());
        bytes[20..].copy_from_slice(&self.checksum);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(bytes: &[u8; 12]) -> Command {
        Command::from_bytes(*bytes)
    }

    #[test]
    fn a_command_is_printable_and_padded_with_zeros_alone() {
        assert!(command(b"ping\0\0\0\0\0\0\0\0").is_valid());
        assert!(command(b"abcdefghijkl").is_valid());
        assert!(command(b" ~\0\0\0\0\0\0\0\0\0\0").is_valid(), "ends of the range");
        assert!(command(&[0; 12]).is_valid(), "as in Core");
        assert!(!command(b"ping\0x\0\0\0\0\0\0").is_valid());
        assert!(!command(b"pi\x1fg\0\0\0\0\0\0\0\0").is_valid());
        assert!(!command(b"pi\x7fg\0\0\0\0\0\0\0\0").is_valid());
        assert!(!command(b"pi\xffg\0\0\0\0\0\0\0\0").is_valid());
    }

    #[test]
    fn text_of_a_command_is_harmless() {
        assert_eq!(Command::CMPCTBLOCK.as_str(), "cmpctblock");
        assert_eq!(format!("{:>6}|", Command::TX), "    tx|");
        let hostile = command(b"a\x1b[2J\n<b>\0c\0");
        assert_eq!((hostile.as_str(), hostile.to_string().as_str()), ("a", "a2Jb"));
        assert_eq!(format!("{hostile:?}"), r"Command(a\x1b[2J\n<b>\x00c\x00)");
        assert_eq!(command(&[0xff; 12]).as_str(), "");
    }

    #[test]
    fn sanitising_keeps_what_core_keeps() {
        assert_eq!(
            sanitized(b"/Satoshi:29.0.0(a_b; c-d, e?@)/"),
            "/Satoshi:29.0.0(a_b; c-d, e?@)/"
        );
        assert_eq!(sanitized(b"<script>%s\0\xc3\xa4\r\n'\"\\"), "scripts");
    }

    #[test]
    fn a_header_has_its_fields_where_core_has_them() {
        let bytes = *b"\xf9\xbe\xb4\xd9ping\0\0\0\0\0\0\0\0\x08\x01\0\0abcd";
        let header = FrameHeader::from_bytes(&bytes);
        assert_eq!(header.magic, [0xf9, 0xbe, 0xb4, 0xd9]);
        assert_eq!((header.command, header.length), (Command::PING, 0x108));
        assert_eq!(header.checksum, *b"abcd");
        assert_eq!(header.to_bytes(), bytes);
    }
}
