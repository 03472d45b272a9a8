//! Methods about signers, fees, scripts, addresses and notifications.

use super::{NO_KEYS, NOT_YET, absent, optional, or, present, required};
use crate::table::Category::{Signer, Util, Zmq};
use crate::table::{Kind, Method};

pub(super) const ROWS: &[Method] = &[
    absent(Signer, "enumeratesigners", NO_KEYS),
    absent(Util, "createmultisig", NOT_YET),
    present(
        Util,
        "deriveaddresses",
        "The addresses of a descriptor.",
        &[
            required("descriptor", Kind::Text, "The descriptor, with its checksum."),
            optional("range", Kind::Any, "The last number, or the first and the last one."),
        ],
    ),
    present(
        Util,
        "estimatesmartfee",
        "The fee that a transaction needs, according to what the last 144 blocks took: there is no \
         mempool.",
        &[
            required("conf_target", Kind::Number, "Within how many blocks, from 1 to 1008."),
            or("estimate_mode", Kind::Text, "economical", "unset, economical or conservative."),
        ],
    ),
    present(
        Util,
        "getdescriptorinfo",
        "What a descriptor is.",
        &[required("descriptor", Kind::Text, "The descriptor.")],
    ),
    present(
        Util,
        "getindexinfo",
        "The optional indexes that the node keeps, and how far they are.",
        &[optional("index_name", Kind::Text, "Only this index.")],
    ),
    absent(Util, "signmessagewithprivkey", NO_KEYS),
    present(
        Util,
        "validateaddress",
        "Whether a text is an address of this network, and of what kind.",
        &[required("address", Kind::Text, "The address.")],
    ),
    absent(Util, "verifymessage", NOT_YET),
    present(Zmq, "getzmqnotifications", "What is published over ZeroMQ, and where.", &[]),
];
