//! The RPC methods: the context of a call, how it finds blocks, and which function runs it.

mod activity;
mod bans;
mod block_search;
pub(crate) mod blocks;
mod broadcast;
mod chain;
mod coins;
mod control;
pub(crate) mod cost;
mod deployments;
mod descriptors;
mod difficulty;
mod dump;
mod fees;
mod generate;
pub(crate) mod headers;
pub(crate) mod indexes;
mod load;
pub(crate) mod mempool;
mod named;
mod network;
pub(crate) mod output;
mod parse;
mod peers;
mod proof;
mod recheck;
mod scripts;
mod search;
mod stats;
pub(crate) mod stored;
mod submit;
pub(crate) mod transaction;
mod upkeep;
mod waiting;

pub(crate) use difficulty::difficulty;
pub(crate) use network::{PROTOCOL_VERSION, VERSION};

use godwit_chain::{Body, Chain, NodeId, StoredBlock, StoredData, body};
use godwit_primitives::{BlockHash, Network};
use godwit_rpc::{Json, RpcError, code};

use crate::answers::Room;
use crate::api::Api;
use crate::deprecated::Deprecated;
use crate::seam::{Seam, Snapshot};

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

    pub(crate) fn network(&self) -> Network {
        self.node.params().network
    }

    /// What answers have for older programs.
    fn deprecated(&self) -> Deprecated {
        self.api.interfaces.deprecated
    }

    /// What the operator is warned of (Core `GetWarningsForRpc`).
    fn warnings(&self, snapshot: &Snapshot) -> Json {
        match self.deprecated().warnings {
            true => snapshot.last_warning().unwrap_or_default().into(),
            false => snapshot.all_warnings().cloned().collect(),
        }
    }

    /// Reads a stored block, on this thread.
    pub(crate) fn read(&self, source: &BlockSource) -> Result<Vec<u8>, RpcError> {
        let gone = || RpcError::new(code::MISC_ERROR, "Block not found on disk");
        self.read_if_intact(source)?.ok_or_else(gone)
    }

    /// The same; `None` where the block is damaged or gone.
    fn read_if_intact(&self, source: &BlockSource) -> Result<Option<Vec<u8>>, RpcError> {
        let (reader, stored) = match source {
            BlockSource::Genesis => return Ok(Some(self.node.params().genesis_block())),
            BlockSource::Stored(reader, stored) => (reader, stored),
        };
        match reader.block(stored) {
            Ok(bytes) => Ok(Some(bytes.as_slice().to_vec())),
            Err(unreadable) => {
                self.node.ask(move |node| node.note_unreadable(&unreadable))?;
                Ok(None)
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

/// Why a block's bytes are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    NotDownloaded,
    Pruned,
    /// They were found to be damaged.
    Damaged,
}

/// Where a block's bytes are.
///
/// # Errors
///
/// They are not there, as methods say it.
fn source(chain: &Chain, id: NodeId) -> Result<BlockSource, RpcError> {
    block_source(chain, id).map_err(|missing| {
        let text = match missing {
            Missing::NotDownloaded => "Block not available (not fully downloaded)",
            Missing::Pruned => "Block not available (pruned data)",
            Missing::Damaged => "Block not found on disk",
        };
        RpcError::new(code::MISC_ERROR, text)
    })
}

/// The same, with the bare reason.
pub(crate) fn block_source(chain: &Chain, id: NodeId) -> Result<BlockSource, Missing> {
    if let Some(stored) = StoredData::of(chain).block(id) {
        return Ok(BlockSource::Stored(StoredData::of(chain).reader(), stored));
    }
    match body(chain, id) {
        Body::Genesis => Ok(BlockSource::Genesis),
        Body::Absent => Err(Missing::NotDownloaded),
        Body::Pruned => Err(Missing::Pruned),
        Body::Stored(_) | Body::Lost(_) => Err(Missing::Damaged),
    }
}

fn block_not_found() -> RpcError {
    RpcError::new(code::INVALID_ADDRESS_OR_KEY, "Block not found")
}

/// The node of a hash.
fn find(chain: &Chain, hash: &BlockHash) -> Result<NodeId, RpcError> {
    chain.tree().find(hash).ok_or_else(block_not_found)
}

/// The block of the active chain at a height that it has.
pub(crate) fn at_height(chain: &Chain, height: u32) -> NodeId {
    chain.tree().ancestor(chain.tip(), height).expect("not above the tip")
}

fn is_active(chain: &Chain, id: NodeId) -> bool {
    chain.tree().is_ancestor(id, chain.tip())
}

/// What runs a method of the table.
pub(crate) fn handler(name: &str) -> Option<Handler> {
    of_the_chain(name).or_else(|| of_the_node(name))
}

fn of_the_chain(name: &str) -> Option<Handler> {
    Some(match name {
        "decoderawtransaction" => transaction::decode_raw,
        "decodescript" => scripts::decode_script,
        "deriveaddresses" => descriptors::derive,
        "dumptxoutset" => dump::coins,
        "estimatesmartfee" => fees::estimate,
        "generateblock" => generate::block,
        "generatetoaddress" => generate::to_address,
        "generatetodescriptor" => generate::to_descriptor,
        "getbestblockhash" => chain::best_block_hash,
        "getblock" => blocks::block,
        "getblockchaininfo" => chain::info,
        "getblockcount" => chain::count,
        "getblockfilter" => indexes::block_filter,
        "getblockfrompeer" => upkeep::block_from_peer,
        "getblockhash" => chain::hash,
        "getblockheader" => headers::header,
        "getblockstats" => stats::block_stats,
        "getchainstates" => chain::states,
        "getchaintips" => chain::tips,
        "getchaintxstats" => chain::tx_stats,
        "getdeploymentinfo" => deployments::info,
        "getdescriptoractivity" => block_search::activity,
        "getdescriptorinfo" => descriptors::info,
        "getdifficulty" => difficulty::of_tip,
        "getindexinfo" => indexes::info,
        "getmempoolentry" => mempool::entry,
        "getmempoolinfo" => mempool::info,
        "getmininginfo" => difficulty::mining_info,
        "getnetworkhashps" => difficulty::network_hashes,
        "getrawmempool" => mempool::raw,
        "getrawtransaction" => transaction::raw,
        "gettxout" => output::unspent,
        "gettxoutproof" => proof::make,
        "gettxoutsetinfo" => coins::set_info,
        "gettxspendingprevout" => mempool::spending,
        "invalidateblock" => submit::invalidate,
        "loadtxoutset" => load::coins,
        "preciousblock" => submit::prefer,
        "pruneblockchain" => upkeep::prune,
        "reconsiderblock" => submit::reconsider,
        "scanblocks" => block_search::scan,
        "scantxoutset" => search::scan_set,
        "sendrawtransaction" => broadcast::send,
        "submitblock" => submit::block,
        "submitheader" => submit::header,
        "submitpackage" => broadcast::submit,
        "syncwithvalidationinterfacequeue" => waiting::for_nothing,
        "testmempoolaccept" => broadcast::test,
        "validateaddress" => scripts::validate_address,
        "verifychain" => recheck::verify_chain,
        "verifytxoutproof" => proof::verify,
        "waitforblock" => waiting::for_block,
        "waitforblockheight" => waiting::for_height,
        "waitfornewblock" => waiting::for_new_block,
        _ => return None,
    })
}

fn of_the_node(name: &str) -> Option<Handler> {
    Some(match name {
        "addnode" => peers::add_node,
        "clearbanned" => bans::clear,
        "disconnectnode" => peers::disconnect,
        "echo" | "echojson" => control::echo,
        "getaddednodeinfo" => peers::added_nodes,
        "getaddrmaninfo" => peers::address_counts,
        "getconnectioncount" => network::connection_count,
        "getmemoryinfo" => control::memory_info,
        "getnettotals" => network::totals,
        "getnetworkinfo" => network::info,
        "getnodeaddresses" => peers::addresses,
        "getpeerinfo" => peers::infos,
        "getrpcinfo" => control::rpc_info,
        "getsyncstatus" => control::sync_status,
        "getzmqnotifications" => control::notifiers,
        "help" => control::help,
        "listbanned" => bans::list,
        "logging" => control::logging,
        "ping" => peers::ping,
        "rpc.discover" => control::discover,
        "setban" => bans::set,
        "setnetworkactive" => network::set_active,
        "stop" => control::stop,
        "uptime" => control::uptime,
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
