//! Tests that need a process of their own.

mod v2_residue;
