//! What the node tells the interfaces, and does for them.

use std::sync::Weak;

use crossbeam_channel::Sender;
use godwit_api::{
    BlockOutcome, NodeState, NotSent, OtherLoad, Overruled, Reject, Sending, SnapshotLoad, Word,
};
use godwit_chain::{
    Chain, CoinsView, NodeId, OverruleError, keep_above, note_damaged, prune_to, view_coins,
    want_again,
};
use godwit_p2p::{
    ChainEvent, Event as PeersEvent, FilterData, NodeCommand, Now, OutboxFull, PeerId, Peers,
    ReadId,
};
use godwit_primitives::{BlockHash, BlockHeader, Txid};
use godwit_stream::PooledStream;

use super::NodeCore;
use super::submissions::Submitted;

impl NodeState for NodeCore {
    fn chain(&self) -> &Chain {
        &self.chain
    }

    fn accept_header(&mut self, header: &BlockHeader) -> Result<(), Reject> {
        let now = self.operator.now.unix;
        self.chain.accept_header(header, header.block_hash(), now).map(drop)
    }

    fn note_damaged(&mut self, id: NodeId) {
        note_damaged(&mut self.chain, id);
    }

    fn peers(&self) -> &Peers {
        &self.peers
    }

    fn now(&self) -> Now {
        self.operator.now
    }

    fn network_active(&self) -> bool {
        self.operator.network_active
    }

    fn command(&mut self, command: NodeCommand) {
        let now = self.operator.now;
        if let NodeCommand::SetNetworkActive(active) = command {
            self.operator.network_active = active;
        }
        self.tell(now, PeersEvent::Operator(command));
        self.apply_actions(now);
    }

    fn is_idle(&self) -> bool {
        self.operator.idle
    }

    fn overrule(&mut self, hash: &BlockHash, word: Word) -> Result<(), Overruled> {
        self.operator.idle = false;
        let done = match word {
            Word::Invalid => self.chain.invalidate_block(hash),
            Word::Reconsidered => self.chain.reconsider_block(hash),
            Word::Preferred => self.chain.prefer_block(hash),
        };
        if done.is_ok() {
            let tree = self.chain.tree();
            match (word, tree.find(hash)) {
                (Word::Invalid, Some(id)) => self.warnings.note_taken_for_invalid(tree, id),
                (Word::Reconsidered, _) => self.warnings.note_reconsidered(tree),
                (Word::Invalid | Word::Preferred, _) => {}
            }
        }
        done.map_err(|error| match error {
            OverruleError::Unknown(_) => Overruled::Unknown,
            OverruleError::Genesis => Overruled::Genesis,
            OverruleError::Chain(error) => {
                let text = error.to_string();
                self.operator.fault = Some(error);
                Overruled::Refused(text)
            }
            refused => Overruled::Refused(refused.to_string()),
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
        let now = self.operator.now;
        self.tell(now, ChainEvent::FiltersRead { request, data });
        self.apply_actions(now);
    }

    fn send_transactions(&mut self, sending: Sending) -> Result<(), NotSent> {
        let outbox = self.peers.outbox();
        if sending.tip != self.chain.tip_point().hash || sending.outbox != outbox.version() {
            return Err(NotSent::Moved);
        }
        self.peers
            .send_transactions(sending.txs, &sending.replaced)
            .map_err(|OutboxFull| NotSent::Full)?;
        self.apply_actions(self.operator.now);
        Ok(())
    }

    fn announce_again(&mut self, txid: &Txid) {
        self.peers.announce_again(txid);
    }

    fn view_coins(&mut self, to: Weak<Sender<CoinsView>>) {
        view_coins(&mut self.chain, to);
    }

    fn load_snapshot(&mut self, load: SnapshotLoad) -> Result<(), OtherLoad> {
        match &mut self.operator.load {
            Some(_) => Err(OtherLoad),
            none => {
                *none = Some(load);
                Ok(())
            }
        }
    }

    fn submit_block(&mut self, bytes: PooledStream, outcome: Sender<BlockOutcome>) {
        self.hand_in(Submitted::Caller(outcome), bytes);
    }
}
