//! Blocks that are named by a hash or by a height.

use godwit_chain::{Chain, NodeId};
use godwit_primitives::BlockHash;
use godwit_rpc::{Json, RpcError, code};

use super::{at_height, find, parse};

/// The block that a hash or a height of the active chain names (Core `ParseHashOrHeight`).
#[derive(Clone, Copy)]
pub(super) enum Named {
    Hash(BlockHash),
    Height(u32),
}

impl Named {
    pub(super) fn parse(value: &Json) -> Result<Self, RpcError> {
        let Json::Number(_) = value else {
            return parse::hash(value, "hash_or_height").map(Self::Hash);
        };
        let height: i32 = value.as_integer()?;
        u32::try_from(height).map(Self::Height).map_err(|_| {
            let text = format!("Target block height {height} is negative");
            RpcError::new(code::INVALID_PARAMETER, text)
        })
    }

    pub(super) fn find(self, chain: &Chain) -> Result<NodeId, RpcError> {
        let tip = chain.tip_point().height;
        match self {
            Self::Hash(hash) => find(chain, &hash),
            Self::Height(height) if height <= tip => Ok(at_height(chain, height)),
            Self::Height(height) => {
                let text = format!("Target block height {height} after current tip {tip}");
                Err(RpcError::new(code::INVALID_PARAMETER, text))
            }
        }
    }
}
