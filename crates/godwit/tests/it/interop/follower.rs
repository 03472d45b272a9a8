//! godwit as a node beside others.

use std::ffi::{OsStr, OsString};
use std::net::TcpStream;
use std::time::Duration;

use godwit::exit::Exit;
use serde_json::Value;

use super::chain::RecentChain;
use super::{LIMIT, POLL, free_port, wait_until};
use crate::blocks::write_dat;
use crate::node::Node;
use crate::running::{Moment, Running};

/// What a node of a test is told. It talks to nobody else.
pub(super) fn options(connect: &[u16], listen: Option<u16>) -> Vec<OsString> {
    let mut words = vec!["-dnsseed=0".to_owned(), "-par=1".to_owned(), "-assumevalid=0".to_owned()];
    words.extend(connect.iter().map(|port| format!("-connect=127.0.0.1:{port}")));
    if connect.is_empty() {
        words.push("-connect=0".to_owned());
    }
    match listen {
        Some(port) => words.push(format!("-bind=127.0.0.1:{port}")),
        None => words.push("-listen=0".to_owned()),
    }
    words.into_iter().map(OsString::from).collect()
}

/// A node that runs until it is told to stop.
pub(super) struct Follower<'a> {
    node: &'a Node,
    running: Running<'a>,
}

impl<'a> Follower<'a> {
    /// Connects to these ports and listens on one, perhaps.
    pub(super) fn start(node: &'a Node, connect: &[u16], listen: Option<u16>) -> Self {
        Self::start_with(node, options(connect, listen))
    }

    pub(super) fn start_with(node: &'a Node, options: Vec<OsString>) -> Self {
        let words: Vec<&dyn AsRef<OsStr>> =
            options.iter().map(|word| word as &dyn AsRef<OsStr>).collect();
        Self { node, running: Running::start(node, &words) }
    }

    /// Has the chain, and listens on the port.
    pub(super) fn serving(node: &'a Node, chain: &RecentChain) -> (Self, u16) {
        let port = free_port();
        (Self::serving_blocks(node, &chain.blocks, port), port)
    }

    /// Has these blocks beside those that it had, and listens on the port.
    pub(super) fn serving_blocks(node: &'a Node, blocks: &[Vec<u8>], port: u16) -> Self {
        write_dat(&node.beside("blocks.dat"), blocks);
        node.import(&node.beside("blocks.dat"));
        let mut follower = Self::start(node, &[], Some(port));
        follower.wait_for_listening(port);
        follower
    }

    pub(super) fn logged(&mut self, text: &str) -> bool {
        self.running.log().0.contains(text)
    }

    /// Waits until it says that it refused a block because of a script: a thread writes its log.
    #[track_caller]
    pub(super) fn expect_refused_script_of(&mut self, hash: &str) {
        let line = format!("ConnectBlock {hash} failed: block-script-verify-flag-failed");
        wait_until("godwit says why it refused the block", || self.logged(&line));
    }

    /// Waits until it accepts connections.
    #[track_caller]
    pub(super) fn wait_for_listening(&mut self, port: u16) {
        wait_until("godwit listens", || {
            assert!(!self.ended_within(POLL), "godwit ended: {}", self.node.log());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    /// Hash of the last block that was connected while it runs.
    fn tip(&mut self) -> Option<String> {
        let log = self.running.log();
        let (_, rest) = log.0.rsplit_once("UpdateTip: new best=")?;
        Some(rest.get(..64)?.to_owned())
    }

    /// Waits until its tip is at a height or above.
    #[track_caller]
    pub(super) fn wait_for_height(&mut self, height: u32) {
        wait_until(&format!("godwit is at height {height}"), || {
            assert!(!self.ended_within(POLL), "godwit ended: {}", self.node.log());
            self.height().is_some_and(|now| now >= height)
        });
    }

    /// Height of the last block that was connected while it runs.
    fn height(&mut self) -> Option<u32> {
        let log = self.running.log();
        let (_, rest) = log.0.rsplit_once("UpdateTip: new best=")?;
        let (_, rest) = rest.split_once("height=")?;
        rest.split_once(' ')?.0.parse().ok()
    }

    /// Waits until a block is its tip; how long that took.
    #[track_caller]
    pub(super) fn wait_for_tip(&mut self, hash: &str) -> Duration {
        wait_until(&format!("godwit's tip is {hash}"), || {
            assert!(!self.ended_within(POLL), "godwit ended: {}", self.node.log());
            self.tip().as_deref() == Some(hash)
        })
    }

    fn ended_within(&mut self, time: Duration) -> bool {
        !self.running.wait_for(Moment::After(time))
    }

    /// Waits for its end, which `-stopatheight` or a fault brings; expects success.
    #[track_caller]
    fn expect_success(mut self) {
        assert!(self.ended_within(LIMIT), "godwit does not end: {}", self.node.log());
        let code = self.running.wait().code();
        assert_eq!(code, Some(Exit::Success.code().into()), "{}", self.node.log());
    }

    /// Tells it to stop, and returns what `utxo stats` says afterwards.
    #[track_caller]
    pub(super) fn stop(mut self) -> Value {
        let (_, status) = self.running.terminate();
        let allowed = [Exit::Success, Exit::Interrupted].map(|exit| Some(exit.code().into()));
        assert!(allowed.contains(&status.code()), "{status}: {}", self.node.log());
        self.node.stats()
    }
}

/// Syncs up to a height from a port; what `utxo stats` says afterwards.
#[track_caller]
pub(super) fn sync(node: &Node, port: u16, height: u64) -> Value {
    let mut options = options(&[port], None);
    options.push(format!("-stopatheight={height}").into());
    let words: Vec<&dyn AsRef<OsStr>> =
        options.iter().map(|word| word as &dyn AsRef<OsStr>).collect();
    Follower { node, running: Running::start(node, &words) }.expect_success();
    node.stats()
}
