//! The amounts that a PSBT moves for us: what it spends, what comes back, and to which addresses.

use std::collections::{HashMap, HashSet};

use bitcoin::{Amount, Script, ScriptBuf};

use super::fee::Fee;
use super::limits::GAP_LIMIT;
use super::own_scripts::{OwnScript, OwnScripts};
use super::review::{InputReview, InputState, KeyReview, Review};
use super::sign::{SignError, SignPolicy};

/// What is ours of a PSBT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// By what each input is ours, if a descriptor tells.
    pub inputs: Vec<Option<OwnScript>>,
    /// Inputs of ours that the PSBT does not let us sign: it says nothing of their keys, or that they are
    /// finished.
    pub hidden: Vec<usize>,
    /// Inputs with a key of ours that no descriptor derives: of their like, others may be ours untold, and
    /// these somebody else's as well.
    pub underived_inputs: Vec<usize>,
    /// Whether there are inputs without a key of ours.
    pub beside_others: bool,
    /// By what each output is ours, if it is.
    pub outputs: Vec<Option<OwnScript>>,
    /// The script of each output.
    pub scripts: Vec<ScriptBuf>,
    /// Outputs of ours behind the gap.
    pub far: Vec<usize>,
    /// Outputs that name a key of ours, and that no descriptor derives.
    pub underived: Vec<usize>,
    /// Outputs that others may spend as well, and that do not only come back to us.
    pub shared: Vec<usize>,
    /// The inputs of ours; `None` where an amount is unknown.
    pub spent: Option<Amount>,
    /// Those of them that a descriptor derives, if one does.
    pub derived: Option<Amount>,
    /// The outputs of ours, without those behind the gap and those that are shared.
    pub back: Amount,
}

impl Ours {
    pub fn of(review: &Review, scripts: &mut OwnScripts) -> Self {
        let mut inputs: Vec<_> = review
            .inputs
            .iter()
            .map(|input| scripts.find(script_of(input)?, paths(&input.keys)))
            .collect();
        let hidden = hidden(review, &mut inputs, scripts);
        let beside_others = review.inputs.iter().any(InputReview::is_foreign);
        let numbered = review.inputs.iter().zip(&inputs).enumerate();
        let underived = numbered.filter(|(_, (input, own))| !input.is_foreign() && own.is_none());
        let underived_inputs = underived.map(|(index, _)| index).collect();
        let spent =
            worth(review, |index| !review.inputs[index].is_foreign() || hidden.contains(&index));
        let derived = match inputs.iter().any(Option::is_some) {
            true => worth(review, |index| inputs[index].is_some()),
            false => None,
        };

        let outputs = review.outputs.iter();
        let outputs: Vec<_> = outputs
            .map(|output| scripts.find(&output.script_pubkey, paths(&output.keys)))
            .collect();
        let mut highest = scripts.given_out().clone();
        for own in inputs.iter().flatten() {
            let index = highest.entry(own.account()).or_insert(0);
            *index = own.index.unwrap_or(0).max(*index);
        }
        let is_far = |own: &OwnScript| {
            let spent = highest.get(&own.account()).copied().unwrap_or(0);
            own.index.is_some_and(|index| index > spent.saturating_add(GAP_LIMIT))
        };
        let numbered = || review.outputs.iter().zip(&outputs).enumerate();
        let far = numbered().filter(|(_, (_, own))| own.as_ref().is_some_and(is_far));
        let far: Vec<usize> = far.map(|(index, _)| index).collect();
        let named = |keys: &[KeyReview]| keys.iter().any(|key| key.ours);
        let underived = numbered().filter(|(_, (out, own))| own.is_none() && named(&out.keys));
        let underived = underived.map(|(index, _)| index).collect();
        let shared = shared(review, &inputs, &outputs);
        let leaves = |index: &usize| far.contains(index) || shared.contains(index);
        let back = numbered().filter(|(index, (_, own))| own.is_some() && !leaves(index));
        let back = back.fold(Amount::ZERO, |sum, (_, (output, _))| {
            sum.checked_add(output.amount).unwrap_or(Amount::MAX)
        });
        Self {
            inputs,
            hidden,
            underived_inputs,
            beside_others,
            outputs,
            scripts: review.outputs.iter().map(|output| output.script_pubkey.clone()).collect(),
            far,
            underived,
            shared,
            spent,
            derived,
            back,
        }
    }

    /// Whether a careful signer signs, as far as it depends on what is ours.
    ///
    /// # Errors
    ///
    /// If he does not.
    pub fn check(&self, fee: &Fee, policy: &SignPolicy<'_>) -> Result<(), SignError> {
        if let Some(index) = self.hidden.first() {
            return Err(SignError::Hidden(*index));
        }
        if let (Some(index), true, false) =
            (self.underived_inputs.first(), self.beside_others, policy.any_inputs)
        {
            return Err(SignError::UnderivedInput(*index));
        }
        let unpermitted = |outputs: &[usize], permitted: &[ScriptBuf]| {
            outputs.iter().copied().find(|index| !permitted.contains(&self.scripts[*index]))
        };
        if let Some(index) = unpermitted(&self.underived, policy.any_outputs) {
            return Err(SignError::Underived(index));
        }
        if let Some(index) = unpermitted(&self.far, policy.any_index) {
            return Err(SignError::Far(index));
        }
        match self.paid(fee.amount) {
            Some(paid) => fee.check_share(paid, policy.fee_share).map_err(SignError::Fee),
            None => Ok(()),
        }
    }

