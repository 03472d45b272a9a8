//! `generateblock`, `generatetoaddress`, `generatetodescriptor`: mining, for tests.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use godwit_chain::Chain;
use godwit_consensus::{MAX_TIMEWARP, check_proof_of_work, connect, enforces_bip30};
use godwit_policy::check_in_block;
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::network::Deployment;
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{
    BlockHash, BlockHeader, Coin, MerkleRoot, OutPoint, Params, Transaction, TxIn, TxOut, TxView,
    Txid,
};
use godwit_rpc::{Json, RpcError, code};
use godwit_stream::{DataStream, Encode};

use super::difficulty::next_bits;
use super::transaction::{TxForm, parse_transaction};
use super::{Call, output, parse};
use crate::script::Descriptor;
use crate::script::address::Address;
use crate::seam::{BlockOutcome, NodeState};

/// Nonces that are tried at most where the caller does not say (Core `DEFAULT_MAX_TRIES`).
const MAX_TRIES: u64 = 1_000_000;
/// The signal of BIP9 without any bit.
const VERSION: i32 = 0x2000_0000;
/// A coinbase with this number is bound by its lock time.
const SEQUENCE: u32 = 0xffff_fffe;
/// What the output with the commitment to witnesses begins with (BIP141).
const COMMITMENT: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];

/// Blocks that are mined one upon the other before the first of them is handed in. The way of each to the tip
/// leads through five threads; together they are at each of them at once.
const AT_ONCE: usize = 256;

/// Coins that one question asks for: microseconds each.
const COINS_AT_ONCE: usize = 256;

/// Memory of an outpoint, and of its coin beside the script.
const COIN_MEMORY: usize = 256;

/// Held from a look at the tip until the blocks on it are there, so that calls at the same time do not mine
/// branches.
static MINING: Mutex<()> = Mutex::new(());

/// Times of the last blocks by which the next one's is bound (BIP113).
const TIMES: usize = 11;

/// What the next block has to fit.
struct BlockTemplate {
    prev: BlockHash,
    height: u32,
    now: u32,
    /// Those of the last blocks, the oldest first.
    times: Vec<u32>,
    bits: u32,
    /// Blocks between two changes of the target.
    interval: u32,
    /// Whether no transaction may have the outputs of one that still has some (BIP30).
    no_overwrite: bool,
}

fn block_template(node: &dyn NodeState) -> BlockTemplate {
    let chain: &Chain = node.chain();
    let (tip, tree) = (chain.tip_point(), chain.tree());
    let line = std::iter::successors(Some(chain.tip()), |id| tree.node(*id).parent());
    let mut times: Vec<u32> = line.take(TIMES).map(|id| tree.node(id).header.time).collect();
    times.reverse();
    let now = u32::try_from(node.now().unix).unwrap_or(u32::MAX);
    let interval = chain.params().difficulty_adjustment_interval();
    let (prev, height) = (tip.hash, tip.height + 1);
    let ancestor = |height| {
        let id = tree.ancestor(chain.tip(), height).expect("asked for heights below the block");
        tree.node(id).hash
    };
    // The two blocks for which it is waived are there already.
    let no_overwrite = enforces_bip30(height, &BlockHash::ZERO, &ancestor, chain.params());
    let mut template = BlockTemplate { prev, height, now, times, bits: 0, interval, no_overwrite };
    template.bits = next_bits(chain, chain.tip(), template.time());
    template
}

/// The template of the next block. As in Core, one counts as assembled with it, whatever becomes of that.
fn next_block(call: &Call<'_>) -> Result<BlockTemplate, RpcError> {
    let template = call.node.ask(|node| block_template(node))?;
    call.api.has_assembled.store(true, Ordering::Relaxed);
    Ok(template)
}

