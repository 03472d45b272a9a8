//! Amounts in arguments (Core `AmountFromValue`, `ParseFixedPoint`).

use godwit_primitives::money_range;
use godwit_rpc::{Json, RpcError, code};

const DECIMALS: i64 = 8;
/// Digits that fit 64 bits.
const MAX_DIGITS: usize = 18;

/// Bitcoins as satoshi.
pub(in crate::methods) fn amount(value: &Json) -> Result<i64, RpcError> {
    let wrong = |text: &str| RpcError::new(code::TYPE_ERROR, text);
    let (Json::Number(text) | Json::Text(text)) = value else {
        return Err(wrong("Amount is not a number or string"));
    };
    let amount = fixed_point(text).ok_or_else(|| wrong("Invalid amount"))?;
    if money_range(amount) { Ok(amount) } else { Err(wrong("Amount out of range")) }
}

/// Splits off the digits that a text begins with.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A decimal number, perhaps with an exponent, in units of the eighth decimal; `None` where it is none, or
/// no whole number of them.
fn fixed_point(text: &str) -> Option<i64> {
    let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, rest) = digits(rest);
    if whole.is_empty() || whole.len() > 1 && whole.starts_with('0') {
        return None;
    }
    let (decimals, rest) = match rest.strip_prefix('.') {
        Some(rest) => Some(digits(rest)).filter(|(decimals, _)| !decimals.is_empty())?,
        None => ("", rest),
    };
    let exponent: i64 = match rest.strip_prefix(['e', 'E']) {
        Some(rest) => {
            let unsigned = rest.strip_prefix(['+', '-']).unwrap_or(rest);
            let all = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
            // So many zeros fit no amount.
            rest.parse().ok().filter(|exponent: &i64| all && exponent.abs() < 1_000)?
        }
        None if rest.is_empty() => 0,
        None => return None,
    };
    let all = [whole, decimals].concat();
    let significant = all.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        // Core looks at the exponent of a zero as well.
        let zeros = usize::try_from(exponent + DECIMALS).ok()?;
        return (zeros < MAX_DIGITS).then_some(0);
    }
    let trailing = (all.len() - all.trim_end_matches('0').len()) as i64;
    let zeros = exponent + DECIMALS + trailing - decimals.len() as i64;
    let zeros = usize::try_from(zeros).ok()?;
    if significant.len() + zeros > MAX_DIGITS {
        return None;
    }
    let amount: i64 = format!("{significant}{}", "0".repeat(zeros)).parse().ok()?;
    Some(if is_negative { -amount } else { amount })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_are_read_as_core_reads_them() {
        for (text, satoshi) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0e-8", Some(0)),
            ("0e-9", None),
            ("0e9", Some(0)),
            ("0e10", None),
            ("0.000e-8", Some(0)),
            ("0.000000000", Some(0)),
            ("1", Some(100_000_000)),
            ("0.00000001", Some(1)),
            ("0.000000010", Some(1)),
            ("0.000000001", None),
            ("1e-8", Some(1)),
            ("10e-9", Some(1)),
            ("1E+2", Some(10_000_000_000)),
            ("-1.5", Some(-150_000_000)),
            ("9999999999.99999999", Some(999_999_999_999_999_999)),
            ("10000000000", None),
            ("01", None),
            ("1.", None),
            (".1", None),
            ("", None),
            ("-", None),
            ("1e", None),
            ("1e+", None),
            ("1e+-1", None),
            ("1e9999999999", None),
            ("1 ", None),
            ("+1", None),
            ("0x1", None),
        ] {
            assert_eq!(fixed_point(text), satoshi, "{text}");
        }
        assert!(amount(&Json::Number("21000000.00000001".to_owned())).is_err());
        assert_eq!(amount(&Json::Text("21000000".to_owned())), Ok(2_100_000_000_000_000));
        assert!(amount(&Json::Bool(true)).is_err() && amount(&Json::from("-1")).is_err());
    }
}
