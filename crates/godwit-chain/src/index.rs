//! What is known of blocks: every header, and which stored blocks could become the tip.

pub(crate) mod candidates;
