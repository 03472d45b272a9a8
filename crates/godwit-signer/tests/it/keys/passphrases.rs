//! New passphrases.

use godwit_program::Exit;

use super::{WORDS, key_file, keys, list};
use crate::signer;

/// What a later version of Unicode may take apart in another way would then not open the file.
#[test]
fn a_new_passphrase_has_only_characters_that_are_assigned() {
    const UNASSIGNED: &str = "pass\u{378}";
    let place = signer("regtest");
    let told = "the passphrase has a character that is not assigned in Unicode yet";
    let refused = keys(&place, &["create"], &[UNASSIGNED]).expect(Exit::Failure);
    assert!(refused.stderr.contains(told), "{refused:?}");
    assert!(!key_file(&place).exists());
    keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    let change = ["change-passphrase", "-newpassphrase-fd=0"];
    let refused = keys(&place, &change, &["pass", UNASSIGNED]).expect(Exit::Failure);
    assert!(refused.stderr.contains(told), "{refused:?}");
    // The keys of a mnemonic may have coins already.
    let words = ["import", "-secret-fd=0", "-bip39passphrase-fd=0"];
    for (passphrase, warned) in [(UNASSIGNED, true), ("pass\u{e9}", false)] {
        let imported = keys(&place, &words, &["pass", WORDS, passphrase]).expect(Exit::Success);
        assert_eq!(
            imported.stderr.contains("a character that no version of Unicode here assigns"),
            warned,
            "{imported:?}"
        );
    }
    assert_eq!(list(&place).len(), 3);
    // A file that has such a passphrase opens, and gets another one.
    let path = place.beside("old.keys");
    let secret = |plain: &str| {
        godwit_secret::SecretString::from_plain_and_wipe(&mut plain.to_owned()).expect("memory")
    };
    let parameters = godwit_keys::KdfParameters::new(8, 1, 1).expect("within limits");
    godwit_keys::KeyStore::create(&path, &secret(UNASSIGNED), parameters).expect("made");
    let old = format!("-keys={}", path.display());
    keys(&place, &["list", &old], &[UNASSIGNED]).expect(Exit::Success);
    keys(&place, &[change[0], change[1], &old], &[UNASSIGNED, "pass"]).expect(Exit::Success);
    keys(&place, &["list", &old], &["pass"]).expect(Exit::Success);
}
