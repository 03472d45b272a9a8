//! The order in which programs run.
//!
//! In a round each policy runs once, all linked in the same order. The rounds go through the link
//! orders and, beside them, through a square of Williams, in which each policy has each place and each
//! predecessor equally often. Of two, four or five policies the square has two, four or ten sequences, which
//! have no common divisor with the link orders: after thirty rounds of five policies, or twelve of four, each
//! sequence has met each link order once. Of three policies, six sequences, each meets only one.

use super::policy::{LINK_ORDERS, Policy};
use crate::interval::Interval;
use crate::rotation::williams;

/// Rounds at which a case ends however wide its intervals are; as many of each link order.
pub const MOST_ROUNDS: usize = 42;
const _: () = assert!(MOST_ROUNDS.is_multiple_of(LINK_ORDERS));

/// Rounds before the first look: fewer than six have no interval, and each link order is to have the
/// same number.
const LEAST_ROUNDS: usize = 6;

/// Half the width of an interval, in percent, at which a case is done.
pub const HALF_WIDTH: f64 = 1.0;

/// In which order the programs of a round were linked.
pub fn link_order(round: usize) -> usize {
    round % LINK_ORDERS
}

/// The policies in the order in which they run in a round.
pub fn sequence(policies: &[Policy], round: usize) -> Vec<Policy> {
    let orders = williams(policies.len());
    orders[round % orders.len()].iter().map(|number| policies[*number]).collect()
}

/// Whether a case needs no more rounds: its differences in processor time are known well enough, or it had
/// `most` rounds.
pub fn is_done(rounds: usize, most: usize, differences: &[Option<Interval>]) -> bool {
    rounds >= most || is_known(rounds, differences)
}

/// Whether all differences are known well enough. They only are when each link order has had equally many
/// rounds.
pub fn is_known(rounds: usize, differences: &[Option<Interval>]) -> bool {
    let even = rounds >= LEAST_ROUNDS && rounds.is_multiple_of(LINK_ORDERS);
    even && widest(differences).is_some_and(|half| half <= HALF_WIDTH)
}

/// Half the width of the widest interval, in percent; `None` where one is missing, or all are.
pub fn widest(differences: &[Option<Interval>]) -> Option<f64> {
    let half = |difference: &Option<Interval>| {
        difference.map(|interval| (interval.high - interval.low) / 2.0)
    };
    let halves = differences.iter().map(half).collect::<Option<Vec<f64>>>()?;
    halves.into_iter().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_sequence_meets_each_link_order_once() {
        for (policies, full) in [(2, 6), (4, 12), (5, 30)] {
            let sequence = |round| sequence(&Policy::ALL[..policies], round);
            let pairs: BTreeSet<_> =
                (0..full).map(|round| (link_order(round), sequence(round))).collect();
            assert_eq!(pairs.len(), full);
        }
    }

    #[test]
    fn every_policy_has_each_place_and_each_predecessor_equally_often_in_ten_rounds() {
        let rounds: Vec<_> = (0..10).map(|round| sequence(&Policy::ALL, round)).collect();
        for policy in Policy::ALL {
            for place in 0..5 {
                assert_eq!(rounds.iter().filter(|round| round[place] == policy).count(), 2);
            }
            for before in Policy::ALL.into_iter().filter(|other| *other != policy) {
                let pairs = rounds.iter().flat_map(|round| round.windows(2));
                let behind = pairs.filter(|pair| **pair == [before, policy]).count();
                assert_eq!(behind, 2, "{policy} behind {before}");
            }
        }
    }

    #[test]
    fn a_case_ends_when_all_is_known_or_at_its_last_round() {
        let of = |half: f64| {
            Some(Interval { estimate: 0.3, low: 0.3 - half, high: 0.3 + half, count: 9 })
        };
        assert!(is_done(9, 40, &[of(0.9), of(1.0)]));
        assert!(!is_done(9, 40, &[of(0.9), of(1.1)]));
        assert!(!is_done(10, 40, &[of(0.9)]), "a link order more than the others");
        assert!(!is_done(3, 40, &[of(0.9)]) && !is_done(9, 40, &[]));
        assert!(!is_done(39, 40, &[None]));
        assert!(is_done(40, 40, &[None]));
        assert!(is_known(9, &[of(0.9), of(1.0)]) && !is_known(40, &[None]));
        assert_eq!([widest(&[of(0.9), None]), widest(&[])], [None, None]);
    }
}
