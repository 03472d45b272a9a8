//! Shows a PSBT as text.

use std::fmt::Write;

use bitcoin::absolute::LockTime;
use bitcoin::bip32::KeySource;
use bitcoin::{Address, Amount, Network, Script, Sequence};
use godwit_keys::psbt::{
    GAP_LIMIT, InputReview, InputState, KeyReview, Ours, OutputObjection, OutputReview, OwnScript,
    Review, SignatureReview, Warning,
};

use crate::signed_message::place;

/// Most hexadecimal digits that are shown of a script without an address: a multisig of three uncompressed
/// keys, the longest that is relayed, is whole (201 bytes), since `-anyoutput` names an output by them.
const SCRIPT_DIGITS: usize = 2 * 201 + 1;

/// What is known of the keys of an input or output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Which are ours. The others are cosigners', if a descriptor of ours derives the script.
    Known {
        shared: bool,
    },
    Unknown,
}

fn keys_of(ours: Option<&Ours>, own: Option<&OwnScript>) -> Keys {
    match ours {
        Some(_) => Keys::Known { shared: own.is_some() },
        None => Keys::Unknown,
    }
}

/// What the key file says about a PSBT.
pub(super) struct Known<'a> {
    pub(super) ours: &'a Ours,
    /// Outputs that do not fit what the PSBT says about them.
    pub(super) unfitting: &'a [(usize, OutputObjection)],
}

/// Shows a PSBT for a person to read; keys and outputs of ours are marked if it is known which they are.
pub(super) fn review(review: &Review, network: Network, known: Option<&Known<'_>>) -> String {
    let ours = known.map(|known| known.ours);
    let mut lines = vec![head(review)];
    push_inputs(&mut lines, review, network, ours);
    for (index, output) in review.outputs.iter().enumerate() {
        push_output(&mut lines, index, output, network, ours);
        if ours.is_some_and(|ours| ours.far.contains(&index)) {
            lines.push(format!(
                "  its index is more than {GAP_LIMIT} above those that are spent or were given out of \
                 its account: no wallet that is restored looks there, and it does not count as ours"
            ));
        }
        lines.extend(wrong(output, index, known));
    }
    lines.push(match &review.fee {
        Ok(fee) => format!(
            "fee: {}, {} sat/vB at {} vB{}",
            bitcoin_amount(fee.amount),
            rate(fee.amount, fee.weight.to_vbytes_ceil()),
            fee.weight.to_vbytes_ceil(),
            match review.inputs.iter().all(|input| input.state == InputState::Finished) {
                true => "",
                false => " (estimated)",
            }
        ),
        Err(objection) => format!("fee: {objection}"),
    });
    if let Some(ours) = ours {
        lines.push(net(ours, review));
    }
    lines.extend(review.warnings.iter().map(|warning| match warning {
        Warning::UnprovenAmount(index) => format!(
            "warning: the amount of input {index} is not proven by its previous transaction; a lie \
             about it can turn into a fee (BIP174)"
        ),
        Warning::BurnsCoins(index) => {
            format!("warning: output {index} destroys its amount")
        }
        Warning::AnyoneCanSpend(index) => format!(
            "warning: output {index} has a witness version that no rule says anything of: anybody can \
             take it"
        ),
    }));
    lines.join("\n")
}

/// Shows a PSBT that signs a message: `message`, then whose keys sign it. No coins move.
pub(super) fn message(
    message: &str,
    review: &Review,
    network: Network,
    known: Option<&Known<'_>>,
) -> String {
    let mut lines = vec![message.to_owned(), head(review)];
    let ours = known.map(|known| known.ours);
    push_inputs(&mut lines, review, network, ours);
    lines.extend(ours.into_iter().flat_map(|ours| ours.inputs.iter().flatten()).map(place));
    lines.join("\n")
}

fn head(review: &Review) -> String {
    format!(
        "PSBT version {}, transaction version {}, lock time {}",
        review.version,
        review.transaction_version.0,
        lock_time(review)
    )
}

