//! CHECKLOCKTIMEVERIFY (BIP65) and CHECKSEQUENCEVERIFY (BIP112).

use super::super::asm::asm;
use super::Row;

/// First lock time that is a time.
const THRESHOLD: u32 = 500_000_000;
const NOT_FINAL: u32 = 0xffff_fffe;
const DISABLE_FLAG: u32 = 1 << 31;
const TIME_FLAG: u32 = 1 << 22;

pub(super) fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = LOCK_TIME
        .iter()
        .map(|(name, script, lock_time, sequence, valid)| Row {
            lock_time: *lock_time,
            sequence: *sequence,
            ..Row::plain(name, script, "", *valid)
        })
        .collect();
    rows.extend(SEQUENCE.iter().map(|(name, script, version, sequence, valid)| Row {
        version: *version,
        sequence: *sequence,
        ..Row::plain(name, script, "", *valid)
    }));
    rows.push(Row {
        lock_time: 99,
        sequence: NOT_FINAL,
        ..Row::p2wsh("CLTV in P2WSH, one block early", &asm("100 CLTV DROP 1"), &[], false)
    });
    rows.push(Row {
        lock_time: 100,
        sequence: NOT_FINAL,
        ..Row::p2wsh("CLTV in P2WSH", &asm("100 CLTV DROP 1"), &[], true)
    });
    rows.push(Row {
        sequence: 2,
        ..Row::p2sh("CSV in P2SH, one block early", &asm("3 CSV DROP 1"), "", false)
    });
    rows.push(Row { sequence: 3, ..Row::p2sh("CSV in P2SH", &asm("3 CSV DROP 1"), "", true) });
    rows
}

/// Name, output script, lock time, sequence, validity.
type Table<T> = &'static [(&'static str, &'static str, T, u32, bool)];

const LOCK_TIME: Table<u32> = &[
    ("CLTV: lock time equal", "100 CLTV", 100, NOT_FINAL, true),
    ("CLTV: lock time one below", "100 CLTV", 99, NOT_FINAL, false),
    ("CLTV: lock time one above", "100 CLTV", 101, NOT_FINAL, true),
    ("CLTV: lock time equal, sequence final", "100 CLTV", 100, u32::MAX, false),
    ("CLTV: sequence zero", "100 CLTV", 100, 0, true),
    ("CLTV: zero", "0 CLTV 1", 0, NOT_FINAL, true),
    ("CLTV: zero, sequence final", "0 CLTV 1", 0, u32::MAX, false),
    ("CLTV: minus one", "-1 CLTV 1", 100, NOT_FINAL, false),
    ("CLTV: empty stack", "CLTV 1", 100, NOT_FINAL, false),
    ("CLTV: not run", "0 IF CLTV ENDIF 1", 0, u32::MAX, true),
    ("CLTV: time against height", "500000000 CLTV", 100, NOT_FINAL, false),
    ("CLTV: height against time", "100 CLTV", THRESHOLD + 1, NOT_FINAL, false),
    ("CLTV: highest height against lowest time", "499999999 CLTV", THRESHOLD, NOT_FINAL, false),
    ("CLTV: time equal", "500000000 CLTV", THRESHOLD, NOT_FINAL, true),
    ("CLTV: time one below", "500000001 CLTV", THRESHOLD, NOT_FINAL, false),
    ("CLTV: number of five bytes", "<ffffffff00> CLTV", THRESHOLD, NOT_FINAL, false),
    ("CLTV: height in five bytes", "<6400000000> CLTV", 100, NOT_FINAL, true),
    ("CLTV: number of six bytes", "<640000000000> CLTV", 100, NOT_FINAL, false),
    ("CLTV leaves its number", "0 CLTV", 0, NOT_FINAL, false),
];

/// Name, output script, transaction version, sequence, validity. The coins are ten blocks old.
const SEQUENCE: Table<i32> = &[
    ("CSV: equal", "1 CSV", 2, 1, true),
    ("CSV: one below", "2 CSV", 2, 1, false),
    ("CSV: one above", "1 CSV", 2, 2, true),
    ("CSV: ten blocks", "10 CSV", 2, 10, true),
    ("CSV: version 1", "1 CSV", 1, 1, false),
    ("CSV: version 0", "1 CSV", 0, 1, false),
    ("CSV: version 3", "1 CSV", 3, 1, true),
    ("CSV: version -1, which is large", "1 CSV", -1, 1, true),
    ("CSV: sequence disabled", "1 CSV", 2, DISABLE_FLAG | 1, false),
    ("CSV: sequence final", "1 CSV", 2, u32::MAX, false),
    ("CSV: number disabled", "<0000008000> CSV", 2, u32::MAX, true),
    ("CSV: number disabled, version 1", "<0100008000> CSV", 1, 0, true),
    ("CSV: time against height", "<010040> CSV", 2, 1, false),
    ("CSV: height against time", "1 CSV", 2, TIME_FLAG | 1, false),
    ("CSV: time equal", "<010040> CSV", 2, TIME_FLAG | 1, true),
    ("CSV: time one unit below", "<020040> CSV", 2, TIME_FLAG | 1, false),
    ("CSV: number with a bit outside the mask", "<010001> CSV", 2, 1, true),
    ("CSV: sequence with a bit outside the mask", "1 CSV", 2, 0x0001_0001, true),
    ("CSV: zero", "0 CSV 1", 2, 0, true),
    ("CSV: zero in version 1", "0 CSV 1", 1, 0, false),
    ("CSV: minus one", "-1 CSV 1", 2, 1, false),
    ("CSV: empty stack", "CSV 1", 2, 1, false),
    ("CSV: not run", "0 IF CSV ENDIF 1", 1, u32::MAX, true),
    ("CSV: number of five bytes", "<0100000000> CSV", 2, 1, true),
    ("CSV: number of six bytes", "<010000000000> CSV", 2, 1, false),
];
