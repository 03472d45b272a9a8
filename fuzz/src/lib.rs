//! What hostile bytes must not bring about, as functions of those bytes that panic when they do.
//!
//! Each has a fuzz target of its name (`fuzz_targets/`) and seeds from which the fuzzer starts.

mod asmap;
mod block;
mod commit_records;
mod core_wallet;
mod descriptor;
mod disk;
mod folder;
mod headers;
mod http;
mod import_framing;
mod input;
mod json_rpc;
mod json_twin;
mod key_file;
mod key_text;
mod lanes;
mod memory;
mod mnemonic;
mod p2p_frame;
mod p2p_message;
mod psbt;
mod source;
mod transport;
mod undo;
mod utxo_run;
mod v2_handshake;
mod v2_packets;
mod v2_session;

/// A property of inputs.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name of its fuzz target.
    pub name: &'static str,
    /// Panics for an input that it does not hold for.
    pub check: fn(&[u8]),
    /// Inputs to start from, among them what the shared data has, where there is any.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

macro_rules! targets {
    ($($constant:ident $module:ident)*) => {
        $(
            #[doc = concat!("See the module `", stringify!($module), "`.")]
            pub const $constant: Target = Target {
                name: stringify!($module),
                check: $module::check,
                seeds: $module::seeds,
            };
        )*

        pub const TARGETS: &[Target] = &[$($constant),*];
    };
}

targets! {
    ASMAP asmap
    BLOCK block
    COMMIT_RECORDS commit_records
    CORE_WALLET core_wallet
    DESCRIPTOR descriptor
    HEADERS headers
    HTTP http
    IMPORT_FRAMING import_framing
    JSON_RPC json_rpc
    KEY_FILE key_file
    KEY_TEXT key_text
    LANES lanes
    MNEMONIC mnemonic
    P2P_FRAME p2p_frame
    P2P_MESSAGE p2p_message
    PSBT psbt
    UNDO undo
    UTXO_RUN utxo_run
    V2_HANDSHAKE v2_handshake
    V2_PACKETS v2_packets
    V2_SESSION v2_session
}
