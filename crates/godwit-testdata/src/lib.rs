//! Real data for tests: where it is, its bytes, and the line that says that a test was skipped.
//!
//! The shared data (real blocks, chains, headers, vectors; its `MANIFEST.json` names each file's
//! source) is not part of the repository. Tests that need it are skipped without it, visibly:
//!
//! ```no_run
//! # fn test() {
//! let Some(folder) = godwit_testdata::shared_data() else { return };
//! let block = godwit_testdata::read(folder.join("blocks/mainnet_170.blk.zst"));
//! # }
//! ```

mod alone;

pub use alone::alone;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use ruzstd::decoding::StreamingDecoder;

/// What the line of a skipped test begins with.
const PREFIX: &str = "SKIPPED: ";
/// When this variable is 1, a test that wants shared data and has none fails.
const REQUIRE: &str = "GODWIT_REQUIRE_DATA";

/// The folder of the shared data: `$GODWIT_DATA`, else `../shared/data` beside the checkout.
///
/// Where there is none: `None`, and one line per test on stderr, as [`skip`] writes it.
///
/// # Panics
///
/// Where there is none, and `GODWIT_REQUIRE_DATA` is 1.
pub fn shared_data() -> Option<PathBuf> {
    let folder =
        env::var_os("GODWIT_DATA").map_or_else(|| above_tests("shared/data"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    if env::var_os(REQUIRE).is_some_and(|value| value == "1") {
        panic!("no shared data in {}, and {REQUIRE} is 1", folder.display());
    }
    skip("shared data not found (set GODWIT_DATA)");
    None
}

/// That file or folder in the crate under test, or in the nearest folder above it up to the one that
/// the checkout lies in; where there is none, in the crate itself. Cargo says at run time which crate
/// that is: this one may have been compiled in another checkout with the same target directory. For a
/// program that is run without cargo it is the working directory.
fn above_tests(name: &str) -> PathBuf {
    let here = || env::current_dir().expect("the working directory exists");
    let tested = env::var_os("CARGO_MANIFEST_DIR").map_or_else(here, PathBuf::from);
    let mut above = tested.ancestors().take(4).map(|folder| folder.join(name));
    above.find(|path| path.exists()).unwrap_or_else(|| tested.join(name))
}

/// The content of a file of the shared data, by its path inside, as [`read`] gives it; `None` as
/// [`shared_data`].
///
/// # Panics
///
/// As [`read`].
pub fn shared_file(path: &str) -> Option<Vec<u8>> {
    shared_data().map(|folder| read(folder.join(path)))
}

/// A file's content, decompressed if its name ends with `.zst`.
///
/// # Panics
///
/// If the file cannot be read, or is not one zstd frame with a matching checksum.
pub fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match path.extension().is_some_and(|ending| ending == "zst") {
        true => decompressed(&bytes, path),
        false => bytes,
    }
}

/// The unpacked source of a package that the workspace depends on, of the version in Cargo.lock;
/// `None` where cargo has not unpacked it, because nothing that was built here needs it.
///
/// # Panics
///
/// If Cargo.lock does not name the package.
pub fn package_source(name: &str) -> Option<PathBuf> {
    let lock =
        fs::read_to_string(above_tests("Cargo.lock")).expect("the workspace has a Cargo.lock");
    let version = lock
        .split_once(&format!("name = \"{name}\"\nversion = \""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .unwrap_or_else(|| panic!("Cargo.lock does not name {name}"))
        .0;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::home_dir().map(|home| home.join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    registries
        .filter_map(|entry| Some(entry.ok()?.path().join(format!("{name}-{version}"))))
        .find(|source| source.is_dir())
}

fn decompressed(mut bytes: &[u8], path: &Path) -> Vec<u8> {
    let name = path.display();
    let mut decoder =
        StreamingDecoder::new(&mut bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut content = Vec::new();
    decoder.read_to_end(&mut content).unwrap_or_else(|error| panic!("{name}: {error}"));
    // The decoder leaves the comparison to its caller.
    let frame = decoder.into_frame_decoder();
    let (stored, computed) = (frame.get_checksum_from_data(), frame.get_calculated_checksum());
    assert_eq!(stored, computed, "{name}: checksum");
    assert!(bytes.is_empty(), "{name}: {} bytes after the frame", bytes.len());
    content
}

/// Says that the test that calls this is skipped, and why: a line on stderr, `SKIPPED: TEST: REASON`.
/// `tools/test` lists and counts these lines by reason.
pub fn skip(reason: &str) {
    // Once per thread: a property test asks in every case.
    thread_local!(static SAID: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });
    let again = SAID.with_borrow_mut(|said| {
        let again = said.iter().any(|earlier| earlier == reason);
        said.extend((!again).then(|| reason.to_owned()));
        again
    });
    if again {
        return;
    }
    // libtest names a test's thread after the test.
    let thread = thread::current();
    let test = thread.name().unwrap_or("unnamed thread");
    // To the handle itself: libtest captures `eprintln!` and drops what a passing test printed. In
    // one write, so that lines of other threads cannot fall into it.
    let line = format!("{PREFIX}{test}: {reason}\n");
    io::stderr().write_all(line.as_bytes()).expect("stderr is open");
}

/// Says of the calling test what a process that it runs said with [`skip`] on its standard error.
pub fn skip_as(said: &str) {
    let skipped = said.lines().filter_map(|line| line.strip_prefix(PREFIX));
    skipped.filter_map(|line| line.split_once(": ")).for_each(|(_, reason)| skip(reason));
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Output};

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn compressed(content: &[u8]) -> Vec<u8> {
        compress_to_vec(content, CompressionLevel::Fastest)
    }

    fn content() -> Vec<u8> {
        (0..300_000u32).map(|i| (i.wrapping_mul(i) >> 9) as u8).collect()
    }

    #[test]
    fn a_frame_gives_its_content() {
        for content in [Vec::new(), b"7".to_vec(), content()] {
            assert_eq!(decompressed(&compressed(&content), Path::new("x")), content);
        }
    }

    #[test]
    #[should_panic(expected = "x: checksum")]
    fn a_wrong_checksum_is_found() {
        let mut frame = compressed(&content());
        *frame.last_mut().expect("a checksum") ^= 1;
        decompressed(&frame, Path::new("x"));
    }

    #[test]
    #[should_panic(expected = "x: 1 bytes after the frame")]
    fn bytes_after_the_frame_are_found() {
        let mut frame = compressed(&content());
        frame.push(0);
        decompressed(&frame, Path::new("x"));
    }

    #[test]
    fn a_plain_file_stays_as_it_is() {
        assert_eq!(read(above_tests("src/lib.rs")), include_bytes!("lib.rs"));
    }

    #[test]
    fn a_package_is_found_by_its_name() {
        let source = package_source("ruzstd").expect("this crate was compiled with it");
        assert!(source.join("src/lib.rs").exists());
    }

    fn compressed_files_below(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder of the shared data");
        let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
        let (folders, files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
        let files = files.into_iter().filter(|file| file.extension().is_some_and(|e| e == "zst"));
        files.chain(folders.iter().flat_map(|folder| compressed_files_below(folder))).collect()
    }

    /// Each carries a checksum of its content by the encoder that wrote it.
    #[test]
    fn every_compressed_file_is_whole() {
        let Some(folder) = shared_data() else { return };
        let files = compressed_files_below(&folder);
        assert!(files.len() >= 80, "{} files", files.len());
        for file in files {
            assert!(!read(&file).is_empty(), "{}", file.display());
        }
    }

    #[test]
    fn the_manifest_is_found() {
        let Some(folder) = shared_data() else {
            assert_eq!(shared_file("MANIFEST.json"), None);
            return;
        };
        assert_eq!(shared_file("MANIFEST.json"), Some(read(folder.join("MANIFEST.json"))));
    }

    /// A test that wants shared data, without any.
    fn without_data(required: Option<&str>) -> Output {
        let mut test = Command::new(env::current_exe().expect("this test's program"));
        test.args(["--exact", "tests::the_manifest_is_found"]).env("GODWIT_DATA", "/nonexistent");
        match required {
            Some(value) => test.env(REQUIRE, value),
            None => test.env_remove(REQUIRE),
        };
        test.output().expect("this test's program runs")
    }

    #[test]
    fn a_skipped_test_is_named_once_though_it_passes() {
        for required in [None, Some("0"), Some("")] {
            let run = without_data(required);
            assert!(run.status.success());
            let said = String::from_utf8(run.stderr).expect("text");
            let name = "tests::the_manifest_is_found";
            assert_eq!(said, format!("SKIPPED: {name}: shared data not found (set GODWIT_DATA)\n"));
        }
    }

    #[test]
    fn without_required_data_a_test_fails() {
        let run = without_data(Some("1"));
        assert!(!run.status.success());
        let said = String::from_utf8(run.stdout).expect("text");
        assert!(said.contains("no shared data in /nonexistent"), "{said}");
    }
}
