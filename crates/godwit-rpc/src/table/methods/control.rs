//! Methods that ask about the node itself.

use super::{optional, or, present};
use crate::table::Category::Control;
use crate::table::{Kind, Method};

pub(super) const ROWS: &[Method] = &[
    present(
        Control,
        "getmemoryinfo",
        "Memory that is locked, for secrets.",
        &[or("mode", Kind::Text, "stats", "stats; mallocinfo is not there.")],
    ),
    present(Control, "getrpcinfo", "The calls under way.", &[]),
    present(
        Control,
        "getsyncstatus",
        "How far the sync is; docs/page.md lists the fields. Not in Bitcoin Core.",
        &[],
    ),
    present(
        Control,
        "help",
        "The list of methods, or the help of one.",
        &[or("command", Kind::Text, "all", "The method.")],
    ),
    present(
        Control,
        "logging",
        "Shows which categories of debugging lines the log has, and turns some on and others off.",
        &[
            optional("include", Kind::List, "The categories to turn on; all for each."),
            optional("exclude", Kind::List, "The categories to turn off then."),
        ],
    ),
    present(
        Control,
        "stop",
        "Ends the node.",
        &[optional("wait", Kind::Number, "Longest wait, in milliseconds; for tests.")],
    ),
    present(Control, "uptime", "For how many seconds the node has been running.", &[]),
];