fn push_inputs(lines: &mut Vec<String>, review: &Review, network: Network, ours: Option<&Ours>) {
    for (index, input) in review.inputs.iter().enumerate() {
        let own = ours.and_then(|ours| ours.inputs[index].as_ref());
        push_input(lines, index, input, network, keys_of(ours, own));
        if let Some(ours) = ours {
            lines.extend(whose(ours, index, input));
        }
    }
}

/// The lock time, and the blocks that it keeps the transaction out of.
fn lock_time(review: &Review) -> String {
    let number = review.lock_time.to_consensus_u32();
    if number == 0 {
        return "0".to_owned();
    }
    let is_off = review.inputs.iter().all(|input| input.sequence == Sequence::MAX);
    match review.lock_time {
        _ if is_off => format!("{number}, which the sequences of all inputs switch off"),
        LockTime::Blocks(_) => format!("{number}: in no block up to that height"),
        LockTime::Seconds(_) => {
            format!("{number}: in no block up to that time, in seconds since 1970")
        }
    }
}

fn push_input(
    lines: &mut Vec<String>,
    index: usize,
    input: &InputReview,
    network: Network,
    keys: Keys,
) {
    let mut line = format!("input {index}: ");
    match &input.output {
        Some(output) => {
            line += &bitcoin_amount(output.value);
            line += " from ";
            line += &address(&output.script_pubkey, network);
        }
        None => line += "unknown amount",
    }
    if let Ok(spent) = &input.spent {
        write!(line, " ({})", spent.kind).expect("a string takes it");
    }
    lines.push(line);
    lines.push(format!("  spends {}, sequence {:#010x}", input.outpoint, input.sequence.0));
    if let Some(sighash) = input.sighash {
        lines.push(format!("  to be signed with {sighash}"));
    }
    lines.extend(input.keys.iter().map(|key| key_line(key, keys)));
    lines.extend(input.signatures.iter().map(signature_line));
    lines.push(match (&input.spent, input.state) {
        (_, InputState::Finished) => "  finished".to_owned(),
        (Err(objection), _) => format!("  wrong: {objection}"),
        (Ok(_), InputState::Signed) => "  signed, to be finalized".to_owned(),
        (Ok(_), InputState::Unfinished) => "  signatures are missing".to_owned(),
    });
}

/// Whose an input is, unless it is simply ours.
fn whose(ours: &Ours, index: usize, input: &InputReview) -> Option<String> {
    if ours.hidden.contains(&index) {
        let by = match &ours.inputs[index] {
            Some(own) => place(own),
            None => "  ours by a key of another input".to_owned(),
        };
        return Some(format!("{by}\n  which the PSBT hides, or says is finished"));
    }
    if ours.underived_inputs.contains(&index) {
        let others = match ours.beside_others {
            true => ": whether inputs of others are ours too, nothing tells",
            false => "",
        };
        return Some(format!("  ours by no descriptor of the key file{others}"));
    }
    input.is_foreign().then(|| "  foreign: none of its keys is ours".to_owned())
}

/// What is wrong with an output; without the key file, only what its own fields show.
fn wrong(output: &OutputReview, index: usize, known: Option<&Known<'_>>) -> Vec<String> {
    let of_output = |(at, objection): &(usize, OutputObjection)| {
        (*at == index).then(|| format!("  wrong: {objection}"))
    };
    match (known, output.kind) {
        (Some(known), _) => known.unfitting.iter().filter_map(of_output).collect(),
        (None, Err(objection)) if output.is_described => vec![format!("  wrong: {objection}")],
        _ => Vec::new(),
    }
}

fn push_output(
    lines: &mut Vec<String>,
    index: usize,
    output: &OutputReview,
    network: Network,
    ours: Option<&Ours>,
) {
    let own = ours.and_then(|ours| ours.outputs[index].as_ref());
    let keys = keys_of(ours, own);
    let leaves = ours.is_some_and(|ours| ours.shared.contains(&index));
    let amount = bitcoin_amount(output.amount);
    let address = address(&output.script_pubkey, network);
    let ownership = ownership(output, own, leaves);
    lines.push(format!("output {index}: {amount} to {address}{ownership}"));
    if let Some(own) = own {
        lines.push(place(own));
    }
    lines.extend(output.keys.iter().map(|key| key_line(key, keys)));
}

