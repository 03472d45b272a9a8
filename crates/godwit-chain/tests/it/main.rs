//! Chains from genesis to tip, judged by Bitcoin Core's own answers or its engine.

mod audit;
mod crash_states;
mod damage;
mod datadir;
mod feed;
mod foreign_control;
mod golden;
mod history;
mod history_pruned;
mod inspect;
mod kernel;
mod lost_coins;
mod overrule;
mod panics;
mod pruned_branches;
mod pruning;
mod pruning_on_request;
mod reindex;
mod restart;
mod rot;
mod rotted_headers;
mod schemas;
mod scrub;
mod snapshots;
mod start_cost;
