//! Peers that have the whole chain.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::daemon::Daemon;
use crate::datadir;
use crate::failure::Failure;
use crate::node::Node;
use crate::programs::{Programs, free_port, last_words};

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Between two attempts to reach it.
const POLL: Duration = Duration::from_millis(20);

/// Nodes on ports of the loopback interface.
#[derive(Debug)]
pub struct Servers {
    running: Vec<Server>,
}

#[derive(Debug)]
struct Server {
    daemon: Daemon,
    datadir: PathBuf,
    port: u16,
}

impl Servers {
    /// Starts servers on copies of the data directory `template` of a `node`, in directories beside
    /// it, and waits until all of them listen.
    pub fn start(
        programs: &Programs,
        node: Node,
        template: &Path,
        count: usize,
    ) -> Result<Self, Failure> {
        let mut running = Vec::new();
        let name = template.file_name().unwrap_or_default().to_string_lossy();
        for number in 1..=count {
            let datadir = template.with_file_name(format!("{name}-{number}"));
            copy(template, &datadir)?;
            running.push(Server::start(programs, node, &datadir)?);
        }
        Ok(Self { running })
    }

    /// Where they listen.
    pub fn ports(&self) -> Vec<u16> {
        self.running.iter().map(|server| server.port).collect()
    }

    /// Processor time that all of them have taken.
    pub fn processor_seconds(&self) -> Result<f64, Failure> {
        self.running.iter().map(|server| server.daemon.processor_seconds()).sum()
    }

    /// Stops them and removes their data directories.
    pub fn stop(self) -> Result<(), Failure> {
        for Server { daemon, datadir, .. } in self.running {
            daemon.stop()?;
            datadir::remove(&datadir)?;
        }
        Ok(())
    }
}

impl Server {
    fn start(programs: &Programs, node: Node, datadir: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::Start(programs.path(node).to_owned(), error);
        let port = free_port().map_err(failed)?;
        let words = last_words(datadir);
        let stderr = File::create(&words).map_err(|error| Failure::File(words, error))?;
        let mut command = programs.serve(node, datadir, port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let mut daemon = Daemon::spawn(&mut command)?;
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if daemon.try_wait()? || started.elapsed() > START_LIMIT {
                return Err(Failure::NotListening(datadir.to_owned()));
            }
            thread::sleep(POLL);
        }
        Ok(Self { daemon, datadir: datadir.to_owned(), port })
    }
}

/// Copies a data directory; files of blocks and undo data become hard links, since nobody writes
/// to them while no block is added.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::File(from.to_owned(), error);
    fs::create_dir(to).map_err(|error| Failure::File(to.to_owned(), error))?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(failed)?.is_dir() {
            copy(&source, &target)?;
        } else if is_append_only(&source) {
            fs::hard_link(&source, &target).map_err(|error| Failure::File(target, error))?;
        } else {
            fs::copy(&source, &target).map_err(|error| Failure::File(target, error))?;
        }
    }
    Ok(())
}

/// `blkNNNNN.dat` and `revNNNNN.dat`.
fn is_append_only(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".dat") && (name.starts_with("blk") || name.starts_with("rev"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn block_files_are_shared_and_others_copied() {
        let place = std::env::temp_dir().join(format!("godwit-bench-copy-{}", std::process::id()));
        let (from, to) = (place.join("from"), place.join("to"));
        fs::create_dir_all(from.join("blocks")).unwrap();
        for name in ["blocks/blk00000.dat", "blocks/rev00000.dat", "blocks/xor.dat", "peers.dat"] {
            fs::write(from.join(name), name).unwrap();
        }
        copy(&from, &to).unwrap();
        let links = |name: &str| fs::metadata(to.join(name)).unwrap().nlink();
        assert_eq!([links("blocks/blk00000.dat"), links("blocks/rev00000.dat")], [2, 2]);
        assert_eq!([links("blocks/xor.dat"), links("peers.dat")], [1, 1]);
        assert_eq!(fs::read(to.join("peers.dat")).unwrap(), b"peers.dat");
        fs::remove_dir_all(&place).unwrap();
    }
}
