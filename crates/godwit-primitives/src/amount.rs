//! Amounts in satoshi.

/// An amount in satoshi. Signed, as on the wire: negative values exist and are rejected by rules.
pub type Amount = i64;

/// One bitcoin.
pub const COIN: Amount = 100_000_000;

/// No amount may exceed this. Not the supply limit, a sanity bound that consensus relies on
/// (CVE-2010-5139; Core `consensus/amount.h`).
pub const MAX_MONEY: Amount = 21_000_000 * COIN;

/// Whether `amount` lies in `0..=MAX_MONEY`.
pub const fn money_range(amount: Amount) -> bool {
    amount >= 0 && amount <= MAX_MONEY
}
