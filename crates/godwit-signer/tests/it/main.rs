//! The program as a user runs it.

mod core;
mod core_wallet;
mod keys;
mod message;
mod multisig;
mod psbt;
mod residue;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;

use godwit_keys::KeyStore;
use godwit_sim::programs::Datadir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_godwit-signer");

/// The program with a data directory of its own.
fn signer(chain: &'static str) -> Datadir {
    Datadir::new(PROGRAM, chain)
}

/// What the program says whenever it opens the key file of [`signer_with_cheap_file`].
const CHEAP: &str = "godwit-signer: warning: the passphrase of this key file costs little to guess; keys \
                     change-passphrase makes it dearer\n";

/// The program with a key file that has no entry yet, and whose passphrase costs nothing to stretch. Those of
/// the usual price are for `keys.rs`: they were most of what everything else took.
fn signer_with_cheap_file(chain: &'static str, passphrase: &str) -> Datadir {
    let place = signer(chain);
    let directory = place.network_dir();
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).expect("a directory");
    let passphrase = psbt::secret(passphrase);
    KeyStore::create(&directory.join("keys.godwit"), &passphrase, psbt::weak_kdf())
        .expect("a file");
    place
}
