//! The order of the runs: balanced orders of all subjects in the rounds with `bitcoind`, and of the policies
//! alone in the other rounds, because bitcoind takes several times as long as all policies together.

use crate::ibd::subject::Subject;
use crate::rotation::williams;

/// Whether everybody has each place and each one before it equally often in so many rounds, of which
/// `bitcoind` takes part in `with_bitcoind`.
pub fn is_balanced(rounds: usize, with_bitcoind: usize) -> bool {
    with_bitcoind.is_multiple_of(williams(Subject::ALL.len()).len())
        && (rounds - with_bitcoind).is_multiple_of(williams(Subject::POLICIES.len()).len())
}

/// The order of each round. `bitcoind` takes part in `with_bitcoind` of them, spread evenly, the first
/// one included.
pub fn orders(rounds: usize, with_bitcoind: usize) -> Vec<Vec<Subject>> {
    let (all, policies) = (orders_of(&Subject::ALL), orders_of(&Subject::POLICIES));
    let (mut all, mut policies) = (all.iter().cycle(), policies.iter().cycle());
    let order = |round: usize| match (round * with_bitcoind) % rounds < with_bitcoind {
        true => all.next().cloned(),
        false => policies.next().cloned(),
    };
    (0..rounds).filter_map(order).collect()
}

fn orders_of(subjects: &[Subject]) -> Vec<Vec<Subject>> {
    let named = |order: Vec<usize>| order.into_iter().map(|number| subjects[number]).collect();
    williams(subjects.len()).into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of `subjects` has each place, and how often it comes directly behind another.
    fn counts(orders: &[Vec<Subject>], subjects: &[Subject]) -> (Vec<usize>, Vec<usize>) {
        let places = 0..subjects.len();
        let at = |who: &Subject, place: usize| {
            orders.iter().filter(|order| order.get(place) == Some(who)).count()
        };
        let behind = |who: &Subject, other: &Subject| {
            let pairs = orders.iter().flat_map(|order| order.windows(2));
            pairs.filter(|pair| pair[0] == *other && pair[1] == *who).count()
        };
        let others = |who| subjects.iter().filter(move |other| **other != who);
        (
            subjects.iter().flat_map(|who| places.clone().map(|place| at(who, place))).collect(),
            subjects.iter().flat_map(|who| others(*who).map(|other| behind(who, other))).collect(),
        )
    }

    #[test]
    fn everybody_has_each_place_and_each_one_before_it_equally_often() {
        assert_eq!(counts(&orders(4, 4), &Subject::ALL), (vec![1; 16], vec![1; 12]));
        assert_eq!(counts(&orders(6, 0), &Subject::POLICIES), (vec![2; 9], vec![2; 6]));
    }

    #[test]
    fn default_rounds_are_balanced() {
        use crate::ibd::arguments::{DEFAULT_BITCOIND_ROUNDS, DEFAULT_ROUNDS};
        assert!(is_balanced(DEFAULT_ROUNDS, DEFAULT_BITCOIND_ROUNDS));
        let (all, policies): (Vec<_>, Vec<_>) = orders(DEFAULT_ROUNDS, DEFAULT_BITCOIND_ROUNDS)
            .into_iter()
            .partition(|order| order.contains(&Subject::Bitcoind));
        assert_eq!(counts(&all, &Subject::ALL), (vec![2; 16], vec![2; 12]));
        assert_eq!(counts(&policies, &Subject::POLICIES), (vec![4; 9], vec![4; 6]));
        assert!(!is_balanced(DEFAULT_ROUNDS, DEFAULT_BITCOIND_ROUNDS - 1) && !is_balanced(10, 2));
    }

    #[test]
    fn bitcoind_runs_as_often_as_asked_and_in_the_first_round() {
        for (rounds, with) in [(1, 1), (10, 4), (22, 4), (22, 22), (7, 3)] {
            let orders = orders(rounds, with);
            assert_eq!(orders.len(), rounds);
            let there = |order: &Vec<Subject>| order.contains(&Subject::Bitcoind);
            assert_eq!(orders.iter().filter(|order| there(order)).count(), with, "{rounds}");
            assert!(there(&orders[0]));
            assert!(orders.iter().all(|order| Subject::POLICIES.iter().all(|p| order.contains(p))));
        }
        assert!(!orders(3, 0).concat().contains(&Subject::Bitcoind));
    }
}
