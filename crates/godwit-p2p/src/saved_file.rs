//! The frame of `peers.dat` and `anchors.dat`: version and magic before the content, a checksum after it. The
//! formats are in `docs/formats.md`.

use std::fmt;

use godwit_primitives::sha256::sha256d;
use godwit_stream::{DataStream, DecodeError, SpanReader};

/// Version of both formats. A reader refuses all others.
const VERSION: u32 = 1;
/// Bytes of the checksum at the end, SHA-256d of all before.
const CHECKSUM_SIZE: usize = 32;

/// Why a file is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedFileError {
    /// It was written by another version of the software.
    UnknownVersion(u32),
    /// It belongs to another network.
    WrongMagic([u8; 4]),
    /// It is damaged: shorter than it must be, or its checksum does not match.
    Damaged,
    /// Its checksum matches but its content makes no sense.
    Inconsistent,
}

impl fmt::Display for SavedFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVersion(version) => {
                write!(f, "its version {version} is not known, only {VERSION}")
            }
            Self::WrongMagic([a, b, c, d]) => {
                write!(f, "it is of another network (magic {a:02x}{b:02x}{c:02x}{d:02x})")
            }
            Self::Damaged => f.write_str("it is damaged (wrong checksum)"),
            Self::Inconsistent => f.write_str("it is inconsistent"),
        }
    }
}

impl std::error::Error for SavedFileError {}

/// The checksum has matched, so only a defect of the writer explains bytes that do not decode.
impl From<DecodeError> for SavedFileError {
    fn from(_: DecodeError) -> Self {
        Self::Inconsistent
    }
}

/// A file of the network with this magic, whose content `write` appends.
pub(crate) fn seal(magic: [u8; 4], write: impl FnOnce(&mut DataStream)) -> Vec<u8> {
    let mut out = DataStream::new();
    out.write_u32(VERSION);
    out.write(&magic);
    write(&mut out);
    out.write(&sha256d(out.as_slice()));
    out.as_slice().to_vec()
}

/// The content of a file of this network.
///
/// # Errors
///
/// All but [`SavedFileError::Inconsistent`].
pub(crate) fn open(bytes: &[u8], magic: [u8; 4]) -> Result<SpanReader<'_>, SavedFileError> {
    let damaged = |_: DecodeError| SavedFileError::Damaged;
    let version = SpanReader::new(bytes).u32().map_err(damaged)?;
    if version != VERSION {
        return Err(SavedFileError::UnknownVersion(version));
    }
    let (content, checksum) =
        bytes.split_last_chunk::<CHECKSUM_SIZE>().ok_or(SavedFileError::Damaged)?;
    if sha256d(content) != *checksum {
        return Err(SavedFileError::Damaged);
    }
    let mut reader = SpanReader::new(content);
    reader.skip(size_of::<u32>())?;
    let found = reader.array()?;
    if found != magic {
        return Err(SavedFileError::WrongMagic(found));
    }
    Ok(reader)
}
