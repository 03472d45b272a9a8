//! Makes the messages about changes of the chain and of the outbox (Core `zmqnotificationinterface.cpp`,
//! `zmqpublishnotifier.cpp`).

use std::sync::Arc;
use std::time::Duration;

use godwit_chain::BlockReader;
use godwit_p2p::OutboxChange;
use godwit_primitives::{Block, TxView, Txid};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::sockets::{self, Sockets};
use super::{Notice, NoticedBlock, Notifier, Topic, Waiting, wire};

/// How long the messages of a notice wait for subscribers who are behind, all in all.
const PATIENCE: Duration = Duration::from_secs(1);

/// One of the notifiers, and how many messages it made.
struct Counted {
    topic: Topic,
    /// The place of its address.
    at: usize,
    count: u32,
}

pub(super) struct Publisher {
    notifiers: Vec<Counted>,
    sockets: Sockets,
    reader: BlockReader,
    waiting: Arc<Waiting>,
}

impl Publisher {
    pub(super) fn new(
        notifiers: &[Notifier],
        sockets: Sockets,
        reader: BlockReader,
        waiting: Arc<Waiting>,
    ) -> Self {
        let counted = |notifier: &Notifier| Counted {
            topic: notifier.topic,
            at: sockets::place(notifiers, notifier),
            count: 0,
        };
        let notifiers = notifiers.iter().map(counted).collect();
        Self { notifiers, sockets, reader, waiting }
    }

    /// Publishes until nobody has anything to tell.
    pub(super) async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        while let Some(notice) = notices.recv().await {
            self.waiting.give_back(notice.bytes());
            self.publish(&notice).await;
            self.sockets.flush();
        }
    }

    async fn publish(&mut self, notice: &Notice) {
        let deadline = Instant::now() + PATIENCE;
        match notice {
            Notice::Connected { block, is_new_tip } => {
                self.publish_block(block, b'C', *is_new_tip, deadline).await;
            }
            Notice::Disconnected(block) => self.publish_block(block, b'D', false, deadline).await,
            Notice::Outbox(OutboxChange::Added { tx, sequence }) => {
                self.publish_transaction(tx.txid, tx.view(), deadline).await;
                self.publish_change(tx.txid, b'A', *sequence, deadline).await;
            }
            Notice::Outbox(OutboxChange::Removed { txid, sequence }) => {
                self.publish_change(*txid, b'R', *sequence, deadline).await;
            }
        }
    }

    /// What began or ceased to wait.
    async fn publish_change(&mut self, txid: Txid, label: u8, sequence: u64, deadline: Instant) {
        let body = [&reversed(txid.to_bytes())[..], &[label], &sequence.to_le_bytes()].concat();
        self.send(Topic::Sequence, &body, deadline).await;
    }

    async fn publish_transaction(&mut self, txid: Txid, tx: TxView<'_>, deadline: Instant) {
        self.send(Topic::HashTx, &reversed(txid.to_bytes()), deadline).await;
        self.send(Topic::RawTx, tx.bytes(), deadline).await;
    }

    async fn publish_block(
        &mut self,
        block: &NoticedBlock,
        label: u8,
        is_new_tip: bool,
        deadline: Instant,
    ) {
        let of_transactions = [Topic::HashTx, Topic::RawTx];
        let is_wanted = |topic: &Topic| self.is_wanted(*topic);
        let wants_transactions = of_transactions.iter().any(is_wanted);
        let is_read = wants_transactions || (is_new_tip && self.is_wanted(Topic::RawBlock));
        let bytes = if is_read { self.read(block) } else { None };
        let decoded = bytes.as_ref().filter(|_| wants_transactions);
        match decoded.and_then(|bytes| Block::from_bytes(bytes).ok()) {
            None => of_transactions.iter().for_each(|topic| self.skip(*topic, block.tx_count)),
            Some(decoded) => {
                let view = decoded.view();
                for (txid, tx) in view.txids().iter().zip(view.txs()) {
                    self.publish_transaction(*txid, tx, deadline).await;
                }
            }
        }
        let hash = reversed(block.hash.to_bytes());
        self.send(Topic::Sequence, &[&hash[..], &[label]].concat(), deadline).await;
        if is_new_tip {
            self.send(Topic::HashBlock, &hash, deadline).await;
            match &bytes {
                Some(bytes) => self.send(Topic::RawBlock, bytes, deadline).await,
                None => self.skip(Topic::RawBlock, 1),
            }
        }
    }

    fn is_wanted(&self, topic: Topic) -> bool {
        let mut of_topic = self.notifiers.iter().filter(|notifier| notifier.topic == topic);
        of_topic.any(|notifier| self.sockets.are_any(notifier.at, topic))
    }

    fn read(&self, block: &NoticedBlock) -> Option<Vec<u8>> {
        let read = block.stored.map(|stored| self.reader.block(&stored));
        let why = match read {
            Some(Ok(bytes)) => return Some(bytes.as_slice().to_vec()),
            Some(Err(unreadable)) => format!(": {unreadable}"),
            None => String::new(),
        };
        log::warn!("ZMQ: block {} cannot be read, and is not published{why}", block.hash);
        None
    }

    /// Counts messages that are not made.
    fn skip(&mut self, topic: Topic, count: u32) {
        for notifier in self.notifiers.iter_mut().filter(|notifier| notifier.topic == topic) {
            notifier.count = notifier.count.wrapping_add(count);
        }
    }

    async fn send(&mut self, topic: Topic, body: &[u8], deadline: Instant) {
        let missed = self.waiting.missed(topic);
        for notifier in self.notifiers.iter_mut().filter(|notifier| notifier.topic == topic) {
            let number = notifier.count.wrapping_add(missed).to_le_bytes();
            notifier.count = notifier.count.wrapping_add(1);
            if self.sockets.are_any(notifier.at, topic) {
                let message = wire::message(&[topic.name().as_bytes(), body, &number]);
                let bytes = message.capacity();
                self.sockets.wait_for_room(notifier.at, topic, bytes, deadline).await;
                self.sockets.send(notifier.at, topic, message);
            }
        }
    }
}

/// Hashes are sent as they are written.
fn reversed(mut hash: [u8; 32]) -> [u8; 32] {
    hash.reverse();
    hash
}
