//! The user's word that exactly this is to be done.

pub(crate) mod disagreement;

use bitcoin::hashes::{Hash, HashEngine, sha256};
use godwit_secret::process_stats;

use crate::keys::terminal::Terminal;
use disagreement::Disagreement;

/// The word that agrees at a terminal.
const YES: &str = "yes";

/// A hash of what is agreed to. `tag` says what that is, so that the hash means nothing else.
pub(crate) fn token(tag: &str, parts: &[&[u8]]) -> String {
    let mut engine = sha256::Hash::engine();
    for part in [tag.as_bytes()].iter().chain(parts) {
        engine.input(&(part.len() as u64).to_le_bytes());
        engine.input(part);
    }
    sha256::Hash::from_engine(engine).to_string()
}

/// What is shown before a signature, with a word if the keys may reach a swap file.
pub(crate) fn with_state_of_memory(shown: &str) -> String {
    let memory = process_stats();
    let warning = match memory.locked < memory.total {
        true => {
            "\nwarning: the memory of the keys is not locked (-allowunlockedsecrets): they may reach a swap file"
        }
        false => "",
    };
    format!("{shown}{warning}")
}

/// Whether the user agrees to what is `shown`: by what was given with `-yes`, or else at the terminal, which
/// shows it too, wherever standard error goes.
pub(crate) fn ask(
    shown: &str,
    question: &str,
    given: Option<&str>,
    wanted: &str,
) -> Result<(), Disagreement> {
    let terminal = match given {
        Some(_) => None,
        None => Terminal::open().ok(),
    };
    let Some(terminal) = terminal else {
        eprintln!("{shown}");
        return match given {
            Some(given) if given == wanted => Ok(()),
            Some(_) => Err(Disagreement::Other),
            None => Err(Disagreement::NobodyToAsk),
        };
    };
    let answer = terminal.answer(&format!("{shown}\n{question} Type {YES} and Enter: "));
    match answer.map_err(|_| Disagreement::NobodyToAsk)? == YES {
        true => Ok(()),
        false => Err(Disagreement::No),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_all_parts_and_of_nothing_else() {
        let base = token("a", &[b"bc", b"d"]);
        assert_eq!(base.len(), 64);
        for (tag, parts) in [
            ("b", &[&b"bc"[..], b"d"][..]),
            ("a", &[b"b", b"cd"]),
            ("a", &[b"bc"]),
            ("a", &[b"bc", b"d", b""]),
            ("ab", &[b"c", b"d"]),
        ] {
            assert_ne!(token(tag, parts), base, "{tag} {parts:?}");
        }
        assert_eq!(ask("", "?", Some(&base), &base), Ok(()));
        assert_eq!(ask("", "?", Some(&base[1..]), &base), Err(Disagreement::Other));
    }
}
