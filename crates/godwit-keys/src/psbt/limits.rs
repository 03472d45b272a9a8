//! Limits of a PSBT. A larger one describes no transaction for which a block has room.

use bitcoin::{Amount, FeeRate};

/// Longest binary form in bytes (Core's `MAX_FILE_SIZE_PSBT`).
pub const MAX_PSBT_BYTES: usize = 100_000_000;

/// Longest unsigned transaction in bytes: it has no witness, so every byte weighs four units of the
/// four million of a block (BIP141).
pub(super) const MAX_UNSIGNED_TX_BYTES: usize = 1_000_000;

/// Bytes of an input without script: outpoint, length of the script, sequence.
const INPUT_BYTES: usize = 36 + 1 + 4;
/// Bytes of an output without script: value, length of the script.
const OUTPUT_BYTES: usize = 8 + 1;

/// Most inputs.
pub const MAX_INPUTS: usize = MAX_UNSIGNED_TX_BYTES / INPUT_BYTES;
/// Most outputs.
pub const MAX_OUTPUTS: usize = MAX_UNSIGNED_TX_BYTES / OUTPUT_BYTES;

// A map is at least its end marker, so this many maps always fit.
const _: () = assert!(MAX_INPUTS + MAX_OUTPUTS < MAX_PSBT_BYTES);

/// Most pairs of a map.
pub const MAX_PAIRS: usize = 10_000;
/// Most pairs of all maps: forty for each of the most inputs, as of a multisig of fifteen keys. A small one
/// takes half a kilobyte of memory while a PSBT is looked at, a hundred times its bytes.
pub(super) const MAX_ALL_PAIRS: usize = 1_000_000;
const _: () = assert!(MAX_INPUTS * 40 < MAX_ALL_PAIRS);
/// Most signatures of an input: more than the keys that a script has room for.
pub const MAX_SIGNATURES: usize = 1_000;
/// Most derivation paths of an input or output.
pub const MAX_DERIVATIONS: usize = 1_000;

/// Longest redeem script in bytes: it is pushed (`MAX_SCRIPT_ELEMENT_SIZE`).
pub(super) const MAX_REDEEM_SCRIPT_BYTES: usize = 520;
/// Longest witness script in bytes (`MAX_SCRIPT_SIZE`).
pub(super) const MAX_WITNESS_SCRIPT_BYTES: usize = 10_000;

/// Most bytes that are hashed for the legacy signatures of a transaction. Each of them signs the whole
/// transaction, so that it grows with the square of the inputs. The largest transaction that is relayed
/// (100,000 vbytes) has fewer than 700 legacy inputs, and some twenty million bytes to hash for each sighash
/// type that they use.
pub(super) const MAX_LEGACY_HASHING: usize = 256 << 20;

/// Highest fee that is signed without a word from the user: Core's `-maxtxfee`.
pub const DEFAULT_MAX_FEE: Amount = Amount::from_sat(10_000_000);

/// Highest fee rate that is signed without a word from the user. Core's `sendrawtransaction` refuses
/// at 10,000 satoshi for a virtual byte; the dearest days of the chain stayed below a tenth of that.
pub const DEFAULT_MAX_FEE_RATE: FeeRate = FeeRate::from_sat_per_vb_u32(1_000);

/// Highest part of what is spent that goes to the fee without a word from the user, in hundredths: who pays
/// more has mistaken an amount.
pub const DEFAULT_MAX_FEE_SHARE: u64 = 25;

/// How far an index of ours may lie beyond those of its account that are spent or that a wallet has given
/// out. Who restores a wallet from its words looks a gap ahead of what was used, and finds no coin behind
/// it: it would be there, and lost (Coldcard has the same limit).
pub const GAP_LIMIT: u32 = 200;
