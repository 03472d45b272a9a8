//! Which peers are not to be asked for a block, and until when.

use std::time::Duration;

use crate::peer_id::PeerId;

/// How long a peer is not asked again. Not for ever, since it may have been about to store what it
/// announced; doubled each time that it fails to deliver the block.
const FIRST_REST: Duration = Duration::from_secs(60);

/// Longest time for which a peer is not asked again.
const LONGEST_REST: Duration = Duration::from_secs(64 * 60);

#[derive(Clone, Copy, Debug)]
struct Exclusion {
    peer: PeerId,
    since: Duration,
    rest: Duration,
}

impl Exclusion {
    fn is_over(&self, now: Duration) -> bool {
        now >= self.since + self.rest
    }
}

/// The peers that failed to deliver a block. An exclusion that is over is kept: the length of the
/// next one depends on it.
#[derive(Debug, Default)]
pub(super) struct Exclusions(Vec<Exclusion>);

impl Exclusions {
    pub(super) fn add(&mut self, peer: PeerId, now: Duration) {
        match self.0.iter_mut().find(|one| one.peer == peer) {
            Some(one) => {
                one.rest = (one.rest * 2).min(LONGEST_REST);
                one.since = now;
            }
            None => self.0.push(Exclusion { peer, since: now, rest: FIRST_REST }),
        }
    }

    pub(super) fn remove(&mut self, peer: PeerId) {
        self.0.retain(|one| one.peer != peer);
    }

    /// When the peer was excluded; `None` if it may be asked.
    pub(super) fn since(&self, peer: PeerId, now: Duration) -> Option<Duration> {
        let one = self.0.iter().find(|one| one.peer == peer)?;
        (!one.is_over(now)).then_some(one.since)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_the_longest() {
        let mut exclusions = Exclusions::default();
        let (peer, other) = (PeerId(1), PeerId(2));
        let mut now = Duration::from_secs(7);
        for rest in [60, 120, 240, 480, 960, 1_920, 3_840, 3_840].map(Duration::from_secs) {
            exclusions.add(peer, now);
            let last = now + rest - Duration::from_nanos(1);
            assert_eq!(exclusions.since(peer, last), Some(now));
            now += rest;
            assert_eq!(exclusions.since(peer, now), None);
            assert_eq!(exclusions.since(other, last), None);
        }
        exclusions.add(other, now);
        exclusions.remove(peer);
        exclusions.add(peer, now);
        let first = Duration::from_secs(60);
        assert_eq!(exclusions.since(peer, now + first), None, "forgotten with the connection");
        exclusions.remove(peer);
        exclusions.remove(other);
        assert!(exclusions.is_empty());
    }
}
