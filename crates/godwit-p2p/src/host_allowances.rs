//! Rate limits by host: what remains of a host's allowance when its connection ends.
//!
//! A host that reconnects continues with the remainder. Otherwise a host could evade an allowance per
//! connection by opening one connection after another. An allowance that is enough for an honest connection
//! is enough for honest reconnecting too.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::net_address::Host;
use crate::rate_limit::TokenBucket;

/// Most hosts that are remembered, at about 100 bytes each.
const MAX_HOSTS: usize = 1_000;

/// A connection through the onion service begins with this part of an allowance at least: nobody who calls
/// there is cut off because others have used up what all of them share.
const LEAST_PART: u64 = 10;

/// Allowances of hosts that are not full again, each of at most `burst` tokens.
pub(crate) struct HostAllowances {
    burst: u64,
    by_host: BTreeMap<Host, TokenBucket>,
    /// Of all who called the onion service together: which of them are one host is not known.
    through_onion: Option<TokenBucket>,
}

impl HostAllowances {
    /// Without hosts; allowances have at most `burst` tokens.
    pub(crate) fn new(burst: u64) -> Self {
        Self { burst, by_host: BTreeMap::new(), through_onion: None }
    }

    /// A connection of the host ended with this much left. Of several connections the least counts.
    /// Addresses of this machine are not remembered, since many peers can share them.
    pub(crate) fn remember(&mut self, now: Duration, host: Host, mut left: TokenBucket) {
        if host.is_local() || self.is_full(now, &mut left) {
            return;
        }
        if let Some(before) = self.by_host.get_mut(&host) {
            return keep_less(now, self.burst, before, left);
        }
        if self.by_host.len() >= MAX_HOSTS {
            self.forget_fullest(now);
        }
        self.by_host.insert(host, left);
    }

    /// A connection through the onion service ended with this much left.
    pub(crate) fn remember_onion(&mut self, now: Duration, mut left: TokenBucket) {
        if let Some(before) = &mut self.through_onion {
            keep_less(now, self.burst, before, left);
        } else if !self.is_full(now, &mut left) {
            self.through_onion = Some(left);
        }
    }

    /// What a connection through the onion service begins with; `None` for a full allowance.
    pub(crate) fn recall_onion(&mut self, now: Duration) -> Option<TokenBucket> {
        let mut left = self.through_onion.clone()?;
        if self.is_full(now, &mut left) {
            self.through_onion = None;
            return None;
        }
        let least = self.burst / LEAST_PART;
        if left.ready_at(now, least) != Some(now) {
            left.take_up_to(now, least);
            left.grant(least);
        }
        Some(left)
    }

    /// What is left of the host's allowance; `None` if it is full.
    pub(crate) fn recall(&mut self, now: Duration, host: &Host) -> Option<TokenBucket> {
        let mut left = self.by_host.get(host)?.clone();
        if self.is_full(now, &mut left) {
            self.by_host.remove(host);
            return None;
        }
        Some(left)
    }

    /// Hosts with less than half of their allowance left, in order.
    pub(crate) fn exhausted(&self, now: Duration) -> Vec<Host> {
        let low = |left: &TokenBucket| left.clone().ready_at(now, self.burst / 2) != Some(now);
        self.by_host.iter().filter(|(_, left)| low(left)).map(|(host, _)| *host).collect()
    }

    fn is_full(&self, now: Duration, left: &mut TokenBucket) -> bool {
        left.ready_at(now, self.burst) == Some(now)
    }

    fn forget_fullest(&mut self, now: Duration) {
        let burst = self.burst;
        let full_at =
            self.by_host.iter_mut().map(|(host, left)| (left.ready_at(now, burst), *host));
        if let Some((_, fullest)) = full_at.min() {
            self.by_host.remove(&fullest);
        }
    }
}

