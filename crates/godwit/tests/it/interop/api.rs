//! JSON-RPC: godwit and bitcoind on the same chain, call by call.

mod arguments;
mod bans;
mod checklist;
mod cli;
mod coins;
mod damaged_blocks;
mod descriptors;
mod differ;
mod generated;
mod hostile;
pub(super) mod http;
mod imitation;
mod indexes;
mod loads;
mod methods;
mod mistakes;
mod mutated;
mod own_addresses;
mod permissions;
mod rest;
mod searches;
mod sending;
mod shared_chain;
mod single_tries;
mod submissions;
mod upkeep;
mod warnings;
mod zmq;

use std::ffi::OsStr;

use serde_json::{Value, json};

use super::chain::RecentChain;
use super::rpc::{PASSWORD, Rpc, RpcError, USER};
use super::{free_port, wait_until};
use crate::blocks::write_dat;
use crate::node::Node;
use crate::running::Running;

/// A godwit that answers, on regtest and alone.
pub(super) struct Answering<'a> {
    pub(super) running: Running<'a>,
    pub(super) port: u16,
    pub(super) rpc: Rpc,
}

impl<'a> Answering<'a> {
    /// With the chain, whose tip is there, and these options beside the usual ones.
    #[track_caller]
    pub(super) fn with_chain(node: &'a Node, chain: &RecentChain, options: &[String]) -> Self {
        write_dat(&node.beside("blocks.dat"), &chain.blocks);
        node.import(&node.beside("blocks.dat"));
        let answering = Self::start(node, options);
        wait_until("the chain is there", || {
            answering.call("getbestblockhash", &json!([])) == chain.summary.tip
        });
        answering
    }

    pub(super) fn start(node: &'a Node, options: &[String]) -> Self {
        Self::start_with_login(node, free_port(), options)
    }

    fn start_with_login(node: &'a Node, port: u16, options: &[String]) -> Self {
        let login = [format!("-rpcuser={USER}"), format!("-rpcpassword={PASSWORD}")];
        let answering = Self::start_at(node, port, &[&login[..], options].concat());
        answering.wait_for_answer();
        answering
    }

    /// Without waiting, and without a user.
    pub(super) fn start_at(node: &'a Node, port: u16, options: &[String]) -> Self {
        let mut all = vec![format!("-rpcport={port}")];
        all.extend(["-connect=0", "-listen=0", "-par=1", "-assumevalid=0"].map(str::to_owned));
        all.extend(options.iter().cloned());
        let words: Vec<&dyn AsRef<OsStr>> =
            all.iter().map(|word| word as &dyn AsRef<OsStr>).collect();
        Self { running: Running::start(node, &words), port, rpc: Rpc::new(port) }
    }

    /// Ends and starts again, with what it was given.
    #[track_caller]
    pub(super) fn restart(&mut self, node: &'a Node, options: &[String]) {
        assert!(self.running.terminate().1.success());
        *self = Self::start_with_login(node, self.port, options);
    }

    #[track_caller]
    fn wait_for_answer(&self) {
        wait_until("godwit answers", || match self.rpc.try_call("getblockcount", &json!([])) {
            Ok(_) => true,
            Err(RpcError::Unreachable(_)) => false,
            Err(RpcError::Refused(error)) if error["code"] == -28 => false,
            Err(error) => panic!("{error:?}"),
        });
    }

    #[track_caller]
    pub(super) fn call(&self, method: &str, params: &Value) -> Value {
        self.rpc.call(method, params)
    }
}
