//! Proof that the search works: it has to find a secret that was leaked on purpose.

use std::hint::black_box;
use std::io::{BufWriter, Write};

use godwit_secret::residue::{self, Needle};
use godwit_secret::{SecretArray, cleanse};

use super::CheckError;

/// Leaves a copy of an invented secret on the heap, then on the stack, then in a library's buffer,
/// and searches for each. Returns the places.
///
/// # Errors
///
/// When a copy is not found, or is found after it was wiped: then the search is worth nothing.
pub(super) fn leak_on_purpose() -> Result<[&'static str; 3], CheckError> {
    let secret = SecretArray::<32>::random()?;
    let needles = [Needle::new("a leaked secret", &secret)?];
    let leaks = [
        ("on the heap", on_heap(&secret, &needles)?),
        ("on the stack", on_stack(&secret, &needles)?),
        ("in a library's buffer, in hex", in_buffer(&secret, &needles)?),
    ];
    drop(secret);
    if let Some((place, _)) = leaks.iter().find(|(_, found)| !found) {
        return Err(CheckError::LeakNotFound(place));
    }
    match residue::scan(&needles)?.findings.is_empty() {
        true => Ok(leaks.map(|(place, _)| place)),
        false => Err(CheckError::LeakStays),
    }
}

fn on_heap(secret: &SecretArray<32>, needles: &[Needle]) -> Result<bool, CheckError> {
    let mut heap = secret.expose_secret(|bytes| bytes.to_vec());
    let found = is_found_at(needles, &heap);
    cleanse(&mut heap);
    found
}

fn on_stack(secret: &SecretArray<32>, needles: &[Needle]) -> Result<bool, CheckError> {
    let mut stack = [0u8; 32];
    secret.expose_secret(|bytes| stack.copy_from_slice(bytes));
    let found = is_found_at(needles, black_box(&stack));
    cleanse(&mut stack);
    found
}

fn in_buffer(secret: &SecretArray<32>, needles: &[Needle]) -> Result<bool, CheckError> {
    // The writer's buffer keeps its copy until it is flushed.
    let mut writer = BufWriter::new(Vec::new());
    secret.expose_secret(|bytes| bytes.iter().try_for_each(|byte| write!(writer, "{byte:02x}")))?;
    let found = is_found_at(needles, writer.buffer());
    let mut written = writer.into_inner().map_err(|error| error.into_error())?;
    cleanse(&mut written);
    found
}

fn is_found_at(needles: &[Needle], copy: &[u8]) -> Result<bool, CheckError> {
    let address = black_box(copy).as_ptr().addr() as u64;
    let report = residue::scan(needles)?;
    Ok(report.findings.iter().any(|finding| finding.address == address && !finding.protected))
}
