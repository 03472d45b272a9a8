//! Parses the path of a request. It does no I/O, so that tests can try any text on it.
//!
//! The parts of a path are checked in Core's order, so that of two mistakes both programs report the same
//! one.

use std::str::FromStr;

use godwit_primitives::{BlockHash, OutPoint, Txid};
use godwit_stream::{DataStream, DecodeError, SpanReader};

/// Headers at once (Core `MAX_REST_HEADERS_RESULTS`).
pub(super) const MAX_HEADERS: usize = 2000;

/// Headers where their number is not told.
const DEFAULT_HEADERS: &str = "5";

/// Coins at once (Core `MAX_GETUTXOS_OUTPOINTS`).
const MAX_OUTPOINTS: usize = 15;

/// How the answer is to be written: what stands behind the last dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Binary,
    Hex,
    Json,
    /// None of them. Most resources say so only when all else is right.
    Unknown,
}

/// Why there is no answer: a status of HTTP and a line. The line may repeat bytes that are no text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) text: Vec<u8>,
}

pub(super) const BAD_REQUEST: u16 = 400;
pub(super) const NOT_FOUND: u16 = 404;

impl Refusal {
    pub(super) fn new(status: u16, text: impl Into<Vec<u8>>) -> Self {
        Self { status, text: text.into() }
    }

    fn bad(text: impl Into<Vec<u8>>) -> Self {
        Self::new(BAD_REQUEST, text)
    }

    pub(super) fn not_found(text: impl Into<Vec<u8>>) -> Self {
        Self::new(NOT_FOUND, text)
    }

    /// The format is none that there is of any resource, or of this one.
    pub(super) fn unknown_format(available: &str) -> Self {
        Self::not_found(format!("output format not found (available: {available})"))
    }
}

/// Formats of most resources, and of those that are JSON alone.
pub(super) const ALL_FORMATS: &str = ".bin, .hex, .json";
const JSON_ALONE: &str = "json";

/// What there is, by the beginning of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Transaction,
    BlockIds,
    Block,
    BlockPart,
    Filter,
    FilterHeaders,
    ChainInfo,
    Mempool,
    Headers,
    Coins,
    Deployments,
    BlockHash,
    SpentOutputs,
}

/// The first that fits counts.
const PREFIXES: [(&str, Resource); 14] = [
    ("/rest/tx/", Resource::Transaction),
    ("/rest/block/notxdetails/", Resource::BlockIds),
    ("/rest/block/", Resource::Block),
    ("/rest/blockpart/", Resource::BlockPart),
    ("/rest/blockfilter/", Resource::Filter),
    ("/rest/blockfilterheaders/", Resource::FilterHeaders),
    ("/rest/chaininfo", Resource::ChainInfo),
    ("/rest/mempool/", Resource::Mempool),
    ("/rest/headers/", Resource::Headers),
    ("/rest/getutxos", Resource::Coins),
    ("/rest/deploymentinfo/", Resource::Deployments),
    ("/rest/deploymentinfo", Resource::Deployments),
    ("/rest/blockhashbyheight/", Resource::BlockHash),
    ("/rest/spenttxouts/", Resource::SpentOutputs),
];

/// Whether a path names a resource.
pub(super) fn is_resource(path: &str) -> bool {
    PREFIXES.iter().any(|(prefix, _)| path.starts_with(prefix))
}

/// A block, and its hash as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) hash: BlockHash,
    pub(super) text: String,
}

/// A transaction, and its id as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedTransaction {
    pub(super) txid: Txid,
    pub(super) text: String,
}

/// What is wanted of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// In JSON: the transactions and the outputs that they spend.
    Everything,
    /// In JSON: the ids of the transactions.
    Ids,
    /// Some of its bytes.
    Part(Part),
}

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    pub(super) size: u64,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Transaction(NamedTransaction),
    Block(Named, Detail),
    SpentOutputs(Named),
    /// So many headers of the active chain, from this one on.
    Headers(BlockHash, usize),
    /// The filter of a block.
    Filter(Named),
    /// Headers of filters, of so many blocks of the active chain.
    FilterHeaders(BlockHash, usize),
    ChainInfo,
    Deployments(Option<BlockHash>),
    MempoolInfo,
    MempoolContents {
        verbose: bool,
        sequence: bool,
    },
    Coins {
        outpoints: Vec<OutPoint>,
        /// As the outbox makes them, instead of the tip.
        with_outbox: bool,
    },
    /// The hash at a height.
    BlockHash(u32),
}

