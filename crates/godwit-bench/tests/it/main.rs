//! Integration tests of `godwit-bench`.

mod command;
mod harness;
mod slow_policy;