impl BlockTemplate {
    /// The time of the block: the present one, if the rules allow it. As in Core (`GetMinimumTime`), that of
    /// BIP94 is kept on every network.
    fn time(&self) -> u32 {
        let earliest = match (self.height.is_multiple_of(self.interval), self.times.last()) {
            (true, Some(last)) => last.saturating_sub(MAX_TIMEWARP),
            _ => 0,
        };
        self.now.max(self.median_time() + 1).max(earliest)
    }

    fn median_time(&self) -> u32 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times[times.len() / 2]
    }

    /// That of the block upon this one, where targets stay as they are.
    fn above(mut self, header: &BlockHeader) -> Self {
        if self.times.len() == TIMES {
            self.times.remove(0);
        }
        self.times.push(header.time);
        Self { prev: header.block_hash(), height: self.height + 1, ..self }
    }
}

/// A number as a script pushes it.
fn push_number(number: u32) -> Vec<u8> {
    match number {
        0 => vec![0],
        1..=16 => vec![0x50 + number as u8],
        _ => {
            let mut bytes: Vec<u8> = number.to_le_bytes().to_vec();
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
            if bytes.last().is_some_and(|last| last & 0x80 != 0) {
                bytes.push(0);
            }
            bytes.insert(0, bytes.len() as u8);
            bytes
        }
    }
}

fn coinbase(
    template: &BlockTemplate,
    params: &Params,
    script: &[u8],
    witness_root: [u8; 32],
) -> Transaction {
    let nonce = [0; 32];
    let mut script_sig = push_number(template.height);
    script_sig.push(0);
    let commitment = sha256d(&[witness_root, nonce].concat());
    let committing = [&COMMITMENT[..], &commitment].concat();
    Transaction {
        version: 2,
        inputs: vec![TxIn {
            prevout: OutPoint::NULL,
            script_sig,
            sequence: SEQUENCE,
            witness: vec![nonce.to_vec()],
        }],
        outputs: vec![
            TxOut {
                value: connect::block_subsidy(template.height, params),
                script_pubkey: script.to_vec(),
            },
            TxOut { value: 0, script_pubkey: committing },
        ],
        lock_time: template.height - 1,
    }
}

