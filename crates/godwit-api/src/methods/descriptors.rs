//! `getdescriptorinfo` and `deriveaddresses`.

use godwit_rpc::{Json, RpcError, code};

use super::{Call, parse};
use crate::script::{Descriptor, address, checksum, kind};

fn refused(text: impl Into<String>) -> RpcError {
    RpcError::new(code::INVALID_ADDRESS_OR_KEY, text)
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (text, network) = (call.arg(0).as_text()?.to_owned(), call.network());
    let descriptor = Descriptor::parse(&text, network, false).map_err(refused)?;
    let body = text.split('#').next().unwrap_or(&text);
    let mut json = Json::object([("descriptor", descriptor.text(0, network).into())]);
    if descriptor.paths() > 1 {
        // Each as a value and as text, which may be twice as long as it has to be.
        let bytes = 4 * text.len() * descriptor.paths();
        if bytes > MAX_EXPANSION {
            return Err(refused("The descriptor stands for too many others"));
        }
        call.room.grow(bytes)?;
        let mut all = Vec::new();
        for path in 0..descriptor.paths() {
            call.node.check_running()?;
            all.push(descriptor.text(path, network).into());
        }
        json.push("multipath_expansion", Json::List(all));
    }
    json.push("checksum", checksum(body).unwrap_or_default());
    json.push("isrange", descriptor.is_range());
    json.push("issolvable", descriptor.is_solvable());
    json.push("hasprivatekeys", false);
    Ok(json)
}

/// Memory of the descriptors that one with several paths stands for.
const MAX_EXPANSION: usize = 16 << 20;

/// Memory of the answer for each script: `combo` has three addresses.
const PER_SCRIPT: usize = 600;

/// Scripts that are derived at once.
pub(super) const MAX_SCRIPTS: usize = 100_000;

pub(super) fn derive(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (text, network) = (call.arg(0).as_text()?, call.network());
    let range = match call.arg(1) {
        Json::Null => None,
        range => Some(parse::range(range)?),
    };
    let descriptor = Descriptor::parse(text, network, true).map_err(refused)?;
    let unfit = |text: &str| Err(RpcError::new(code::INVALID_PARAMETER, text));
    match (descriptor.is_range(), call.args.len() > 1) {
        (false, true) => {
            return unfit("Range should not be specified for an un-ranged descriptor");
        }
        (true, false) => return unfit("Range must be specified for a ranged descriptor"),
        _ => {}
    }
    let numbers = range.unwrap_or(0..=0);
    let count = (numbers.end() - numbers.start() + 1) as usize;
    let scripts = count.saturating_mul(descriptor.paths());
    if scripts > MAX_SCRIPTS {
        return unfit("Range is too large");
    }
    call.room.grow(scripts * PER_SCRIPT)?;
    let mut paths = Vec::new();
    for path in 0..descriptor.paths() {
        let mut addresses: Vec<Json> = Vec::new();
        for number in numbers.clone() {
            call.node.check_running()?;
            if (call.is_gone)() {
                return Err(RpcError::new(code::MISC_ERROR, "Nobody waits for the answer"));
            }
            let scripts = descriptor.scripts(path, number);
            let scripts =
                scripts.map_err(|_| refused("Cannot derive script without private keys"))?;
            for script in &scripts {
                match address::of_script(&kind(script)) {
                    Some(address) => addresses.push(address.encode(network).into()),
                    // Of `combo`: the key itself has no address.
                    None if scripts.len() > 1 => {}
                    None => {
                        return Err(refused("Descriptor does not have a corresponding address"));
                    }
                }
            }
        }
        if addresses.is_empty() {
            return Err(RpcError::new(code::MISC_ERROR, "Unexpected empty result"));
        }
        paths.push(Json::List(addresses));
    }
    match paths.len() {
        1 => Ok(paths.swap_remove(0)),
        _ => Ok(Json::List(paths)),
    }
}
