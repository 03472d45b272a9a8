//! `validateaddress` and `decodescript`.

use godwit_primitives::sha256::sha256;
use godwit_rpc::{Json, RpcError};

use super::{Call, cost, parse};
use crate::script::address::{Address, NoAddress, hash160};
use crate::script::{
    CHECKSIGADD, Ops, ScriptKind, infer_wsh_multi, is_unspendable, kind, script_json,
};

/// Memory of a place in the answer: the value, its text, and that of the answer.
const PER_LOCATION: usize = 80;

pub(super) fn validate_address(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let address = match Address::parse(call.arg(0).as_text()?, call.network()) {
        Ok(address) => address,
        Err(NoAddress { why, at }) => {
            call.room.grow(at.len() * PER_LOCATION)?;
            return Ok(Json::object([
                ("isvalid", false.into()),
                ("error_locations", at.into_iter().collect()),
                ("error", why.into()),
            ]));
        }
    };
    let script = address.script();
    let mut json = Json::object([
        ("isvalid", true.into()),
        ("address", address.encode(call.network()).into()),
        ("scriptPubKey", Json::hex(&script)),
    ]);
    let Address::Witness { version, program } = &address else {
        json.push("isscript", matches!(address, Address::ScriptHash(_)));
        json.push("iswitness", false);
        return Ok(json);
    };
    match kind(&script).name() {
        "witness_v0_keyhash" => json.push("isscript", false),
        "witness_unknown" => {}
        _ => json.push("isscript", true),
    }
    json.push("iswitness", true);
    if kind(&script).name() != "anchor" {
        json.push("witness_version", *version);
        json.push("witness_program", Json::hex(program));
    }
    Ok(json)
}

/// Opcodes that make a tapscript succeed, whatever else it says (BIP342).
fn is_success(code: u8) -> bool {
    matches!(code, 80 | 98 | 126..=129 | 131..=134 | 137..=138 | 141..=142 | 149..=153 | 187..=254)
}

/// Longest push that a script may hold.
const MAX_PUSH: usize = 520;

/// Whether a script can stand behind its hash.
fn can_be_wrapped(script: &[u8], kind: &ScriptKind<'_>) -> bool {
    let of_kind = match kind {
        ScriptKind::NullData | ScriptKind::ScriptHash(_) => false,
        ScriptKind::Witness { version, .. } => *version == 0,
        _ => true,
    };
    let valid = |op: Result<crate::script::Op<'_>, _>| {
        op.is_ok_and(|op| {
            op.code < CHECKSIGADD && op.data.len() <= MAX_PUSH && !is_success(op.code)
        })
    };
    of_kind && !is_unspendable(script) && Ops(script).all(valid)
}

/// The script of the witness program that stands for a script, if there can be one.
fn witness_script(script: &[u8], kind: &ScriptKind<'_>) -> Option<Vec<u8>> {
    let program =
        |program: &[u8]| Some(Address::Witness { version: 0, program: program.to_vec() }.script());
    match kind {
        ScriptKind::PublicKey(key) if key.len() == 33 => program(&hash160(key)),
        ScriptKind::PublicKeyHash(hash) => program(hash),
        ScriptKind::Multisig { keys, .. } if keys.iter().all(|key| key.len() == 33) => {
            program(&sha256(script))
        }
        ScriptKind::NonStandard => program(&sha256(script)),
        _ => None,
    }
}

pub(super) fn decode_script(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let script = match call.arg(0).as_text()? {
        "" => Vec::new(),
        _ => parse::named_hex(call.arg(0), "argument")?,
    };
    // Itself, what it is wrapped into, and addresses.
    call.room.grow(2 * cost::locking(&script) + 4096)?;
    let (kind, network) = (kind(&script), call.network());
    let mut json = script_json(&script, network, false);
    if !can_be_wrapped(&script, &kind) {
        return Ok(json);
    }
    let of_script = |script: &[u8]| Address::ScriptHash(hash160(script)).encode(network);
    json.push("p2sh", of_script(&script));
    if let Some(witness) = witness_script(&script, &kind) {
        let mut segwit = script_json(&witness, network, true);
        if let ScriptKind::Multisig { needed, keys } = &kind {
            segwit.set("desc", infer_wsh_multi(*needed, keys));
        }
        segwit.push("p2sh-segwit", of_script(&witness));
        json.push("segwit", segwit);
    }
    Ok(json)
}
