//! Answers the questions of the interfaces, and carries out their requests.

use std::sync::Weak;

use crossbeam_channel::Sender;
use godwit_api::{
    BlockOutcome, JudgedTxs, LoadPending, NodeState, Overrule, OverruleRefusal, Reject,
    SendRefusal, SnapshotLoad,
};
use godwit_chain::{
    BlockUnreadable, Chain, CoinsView, NodeId, OverruleError, keep_above, may_return,
    note_unreadable, prune_to, view_coins, want_again,
};
use godwit_p2p::{
    ChainEvent, Event as PeersEvent, FilterData, NodeCommand, Now, OutboxFull, PeerId, Peers,
    ReadId,
};
use godwit_primitives::{BlockHash, BlockHeader, Txid};
use godwit_stream::{PooledStream, SpanReader};

use super::NodeCore;
use super::submissions::Submitted;

impl NodeState for NodeCore {
    fn chain(&self) -> &Chain {
        &self.chain
    }

    fn accept_header(&mut self, header: &BlockHeader) -> Result<(), Reject> {
        let now = self.now.unix;
        self.chain.accept_header(header, header.block_hash(), now).map(drop)
    }

    fn note_unreadable(&mut self, unreadable: &BlockUnreadable) {
        note_unreadable(&mut self.chain, unreadable);
    }

    fn peers(&self) -> &Peers {
        &self.peers
    }

    fn now(&self) -> Now {
        self.now
    }

    fn network_active(&self) -> bool {
        self.network_active
    }

    fn command(&mut self, command: NodeCommand) {
        let now = self.now;
        if let NodeCommand::SetNetworkActive(active) = command {
            self.network_active = active;
        }
        self.tell(now, PeersEvent::Operator(command));
        self.apply_actions(now);
    }

    fn is_idle(&self) -> bool {
        self.idle
    }

    fn overrule(&mut self, hash: &BlockHash, overrule: Overrule) -> Result<(), OverruleRefusal> {
        self.idle = false;
        let done = match overrule {
            Overrule::Invalidate => self.chain.invalidate_block(hash),
            Overrule::Reconsider => self.chain.reconsider_block(hash),
            Overrule::Prefer => self.chain.prefer_block(hash),
        };
        if done.is_ok() {
            let tree = self.chain.tree();
            match (overrule, tree.find(hash)) {
                (Overrule::Invalidate, Some(id)) => self.warnings.note_taken_for_invalid(tree, id),
                (Overrule::Reconsider, _) => self.warnings.note_reconsidered(tree),
                (Overrule::Invalidate | Overrule::Prefer, _) => {}
            }
        }
        done.map_err(|error| match error {
            OverruleError::Unknown(_) => OverruleRefusal::UnknownBlock,
            OverruleError::Genesis => OverruleRefusal::Genesis,
            OverruleError::Chain(error) => {
                let text = error.to_string();
                self.pending_end.fault = Some(error);
                OverruleRefusal::Refused(text)
            }
            refused => OverruleRefusal::Refused(refused.to_string()),
        })
    }

    fn fetch_block(&mut self, peer: PeerId, id: NodeId) {
        want_again(&mut self.chain, id);
        let hash = self.chain.tree().node(id).hash;
        self.command(NodeCommand::FetchBlock(peer, hash));
    }

    fn prune_to(&mut self, height: u32) {
        prune_to(&mut self.chain, height);
    }

    fn keep_above(&mut self, reader: &'static str, height: Option<u32>) {
        keep_above(&mut self.chain, reader, height);
    }

    fn filters_read(&mut self, request: ReadId, data: Option<FilterData>) {
        let now = self.now;
        self.tell(now, ChainEvent::FiltersRead { request, data });
        self.apply_actions(now);
    }

    fn send_transactions(&mut self, judged: JudgedTxs) -> Result<(), SendRefusal> {
        let outbox = self.peers.outbox();
        if judged.tip != self.chain.tip_point().hash || judged.outbox != outbox.version() {
            return Err(SendRefusal::Moved);
        }
        self.peers
            .send_transactions(judged.txs, &judged.replaced)
            .map_err(|OutboxFull| SendRefusal::Full)?;
        self.apply_actions(self.now);
        Ok(())
    }

    fn announce_again(&mut self, txid: &Txid) {
        self.peers.announce_again(txid);
    }

    fn view_coins(&mut self, to: Weak<Sender<CoinsView>>) {
        view_coins(&mut self.chain, to);
    }

    fn load_snapshot(&mut self, load: SnapshotLoad) -> Result<(), LoadPending> {
        match &mut self.pending_end.load {
            Some(_) => Err(LoadPending),
            none => {
                *none = Some(load);
                Ok(())
            }
        }
    }

    fn submit_block(&mut self, bytes: PooledStream, outcome: Sender<BlockOutcome>) {
        let header: Option<BlockHeader> = SpanReader::new(bytes.as_slice()).get().ok();
        let known = header.and_then(|header| self.chain.tree().find(&header.block_hash()));
        let returning =
            known.filter(|id| may_return(&self.chain, *id) && want_again(&mut self.chain, *id));
        self.hand_in(Submitted::Caller { caller: outcome, returning }, bytes);
    }
}