/// A path whose resource is known, and what only stands in its query.
#[derive(Debug)]
pub(super) struct Path<'a> {
    resource: Resource,
    part: Option<Part>,
    /// What follows the prefix, without the query and the format.
    name: &'a str,
    format: Format,
    target: &'a str,
}

/// The target of a request, up to what only a node that has started can tell.
pub(super) fn path(target: &str) -> Result<Path<'_>, Refusal> {
    let found = PREFIXES.iter().find_map(|(prefix, of)| Some((of, target.strip_prefix(prefix)?)));
    let (resource, rest) = found.ok_or_else(|| Refusal::not_found(""))?;
    let (name, format) = name_and_format(rest);
    let part = match resource {
        Resource::BlockPart => Some(part(target)?),
        _ => None,
    };
    Ok(Path { resource: *resource, part, name, format, target })
}

/// Cuts off the query and the format.
fn name_and_format(rest: &str) -> (&str, Format) {
    let rest = rest.rsplit_once('?').map_or(rest, |(rest, _)| rest);
    let Some((name, suffix)) = rest.rsplit_once('.') else { return (rest, Format::Unknown) };
    match suffix {
        "bin" => (name, Format::Binary),
        "hex" => (name, Format::Hex),
        "json" => (name, Format::Json),
        "" => (name, Format::Unknown),
        _ => (rest, Format::Unknown),
    }
}

fn part(target: &str) -> Result<Part, Refusal> {
    let number = |name: &str| integer(&parameter(target, name).unwrap_or_default());
    let missing = |what: &str| Refusal::bad(format!("Block part {what} missing or invalid"));
    let offset = number("offset").ok_or_else(|| missing("offset"))?;
    let size = number("size").ok_or_else(|| missing("size"))?;
    Ok(Part { offset, size })
}

