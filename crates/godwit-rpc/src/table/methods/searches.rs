//! Methods that search blocks by their filters.

use super::{optional, or, present, required};
use crate::table::Category::Blockchain;
use crate::table::{Kind, Method, Param};

const SCANOBJECTS: &str = "Descriptors, or objects with desc and range (1000).";

pub(super) const GET_DESCRIPTOR_ACTIVITY: Method = present(
    Blockchain,
    "getdescriptoractivity",
    "What blocks create and spend of the scripts of descriptors.",
    &[
        required("blockhashes", Kind::List, "Hashes of blocks of the active chain."),
        required("scanobjects", Kind::List, SCANOBJECTS),
        or("include_mempool", Kind::Bool, "true", "Also what waits for a block."),
    ],
);

const FALSE_POSITIVES: Param = or(
    "filter_false_positives",
    Kind::Bool,
    "false",
    "Whether the blocks themselves are looked at; otherwise one in 784,931 may be wrong.",
);

pub(super) const SCAN_BLOCKS: Method = present(
    Blockchain,
    "scanblocks",
    "Looks for the blocks that concern descriptors, by -blockfilterindex.",
    &[
        required("action", Kind::Text, "start, status or abort."),
        optional("scanobjects", Kind::List, SCANOBJECTS),
        or("start_height", Kind::Number, "0", "The first height."),
        or("stop_height", Kind::Number, "the tip", "The last height."),
        or("filtertype", Kind::Text, "basic", "Which filter: only this one."),
        optional("options", Kind::Options(&[FALSE_POSITIVES]), "How to search."),
    ],
);