/// Says whether an output is ours. A key of ours in a script does not make it ours: others may be
/// able to spend it as well, or it may be unspendable. `leaves`: what a descriptor with other keys derives
/// is more than what was shared before.
fn ownership(output: &OutputReview, own: Option<&OwnScript>, leaves: bool) -> &'static str {
    match own {
        Some(_) if leaves => {
            ", which is shared with other keys or conditions; it does not only come back to you, and counts as leaving"
        }
        Some(own) if own.shared => {
            ", which is ours, shared with other keys or conditions like a coin that is spent"
        }
        Some(_) => ", which is ours",
        None if output.keys.iter().any(|key| key.ours) => {
            ", which names a key of ours, but no descriptor of the key file derives it"
        }
        None => "",
    }
}

/// What the transaction takes from us, and which part of that is its fee.
fn net(ours: &Ours, review: &Review) -> String {
    let Some(spent) = ours.spent else {
        return "net: not known, since an amount of ours is not".to_owned();
    };
    let underived = ours.derived.and_then(|derived| spent.checked_sub(derived));
    let underived = match underived.filter(|amount| *amount > Amount::ZERO) {
        Some(amount) => format!(", {} of that by no descriptor", bitcoin_amount(amount)),
        None => String::new(),
    };
    let parts = format!(
        "{} of ours are spent{underived}, {} come back",
        bitcoin_amount(spent),
        bitcoin_amount(ours.back)
    );
    let Some(leaves) = spent.checked_sub(ours.back) else {
        let gain = ours.back.checked_sub(spent).expect("the other one is larger");
        return format!("net: {} come in ({parts})", bitcoin_amount(gain));
    };
    // What no descriptor derives may be taken back by somebody else, so that only the rest is a payment.
    let of_derived = ours.derived.and_then(|derived| derived.checked_sub(ours.back));
    let (paid, without) = match of_derived.filter(|paid| *paid > Amount::ZERO) {
        Some(paid) if paid < leaves => (paid, " without inputs of no descriptor"),
        _ => (leaves, ""),
    };
    let share = match &review.fee {
        Ok(fee) if paid > Amount::ZERO => {
            let tenths = u128::from(fee.amount.to_sat()) * 1000 / u128::from(paid.to_sat());
            format!("; the fee is {}.{} % of what leaves{without}", tenths / 10, tenths % 10)
        }
        _ => String::new(),
    };
    format!("net: {} leave ({parts}){share}", bitcoin_amount(leaves))
}

fn key_line(key: &KeyReview, keys: Keys) -> String {
    let whose = match (keys, key.ours) {
        (Keys::Known { .. }, true) => ", ours",
        (Keys::Known { shared: true }, false) => ", a cosigner's",
        _ => "",
    };
    format!("  key {} {}{whose}", path(&key.key.source), key.key.key)
}

fn signature_line(signature: &SignatureReview) -> String {
    let valid = match signature.valid {
        Some(true) => "valid",
        Some(false) => "NOT VALID",
        None => "cannot be verified",
    };
    format!("  signature by {}, {}, {valid}", signature.key, signature.sighash)
}

/// A key's origin as descriptors write it.
pub(super) fn path((fingerprint, path): &KeySource) -> String {
    let steps = path.to_string().replace('\'', "h");
    let slash = if steps.is_empty() { "" } else { "/" };
    format!("[{fingerprint}{slash}{steps}]")
}

fn address(script: &Script, network: Network) -> String {
    if let Ok(address) = Address::from_script(script, network) {
        return address.to_string();
    }
    let digits = script.to_hex_string();
    match digits.get(..SCRIPT_DIGITS) {
        Some(beginning) => format!("script {beginning}… of {} bytes", script.len()),
        None => format!("script {digits}"),
    }
}

fn bitcoin_amount(amount: Amount) -> String {
    let satoshi = amount.to_sat();
    format!("{}.{:08} BTC", satoshi / 100_000_000, satoshi % 100_000_000)
}

/// A fee rate with one decimal, rounded up.
fn rate(amount: Amount, vbytes: u64) -> String {
    let tenths = (u128::from(amount.to_sat()) * 10).div_ceil(u128::from(vbytes.max(1)));
    format!("{}.{}", tenths / 10, tenths % 10)
}