    /// What the fee is held against: what leaves us; all that we spend, if nothing leaves but a fee. Others'
    /// inputs and our change make a fee no smaller; nor does an input that no descriptor derives, whose other
    /// keys may be those of who takes it back. It may be ours all the same: the smaller of both counts.
    fn paid(&self, fee: Amount) -> Option<Amount> {
        let paid = |spent: Amount| {
            let leaves = spent.checked_sub(self.back)?;
            Some(if leaves > fee { leaves } else { spent })
        };
        [self.spent, self.derived].into_iter().flatten().filter_map(paid).min()
    }
}

/// Finds the inputs that are ours though the PSBT does not say so, and marks them in `inputs`.
///
/// With others' inputs allowed, somebody may show the same transaction twice, each time with another input of
/// ours as if it were his, and keep both signatures: what comes back seemed enough both times, and there is
/// one change for two coins. All indexes up to the gap behind the highest one that is named or was given
/// out are looked at, of every account: of two sessions, the one that names the higher index finds the
/// other's input.
fn hidden(
    review: &Review,
    inputs: &mut [Option<OwnScript>],
    scripts: &mut OwnScripts,
) -> Vec<usize> {
    let told = |input: &InputReview| !input.is_foreign() && input.state != InputState::Finished;
    let ours = review.inputs.iter().filter(|input| told(input));
    let known: HashSet<&Script> = ours.filter_map(script_of).collect();
    let indexes = inputs.iter().flatten().filter_map(|own| own.index);
    let highest = indexes.chain(scripts.given_out().values().copied()).max().unwrap_or(0);
    let highest = highest.saturating_add(GAP_LIMIT);
    let mut hidden = Vec::new();
    for (index, input) in review.inputs.iter().enumerate().filter(|(_, input)| !told(input)) {
        let Some(script) = script_of(input) else { continue };
        let own = scripts.find_up_to(script, highest);
        if own.is_some() || known.contains(script) || !input.is_foreign() {
            hidden.push(index);
        }
        inputs[index] = inputs[index].take().or(own);
    }
    hidden
}

/// What some of the inputs are worth; `None` where an amount is unknown.
fn worth(review: &Review, counts: impl Fn(usize) -> bool) -> Option<Amount> {
    let counted = review.inputs.iter().enumerate().filter(|(index, _)| counts(*index));
    let mut amounts = counted.map(|(_, input)| input.output.as_ref().map(|output| output.value));
    amounts.try_fold(Amount::ZERO, |sum, amount| sum.checked_add(amount?))
}

/// The outputs to descriptors with other keys beside ours, where their account gets more than is spent of it.
///
/// The holder of another one of the keys may take such an output. It is change if the coin was shared with
/// him before, and no more of it than that coin was worth.
fn shared(
    review: &Review,
    inputs: &[Option<OwnScript>],
    outputs: &[Option<OwnScript>],
) -> Vec<usize> {
    let amounts =
        review.inputs.iter().map(|input| input.output.as_ref().map(|output| output.value));
    let spent = by_shared_account(inputs.iter().zip(amounts.map(Option::unwrap_or_default)));
    let amounts = review.outputs.iter().map(|output| output.amount);
    let paid = by_shared_account(outputs.iter().zip(amounts));
    let exceeds = |own: &OwnScript| {
        let account = own.account();
        own.shared && spent.get(&account).is_none_or(|spent| paid[&account] > *spent)
    };
    let numbered = outputs.iter().enumerate();
    let exceeding = numbered.filter(|(_, own)| own.as_ref().is_some_and(exceeds));
    exceeding.map(|(index, _)| index).collect()
}

fn by_shared_account<'a>(
    owns: impl Iterator<Item = (&'a Option<OwnScript>, Amount)>,
) -> HashMap<String, Amount> {
    let mut sums = HashMap::new();
    for (own, amount) in owns {
        if let Some(own) = own.as_ref().filter(|own| own.shared) {
            let sum = sums.entry(own.account()).or_insert(Amount::ZERO);
            *sum = sum.checked_add(amount).unwrap_or(Amount::MAX);
        }
    }
    sums
}

fn script_of(input: &InputReview) -> Option<&Script> {
    input.output.as_ref().map(|output| output.script_pubkey.as_script())
}

/// Where the keys of ours among these come from.
fn paths(keys: &[KeyReview]) -> impl Iterator<Item = &bitcoin::bip32::KeySource> {
    keys.iter().filter(|key| key.ours).map(|key| &key.key.source)
}
