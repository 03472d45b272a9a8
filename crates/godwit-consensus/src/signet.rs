//! Signet block solutions (BIP325).
//!
//! A block's solution is a script and a witness that spend an output of the network's challenge. It
//! lies in the coinbase's witness commitment output; what it signs is the block without it.
//!
//! Source: Core `signet.cpp`.

use godwit_primitives::merkle::merkle_root;
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{BlockView, OutPoint, ScriptFlags, TxView, Txid};
use godwit_stream::{DataStream, SpanReader};

use crate::script::{OP_0, OP_RETURN, next_op, push_data};
use crate::witness::commitment_output;

/// How the push that holds a solution starts.
const SIGNET_HEADER: [u8; 4] = [0xec, 0xc7, 0xda, 0xa2];

/// The flags under which a solution's script runs: P2SH, segwit, BIP66 and BIP147, no taproot.
pub const SOLUTION_FLAGS: ScriptFlags = ScriptFlags::ALL
    .without(ScriptFlags::CHECKLOCKTIMEVERIFY)
    .without(ScriptFlags::CHECKSEQUENCEVERIFY)
    .without(ScriptFlags::TAPROOT);

/// The spend that a solution makes: input 0 of `to_sign` spends output 0 of `to_spend`, whose amount
/// is zero and whose script is `challenge`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignetSpend<'a> {
    /// The script that is spent.
    pub challenge: &'a [u8],
    /// The transaction with that output, on the wire.
    pub to_spend: Vec<u8>,
    /// The transaction that spends it, on the wire, with its witness where it has one.
    pub to_sign: Vec<u8>,
}

/// The spend that the solution of `block` makes. `None` without a witness commitment, or where its
/// solution is not one script and one witness. Without a solution both are empty, which satisfies a
/// challenge as simple as OP_TRUE.
pub fn signet_spend<'a>(block: BlockView<'_>, challenge: &'a [u8]) -> Option<SignetSpend<'a>> {
    let coinbase = block.txs().next()?;
    let output = commitment_output(coinbase)?;
    let script = coinbase.outputs().nth(output)?.script_pubkey;
    let section = take_solution(script);
    let solution = match &section.solution {
        Some(bytes) => Solution::parse(bytes)?,
        None => Solution::default(),
    };
    let coinbase = stripped_with_output(coinbase, output, &section.script);
    let to_spend = to_spend(&signed_data(block, &coinbase), challenge);
    let prevout = OutPoint { txid: Txid::from_bytes(sha256d(&to_spend)), vout: 0 };
    Some(SignetSpend { challenge, to_sign: to_sign(prevout, &solution), to_spend })
}

/// A commitment script taken apart.
struct Section {
    /// What followed the header in the first push that starts with it and goes on.
    solution: Option<Vec<u8>>,
    /// The script with that push cut down to the header. Unchanged where there is no solution.
    script: Vec<u8>,
}

/// As Core does, a script with a solution is written anew: pushes in their shortest form, up to the
/// first truncated one, and a push of nothing as its bare opcode.
fn take_solution(script: &[u8]) -> Section {
    let mut solution = None;
    let mut rewritten = Vec::with_capacity(script.len());
    let mut rest = script;
    while let Ok(Some((opcode, data))) = next_op(&mut rest) {
        match data.strip_prefix(&SIGNET_HEADER) {
            Some(found) if solution.is_none() && !found.is_empty() => {
                solution = Some(found.to_vec());
                push_data(&mut rewritten, &SIGNET_HEADER);
            }
            _ if data.is_empty() => rewritten.push(opcode),
            _ => push_data(&mut rewritten, data),
        }
    }
    let script = if solution.is_some() { rewritten } else { script.to_vec() };
    Section { solution, script }
}

/// The input script and witness of a solution.
#[derive(Default)]
struct Solution<'a> {
    script_sig: &'a [u8],
    /// Number of witness items.
    items: u64,
    /// The witness on the wire: its count and items.
    witness: &'a [u8],
}

