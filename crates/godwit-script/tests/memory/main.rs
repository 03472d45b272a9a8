//! Memory of a process that does nothing else.

use std::fs;
use std::thread;

use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::key::{Keypair, Secp256k1};
use bitcoin::secp256k1::{Message, SecretKey};
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};
use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{PreparedTx, SpendingTx, SpentOutput};

const TAPROOT_INPUTS: usize = 8;
const LONG_SCRIPTS: usize = 2_000;
/// Nearly the longest that can be spent.
const SCRIPT_BYTES: usize = 9_957;

/// Bytes of this process by the name that `/proc/self/status` gives them.
fn memory(name: &str) -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: usize = line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// Taproot inputs in front of inputs that spend long scripts, signed by their keys.
fn transaction() -> (Vec<u8>, Vec<Vec<u8>>) {
    let secp = Secp256k1::new();
    let secret = SecretKey::from_slice(&[0x21; 32]).expect("in range");
    let keys = Keypair::from_secret_key(&secp, &secret);
    let taproot = [&[0x51, 0x20], &keys.x_only_public_key().0.serialize()[..]].concat();
    let push_and_drop = [&[0x4d, 0x08, 0x02], &[7; 520][..], &[0x75]].concat();
    let long = [push_and_drop.repeat(19), vec![0x51]].concat();
    assert_eq!(long.len(), SCRIPT_BYTES);
    let spent: Vec<Vec<u8>> = std::iter::repeat_n(taproot, TAPROOT_INPUTS)
        .chain(std::iter::repeat_n(long, LONG_SCRIPTS))
        .collect();
    let input = |vout: usize| TxIn {
        previous_output: OutPoint { txid: Txid::from_byte_array([5; 32]), vout: vout as u32 },
        sequence: Sequence::MAX,
        ..TxIn::default()
    };
    let mut tx = Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: (0..spent.len()).map(input).collect(),
        output: vec![TxOut { value: Amount::from_sat(7), script_pubkey: ScriptBuf::new() }],
    };
    let unsigned = serialize(&tx);
    let view = TxView::parse(&unsigned).expect("well-formed");
    let spending = SpendingTx::new(view, outputs(&spent)).expect("one output an input");
    for at in 0..TAPROOT_INPUTS {
        let message = spending.taproot_message(at, 0, None, None).expect("an input");
        let signature = secp.sign_schnorr_no_aux_rand(&Message::from_digest(message), &keys);
        tx.input[at].witness = Witness::from_slice(&[signature.serialize()]);
    }
    (serialize(&tx), spent)
}

fn outputs(scripts: &[Vec<u8>]) -> impl ExactSizeIterator<Item = SpentOutput<'_>> {
    scripts.iter().map(|script_pubkey| SpentOutput { value: 1_000, script_pubkey })
}

/// The engine is given the spent scripts once; what it copies for each taproot input, on any number of
/// threads, does not hold them.
#[test]
fn taproot_inputs_do_not_copy_long_spent_scripts() {
    let (tx, spent) = transaction();
    let bytes = LONG_SCRIPTS * SCRIPT_BYTES;
    if fs::write("/proc/self/clear_refs", "5").is_err() || memory("VmHWM").is_none() {
        godwit_testdata::skip("this system does not tell the peak of a process's memory");
        return;
    }
    let before = memory("VmRSS").expect("as the peak");
    let prepared = PreparedTx::new(&tx, outputs(&spent)).expect("well-formed");
    let (prepared, flags) = (&prepared, ScriptFlags::ALL);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                assert_eq!(prepared.verify_range(0..TAPROOT_INPUTS, flags), Ok(()));
            });
        }
    });
    let grown = memory("VmHWM").expect("as before").saturating_sub(before);
    println!("{bytes} bytes of scripts, {grown} more in the peak");
    assert!(grown < bytes * 3 / 2, "{grown} of {bytes}");
    assert_eq!(prepared.verify(flags), Ok(()));
}
