//! Tests that need a process of their own.

mod v2_cost;
mod v2_residue;
mod v2_stack;
