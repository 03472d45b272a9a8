//! The queue in which scripts wait for a worker, and how a worker takes its share from it.

use std::collections::VecDeque;

use crate::limits::SHARED_INPUTS;

/// The row of scripts of all blocks, in the order of the blocks, each with its number of inputs.
pub(crate) struct Row<T> {
    waiting: VecDeque<(usize, T)>,
    inputs: usize,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), inputs: 0 }
    }
}

impl<T> Row<T> {
    pub(crate) fn push(&mut self, inputs: usize, part: T) {
        self.inputs += inputs;
        self.waiting.push_back((inputs, part));
    }

    /// Takes a worker's share: as much as each gets if all are free, but no more than the lanes need.
    pub(crate) fn take_share(&mut self, workers: usize) -> Vec<T> {
        let share = self.inputs.div_ceil(workers).min(SHARED_INPUTS);
        let (mut taken, mut inputs) = (Vec::new(), 0);
        while (taken.is_empty() || inputs < share)
            && let Some((count, part)) = self.waiting.pop_front()
        {
            inputs += count;
            taken.push(part);
        }
        self.inputs -= inputs;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::INPUTS_PER_PART;

    #[test]
    fn shares_are_even_where_there_is_little_and_enough_for_the_lanes_where_there_is_much() {
        let shares = |inputs: &[usize], workers: usize| {
            let mut row = Row::default();
            for (part, inputs) in inputs.iter().enumerate() {
                row.push(*inputs, part);
            }
            let mut shares = Vec::new();
            let mut taken = Vec::new();
            while taken.len() < inputs.len() {
                let share = row.take_share(workers);
                assert!(!share.is_empty());
                shares.push(share.iter().map(|part| inputs[*part]).sum::<usize>());
                taken.extend(share);
            }
            assert_eq!(taken, (0..inputs.len()).collect::<Vec<_>>(), "in order, each once");
            assert!(row.take_share(workers).is_empty() && row.inputs == 0);
            shares
        };
        assert_eq!(shares(&[1], 4), [1]);
        // The first worker takes half, the second half of what is left: nobody is idle before the end.
        assert_eq!(shares(&[96; 4], 2), [192, 96, 96]);
        assert_eq!(shares(&[1; 8], 8), [1; 8]);
        assert_eq!(shares(&[1; 600], 1), [SHARED_INPUTS, SHARED_INPUTS, 88]);
        let most = SHARED_INPUTS + 3 * INPUTS_PER_PART;
        assert!(shares(&[3 * INPUTS_PER_PART - 1; 100], 2).iter().all(|share| *share < most));
    }
}