impl Path<'_> {
    /// What it asks for, perhaps with what was sent with it.
    pub(super) fn read(&self, body: &[u8]) -> Result<(Asked, Format), Refusal> {
        let asked = match self.resource {
            Resource::Transaction => {
                let txid = hash(self.name)?;
                Asked::Transaction(NamedTransaction { txid, text: self.name.to_owned() })
            }
            Resource::Block => Asked::Block(named(self.name)?, Detail::Everything),
            Resource::BlockIds => Asked::Block(named(self.name)?, Detail::Ids),
            Resource::BlockPart => {
                let part = self.part.expect("a path to a part has it");
                Asked::Block(named(self.name)?, Detail::Part(part))
            }
            Resource::SpentOutputs => self.spent_outputs()?,
            Resource::Headers => self.headers()?,
            Resource::Filter => self.filter()?,
            Resource::FilterHeaders => self.filter_headers()?,
            Resource::ChainInfo => self.json_alone().map(|()| Asked::ChainInfo)?,
            Resource::Deployments => self.deployments()?,
            Resource::Mempool => self.mempool()?,
            Resource::Coins => self.coins(body)?,
            Resource::BlockHash => self.block_hash()?,
        };
        Ok((asked, self.format))
    }

    fn json_alone(&self) -> Result<(), Refusal> {
        match self.format {
            Format::Json => Ok(()),
            _ => Err(Refusal::unknown_format(JSON_ALONE)),
        }
    }

    fn spent_outputs(&self) -> Result<Asked, Refusal> {
        if self.name.contains('/') {
            return Err(Refusal::bad(
                "Invalid URI format. Expected /rest/spenttxouts/<hash>.<ext>",
            ));
        }
        Ok(Asked::SpentOutputs(named(self.name)?))
    }

    /// The count in the path, as it was once, or in the query.
    fn headers(&self) -> Result<Asked, Refusal> {
        let (count, name) = match *self.pieces() {
            [count, name] => (count.as_bytes().to_vec(), name),
            [name] => (self.count(), name),
            _ => {
                return Err(Refusal::bad(
                    "Invalid URI format. Expected /rest/headers/<hash>.<ext>?count=<count>",
                ));
            }
        };
        let count = in_range(&count)?;
        Ok(Asked::Headers(hash(name)?, count))
    }

    fn filter(&self) -> Result<Asked, Refusal> {
        let [kind, name] = *self.pieces() else {
            return Err(Refusal::bad(
                "Invalid URI format. Expected /rest/blockfilter/<filtertype>/<blockhash>",
            ));
        };
        let named = named(name)?;
        check_filter_type(kind).map(|()| Asked::Filter(named))
    }

    fn filter_headers(&self) -> Result<Asked, Refusal> {
        let (kind, count, name) = match *self.pieces() {
            [kind, count, name] => (kind, count.as_bytes().to_vec(), name),
            [kind, name] => (kind, self.count(), name),
            _ => {
                return Err(Refusal::bad(
                    "Invalid URI format. Expected \
                     /rest/blockfilterheaders/<filtertype>/<blockhash>.<ext>?count=<count>",
                ));
            }
        };
        let (count, hash) = (in_range(&count)?, hash(name)?);
        check_filter_type(kind).map(|()| Asked::FilterHeaders(hash, count))
    }

    fn deployments(&self) -> Result<Asked, Refusal> {
        self.json_alone()?;
        let named = (!self.name.is_empty()).then(|| hash(self.name)).transpose()?;
        Ok(Asked::Deployments(named))
    }

    fn mempool(&self) -> Result<Asked, Refusal> {
        if !["contents", "info"].contains(&self.name) {
            return Err(Refusal::bad(
                "Invalid URI format. Expected /rest/mempool/<info|contents>.json",
            ));
        }
        self.json_alone()?;
        if self.name == "info" {
            return Ok(Asked::MempoolInfo);
        }
        let flag = |name: &str, default: bool| match parameter(self.target, name).as_deref() {
            None => Ok(default),
            Some(b"true") => Ok(true),
            Some(b"false") => Ok(false),
            Some(_) => Err(Refusal::bad(format!(
                "The \"{name}\" query parameter must be either \"true\" or \"false\"."
            ))),
        };
        let (verbose, sequence) = (flag("verbose", true)?, flag("mempool_sequence", false)?);
        if verbose && sequence {
            return Err(Refusal::bad(
                "Verbose results cannot contain mempool sequence values. (hint: set \"verbose=false\")",
            ));
        }
        Ok(Asked::MempoolContents { verbose, sequence })
    }

    fn block_hash(&self) -> Result<Asked, Refusal> {
        let height = integer::<i32>(self.name.as_bytes()).and_then(|height| height.try_into().ok());
        let height = height.ok_or_else(|| {
            let harmless =
                |c: &char| c.is_ascii_alphanumeric() || "!*'();:@&=+$,/?#[]-_.~%".contains(*c);
            let shown: String = self.name.chars().filter(harmless).collect();
            Refusal::bad(format!("Invalid height: {shown}"))
        })?;
        Ok(Asked::BlockHash(height))
    }

    fn coins(&self, body: &[u8]) -> Result<Asked, Refusal> {
        let empty = || Refusal::bad("Error: empty request");
        let parse_error = || Refusal::bad("Parse error");
        // What stands before the first one is a slash, or counts as one.
        let of_path = self.name.get(1..).filter(|pieces| !pieces.is_empty());
        if of_path.is_none() && body.is_empty() {
            return Err(empty());
        }
        let (mut outpoints, mut with_outbox) = (Vec::new(), false);
        if let Some(pieces) = of_path {
            let mut pieces = pieces.split('/').peekable();
            with_outbox = pieces.next_if_eq(&"checkmempool").is_some();
            for piece in pieces {
                outpoints.push(outpoint(piece).ok_or_else(parse_error)?);
            }
            if outpoints.is_empty() {
                return Err(empty());
            }
        }
        match self.format {
            Format::Unknown => return Err(Refusal::unknown_format(ALL_FORMATS)),
            Format::Json if outpoints.is_empty() => return Err(empty()),
            Format::Json => {}
            Format::Binary | Format::Hex => {
                let bytes = match self.format {
                    Format::Hex => spaced_hex(body).unwrap_or_default(),
                    _ => body.to_vec(),
                };
                if !bytes.is_empty() {
                    if !outpoints.is_empty() {
                        return Err(Refusal::bad(
                            "Combination of URI scheme inputs and raw post data is not allowed",
                        ));
                    }
                    outpoints = decoded_outpoints(&bytes).map_err(|_| parse_error())?;
                    // What Core takes for BIP64's first byte is never zero.
                    with_outbox = true;
                }
            }
        }
        if outpoints.len() > MAX_OUTPOINTS {
            return Err(Refusal::bad(format!(
                "Error: max outpoints exceeded (max: {MAX_OUTPOINTS}, tried: {})",
                outpoints.len()
            )));
        }
        Ok(Asked::Coins { outpoints, with_outbox })
    }

    fn pieces(&self) -> Vec<&str> {
        // One more than any resource has is enough to be refused.
        self.name.splitn(MOST_PIECES + 1, '/').collect()
    }

    fn count(&self) -> Vec<u8> {
        parameter(self.target, "count").unwrap_or_else(|| DEFAULT_HEADERS.into())
    }
}

