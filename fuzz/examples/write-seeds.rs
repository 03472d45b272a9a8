//! `write-seeds FOLDER`: writes the seeds of every target to `FOLDER/TARGET/`, where `cargo fuzz`
//! looks for its corpus. Prints the targets' names.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use godwit_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1) else {
        eprintln!("usage: write-seeds FOLDER");
        return ExitCode::from(2);
    };
    match TARGETS.iter().try_for_each(|target| write(target, Path::new(&folder))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("write-seeds: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(target: &Target, folder: &Path) -> io::Result<()> {
    let folder = folder.join(target.name);
    fs::create_dir_all(&folder)?;
    for (index, seed) in (target.seeds)().iter().enumerate() {
        fs::write(folder.join(format!("seed-{index:03}")), seed)?;
    }
    println!("{}", target.name);
    Ok(())
}
