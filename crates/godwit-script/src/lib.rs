//! Script verification behind one door: [`PreparedTx`], Bitcoin Core's own engine (`godwit-engine`).

#![warn(missing_docs)]

pub use godwit_engine::{PreparedTx, ScriptError, SpentOutput, verify_transaction};
