//! What the RPC server and its client share: JSON as Bitcoin Core reads and writes it, requests, errors, and
//! the one table of methods, which drives argument checks, help, the description in OpenRPC, the conversion
//! of the client's arguments and `docs/rpc.md`.

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