/// Of several connections the one with the least counts.
fn keep_less(now: Duration, burst: u64, before: &mut TokenBucket, mut left: TokenBucket) {
    if before.ready_at(now, burst) < left.ready_at(now, burst) {
        *before = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn host(n: u32) -> Host {
        Host::Ipv4((0x1400_0000 + n).to_be_bytes())
    }

    /// 100 tokens and one a second, of which `spent` are gone.
    fn left(now: Duration, spent: u64) -> TokenBucket {
        let mut bucket = TokenBucket::new(now, 100, 1, SECOND);
        assert!(bucket.take(now, spent));
        bucket
    }

    #[test]
    fn who_comes_again_goes_on_with_what_was_left_until_it_is_full() {
        let mut hosts = HostAllowances::new(100);
        hosts.remember(SECOND, host(1), left(SECOND, 80));
        hosts.remember(SECOND, host(2), left(SECOND, 0));
        hosts.remember(SECOND, Host::Ipv4([127, 0, 0, 1]), left(SECOND, 80));
        assert_eq!(hosts.by_host.len(), 1, "one is full, one is local");
        let mut again = hosts.recall(11 * SECOND, &host(1)).expect("it is remembered");
        assert!(!again.clone().take(11 * SECOND, 31) && again.take(11 * SECOND, 30));
        // The connection's own use counts with its end; less than what was left before, then not.
        hosts.remember(11 * SECOND, host(1), again);
        hosts.remember(11 * SECOND, host(1), left(11 * SECOND, 50));
        assert_eq!(hosts.exhausted(60 * SECOND), [host(1)]);
        assert_eq!(hosts.exhausted(61 * SECOND), []);
        assert!(hosts.recall(110 * SECOND, &host(1)).is_some());
        assert!(hosts.recall(111 * SECOND, &host(1)).is_none() && hosts.by_host.is_empty());
    }

    #[test]
    fn who_comes_through_tor_shares_what_is_left_and_has_a_tenth_in_any_case() {
        let mut hosts = HostAllowances::new(100);
        assert!(hosts.recall_onion(SECOND).is_none());
        hosts.remember_onion(SECOND, left(SECOND, 0));
        assert!(hosts.recall_onion(SECOND).is_none(), "nothing was used");
        hosts.remember_onion(SECOND, left(SECOND, 60));
        hosts.remember_onion(SECOND, left(SECOND, 20));
        let mut next = hosts.recall_onion(SECOND).expect("some was used");
        assert!(!next.clone().take(SECOND, 41) && next.take(SECOND, 40), "the least counts");
        hosts.remember_onion(SECOND, next);
        let mut least = hosts.recall_onion(SECOND).expect("all was used");
        assert!(!least.clone().take(SECOND, 11) && least.take(SECOND, 10));
        let mut later = hosts.recall_onion(31 * SECOND).expect("some of it is back");
        assert!(!later.clone().take(31 * SECOND, 31) && later.take(31 * SECOND, 30));
        assert!(hosts.recall_onion(101 * SECOND).is_none() && hosts.through_onion.is_none());
    }

    #[test]
    fn memory_is_bounded_and_the_fullest_are_forgotten_first() {
        let mut hosts = HostAllowances::new(100);
        let most = MAX_HOSTS as u32;
        for n in 0..most {
            hosts.remember(SECOND, host(n), left(SECOND, if n == 7 { 10 } else { 90 }));
        }
        hosts.remember(SECOND, host(most), left(SECOND, 50));
        assert_eq!(
            (hosts.by_host.len(), hosts.recall(SECOND, &host(7)).is_none()),
            (MAX_HOSTS, true)
        );
        hosts.remember(SECOND, host(most + 1), left(SECOND, 50));
        assert!(hosts.recall(SECOND, &host(most)).is_none());
        assert_eq!(hosts.exhausted(SECOND).len(), MAX_HOSTS - 1);
        let growth = size_of::<Host>() + size_of::<TokenBucket>();
        assert!(growth <= 120, "{growth}");
    }
}
