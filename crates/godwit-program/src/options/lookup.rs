//! Finds options and commands by name, and suggests what a user may have meant.

use super::general_table::GeneralOptions;
use super::spec::{CommandSpec, OptionSpec, Program};

/// Most letters in which a suggestion may differ from what was written. A shorter name may differ
/// in a quarter of its letters, and in at least one.
const MAX_TYPOS: usize = 2;

/// All options, in the order in which the help lists those of a group.
pub fn options<P: Program>() -> impl Iterator<Item = &'static OptionSpec<P>> {
    GeneralOptions::<P>::TABLE.iter().chain(P::OPTIONS.iter().copied().flatten())
}

/// All commands that have a name.
pub fn commands<P: Program>() -> impl Iterator<Item = &'static CommandSpec<P>> {
    P::COMMANDS.iter().copied().flatten()
}

/// The option with this name or alias.
pub(super) fn find<P: Program>(name: &str) -> Option<&'static OptionSpec<P>> {
    options().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

/// The option that a user who wrote `name` may have meant. A leading `no` is kept.
pub(super) fn suggest_option<P: Program>(name: &str) -> Option<String> {
    let names = options::<P>().map(|spec| spec.name);
    suggest(name, names).or_else(|| {
        let negatable = options::<P>().filter(|spec| spec.is_negatable()).map(|spec| spec.name);
        suggest(name.strip_prefix("no")?, negatable).map(|other| format!("no{other}"))
    })
}

/// The candidate nearest to what was written, if a typing error explains the difference.
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

/// The other program, if one has a command that begins with this word.
pub(super) fn elsewhere<P: Program>(word: &str) -> Option<(&'static str, &'static str)> {
    P::ELSEWHERE.iter().copied().find(|(first, _)| *first == word)
}
