//! `rpc-load`: how long clients of the RPC wait while a node syncs with every script, and what they cost the
//! sync.

use std::process::ExitCode;

fn main() -> ExitCode {
    godwit_bench::load::main()
}
