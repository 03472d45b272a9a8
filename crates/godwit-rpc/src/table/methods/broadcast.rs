//! Methods that send transactions.

use super::{or, present, required};
use crate::table::Category::Rawtransactions;
use crate::table::{Kind, Method, Param};

const MAX_FEE_RATE: Param = or(
    "maxfeerate",
    Kind::Any,
    "0.10",
    "Refuses a higher fee rate, in bitcoins per 1,000 virtual bytes; 0 for any.",
);
const MAX_BURN: Param = or(
    "maxburnamount",
    Kind::Any,
    "0.00",
    "Refuses an output that nobody can spend with more bitcoins than this.",
);

pub(super) const SEND: Method = present(
    Rawtransactions,
    "sendrawtransaction",
    "Checks a transaction and announces it to peers until a block has it, for 14 days at most.",
    &[required("hexstring", Kind::Hex, "The transaction."), MAX_FEE_RATE, MAX_BURN],
);

pub(super) const SUBMIT: Method = present(
    Rawtransactions,
    "submitpackage",
    "Does the same with a transaction and its parents, for which it may pay.",
    &[
        required("package", Kind::List, "The transactions in hexadecimal, the child last."),
        MAX_FEE_RATE,
        MAX_BURN,
    ],
);

pub(super) const TEST: Method = present(
    Rawtransactions,
    "testmempoolaccept",
    "Whether sendrawtransaction would take these transactions.",
    &[
        required("rawtxs", Kind::List, "The transactions in hexadecimal, parents first."),
        MAX_FEE_RATE,
    ],
);
