//! Claims and their proofs beside Core's verdicts, and how often inputs of each type make no claim.

use std::cell::RefCell;
use std::collections::BTreeMap;

use godwit_primitives::{ScriptFlags, TxView};
use godwit_script::{Claim, ClaimQueue, Proof, SpendingTx, claim};

use crate::twin::{Output, spent_outputs};

thread_local! {
    /// Of the test that runs on this thread.
    static TALLY: RefCell<BTreeMap<&'static str, Tally>> = const { RefCell::new(BTreeMap::new()) };
    static QUEUE: RefCell<ClaimQueue<usize>> = RefCell::new(ClaimQueue::new());
}

/// Verdicts about inputs under sets of flags.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    valid: usize,
    /// Of them, those without a claim.
    unclaimed: usize,
    invalid: usize,
    /// Of them, those with a claim, which is not proven.
    claimed: usize,
}

/// One transaction and what is known of its claims.
pub(crate) struct Native {
    tx: Vec<u8>,
    spent: Vec<Output>,
    known: RefCell<Vec<(Claim, bool)>>,
}

impl Native {
    pub(crate) fn new(tx: &[u8], spent: &[Output]) -> Self {
        Self { tx: tx.to_vec(), spent: spent.to_vec(), known: RefCell::default() }
    }

    pub(crate) fn claim(&self, input: usize, flags: ScriptFlags) -> Option<Claim> {
        let view = TxView::parse(&self.tx).expect("transaction parses");
        let tx = SpendingTx::new(view, spent_outputs(&self.spent)).expect("one output an input");
        claim(&tx, input, flags)
    }

    /// Where there is a claim it is proven exactly if the input is valid. More than the chain needs: a
    /// claim that is not proven though the input is valid costs time.
    pub(crate) fn compare(&self, input: usize, flags: ScriptFlags, valid: bool) {
        let claim = self.claim(input, flags);
        if let Some(claim) = &claim {
            let proven = self.proven(claim);
            let says = if valid { "accepts" } else { "refuses" };
            assert_eq!(proven, valid, "Core {says} input {input}, {flags:?}: {claim:?}");
        }
        note(self.form(input), valid, claim.is_some());
    }

    fn proven(&self, claim: &Claim) -> bool {
        let mut known = self.known.borrow_mut();
        if let Some((_, proven)) = known.iter().find(|(other, _)| other == claim) {
            return *proven;
        }
        let proven = prove(vec![claim.clone()])[0];
        known.push((claim.clone(), proven));
        proven
    }

    pub(crate) fn form(&self, input: usize) -> &'static str {
        let view = TxView::parse(&self.tx).expect("transaction parses");
        form(&view, input, &self.spent[input].script_pubkey)
    }
}

/// Which of the claims hold; all of them wait in one queue.
pub(crate) fn prove(claims: Vec<Claim>) -> Vec<bool> {
    let mut proven = vec![false; claims.len()];
    let mut settled = 0;
    QUEUE.with_borrow_mut(|queue| {
        let mut settle = |at: usize, proof: Proof| {
            proven[at] = proof == Proof::Proven;
            settled += 1;
        };
        for (at, claim) in claims.into_iter().enumerate() {
            queue.push(at, claim, &mut settle);
        }
        queue.flush(settle);
        assert!(queue.is_empty());
    });
    assert_eq!(settled, proven.len());
    proven
}

pub(crate) fn note(form: &'static str, valid: bool, claimed: bool) {
    TALLY.with_borrow_mut(|tally| {
        let tally = tally.entry(form).or_default();
        tally.valid += usize::from(valid);
        tally.unclaimed += usize::from(valid && !claimed);
        tally.invalid += usize::from(!valid);
        tally.claimed += usize::from(!valid && claimed);
    });
}

/// What this test has compared so far.
pub(crate) fn print_tally(name: &str) {
    TALLY.with_borrow(|tally| {
        for (form, Tally { valid, unclaimed, invalid, claimed }) in tally {
            println!(
                "{name}: {form}: {unclaimed} of {valid} valid ones unclaimed, \
                 {claimed} of {invalid} invalid ones claimed and not proven"
            );
        }
    });
}

/// The type of an input by its looks.
pub(crate) fn form(tx: &TxView<'_>, input: usize, script: &[u8]) -> &'static str {
    let script_sig = tx.input(input).expect("an input").script_sig;
    let witness = tx.witnesses().nth(input).expect("one an input");
    let items: Vec<&[u8]> = witness.items().collect();
    let wrapped = match (script, script_sig) {
        ([0xa9, 20, .., 0x87], [22, program @ ..]) if program.starts_with(&[0, 20]) => program,
        ([0xa9, 20, .., 0x87], [34, program @ ..]) if program.starts_with(&[0, 32]) => program,
        _ => &[],
    };
    let multisig = items.last().is_some_and(|script| script.ends_with(&[0xae]));
    match (script, wrapped) {
        (_, [0, 20, ..]) => "P2SH-P2WPKH",
        (_, [0, 32, ..]) if multisig => "P2SH-P2WSH multisig",
        (_, [0, 32, ..]) => "P2SH-P2WSH other",
        ([0xa9, 20, .., 0x87], _) if script_sig.ends_with(&[0xae]) => "P2SH multisig",
        ([0xa9, 20, .., 0x87], _) => "P2SH other",
        ([0, 20, ..], _) if script.len() == 22 => "P2WPKH",
        ([0, 32, ..], _) if script.len() == 34 && multisig => "P2WSH multisig",
        ([0, 32, ..], _) if script.len() == 34 => "P2WSH other",
        ([0x51, 32, ..], _) if script.len() == 34 => match &items[..] {
            [_] | [_, [0x50, ..]] => "P2TR key",
            [_, script, _] | [_, script, _, [0x50, ..]] if script.ends_with(&[0xac]) => {
                "P2TR leaf, one key"
            }
            [_, [32, ..], _] => "P2TR leaf, key and more",
            _ => "P2TR other",
        },
        ([0x76, 0xa9, 20, .., 0x88, 0xac], _) if script.len() == 25 => "P2PKH",
        ([33 | 65, .., 0xac], _) if matches!(script.len(), 35 | 67) => "P2PK",
        ([.., 0xae], _) => "bare multisig",
        _ => "other",
    }
}
