//! The format of log lines, which is Bitcoin Core's.
//!
//! A line is `2026-11-21T03:26:00Z message` (UTC); a warning's or error's message begins with
//! `[warning] ` or `[error] ` (Core `logging.cpp`). People and tools search for these lines, so
//! messages that Core prints too, like [`UpdateTip`], keep Core's form.

use std::fmt;

use godwit_primitives::BlockHash;
use godwit_program::Escaped;
use log::Level;

/// Name of the log in the network's data directory.
pub const LOG_FILE: &str = "debug.log";

const SECONDS_PER_DAY: u64 = 86_400;
const MIB: f64 = 1_048_576.0;

/// One line, with its line end. `seconds` is since 1970.
pub(crate) fn format_line(seconds: u64, level: Level, message: &str) -> String {
    let prefix = match level {
        Level::Error => "[error] ",
        Level::Warn => "[warning] ",
        Level::Info | Level::Debug | Level::Trace => "",
    };
    format!("{} {prefix}{}\n", Utc(seconds), Escaped(message.trim_end_matches('\n')))
}

/// Unix time in seconds, shown as `2026-11-21T03:26:00Z` (Core `FormatISO8601DateTime`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_date(self.0 / SECONDS_PER_DAY);
        let second = self.0 % SECONDS_PER_DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Years are counted from 1 March, so that the leap day is the last day of a year and months have
/// a regular pattern of 153 days in five months (H. Hinnant, "chrono-compatible low-level date
/// algorithms").
fn civil_date(day: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let day = day + DAYS_TO_1970;
    let (era, day_of_era) = (day / DAYS_PER_ERA, day % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day_of_month)
}

/// The line that reports a new tip, in Core's form.
#[derive(Clone, Copy, Debug)]
pub struct UpdateTip {
    pub hash: BlockHash,
    pub height: u32,
    /// Version of its header.
    pub version: i32,
    /// Base-2 logarithm of the work of the chain up to it.
    pub log2_work: f64,
    /// Transactions of the chain up to it.
    pub tx_count: u64,
    /// Time of its header, in seconds since 1970.
    pub time: u32,
    /// Estimated share of all transactions, from 0 to 1.
    pub progress: f64,
    /// Memory of the UTXO store, in bytes.
    pub cache_bytes: u64,
    /// Coins in that memory.
    pub cache_coins: u64,
}

impl fmt::Display for UpdateTip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "UpdateTip: new best={} height={} version={:#010x} log2_work={:.6} tx={} date='{}' \
             progress={:.6} cache={:.1}MiB({}txo)",
            self.hash,
            self.height,
            self.version,
            self.log2_work,
            self.tx_count,
            Utc(u64::from(self.time)),
            self.progress,
            self.cache_bytes as f64 / MIB,
            self.cache_coins
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (86_399, "1970-01-01T23:59:59Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_231_006_505, "2009-01-03T18:15:05Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::from(u32::MAX), "2106-02-07T06:28:15Z"),
        ] {
            assert_eq!(Utc(seconds).to_string(), text);
        }
    }

    /// Against a calendar that counts day by day, over one whole era of 400 years and the next.
    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for count in 0..150_000 {
            assert_eq!(civil_date(count), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (_, day) if day == last => (year, month + 1, 1),
                (_, day) => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn lines() {
        let line = |level, message| format_line(0, level, message);
        assert_eq!(line(Level::Info, "Shutdown: done"), "1970-01-01T00:00:00Z Shutdown: done\n");
        assert_eq!(line(Level::Warn, "w\n"), "1970-01-01T00:00:00Z [warning] w\n");
        assert_eq!(line(Level::Error, "e"), "1970-01-01T00:00:00Z [error] e\n");
    }

    #[test]
    fn control_characters_are_shown() {
        let escaped = |text| Escaped(text).to_string();
        assert_eq!(escaped("a\nb é 語"), "a\nb é 語");
        assert_eq!(escaped("\x1b[2J\r\t\x00\x7f."), "\\x1b[2J\\x0d\\x09\\x00\\x7f.");
        assert_eq!(escaped(""), "");
    }

    #[test]
    fn update_tip_is_core_s() {
        let tip = UpdateTip {
            hash: "00000000839a8e6886ab5951d76f411475428afc90947ee320161bbf18eb6048"
                .parse()
                .expect("64 digits"),
            height: 1,
            version: 1,
            log2_work: 33.000_021_99,
            tx_count: 2,
            time: 1_231_469_665,
            progress: 0.0,
            cache_bytes: 314_573,
            cache_coins: 1,
        };
        assert_eq!(
            tip.to_string(),
            "UpdateTip: new best=00000000839a8e6886ab5951d76f411475428afc90947ee320161bbf18eb6048 \
             height=1 version=0x00000001 log2_work=33.000022 tx=2 date='2009-01-09T02:54:25Z' \
             progress=0.000000 cache=0.3MiB(1txo)"
        );
        let negative = UpdateTip { version: -1, ..tip }.to_string();
        assert!(negative.contains(" version=0xffffffff "), "{negative}");
    }
}
