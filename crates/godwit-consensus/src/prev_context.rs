//! What the rules for a header ask of the chain below it.

use godwit_primitives::BlockHeader;

/// The block that another one is built on, and what lies below it.
#[derive(Clone, Copy)]
pub struct PrevContext<'a> {
    /// Height of the block.
    pub height: u32,
    /// Its header.
    pub header: BlockHeader,
    /// [`median_time_past`](crate::median_time_past) of its time and those of the ten blocks below.
    pub median_time_past: u32,
    /// The header at a height up to `self.height` of the chain that ends in this block.
    ///
    /// The 20-minute rule asks for falling heights, one by one.
    pub ancestor: &'a dyn Fn(u32) -> BlockHeader,
}
