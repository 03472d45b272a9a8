//! Unicode's compatibility decomposition (NFKD) of a secret.
//!
//! The iterator of `unicode-normalization` keeps marks in a vector, so only its tables are used here.

use godwit_secret::{LockError, SecretBytes, SecretString, between_steps, run_on_secret_stack};
use unicode_normalization::char::{
    canonical_combining_class, decompose_compatible, is_public_assigned,
};

/// `text` in normal form KD. Runs on a secret stack.
pub(crate) fn nfkd(text: &str) -> Result<SecretString, LockError> {
    // Code points, four bytes each, so that they can be sorted in place.
    let mut points = SecretBytes::with_capacity(text.len().saturating_mul(4))?;
    let mut outcome = Ok(());
    for character in text.chars() {
        decompose_compatible(character, |part| {
            if outcome.is_ok() {
                outcome = points.extend_from_slice(&u32::from(part).to_ne_bytes());
            }
        });
    }
    outcome?;
    points.expose_secret_mut(|points| order_marks(points.as_chunks_mut().0));
    between_steps("a passphrase is taken apart");
    let mut normal = SecretString::with_capacity(points.len())?;
    points.expose_secret_into(&mut normal, |points, normal| {
        points.as_chunks().0.iter().try_for_each(|point| normal.push(character(point)))
    })?;
    Ok(normal)
}

/// Whether every later version of Unicode normalises a passphrase as this one does: it has no character that
/// is not assigned yet, which may be given parts or a class (Unicode's "Normalization Stability" holds for
/// the others). Private characters never get any.
///
/// # Errors
///
/// If there is no memory to look at it in.
pub fn normalizes_for_good(passphrase: &SecretString) -> Result<bool, LockError> {
    run_on_secret_stack(|| passphrase.expose_secret(|text| text.chars().all(is_settled)))
}

fn is_settled(character: char) -> bool {
    let private = matches!(
        character,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}'
    );
    private || is_public_assigned(character)
}

/// Brings marks that follow one another into the order of their classes; those of one class stay in
/// theirs.
fn order_marks(points: &mut [[u8; 4]]) {
    for end in 1..points.len() {
        let class = class_of(&points[end]);
        let mut at = end;
        while class != 0 && at > 0 && class_of(&points[at - 1]) > class {
            points.swap(at - 1, at);
            at -= 1;
        }
    }
}

fn class_of(point: &[u8; 4]) -> u8 {
    canonical_combining_class(character(point))
}

fn character(point: &[u8; 4]) -> char {
    char::from_u32(u32::from_ne_bytes(*point)).expect("it was a character")
}

#[cfg(test)]
mod tests;
