//! Messages of what happened to the chain (Core `zmqnotificationinterface.cpp`, `zmqpublishnotifier.cpp`).

use std::sync::Arc;
use std::time::Duration;

use godwit_chain::BlockReader;
use godwit_primitives::Block;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::sockets::{self, Sockets};
use super::{Missed, Notice, NoticedBlock, Notifier, Topic, wire};

/// How long a block waits for subscribers who are behind, all in all.
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
    missed: Arc<Missed>,
}

impl Publisher {
    pub(super) fn new(
        notifiers: &[Notifier],
        sockets: Sockets,
        reader: BlockReader,
        missed: Arc<Missed>,
    ) -> Self {
        let counted = |notifier: &Notifier| Counted {
            topic: notifier.topic,
            at: sockets::place(notifiers, notifier),
            count: 0,
        };
        let notifiers = notifiers.iter().map(counted).collect();
        Self { notifiers, sockets, reader, missed }
    }

    /// Publishes until nobody has anything to tell.
    pub(super) async fn run(mut self, mut notices: mpsc::Receiver<Notice>) {
        while let Some(notice) = notices.recv().await {
            self.publish(&notice).await;
            self.sockets.flush();
        }
    }

    async fn publish(&mut self, notice: &Notice) {
        let deadline = Instant::now() + PATIENCE;
        let (label, is_new_tip) = match notice {
            Notice::Connected { is_new_tip, .. } => (b'C', *is_new_tip),
            Notice::Disconnected(_) => (b'D', false),
        };
        let block = notice.block();
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
                    let hash = reversed(txid.to_bytes());
                    self.send(Topic::HashTx, &hash, deadline).await;
                    self.send(Topic::RawTx, tx.bytes(), deadline).await;
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
        match read {
            Some(Ok(bytes)) => Some(bytes.as_slice().to_vec()),
            Some(Err(_)) | None => {
                log::warn!("ZMQ: block {} cannot be read, and is not published", block.hash);
                None
            }
        }
    }

    /// Counts messages that are not made.
    fn skip(&mut self, topic: Topic, count: u32) {
        for notifier in self.notifiers.iter_mut().filter(|notifier| notifier.topic == topic) {
            notifier.count = notifier.count.wrapping_add(count);
        }
    }

    async fn send(&mut self, topic: Topic, body: &[u8], deadline: Instant) {
        let missed = self.missed.of(topic);
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
