//! The store over real chains and a real disk.

mod child;
mod descriptors;
mod real_chains;
