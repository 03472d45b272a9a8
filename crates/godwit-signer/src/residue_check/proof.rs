//! Proof that the search works: it has to find a secret that was leaked on purpose.

use std::hint::black_box;
use std::io::{BufWriter, Write};

use godwit_secret::residue::{self, Needle};
use godwit_secret::{Declassified, SecretArray, Unprotected, cleanse};

use super::CheckError;
use super::leak::Leak;

/// Of a secret here.
const HEX_DIGITS: usize = 64;

/// Leaves a copy of an invented secret on the heap, then on the stack, then in a library's buffer,
/// and searches for each; then copies of others that were freed, cut, padded and moved. Returns the places.
///
/// # Errors
///
/// When a copy is not found, or is found after it was wiped: then the search is worth nothing.
pub(super) fn leak_on_purpose() -> Result<Vec<&'static str>, CheckError> {
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
    if !residue::scan(&needles)?.findings.is_empty() {
        return Err(CheckError::LeakStays);
    }
    let mut places: Vec<_> = leaks.into_iter().map(|(place, _)| place).collect();
    for leak in Leak::ALL {
        match is_found_after(leak)? {
            true => places.push(leak.name()),
            false => return Err(CheckError::LeakNotFound(leak.name())),
        }
    }
    Ok(places)
}

/// Whether the search finds what is left of an invented secret.
fn is_found_after(leak: Leak) -> Result<bool, CheckError> {
    let secret = SecretArray::<32>::random()?;
    let needles = [Needle::new("a leaked secret", &secret)?];
    let copies = leak.copies(&secret);
    drop(secret);
    leak.leave(copies);
    Ok(residue::scan(&needles)?.findings.iter().any(|finding| !finding.protected))
}

fn on_heap(secret: &SecretArray<32>, needles: &[Needle]) -> Result<bool, CheckError> {
    let Declassified(mut heap) = secret.expose_secret(|bytes| Declassified(bytes.to_vec()));
    let found = is_found_at(needles, &heap);
    cleanse(&mut heap);
    found
}

fn on_stack(secret: &SecretArray<32>, needles: &[Needle]) -> Result<bool, CheckError> {
    let mut stack = [0u8; 32];
    let place = Unprotected(&mut stack);
    secret.expose_secret_into(place, |bytes, place| place.0.copy_from_slice(bytes));
    let found = is_found_at(needles, black_box(&stack));
    cleanse(&mut stack);
    found
}

fn in_buffer(secret: &SecretArray<32>, needles: &[Needle]) -> Result<bool, CheckError> {
    // The writer's buffer keeps its copy until it is flushed, and until something else takes its place.
    let mut writer = BufWriter::new(Vec::with_capacity(HEX_DIGITS * 2));
    let written = secret.expose_secret_into(Unprotected(&mut writer), |bytes, writer| {
        Declassified(bytes.iter().try_for_each(|byte| write!(writer.0, "{byte:02x}")))
    });
    written.0?;
    let found = is_found_at(needles, writer.buffer());
    writer.flush()?;
    writer.write_all(&[0; HEX_DIGITS])?;
    let mut written = writer.into_inner().map_err(|error| error.into_error())?;
    cleanse(&mut written);
    found
}

fn is_found_at(needles: &[Needle], copy: &[u8]) -> Result<bool, CheckError> {
    let address = black_box(copy).as_ptr().addr() as u64;
    let report = residue::scan(needles)?;
    Ok(report.findings.iter().any(|finding| finding.address == address && !finding.protected))
}
