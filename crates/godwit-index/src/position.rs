//! The position of an index: its last block and those before it, by which it finds its way back to the active
//! chain even if a crash removed its last block from the chain.

use std::collections::VecDeque;

use godwit_store::ChainPoint;

/// Blocks that are remembered: as many as are still found once a reorganisation has left them all, more than
/// a crash can take from the chain. An index that has to go back farther, and whose last block the chain does
/// not know any more, is built again.
const REMEMBERED: usize = 1_000;

/// See the module's documentation. Empty before the first block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The newest first; each is the parent of the one before.
    points: VecDeque<ChainPoint>,
}

impl Position {
    pub(crate) fn from_points(points: Vec<ChainPoint>) -> Self {
        Self { points: points.into() }
    }

    pub(crate) fn points(&self) -> &VecDeque<ChainPoint> {
        &self.points
    }

    /// The last block that the index has.
    pub fn best(&self) -> Option<ChainPoint> {
        self.points.front().copied()
    }

    /// The index has a block more.
    pub(crate) fn push(&mut self, point: ChainPoint) {
        self.points.push_front(point);
        self.points.truncate(REMEMBERED);
    }

    /// The index goes back to `to`, an ancestor of its last block; to before genesis, if that is `None`.
    /// Gives the blocks that are remembered above it, the newest first.
    pub(crate) fn rewind(&mut self, to: Option<ChainPoint>) -> Vec<ChainPoint> {
        let is_above = |point: &ChainPoint| to.is_none_or(|to| point.height > to.height);
        let count = self.points.iter().take_while(|point| is_above(point)).count();
        let left = self.points.drain(..count).collect();
        if self.points.is_empty() {
            self.points.extend(to);
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::BlockHash;

    use super::*;

    fn point(height: u32) -> ChainPoint {
        ChainPoint { hash: BlockHash::from_bytes([height as u8; 32]), height }
    }

    #[test]
    fn a_position_goes_up_and_back() {
        let mut position = Position::default();
        (0..10).for_each(|height| position.push(point(height)));
        assert_eq!(position.best(), Some(point(9)));
        assert_eq!(position.points().back(), Some(&point(0)));
        assert_eq!(position.rewind(Some(point(7))), [point(9), point(8)]);
        assert_eq!((position.best(), position.points().len()), (Some(point(7)), 8));
        assert_eq!(position.rewind(Some(point(7))), []);
        assert_eq!(position.rewind(None).len(), 8);
        assert_eq!(position.best(), None);
    }

    #[test]
    fn beyond_what_is_remembered_only_the_end_is_known() {
        let mut position = Position::default();
        (0..REMEMBERED as u32 + 100).for_each(|height| position.push(point(height)));
        assert_eq!(position.points().len(), REMEMBERED);
        assert_eq!(position.rewind(Some(point(5))).len(), REMEMBERED);
        assert_eq!(position.best(), Some(point(5)));
    }
}
