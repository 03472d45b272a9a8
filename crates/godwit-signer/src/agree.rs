//! The user's word that exactly this is to be done.

pub(crate) mod disagreement;

use bitcoin::hashes::{Hash, HashEngine, sha256};
use godwit_secret::process_stats;

use crate::keys::terminal::Terminal;
use disagreement::Disagreement;

/// Digits of the number that agrees at a terminal.
const WORD: usize = 4;

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

/// What agrees at a terminal: nobody knows it before the question has been written there, so that nothing
/// that was typed, or was on its way, while a long text was still being shown answers it.
fn word(shown: &str, question: &str) -> String {
    let mut word = token("godwit/question", &[shown.as_bytes(), question.as_bytes()]);
    word.truncate(WORD);
    word
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
    let word = word(shown, question);
    let answer = terminal.answer(shown, &format!("{question} Type {word} and Enter: "));
    match answer.map_err(|_| Disagreement::NobodyToAsk)? == word {
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
        let words = [("a", "?"), ("b", "?"), ("a", "!")].map(|(shown, asked)| word(shown, asked));
        assert!(words.iter().all(|word| word.len() == WORD));
        assert!(words[0] != words[1] && words[0] != words[2], "{words:?}");
        assert_eq!(ask("", "?", Some(&base), &base), Ok(()));
        assert_eq!(ask("", "?", Some(&base[1..]), &base), Err(Disagreement::Other));
    }
}