impl<'a> Solution<'a> {
    /// A script and a list of items, nothing after.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = SpanReader::new(bytes);
        let script_sig = read_sized(&mut reader)?;
        let start = reader.position();
        let items = reader.compact_size().ok()?;
        for _ in 0..items {
            read_sized(&mut reader)?;
        }
        reader.is_empty().then(|| Self { script_sig, items, witness: &bytes[start..] })
    }
}

fn read_sized<'a>(reader: &mut SpanReader<'a>) -> Option<&'a [u8]> {
    let size = reader.compact_size().ok()?;
    reader.bytes(usize::try_from(size).ok()?).ok()
}

/// The coinbase without its witness and with another script in one output.
fn stripped_with_output(coinbase: TxView<'_>, replaced: usize, script: &[u8]) -> DataStream {
    let mut out = DataStream::with_capacity(coinbase.stripped_size());
    out.write_u32(coinbase.version());
    out.write_compact_size(coinbase.input_count() as u64);
    for input in coinbase.inputs() {
        out.put(&input.prevout);
        write_sized(&mut out, input.script_sig);
        out.write_u32(input.sequence);
    }
    out.write_compact_size(coinbase.output_count() as u64);
    for (i, output) in coinbase.outputs().enumerate() {
        out.write_i64(output.value);
        write_sized(&mut out, if i == replaced { script } else { output.script_pubkey });
    }
    out.write_u32(coinbase.lock_time());
    out
}

fn write_sized(out: &mut DataStream, bytes: &[u8]) {
    out.write_compact_size(bytes.len() as u64);
    out.write(bytes);
}

/// What a solution signs: version, previous block, merkle root over the changed coinbase, and time.
fn signed_data(block: BlockView<'_>, coinbase: &DataStream) -> [u8; 72] {
    let others = block.txids().iter().skip(1).map(|txid| txid.to_bytes());
    let (root, _) = merkle_root([sha256d(coinbase.as_slice())].into_iter().chain(others));
    let header = block.header();
    let mut data = [0; 72];
    data[..4].copy_from_slice(&header.version.to_le_bytes());
    data[4..36].copy_from_slice(header.prev_blockhash.as_bytes());
    data[36..68].copy_from_slice(&root);
    data[68..].copy_from_slice(&header.time.to_le_bytes());
    data
}

/// Version 0, an input of no outpoint whose script pushes zero and the signed data, an output of
/// amount 0 to the challenge.
fn to_spend(signed_data: &[u8], challenge: &[u8]) -> Vec<u8> {
    let mut script_sig = vec![OP_0];
    push_data(&mut script_sig, signed_data);
    let mut out = DataStream::with_capacity(160 + challenge.len());
    out.write_u32(0);
    write_input(&mut out, OutPoint::NULL, &script_sig);
    write_output(&mut out, challenge);
    out.write_u32(0);
    out.as_slice().to_vec()
}

/// Version 0, an input with the solution, an output of amount 0 that cannot be spent.
fn to_sign(prevout: OutPoint, solution: &Solution<'_>) -> Vec<u8> {
    let witness = if solution.items == 0 { &[][..] } else { solution.witness };
    let mut out = DataStream::with_capacity(80 + solution.script_sig.len() + witness.len());
    out.write_u32(0);
    if !witness.is_empty() {
        out.write(&[0, 1]);
    }
    write_input(&mut out, prevout, solution.script_sig);
    write_output(&mut out, &[OP_RETURN]);
    out.write(witness);
    out.write_u32(0);
    out.as_slice().to_vec()
}

fn write_input(out: &mut DataStream, prevout: OutPoint, script_sig: &[u8]) {
    out.write_compact_size(1);
    out.put(&prevout);
    write_sized(out, script_sig);
    out.write_u32(0);
}

fn write_output(out: &mut DataStream, script_pubkey: &[u8]) {
    out.write_compact_size(1);
    out.write_i64(0);
    write_sized(out, script_pubkey);
}

#[cfg(test)]
mod tests;