/// A block without its proof of work.
fn assemble(
    template: &BlockTemplate,
    params: &Params,
    script: &[u8],
    txs: &[TxView<'_>],
) -> (BlockHeader, Vec<u8>) {
    let wtxids = std::iter::once([0; 32]).chain(txs.iter().map(|tx| tx.wtxid().to_bytes()));
    let coinbase = coinbase(template, params, script, merkle_root(wtxids).0);
    let txids: Vec<Txid> =
        std::iter::once(coinbase.txid()).chain(txs.iter().map(TxView::txid)).collect();
    let root = merkle_root(txids.iter().map(|txid| txid.to_bytes())).0;
    let header = BlockHeader {
        version: VERSION,
        prev_blockhash: template.prev,
        merkle_root: MerkleRoot::from_bytes(root),
        time: template.time(),
        bits: template.bits,
        nonce: 0,
    };
    let mut body: DataStream = DataStream::new();
    body.write_compact_size(txs.len() as u64 + 1);
    coinbase.encode(&mut body);
    txs.iter().for_each(|tx| body.write(tx.bytes()));
    (header, body.as_slice().to_vec())
}

/// Finds a nonce; `false` when the tries are used up, also where the last of them has led to one that is good
/// (Core `GenerateBlock`).
fn mine(call: &Call<'_>, header: &mut BlockHeader, tries: &mut u64) -> bool {
    let params = call.node.params();
    let is_ended = |header: &BlockHeader| {
        let is_gone = || header.nonce.is_multiple_of(1 << 16) && (call.is_gone)();
        header.nonce == u32::MAX || call.node.is_ending() || is_gone()
    };
    let is_good =
        |header: &BlockHeader| check_proof_of_work(&header.block_hash(), header.bits, params);
    find_nonce(header, tries, is_good, is_ended)
}

fn find_nonce(
    header: &mut BlockHeader,
    tries: &mut u64,
    is_good: impl Fn(&BlockHeader) -> bool,
    is_ended: impl Fn(&BlockHeader) -> bool,
) -> bool {
    while *tries > 0 {
        if is_good(header) {
            return true;
        }
        if is_ended(header) {
            return false;
        }
        *tries -= 1;
        header.nonce += 1;
    }
    false
}

fn mining() -> MutexGuard<'static, ()> {
    MINING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mines some blocks from this template on; fewer than are wanted when the tries are used up.
fn mine_line(
    call: &Call<'_>,
    mut template: BlockTemplate,
    wanted: usize,
    script: &[u8],
    tries: &mut u64,
) -> Vec<(BlockHeader, Vec<u8>)> {
    let mut mined = Vec::with_capacity(wanted);
    while mined.len() < wanted {
        let (mut header, body) = assemble(&template, call.node.params(), script, &[]);
        if !mine(call, &mut header, tries) {
            break;
        }
        mined.push((header, [&header.to_bytes()[..], &body].concat()));
        template = template.above(&header);
    }
    mined
}

fn several(call: &Call<'_>, count: i32, script: &[u8], mut tries: u64) -> Result<Json, RpcError> {
    let at_once = if call.node.params().no_retargeting { AT_ONCE } else { 1 };
    let (count, mut hashes) = (usize::try_from(count).unwrap_or(0), Vec::new());
    while hashes.len() < count {
        let wanted = at_once.min(count - hashes.len());
        match extend(call, wanted, script, &mut tries) {
            // The node ends, as at -stopatheight: Core tells what there is until then, too.
            Err(error) if error.code == code::CLIENT_NOT_CONNECTED && !hashes.is_empty() => break,
            Err(error) => return Err(error),
            Ok(made) => {
                let are_all = made.len() == wanted;
                hashes.extend(made);
                if !are_all {
                    break;
                }
            }
        }
    }
    Ok(Json::from(hashes))
}

/// Mines some blocks on the tip, and returns their hashes; fewer than are wanted when the tries are used up
/// or the node ends.
fn extend(
    call: &Call<'_>,
    wanted: usize,
    script: &[u8],
    tries: &mut u64,
) -> Result<Vec<String>, RpcError> {
    let _mining = mining();
    let template = next_block(call)?;
    let mined = mine_line(call, template, wanted, script, tries);
    let hash = |(header, _): &(BlockHeader, Vec<u8>)| header.block_hash().to_string();
    let mut hashes: Vec<String> = mined.iter().map(hash).collect();
    hashes.truncate(super::submit::extend_tip(&call.node, call.is_gone, mined)?);
    Ok(hashes)
}

fn refused(text: impl Into<String>) -> RpcError {
    RpcError::new(code::INVALID_ADDRESS_OR_KEY, text)
}

/// The one script of a descriptor that a block pays to (Core `getScriptFromDescriptor`).
fn script_of(descriptor: &Descriptor) -> Result<Vec<u8>, RpcError> {
    let unfit = |text: &str| Err(RpcError::new(code::INVALID_PARAMETER, text));
    if descriptor.paths() > 1 {
        return unfit("Multipath descriptor not accepted");
    }
    if descriptor.is_range() {
        return unfit("Ranged descriptor not accepted. Maybe pass through deriveaddresses first?");
    }
    let scripts = descriptor.scripts(0, 0);
    let mut scripts = scripts.map_err(|_| refused("Cannot derive script without private keys"))?;
    // Of `combo` the script with witness, or else that of the key's hash.
    let at = match scripts.len() {
        // Core calls this a bug of its own.
        0 => return Err(RpcError::new(code::MISC_ERROR, "Descriptor has no script")),
        1 => 0,
        4 => 2,
        _ => 1,
    };
    Ok(scripts.swap_remove(at))
}

pub(super) fn to_address(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let count: i32 = call.arg(0).as_integer()?;
    // A negative number is a large one, as in Core.
    let tries: i32 = parse::integer(call.arg(2), MAX_TRIES as i32)?;
    let tries = i64::from(tries) as u64;
    let address = Address::parse(call.arg(1).as_text()?, call.network())
        .map_err(|_| refused("Error: Invalid address"))?;
    several(call, count, &address.script(), tries)
}

pub(super) fn to_descriptor(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let count: i32 = call.arg(0).as_integer()?;
    let tries = parse::integer(call.arg(2), MAX_TRIES)?;
    let descriptor = Descriptor::parse(call.arg(1).as_text()?, call.network(), false);
    let script = script_of(&descriptor.map_err(refused)?)?;
    several(call, count, &script, tries)
}

/// Reads what a block is to have: with witnesses, or without any (Core `DecodeHexTx` by default).
fn in_block_form(bytes: &[u8]) -> Option<TxView<'_>> {
    parse_transaction(bytes, TxForm::Extended)
}

