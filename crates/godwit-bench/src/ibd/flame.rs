//! The flame graph of wiped bytes.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use inferno::flamegraph::{Options, from_lines};

use crate::failure::Failure;
use crate::ibd::wipes::{CallPath, CaseWipes, Wipes, own_functions};
use crate::node::Node;

/// As wide as a page is shown.
const WIDTH: usize = 900;

/// Name of the picture of a case: `wipes-files.svg`, `core-wipes-peer.svg`.
pub fn file_name(program: Node, case: &str) -> String {
    format!("{}-{case}.svg", Wipes::name(program))
}

/// Draws each case of a program.
pub fn write(dir: &Path, wipes: &Wipes) -> Result<(), Failure> {
    wipes.cases.iter().try_for_each(|case| write_case(dir, wipes.program, case))
}

fn write_case(dir: &Path, program: Node, case: &CaseWipes) -> Result<(), Failure> {
    let path = dir.join(file_name(program, &case.case));
    let failed = |error| Failure::File(path.clone(), error);
    let lines = lines(case);
    let lines = lines.iter().map(String::as_str);
    let mut options = Options::default();
    options.title =
        format!("Memory that {program} wipes during a sync ({}), by call path", case.case);
    options.subtitle = Some("Width: bytes. The program's own functions, callers below.".to_owned());
    options.image_width = Some(WIDTH);
    options.font_size = 13;
    options.frame_height = 20;
    options.count_name = "bytes".to_owned();
    options.deterministic = true;
    options.min_width = 0.2;
    let file = File::create(&path).map_err(failed)?;
    from_lines(&mut options, lines, BufWriter::new(file)).map_err(failed)
}

/// A line for each path of the program's own functions, in order of the paths.
fn lines(case: &CaseWipes) -> Vec<String> {
    let line = |path: &CallPath| match own_functions(&path.frames) {
        functions if functions.is_empty() => format!("other {}", path.bytes),
        functions => format!("{} {}", functions.join(";"), path.bytes),
    };
    let mut lines: Vec<String> = case.paths.iter().map(line).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_a_box_as_wide_as_its_bytes() {
        let dir = std::env::temp_dir().join(format!("godwit-ibd-flame-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = |name: &str, bytes| CallPath {
            frames: vec!["godwit::main".into(), "core::ops::call".into(), name.into()],
            frees: 1,
            bytes,
        };
        let case = CaseWipes::of("files", 1, 1, vec![path("few", 25), path("many", 75)]);
        write(&dir, &Wipes { program: Node::Godwit, every: 1, cases: vec![case] }).unwrap();
        let svg = std::fs::read_to_string(dir.join("wipes-files.svg")).unwrap();
        for expected in ["godwit::main (100 bytes, 100.00%)", "few (25 bytes, 25.00%)", "many (75"]
        {
            assert!(svg.contains(expected), "{expected}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
