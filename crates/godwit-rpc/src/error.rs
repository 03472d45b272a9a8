//! Errors of calls, with Bitcoin Core's numbers (`rpc/protocol.h`).

use std::fmt;

/// Numbers of errors, by which clients decide what to do.
pub mod code {
    /// The request is not a valid request object.
    pub const INVALID_REQUEST: i32 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// An internal fault of this node.
    pub const INTERNAL_ERROR: i32 = -32603;
    /// The request is not JSON.
    pub const PARSE_ERROR: i32 = -32700;
    /// Any error without a number of its own.
    pub const MISC_ERROR: i32 = -1;
    /// A value of another type was expected.
    pub const TYPE_ERROR: i32 = -3;
    /// There is no such block, transaction or address.
    pub const INVALID_ADDRESS_OR_KEY: i32 = -5;
    /// A value is out of range.
    pub const INVALID_PARAMETER: i32 = -8;
    /// The node is shutting down.
    pub const CLIENT_NOT_CONNECTED: i32 = -9;
    /// Several wallets are loaded, and none is named.
    pub const WALLET_NOT_SPECIFIED: i32 = -19;
    /// The store or the chain failed.
    pub const DATABASE_ERROR: i32 = -20;
    /// Bytes cannot be decoded.
    pub const DESERIALIZATION_ERROR: i32 = -22;
    /// The node is already in the list.
    pub const NODE_ALREADY_ADDED: i32 = -23;
    /// The node is not in the list.
    pub const NODE_NOT_ADDED: i32 = -24;
    /// A block or transaction was refused.
    pub const VERIFY_ERROR: i32 = -25;
    /// A transaction breaks a rule of blocks or of relaying.
    pub const VERIFY_REJECTED: i32 = -26;
    /// A transaction is in the chain.
    pub const VERIFY_ALREADY_IN_UTXO_SET: i32 = -27;
    /// The node is starting.
    pub const IN_WARMUP: i32 = -28;
    /// No such peer is connected.
    pub const NODE_NOT_CONNECTED: i32 = -29;
    /// Not an address or a network.
    pub const INVALID_IP_OR_SUBNET: i32 = -30;
    /// A limit is reached.
    pub const LIMIT_EXCEEDED: i32 = -37;
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// One of [`code`].
    pub code: i32,
    pub message: String,
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl std::error::Error for RpcError {}