/// The bytes of transactions that can be read. The first text that is none ends it.
fn raw_transactions(list: &Json) -> Result<Vec<Vec<u8>>, RpcError> {
    let raw = |text: &Json| {
        let text = text.as_text()?;
        if text.parse::<Txid>().is_ok() {
            return Err(refused(format!("Transaction {text} not in mempool.")));
        }
        parse::hex(text).filter(|bytes| in_block_form(bytes).is_some()).ok_or_else(|| {
            let text = format!(
                "Transaction decode failed for {text}. Make sure the tx has at least one input."
            );
            RpcError::new(code::DESERIALIZATION_ERROR, text)
        })
    };
    list.as_list()?.iter().map(raw).collect()
}

/// The block could not be the next one.
fn invalid(why: impl fmt::Display) -> RpcError {
    RpcError::new(code::VERIFY_ERROR, format!("TestBlockValidity failed: {why}"))
}

/// Those of the coins that transactions spend which exist where the block is to be; `None` where another one
/// came meanwhile.
fn spent_coins(
    call: &mut Call<'_>,
    txs: &[TxView<'_>],
    template: &BlockTemplate,
) -> Result<Option<HashMap<OutPoint, Coin>>, RpcError> {
    let outpoints: Vec<OutPoint> =
        txs.iter().flat_map(TxView::inputs).map(|input| input.prevout).collect();
    let mut found = HashMap::new();
    for part in outpoints.chunks(COINS_AT_ONCE) {
        call.room.grow(part.len() * COIN_MEMORY)?;
        let (coins, tip) = output::coins(&call.node, part.to_vec(), false)?;
        if tip.hash != template.prev {
            return Ok(None);
        }
        for (outpoint, coin) in part.iter().zip(coins) {
            let Some(coin) = coin else { continue };
            call.room.grow(coin.script_pubkey.len())?;
            found.insert(*outpoint, coin);
        }
    }
    Ok(Some(found))
}

/// Whether one of the transactions' outputs is there already where the block is to be, and must not be;
/// `None` where another block came meanwhile.
fn overwrites(
    call: &Call<'_>,
    txs: &[TxView<'_>],
    template: &BlockTemplate,
) -> Result<Option<bool>, RpcError> {
    let of_tx = |tx: &TxView<'_>| {
        let txid = tx.txid();
        let count = tx.outputs().count() as u32;
        (0..count).map(move |vout| OutPoint { txid, vout })
    };
    let txs = if template.no_overwrite { txs } else { &[] };
    let outpoints: Vec<OutPoint> = txs.iter().flat_map(of_tx).collect();
    for part in outpoints.chunks(COINS_AT_ONCE) {
        let (coin, tip) = output::first_coin(&call.node, part.to_vec())?;
        if tip.hash != template.prev {
            return Ok(None);
        }
        if coin.is_some() {
            return Ok(Some(true));
        }
    }
    Ok(Some(false))
}

pub(super) fn block(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let (output, network) = (call.arg(0).as_text()?, call.network());
    let script = match Descriptor::parse(output, network, false) {
        Ok(descriptor) => script_of(&descriptor)?,
        Err(_) => Address::parse(output, network)
            .map(|address| address.script())
            .map_err(|_| refused("Error: Invalid address or descriptor"))?,
    };
    let raw = raw_transactions(call.arg(1))?;
    let txs: Vec<TxView<'_>> = raw.iter().filter_map(|bytes| in_block_form(bytes)).collect();
    let submit = parse::flag(call.arg(2), true)?;
    let _mining = mining();
    let template = next_block(call)?;
    if let Some(mut coins) = spent_coins(call, &txs, &template)?
        && let Some(overwrites) = overwrites(call, &txs, &template)?
    {
        let cutoff = match call.node.params().is_active(Deployment::Csv, template.height) {
            true => template.median_time(),
            false => template.time(),
        };
        let checked = check_in_block(&txs, &mut coins, overwrites, template.height, cutoff);
        checked.map_err(invalid)?;
    }
    let (mut header, body) = assemble(&template, call.node.params(), &script, &txs);
    let mut tries = MAX_TRIES;
    if !mine(call, &mut header, &mut tries) {
        return Err(RpcError::new(code::MISC_ERROR, "Failed to make block."));
    }
    let bytes = [&header.to_bytes()[..], &body].concat();
    let mut json = Json::object([("hash", header.block_hash().to_string().into())]);
    if !submit {
        json.push("hex", Json::hex(&bytes));
        return Ok(json);
    }
    match super::submit::submit(&call.node, &bytes)? {
        // Another block may have come before it, or another caller have found the same: what counts is that
        // it is accepted (Core `ProcessNewBlock`).
        BlockOutcome::Connected | BlockOutcome::Stored | BlockOutcome::Duplicate => Ok(json),
        BlockOutcome::Rejected(reject) => Err(invalid(reject)),
        BlockOutcome::Undecodable => Err(super::submit::not_accepted()),
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::network::Network;

    use super::*;

    fn header(time: u32) -> BlockHeader {
        BlockHeader { time, ..Params::new(Network::Regtest).genesis }
    }

    #[test]
    fn the_last_try_finds_nothing() {
        let mine = |good: u32, mut tries: u64| {
            let mut header = BlockHeader { nonce: 0, ..header(1) };
            let is_good = |header: &BlockHeader| header.nonce == good;
            let found = find_nonce(&mut header, &mut tries, is_good, |_| false);
            found.then_some((header.nonce, tries))
        };
        assert_eq!([mine(0, 0), mine(0, 1), mine(1, 1)], [None, Some((0, 1)), None]);
        assert_eq!([mine(1, 2), mine(2, 2), mine(7, 100)], [Some((1, 1)), None, Some((7, 93))]);
    }

    /// The time of each is the present one, or one second above the median of the last eleven, of which there
    /// are fewer at first. Every tenth is no more than ten minutes older than the one before.
    #[test]
    fn times_are_those_that_a_chain_of_these_blocks_asks_for() {
        let (now, genesis) = (1_000, 900);
        let mut times = vec![genesis];
        let prev = BlockHash::from_bytes([0; 32]);
        let (times_known, bits, interval) = (times.clone(), 0x207f_ffff, 10);
        let mut template = BlockTemplate {
            prev,
            height: 1,
            now,
            times: times_known,
            bits,
            interval,
            no_overwrite: true,
        };
        for height in 1..60u32 {
            let last = &times[times.len().saturating_sub(TIMES)..];
            let mut sorted = last.to_vec();
            sorted.sort_unstable();
            let earliest = if height % 10 == 0 { last[last.len() - 1] - 600 } else { 0 };
            let expected = now.max(sorted[sorted.len() / 2] + 1).max(earliest);
            assert_eq!((template.height, template.time()), (height, expected));
            // Every third miner's clock is far ahead.
            let time = if height % 3 == 0 { now + 5_000 + height } else { template.time() };
            times.push(time);
            let header = header(time);
            template = template.above(&header);
            assert_eq!(template.prev, header.block_hash());
        }
        assert!(times.iter().filter(|time| **time > now).count() > 20);
    }
}
