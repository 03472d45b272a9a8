//! The rows of the table, one file for each heading of `help`.

mod blockchain;
mod broadcast;
mod control;
mod hidden;
mod mining;
mod network;
mod other;
mod rawtransactions;
mod searches;
mod upkeep;

use super::{Category, Kind, Method, Need, Param, Presence};

const NOT_YET: &str = "not yet";
const NO_MEMPOOL: &str = "godwit has no mempool";
const NO_KEYS: &str = "a node holds no keys: godwit-signer does";
const BLOCKHASH: Param = required("blockhash", Kind::Hex, "The block's hash.");

const PARTS: [&[Method]; 7] = [
    blockchain::ROWS,
    control::ROWS,
    hidden::ROWS,
    mining::ROWS,
    network::ROWS,
    rawtransactions::ROWS,
    other::ROWS,
];

const COUNT: usize = {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

/// All methods, by category and name.
pub const METHODS: &[Method] = &joined();

const fn joined() -> [Method; COUNT] {
    let mut all = [PARTS[0][0]; COUNT];
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        let mut row = 0;
        while row < PARTS[part].len() {
            all[count] = PARTS[part][row];
            (count, row) = (count + 1, row + 1);
        }
        part += 1;
    }
    all
}

const fn present(
    category: Category,
    name: &'static str,
    summary: &'static str,
    params: &'static [Param],
) -> Method {
    Method { name, category, summary, params, presence: Presence::Present }
}

const fn absent(category: Category, name: &'static str, reason: &'static str) -> Method {
    Method { name, category, summary: "", params: &[], presence: Presence::Absent(reason) }
}

const fn required(names: &'static str, kind: Kind, help: &'static str) -> Param {
    Param { names, kind, need: Need::Required, help }
}

const fn optional(names: &'static str, kind: Kind, help: &'static str) -> Param {
    Param { names, kind, need: Need::Optional, help }
}

const fn or(names: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Param {
    Param { names, kind, need: Need::Default(default), help }
}
