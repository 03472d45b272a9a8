//! Answers to `getaddr`, which stay the same for a day.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::net_address::{AddressEntry, AddressNetwork, NetAddress};

/// Most answers that are kept. A node has few addresses. Whoever can call it at more shall not have any
/// number of answers kept, nor see any number of them: beyond the limit an answer is given that is kept
/// already.
const MAX_ANSWERS: usize = 16;

/// Where a peer asks: the network over which it came, and the address of ours that it called. Each has an
/// answer of its own: the same one everywhere would tell that these addresses are one node's (Core
/// `m_addr_response_caches`).
pub(super) type AskedAt = (AddressNetwork, Option<NetAddress>);

/// At most [`MAX_ANSWERS`], with the time until which each is given.
#[derive(Default)]
pub(super) struct AddressAnswers(BTreeMap<AskedAt, (Duration, Vec<AddressEntry>)>);

impl AddressAnswers {
    /// The answer that is given there at the moment: its own, or where no more are kept, another one of its
    /// network.
    pub(super) fn get(&self, asked_at: &AskedAt, now: Duration) -> Option<&[AddressEntry]> {
        let is_live = |(expires, _): &&(Duration, Vec<AddressEntry>)| *expires > now;
        let own = self.0.get(asked_at).filter(is_live);
        let are_full = self.0.values().filter(is_live).count() >= MAX_ANSWERS;
        let of_network = || {
            let mut others = self.0.iter().filter(|((network, _), _)| *network == asked_at.0);
            others.next().map(|(_, other)| other)
        };
        let given = own.or_else(|| if are_full { of_network() } else { None })?;
        Some(given.1.as_slice())
    }

    /// Keeps an answer; beyond the limit, which only the first one of a network comes to as long as the
    /// others have not expired, instead of the one that expires first.
    pub(super) fn insert(
        &mut self,
        asked_at: AskedAt,
        expires: Duration,
        answer: Vec<AddressEntry>,
    ) {
        if self.0.len() >= MAX_ANSWERS && !self.0.contains_key(&asked_at) {
            let first = self.0.iter().min_by_key(|(_, (expires, _))| *expires);
            if let Some(first) = first.map(|(asked_at, _)| *asked_at) {
                self.0.remove(&first);
            }
        }
        self.0.insert(asked_at, (expires, answer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net_address::Host;
    use crate::services::Services;

    fn asked_at(n: u8) -> AskedAt {
        let called = NetAddress::new(Host::Ipv4([77, 1, 2, n]), 8333);
        (AddressNetwork::Ipv4, Some(called))
    }

    fn answer(time: u32) -> Vec<AddressEntry> {
        let address = NetAddress::new(Host::Ipv4([9, 9, 9, 9]), 8333);
        vec![AddressEntry { time, services: Services::NONE, address }]
    }

    #[test]
    fn each_address_and_network_has_its_answer_until_it_expires() {
        let mut answers = AddressAnswers::default();
        let over_tor = (AddressNetwork::Onion, asked_at(1).1);
        answers.insert(asked_at(1), Duration::from_secs(5), answer(1));
        answers.insert(asked_at(2), Duration::from_secs(5), answer(2));
        answers.insert(over_tor, Duration::from_secs(5), answer(3));
        for (at, time) in [(asked_at(1), 1), (asked_at(2), 2), (over_tor, 3)] {
            assert_eq!(answers.get(&at, Duration::from_secs(4)), Some(&answer(time)[..]));
            assert_eq!(answers.get(&at, Duration::from_secs(5)), None);
        }
        assert_eq!(answers.get(&asked_at(3), Duration::ZERO), None);
    }

    #[test]
    fn sixteen_answers_are_kept_and_one_of_its_network_is_given_to_who_asks_elsewhere() {
        let mut answers = AddressAnswers::default();
        let most = MAX_ANSWERS as u8;
        for n in 0..most {
            // The fourth expires first.
            let expires = Duration::from_secs(u64::from((n + most - 3) % most) + 100);
            answers.insert(asked_at(n), expires, answer(1));
        }
        // One that is known takes no place.
        answers.insert(asked_at(5), Duration::from_secs(500), answer(2));
        assert_eq!(answers.0.len(), MAX_ANSWERS);
        let [before, behind] = [100, 101].map(Duration::from_secs);
        assert_eq!(answers.get(&asked_at(most), Duration::ZERO), Some(&answer(1)[..]));
        let over_tor = (AddressNetwork::Onion, asked_at(1).1);
        assert_eq!(answers.get(&over_tor, Duration::ZERO), None, "not one of another network");
        // Once one has expired, there is room.
        assert!(answers.get(&asked_at(most), before - Duration::from_secs(1)).is_some());
        assert_eq!(answers.get(&asked_at(most), before), None);
        answers.insert(over_tor, Duration::from_secs(500), answer(3));
        assert_eq!(answers.0.len(), MAX_ANSWERS);
        assert_eq!(answers.get(&over_tor, behind), Some(&answer(3)[..]));
        let missing = (0..most).filter(|&n| !answers.0.contains_key(&asked_at(n)));
        assert_eq!(missing.collect::<Vec<_>>(), [3]);
    }
}
