//! The store over real chains and a real disk.

mod real_chains;
