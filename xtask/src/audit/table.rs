//! Reads the tables in which `docs/memory-policy.md` classifies uses of streams and secrets.

use super::{Kind, Place, Use};

/// The heading of a table; what follows it, up to a line without `|`, is classified.
pub(crate) const HEADING: &str =
    "| file | function | what | times | class | tokens | what goes through |";

/// A classified use.
pub(super) struct Row {
    pub(super) place: Place,
    pub(super) used: Use,
}

/// The rows of all tables, or what is wrong with one.
pub(super) fn rows(page: &str) -> Vec<Result<Row, String>> {
    let mut inside = false;
    let mut rows = Vec::new();
    for line in page.lines() {
        match line {
            HEADING => inside = true,
            _ if !line.starts_with('|') => inside = false,
            _ if inside && !line.starts_with("| ---") => {
                rows.push(row(line).map_err(|problem| format!("{problem}: {line}")));
            }
            _ => {}
        }
    }
    rows
}

fn row(line: &str) -> Result<Row, &'static str> {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [path, function, what, times, class, tokens, reason] = cells[..] else {
        return Err("not seven columns");
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == what).ok_or("no such thing")?;
    let times = times.parse().map_err(|_| "no number of uses")?;
    check_class(kind, class)?;
    if reason.is_empty() {
        return Err("no reason");
    }
    let bare = |cell: &str| cell.trim_matches('`').to_owned();
    let place = Place { path: bare(path), function: bare(function), kind };
    Ok(Row { place, used: Use { times, tokens: tokens.to_owned() } })
}

/// What is in a plain stream, or declassified, cannot be a secret; what is revealed, or in locked memory, is
/// one. A type that may be returned, or memory that may be written to, may hold either.
fn check_class(kind: Kind, class: &str) -> Result<(), &'static str> {
    match (kind, class) {
        (Kind::DataStream, "public" | "private" | "mechanism") => Ok(()),
        (Kind::SecretStream | Kind::Reveal, "secret" | "mechanism") => Ok(()),
        (Kind::Declassified, "public" | "private" | "mechanism") => Ok(()),
        (Kind::Unprotected | Kind::Shared, "public" | "private" | "secret" | "mechanism") => Ok(()),
        (Kind::Releasable, "public" | "private" | "secret" | "mechanism") => Ok(()),
        (Kind::Declassified, "secret") => Err("what is declassified may not be secret"),
        (Kind::DataStream, "secret") => Err("what goes through DataStream may not be secret"),
        (_, "public" | "private") => Err("the class must be secret"),
        _ => Err("no class of the memory policy"),
    }
}
