//! What the RPC server and its client share: JSON as Bitcoin Core reads and writes it, requests, errors, and
//! the one table of methods. The argument checks, the help, the OpenRPC description, the conversion of the
//! client's arguments and `docs/rpc.md` all come from that table.

pub mod arguments;
pub mod convert;
mod error;
mod json;
pub mod request;
mod table;

pub use error::{RpcError, code};
pub use json::{Json, JsonKind};
pub use table::help::{help_of, list_help};
pub use table::openrpc::openrpc;
pub use table::page::page;
pub use table::{Category, Kind, METHODS, Method, Need, Param, Presence, find};
