//! Scripts as text: their type, their disassembly, addresses and descriptors.

pub(crate) mod address;
mod asm;
mod base58;
mod bech32;
mod descriptor;
mod kind;
mod opcodes;
mod signature;
#[cfg(test)]
mod tests;

use godwit_primitives::Network;
use godwit_rpc::Json;

pub(crate) use asm::{asm, asm_of_script_sig};
pub(crate) use descriptor::{DESCRIPTOR_GROWTH, Descriptor, checksum, infer_wsh_multi};
pub(crate) use kind::{ScriptKind, is_unspendable, kind};
pub(crate) use opcodes::{CHECKSIGADD, Op, Ops};

/// A locking script (Core `ScriptToUniv`).
pub(crate) fn script_json(script: &[u8], network: Network, with_hex: bool) -> Json {
    let kind = kind(script);
    let mut json = Json::object([
        ("asm", asm(script).into()),
        ("desc", descriptor::infer(script, &kind, network).into()),
    ]);
    if with_hex {
        json.push("hex", Json::hex(script));
    }
    if let Some(address) = address::of_script(&kind) {
        json.push("address", address.encode(network));
    }
    json.push("type", kind.name());
    json
}
