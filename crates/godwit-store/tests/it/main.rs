//! The store over real chains and a real disk.

mod child;
mod descriptors;
mod links;
mod real_chains;
