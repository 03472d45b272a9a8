//! What a PSBT moves for us: what is spent, what comes back, and where to.

use bitcoin::Amount;

use super::own_scripts::{OwnScript, OwnScripts};
use super::review::{KeyReview, Review};

/// How far an index of ours may lie beyond those that are spent. Who restores a wallet from its words looks
/// a gap ahead of what was used, and finds no coin behind it: it would be there, and lost (Coldcard has the
/// same limit).
pub const GAP_LIMIT: u32 = 200;

/// What is ours of a PSBT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// By what each output is ours, if it is.
    pub outputs: Vec<Option<OwnScript>>,
    /// Outputs of ours behind the gap.
    pub far: Vec<usize>,
    /// The inputs that a key of ours signs; `None` where an amount is unknown.
    pub spent: Option<Amount>,
    /// The outputs of ours, without those behind the gap.
    pub back: Amount,
}

impl Ours {
    pub fn of(review: &Review, scripts: &mut OwnScripts) -> Self {
        let mut highest = 0;
        let mut spent = Some(Amount::ZERO);
        for input in review.inputs.iter().filter(|input| !input.is_foreign()) {
            let amount = input.output.as_ref().map(|output| output.value);
            spent = spent.zip(amount).and_then(|(sum, amount)| sum.checked_add(amount));
            let script = input.output.as_ref().map(|output| &output.script_pubkey);
            let own = script.and_then(|script| scripts.find(script, paths(&input.keys)));
            highest = highest.max(own.and_then(|own| own.index).unwrap_or(0));
        }
        let outputs = review.outputs.iter();
        let outputs: Vec<_> = outputs
            .map(|output| scripts.find(&output.script_pubkey, paths(&output.keys)))
            .collect();
        let is_far = |own: &OwnScript| own.index.is_some_and(|index| index > highest + GAP_LIMIT);
        let numbered = || review.outputs.iter().zip(&outputs).enumerate();
        let far = numbered().filter(|(_, (_, own))| own.as_ref().is_some_and(is_far));
        let far: Vec<usize> = far.map(|(index, _)| index).collect();
        let back = numbered().filter(|(index, (_, own))| own.is_some() && !far.contains(index));
        let back = back.fold(Amount::ZERO, |sum, (_, (output, _))| {
            sum.checked_add(output.amount).unwrap_or(Amount::MAX)
        });
        Self { outputs, far, spent, back }
    }
}

/// Where the keys of ours among these come from.
fn paths(keys: &[KeyReview]) -> impl Iterator<Item = &bitcoin::bip32::KeySource> {
    keys.iter().filter(|key| key.ours).map(|key| &key.key.source)
}
