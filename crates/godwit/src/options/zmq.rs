//! Options of the notifications over ZeroMQ.

use godwit_api::{DEFAULT_HIGH_WATER_MARK, Notifier, Topic, ZmqAddress};

/// Values as given.
#[derive(Default)]
pub(super) struct ZmqDraft {
    pub(super) addresses: Vec<(Topic, ZmqAddress)>,
    /// The last one of a topic counts.
    pub(super) marks: Vec<(Topic, u32)>,
}

/// What is published where, in the order of the topics.
pub(super) fn resolve(draft: &ZmqDraft) -> Vec<Notifier> {
    let notifiers = |topic: Topic| {
        let marks = draft.marks.iter().rev();
        let mark = marks.filter(|(of, _)| *of == topic).map(|(_, mark)| *mark).next();
        let addresses = draft.addresses.iter().filter(move |(of, _)| *of == topic);
        addresses.map(move |(_, address)| Notifier {
            topic,
            address: address.clone(),
            high_water_mark: mark.unwrap_or(DEFAULT_HIGH_WATER_MARK),
        })
    };
    Topic::ALL.into_iter().flat_map(notifiers).collect()
}
