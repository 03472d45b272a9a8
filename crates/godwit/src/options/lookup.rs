//! Options and commands by name, and what a user may have meant.

use super::keys_table::{KEYS_COMMANDS, KEYS_OPTIONS};
use super::psbt_table::{PSBT_COMMANDS, PSBT_OPTIONS};
use super::spec::{CommandSpec, OptionSpec};
use super::table::{COMMANDS, OPTIONS};

/// How many letters may differ for a suggestion, in a name of eight letters or more; shorter names
/// are suggested for a quarter of their letters, and at least one.
const MAX_TYPOS: usize = 2;

/// All options, in the order in which the help lists those of a group.
pub(super) fn options() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().chain(KEYS_OPTIONS).chain(PSBT_OPTIONS)
}

/// All commands but the node.
pub(super) fn commands() -> impl Iterator<Item = &'static CommandSpec> {
    COMMANDS.iter().chain(KEYS_COMMANDS).chain(PSBT_COMMANDS)
}

/// The option of this name or alias.
pub(super) fn find(name: &str) -> Option<&'static OptionSpec> {
    options().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

/// The option that a user who wrote `name` may have meant; a `no` in front stays there.
pub(super) fn suggest_option(name: &str) -> Option<String> {
    let names = options().map(|spec| spec.name);
    suggest(name, names).or_else(|| {
        let negatable = options().filter(|spec| spec.off().is_some()).map(|spec| spec.name);
        suggest(name.strip_prefix("no")?, negatable).map(|other| format!("no{other}"))
    })
}

/// The nearest of `candidates`, if it is near enough to be a typing error.
pub(super) fn suggest(
    written: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<String> {
    let (typos, nearest) = candidates
        .map(|name| (strsim::damerau_levenshtein(written, name), name))
        .min_by_key(|(typos, _)| *typos)?;
    let bound = (nearest.len() / 4).clamp(1, MAX_TYPOS);
    (typos <= bound).then(|| nearest.to_owned())
}
