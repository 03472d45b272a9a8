//! The flame graph of wiped bytes.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use inferno::flamegraph::{Options, from_lines};

use crate::failure::Failure;
use crate::ibd::wipes::Wipes;

/// Draws all cases of a program, side by side, into `wipes.svg` or `core-wipes.svg`.
pub fn write(dir: &Path, wipes: &Wipes) -> Result<(), Failure> {
    let path = dir.join(Wipes::name(wipes.program)).with_extension("svg");
    let failed = |error| Failure::File(path.clone(), error);
    let lines = lines(wipes);
    let lines = lines.iter().map(String::as_str);
    let mut options = Options::default();
    options.title =
        format!("Freed memory that {} wipes during a sync, by call path", wipes.program);
    options.subtitle = Some("Width: bytes. The lowest row is the benchmark's case.".to_owned());
    options.count_name = "bytes".to_owned();
    options.deterministic = true;
    options.min_width = 0.05;
    let file = File::create(&path).map_err(failed)?;
    from_lines(&mut options, lines, BufWriter::new(file)).map_err(failed)
}

/// A line for each path, in order of the paths.
fn lines(wipes: &Wipes) -> Vec<String> {
    let paths = wipes.cases.iter().flat_map(|case| case.paths.iter().map(move |path| (case, path)));
    let mut lines: Vec<String> = paths
        .map(|(case, path)| format!("{};{} {}", case.case, path.frames.join(";"), path.bytes))
        .collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibd::wipes::{CallPath, CaseWipes};
    use crate::node::Node;

    #[test]
    fn each_function_has_a_box_as_wide_as_its_bytes() {
        let dir = std::env::temp_dir().join(format!("godwit-ibd-flame-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |name: &str, bytes| CallPath {
            frames: vec!["main".into(), name.into()],
            frees: 1,
            bytes,
        };
        let case = CaseWipes::of("files", 1, 1, vec![path("few", 25), path("many", 75)]);
        write(&dir, &Wipes { program: Node::Godwit, every: 1, cases: vec![case] }).unwrap();
        let svg = std::fs::read_to_string(dir.join("wipes.svg")).unwrap();
        for expected in ["main (100 bytes, 100.00%)", "few (25 bytes, 25.00%)", "many (75 bytes"] {
            assert!(svg.contains(expected), "{expected}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
