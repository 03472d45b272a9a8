//! The methods.

mod bans;
mod blocks;
mod chain;
mod coins;
mod control;
mod cost;
mod deployments;
mod descriptors;
mod difficulty;
mod generate;
mod headers;
mod memoryless;
mod network;
mod output;
mod parse;
mod peers;
mod proof;
mod scripts;
mod search;
mod stats;
mod stored;
mod submit;
mod transaction;
mod waiting;

pub(crate) use difficulty::difficulty;
pub(crate) use network::{PROTOCOL_VERSION, VERSION};

use godwit_chain::{BlockUnreadable, Chain, NodeId, Places, StoredBlock};
use godwit_primitives::{BlockHash, Network};
use godwit_rpc::{Json, RpcError, code};

use crate::answers::Room;
use crate::api::Api;
use crate::seam::Seam;

/// A call whose arguments have the right types.
pub(crate) struct Call<'a> {
    pub(crate) api: &'a Api,
    pub(crate) node: Seam,
    pub(crate) args: &'a [Json],
    pub(crate) room: &'a mut Room,
    /// Nobody waits for the answer any more.
    pub(crate) is_gone: &'a dyn Fn() -> bool,
}

/// Runs a method.
pub(crate) type Handler = fn(&mut Call<'_>) -> Result<Json, RpcError>;

impl Call<'_> {
    /// An argument; null where it was left out.
    fn arg(&self, n: usize) -> &Json {
        self.args.get(n).unwrap_or(&Json::Null)
    }

    fn network(&self) -> Network {
        self.node.params().network
    }

    /// Reads a stored block, on this thread.
    fn read(&self, source: &BlockSource) -> Result<Vec<u8>, RpcError> {
        let (reader, stored) = match source {
            BlockSource::Genesis => return Ok(self.node.params().genesis_block()),
            BlockSource::Stored(reader, stored) => (reader, stored),
        };
        match reader.block(stored) {
            Ok(bytes) => Ok(bytes.as_slice().to_vec()),
            Err(unreadable) => {
                if let BlockUnreadable::Damaged(id) = unreadable {
                    self.node.ask(move |node| node.note_damaged(id))?;
                }
                Err(RpcError::new(code::MISC_ERROR, "Block not found on disk"))
            }
        }
    }
}

/// Where the bytes of a block are.
pub(crate) enum BlockSource {
    /// No file holds it.
    Genesis,
    Stored(godwit_chain::BlockReader, StoredBlock),
}

/// Where a block's bytes are.
///
/// # Errors
///
/// They are not there.
fn source(chain: &Chain, id: NodeId) -> Result<BlockSource, RpcError> {
    if id == chain.tree().genesis() {
        return Ok(BlockSource::Genesis);
    }
    if let Some(stored) = Places::of(chain).block(id) {
        return Ok(BlockSource::Stored(Places::of(chain).reader(), stored));
    }
    let node = chain.tree().node(id);
    let text = match node.tx_count {
        // Its bytes were found to be damaged.
        _ if node.position.is_some() => "Block not found on disk",
        0 => "Block not available (not fully downloaded)",
        _ => "Block not available (pruned data)",
    };
    Err(RpcError::new(code::MISC_ERROR, text))
}

fn block_not_found() -> RpcError {
    RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Block not found")
}

/// The node of a hash.
fn find(chain: &Chain, hash: &BlockHash) -> Result<NodeId, RpcError> {
    chain.tree().find(hash).ok_or_else(block_not_found)
}

/// The block of the active chain at a height that it has.
fn at_height(chain: &Chain, height: u32) -> NodeId {
    chain.tree().ancestor(chain.tip(), height).expect("not above the tip")
}

fn is_active(chain: &Chain, id: NodeId) -> bool {
    chain.tree().is_ancestor(id, chain.tip())
}

/// What runs a method of the table.
pub(crate) fn handler(name: &str) -> Option<Handler> {
    Some(match name {
        "addnode" => peers::add_node,
        "clearbanned" => bans::clear,
        "decoderawtransaction" => transaction::decode_raw,
        "decodescript" => scripts::decode_script,
        "disconnectnode" => peers::disconnect,
        "deriveaddresses" => descriptors::derive,
        "echo" | "echojson" => control::echo,
        "estimatesmartfee" => memoryless::estimate,
        "generateblock" => generate::block,
        "generatetoaddress" => generate::to_address,
        "generatetodescriptor" => generate::to_descriptor,
        "getaddednodeinfo" => peers::added_nodes,
        "getaddrmaninfo" => peers::address_counts,
        "getbestblockhash" => chain::best_block_hash,
        "getblock" => blocks::block,
        "getblockchaininfo" => chain::info,
        "getblockcount" => chain::count,
        "getblockhash" => chain::hash,
        "getblockheader" => headers::header,
        "getblockstats" => stats::block_stats,
        "getchainstates" => chain::states,
        "getchaintips" => chain::tips,
        "getchaintxstats" => chain::tx_stats,
        "getconnectioncount" => network::connection_count,
        "getdeploymentinfo" => deployments::info,
        "getdescriptorinfo" => descriptors::info,
        "getdifficulty" => difficulty::of_tip,
        "getindexinfo" => memoryless::index_info,
        "getmemoryinfo" => control::memory_info,
        "getmempoolentry" => memoryless::entry,
        "getmempoolinfo" => memoryless::info,
        "getmininginfo" => difficulty::mining_info,
        "getnettotals" => network::totals,
        "getnetworkhashps" => difficulty::network_hashes,
        "getnetworkinfo" => network::info,
        "getnodeaddresses" => peers::addresses,
        "getpeerinfo" => peers::infos,
        "getrawmempool" => memoryless::raw,
        "getrawtransaction" => transaction::raw,
        "getrpcinfo" => control::rpc_info,
        "getsyncstatus" => control::sync_status,
        "gettxout" => output::unspent,
        "gettxoutproof" => proof::make,
        "gettxoutsetinfo" => coins::set_info,
        "gettxspendingprevout" => memoryless::spending,
        "help" => control::help,
        "invalidateblock" => submit::invalidate,
        "listbanned" => bans::list,
        "logging" => control::logging,
        "ping" => peers::ping,
        "reconsiderblock" => submit::reconsider,
        "rpc.discover" => control::discover,
        "scantxoutset" => search::scan_set,
        "setban" => bans::set,
        "setnetworkactive" => network::set_active,
        "stop" => control::stop,
        "submitblock" => submit::block,
        "submitheader" => submit::header,
        "syncwithvalidationinterfacequeue" => waiting::for_nothing,
        "uptime" => control::uptime,
        "validateaddress" => scripts::validate_address,
        "verifytxoutproof" => proof::verify,
        "waitforblock" => waiting::for_block,
        "waitforblockheight" => waiting::for_height,
        "waitfornewblock" => waiting::for_new_block,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use godwit_rpc::METHODS;

    use super::handler;

    #[test]
    fn each_method_of_the_table_runs_or_is_absent() {
        for method in METHODS {
            let runs = handler(method.name).is_some();
            assert_eq!(runs, method.is_present(), "{}", method.name);
        }
    }
}
