//! `getdeploymentinfo`: rule changes, and the heights from which they apply.

use godwit_consensus::script_flags;
use godwit_primitives::ScriptFlags;
use godwit_primitives::network::Deployment;
use godwit_rpc::{Json, RpcError};

use super::{Call, find, parse};

/// By name, as they are listed.
const FLAGS: [(&str, ScriptFlags); 7] = [
    ("CHECKLOCKTIMEVERIFY", ScriptFlags::CHECKLOCKTIMEVERIFY),
    ("CHECKSEQUENCEVERIFY", ScriptFlags::CHECKSEQUENCEVERIFY),
    ("DERSIG", ScriptFlags::DERSIG),
    ("NULLDUMMY", ScriptFlags::NULLDUMMY),
    ("P2SH", ScriptFlags::P2SH),
    ("TAPROOT", ScriptFlags::TAPROOT),
    ("WITNESS", ScriptFlags::WITNESS),
];

/// With their names in this answer.
const DEPLOYMENTS: [(&str, Deployment); 5] = [
    ("bip34", Deployment::HeightInCoinbase),
    ("bip66", Deployment::Dersig),
    ("bip65", Deployment::Cltv),
    ("csv", Deployment::Csv),
    ("segwit", Deployment::Segwit),
];

fn buried(active: bool, height: u32) -> Json {
    Json::object([("type", "buried".into()), ("active", active.into()), ("height", height.into())])
}

pub(super) fn info(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let named = parse::block_hash(call.arg(0))?;
    let (hash, height) = call.node.ask(move |node| {
        let chain = node.chain();
        let id = match named {
            None => chain.tip(),
            Some(hash) => find(chain, &hash)?,
        };
        let node = chain.tree().node(id);
        Ok::<_, RpcError>((node.hash, node.height))
    })??;
    let params = call.node.params();
    let flags = script_flags(height, &hash, params);
    let named = FLAGS.into_iter().filter(|(_, flag)| flags.contains(*flag)).map(|(name, _)| name);
    let mut deployments = Json::Object(Vec::new());
    for (name, deployment) in DEPLOYMENTS {
        let first = params.activation_height(deployment);
        deployments.push(name, buried(height + 1 >= first, first));
    }
    // lnd looks for it here as well as among the flags.
    deployments.push("taproot", buried(true, 0));
    Ok(Json::object([
        ("hash", hash.to_string().into()),
        ("height", height.into()),
        ("script_flags", named.collect()),
        ("deployments", deployments),
    ]))
}
