//! Orders in which the compared programs run.
//!
//! Each run leaves traces for the next one in the processor, in memory or on the disk. In an order that only
//! rotates, each program always follows the same neighbour, whose traces are then taken for its own. In a
//! square of Williams (1949) each program has each place, and directly follows each other one, equally often.

/// The orders of `count` participants, by number: a round for each. As many as participants where their
/// number is even, else twice as many.
pub fn williams(count: usize) -> Vec<Vec<usize>> {
    // 0, 1, n-1, 2, n-2, ...: neighbours differ by 1, 2, 3, ... round the circle, each distance once.
    let zigzag = |place: usize| match place % 2 {
        0 => (count - place / 2) % count,
        _ => place.div_ceil(2),
    };
    let shifted = |by: usize| (0..count).map(move |place| (zigzag(place) + by) % count);
    let mut orders: Vec<Vec<usize>> = (0..count).map(|by| shifted(by).collect()).collect();
    // An odd circle has each distance twice in one direction, never in the other: the mirror has that.
    if !count.is_multiple_of(2) && count > 1 {
        orders.extend((0..count).map(|by| shifted(by).rev().collect::<Vec<_>>()));
    }
    orders
}

/// The least number of rounds, `at_least` so many, in which `count` participants are balanced.
pub fn balanced_rounds(count: usize, at_least: usize) -> usize {
    let orders = williams(count).len().max(1);
    at_least.div_ceil(orders).max(1) * orders
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each has each place, and how often it comes directly behind each other one.
    fn counts(orders: &[Vec<usize>], count: usize) -> (Vec<usize>, Vec<usize>) {
        let pairs = (0..count).flat_map(|one| (0..count).map(move |other| (one, other)));
        let at = |(who, place): (usize, usize)| {
            orders.iter().filter(|order| order[place] == who).count()
        };
        let behind = |(who, other): (usize, usize)| {
            let neighbours = orders.iter().flat_map(|order| order.windows(2));
            neighbours.filter(|pair| pair[0] == other && pair[1] == who).count()
        };
        (
            pairs.clone().map(at).collect(),
            pairs.filter(|(who, other)| who != other).map(behind).collect(),
        )
    }

    #[test]
    fn everybody_has_each_place_and_each_predecessor_equally_often() {
        for count in 2..=17 {
            let orders = williams(count);
            let each = if count % 2 == 0 { 1 } else { 2 };
            assert_eq!(orders.len(), each * count);
            let (places, predecessors) = counts(&orders, count);
            assert!(places.iter().all(|n| *n == each), "{count}: {places:?}");
            assert!(predecessors.iter().all(|n| *n == each), "{count}: {predecessors:?}");
        }
    }

    #[test]
    fn one_alone_and_none() {
        assert_eq!(williams(1), [[0]]);
        assert!(williams(0).is_empty());
    }

    #[test]
    fn rounds_are_whole_squares() {
        let cases = [
            (2, 11, 12),
            (2, 12, 12),
            (3, 7, 12),
            (5, 7, 10),
            (9, 11, 18),
            (16, 11, 16),
            (1, 7, 7),
        ];
        for (count, at_least, rounds) in cases {
            assert_eq!(balanced_rounds(count, at_least), rounds, "{count}");
        }
        assert_eq!(balanced_rounds(0, 3), 3);
    }
}
