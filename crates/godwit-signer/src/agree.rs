//! The user's agreement to exactly the operation that was shown.

pub(crate) mod disagreement;

use std::hash::{BuildHasher, RandomState};

use bitcoin::hashes::{Hash, HashEngine, sha256};
use godwit_secret::process_stats;

use crate::keys::terminal::Terminal;
use disagreement::Disagreement;

/// Digits of the word that the user types at a terminal to agree.
const WORD: usize = 4;

/// A hash of the things agreed to. `tag` names their kind, so that the hash cannot stand for anything else.
pub(crate) fn token(tag: &str, parts: &[&[u8]]) -> String {
    let mut engine = sha256::Hash::engine();
    for part in [tag.as_bytes()].iter().chain(parts) {
        engine.input(&(part.len() as u64).to_le_bytes());
        engine.input(part);
    }
    sha256::Hash::from_engine(engine).to_string()
}

/// The text shown before a signature, with a note if the keys may reach a swap file.
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

/// The word that agrees at a terminal. It is random, so that nobody knows it before the question appears
/// there: text that was typed while a long text was still being shown cannot answer the question.
fn word() -> String {
    // Its keys are random. It is no secret.
    let number = RandomState::new().hash_one("godwit/question");
    format!("{:0WORD$x}", number % (1 << (4 * WORD)))
}

/// Whether the user agrees to what is `shown`: by the value of `-yes`, or else at the terminal. The terminal
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
    let word = word();
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
        assert_eq!(ask("", "?", Some(&base), &base), Ok(()));
        assert_eq!(ask("", "?", Some(&base[1..]), &base), Err(Disagreement::Other));
    }

    #[test]
    fn no_question_has_the_word_of_another_one() {
        let words: Vec<String> = (0..8).map(|_| word()).collect();
        let is_digits = |word: &String| word.len() == WORD && u16::from_str_radix(word, 16).is_ok();
        assert!(words.iter().all(is_digits), "{words:?}");
        assert!(words[1..].iter().any(|word| *word != words[0]), "{words:?}");
    }
}