/// Of a name, between slashes.
const MOST_PIECES: usize = 3;

fn check_filter_type(kind: &str) -> Result<(), Refusal> {
    match kind {
        "basic" => Ok(()),
        _ => Err(Refusal::bad(format!("Unknown filtertype {kind}"))),
    }
}

fn hash<T: FromStr>(text: &str) -> Result<T, Refusal> {
    text.parse().map_err(|_| Refusal::bad(format!("Invalid hash: {text}")))
}

fn named(text: &str) -> Result<Named, Refusal> {
    Ok(Named { hash: hash(text)?, text: text.to_owned() })
}

fn in_range(count: &[u8]) -> Result<usize, Refusal> {
    let fits = |count: &usize| (1..=MAX_HEADERS).contains(count);
    integer(count).filter(fits).ok_or_else(|| {
        let text =
            format!("Header count is invalid or out of acceptable range (1-{MAX_HEADERS}): ");
        Refusal::bad([text.as_bytes(), count].concat())
    })
}

/// A transaction's id and the number of an output.
fn outpoint(piece: &str) -> Option<OutPoint> {
    let (txid, vout) = piece.split_once('-')?;
    Some(OutPoint { txid: txid.parse().ok()?, vout: integer(vout.as_bytes())? })
}

/// As a body has them: their number, and they. What follows does not matter.
///
/// BIP64 puts a byte before the number, which says whether the mempool counts. Core puts the length of the
/// body before all, takes its first byte for that one, and what else there is of it for the beginning of the
/// number; clients that work with Core count on it. So a body of more than six is not what it looks like.
fn decoded_outpoints(bytes: &[u8]) -> Result<Vec<OutPoint>, DecodeError> {
    let mut sent: DataStream = DataStream::with_capacity(bytes.len() + 9);
    sent.write_compact_size(bytes.len() as u64);
    sent.write(bytes);
    let mut reader = SpanReader::new(sent.as_slice());
    reader.u8()?;
    let count = reader.compact_size()?;
    (0..count).map(|_| reader.get()).collect()
}

/// Hexadecimal with spaces between bytes; `None` where it is anything else.
fn spaced_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |c: &u8| char::from(*c).to_digit(16).map(|digit| digit as u8);
    let is_space = |c: &u8| matches!(c, b' ' | b'\t'..=b'\r');
    let mut left = text.iter().copied().peekable();
    let mut bytes = Vec::with_capacity(text.len() / 2);
    while let Some(first) = left.next() {
        if !is_space(&first) {
            let second = left.next()?;
            bytes.push(digit(&first)? << 4 | digit(&second)?);
        }
    }
    Some(bytes)
}

/// Digits, and for signed numbers a minus before them (Core `ToIntegral`).
fn integer<T: FromStr>(text: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// What a query, which begins behind the first question mark, says of a name.
fn parameter(target: &str, name: &str) -> Option<Vec<u8>> {
    let (_, query) = target.split_once('?')?;
    query.split('&').find_map(|parameter| {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        (percent_decoded(key) == name.as_bytes()).then(|| percent_decoded(value))
    })
}

/// A percent sign without two digits behind it is itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        let digits = rest.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = digits.and_then(|digits| spaced_hex(digits)?.first().copied());
        decoded.push(byte.unwrap_or(*first));
        left = if byte.is_some() { &rest[2..] } else { rest };
    }
    decoded
}

#[cfg(test)]
mod tests;
