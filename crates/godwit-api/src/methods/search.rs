//! `scantxoutset`: the unspent outputs of descriptors.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use data_encoding::HEXLOWER;
use godwit_chain::CoinsView;
use godwit_primitives::{Amount, BlockHash, Coin, OutPoint};
use godwit_rpc::{Json, JsonKind, RpcError, code};

use super::{Call, coins, descriptors, parse};
use crate::coin_calls::Progress;
use crate::script::DESCRIPTOR_GROWTH;
use crate::script::Descriptor;

/// Numbers of a descriptor whose range is not said.
const RANGE: RangeInclusive<u32> = 0..=1000;

/// Memory of a script that is looked for, beside its bytes.
const PER_SCRIPT: usize = 160;

/// Steps that are derived for the scripts of one search: minutes of a processor.
const MAX_DERIVED: usize = 10_000_000;

/// Outputs that one search finds.
const MAX_OUTPUTS: usize = 50_000;

/// Memory of an output that was found, until it is in the answer.
const PER_FOUND: usize = 200;

/// Memory of an output in the answer, its value and its text, beside script and descriptor.
const PER_OUTPUT: usize = 1500;

/// The share of the answers' memory that a search has.
const SHARE: usize = 2;

/// Coins between two looks whether the search is to end.
const LOOK_EVERY: u64 = 1 << 10;

/// Heights of which the blocks are asked at once.
const HEIGHTS: usize = 1000;

/// A descriptor, and the numbers that are looked for.
pub(super) struct Object {
    descriptor: Descriptor,
    numbers: RangeInclusive<u32>,
}

impl Object {
    fn scripts(&self) -> usize {
        let numbers = (self.numbers.end() - self.numbers.start()) as usize + 1;
        let each = if let Descriptor::Combo(_) = self.descriptor { 4 } else { 1 };
        numbers.saturating_mul(self.descriptor.paths()).saturating_mul(each)
    }
}

/// Which script it is: of which object, path and number, and which of those of `combo`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScriptId {
    object: u32,
    path: u32,
    number: u32,
    nth: u32,
}

/// What is said to who begins a second search of a kind.
pub(super) fn busy() -> RpcError {
    unfit("Scan already in progress, use action \"abort\" or \"status\"")
}

pub(super) fn unfit(text: impl Into<String>) -> RpcError {
    RpcError::new(code::INVALID_PARAMETER, text)
}

pub(super) fn too_large(text: &str) -> RpcError {
    RpcError::new(code::LIMIT_EXCEEDED, text)
}

/// The memory of a search, of which it has at most so much.
pub(super) struct Kept {
    bytes: usize,
    most: usize,
}

impl Kept {
    /// Nothing yet, of at most half of the answers' memory: a search goes on for minutes.
    pub(super) fn new(call: &Call<'_>) -> Self {
        Self { bytes: 0, most: call.room.limit() / SHARE }
    }

    pub(super) fn add(&mut self, call: &mut Call<'_>, bytes: usize) -> Result<(), RpcError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.most {
            return Err(too_large("The search needs too much memory: look for less at once"));
        }
        call.room.grow(bytes)
    }

    /// Gives back what is more than so much.
    fn shrink_to(&mut self, call: &mut Call<'_>, bytes: usize) {
        call.room.shrink_to(call.room.bytes() - (self.bytes - bytes));
        self.bytes = bytes;
    }
}

/// One of the objects that a search is for (Core `EvalDescriptorStringOrObject`).
fn object(call: &mut Call<'_>, value: &Json, kept: &mut Kept) -> Result<Object, RpcError> {
    coins::check(call)?;
    let (text, numbers) = match value.kind() {
        JsonKind::Text => (value.as_text()?, RANGE),
        JsonKind::Object => {
            let text = value.get("desc").filter(|text| !text.is_null());
            let text = text
                .ok_or_else(|| unfit("Descriptor needs to be provided in scan object"))?
                .as_text()?;
            match value.get("range").filter(|range| !range.is_null()) {
                None => (text, RANGE),
                Some(range) => (text, parse::range(range)?),
            }
        }
        _ => return Err(unfit("Scan object needs to be either a string or an object")),
    };
    let refused = |text: String| RpcError::new(code::INVALID_ADDRESS_OR_KEY, text);
    let before = call.room.bytes();
    call.room.grow(DESCRIPTOR_GROWTH * text.len())?;
    let descriptor = Descriptor::parse(text, call.network(), false).map_err(refused)?;
    call.room.shrink_to(before);
    // Their list may be twice as long as it has to be.
    kept.add(call, 2 * size_of::<Object>() + descriptor.memory())?;
    let numbers = if descriptor.is_range() { numbers } else { 0..=0 };
    // Before one of many numbers is derived for nothing.
    match descriptor.is_derivable() {
        true => Ok(Object { descriptor, numbers }),
        false => {
            let text = format!("Cannot derive script without private keys: '{text}'");
            Err(refused(text))
        }
    }
}

/// All of them: as many as have scripts within the limits.
pub(super) fn objects(call: &mut Call<'_>, kept: &mut Kept) -> Result<Vec<Object>, RpcError> {
    let (mut objects, mut scripts, mut derived) = (Vec::new(), 0_usize, 0_usize);
    let args = call.args;
    for value in args.get(1).unwrap_or(&Json::Null).as_list()? {
        let object = object(call, value, kept)?;
        scripts = scripts.saturating_add(object.scripts());
        if scripts > descriptors::MAX_SCRIPTS {
            return Err(unfit("Range is too large"));
        }
        derived += object.scripts() * object.descriptor.steps();
        if derived > MAX_DERIVED {
            return Err(too_large("The scripts of the search take too long to derive"));
        }
        objects.push(object);
    }
    Ok(objects)
}

/// The scripts that are looked for; of one that is named twice, its first id. Not all where the search is
/// aborted.
pub(super) fn scripts(
    call: &mut Call<'_>,
    objects: &[Object],
    progress: &Progress,
    kept: &mut Kept,
) -> Result<HashMap<Vec<u8>, ScriptId>, RpcError> {
    let mut scripts = HashMap::new();
    for (n, object) in (0..).zip(objects) {
        for path in 0..object.descriptor.paths() {
            for number in object.numbers.clone() {
                coins::check(call)?;
                if progress.is_aborted() {
                    return Ok(scripts);
                }
                let of_number = object.descriptor.scripts(path, number);
                let of_number =
                    of_number.map_err(|_| unfit("Cannot derive script without private keys"))?;
                for (nth, script) in (0..).zip(of_number) {
                    kept.add(call, PER_SCRIPT + script.len())?;
                    let id = ScriptId { object: n, path: path as u32, number, nth };
                    scripts.entry(script).or_insert(id);
                }
            }
        }
    }
    Ok(scripts)
}

/// An output that was found: `script` says which one it has.
struct FoundCoin {
    outpoint: OutPoint,
    value: Amount,
    height: u32,
    coinbase: bool,
    script: ScriptId,
}

/// What a search has found.
#[derive(Default)]
struct Found {
    coins: Vec<FoundCoin>,
    scanned: u64,
    complete: bool,
}

fn scan(
    call: &mut Call<'_>,
    view: &CoinsView,
    scripts: &HashMap<Vec<u8>, ScriptId>,
    progress: &Progress,
    kept: &mut Kept,
) -> Result<Found, RpcError> {
    let expected = view.expected_coins().max(1);
    let mut found = Found::default();
    let mut scan = view.scan().map_err(|error| coins::unreadable(&error))?;
    while let Some(entry) = scan.next().map_err(|error| coins::unreadable(&error))? {
        if found.scanned.is_multiple_of(LOOK_EVERY) {
            coins::check(call)?;
            if progress.is_aborted() {
                return Ok(found);
            }
            let percent = (found.scanned * 100 / expected).min(100);
            progress.percent.store(percent as u32, Ordering::Relaxed);
        }
        found.scanned += 1;
        let coin = entry.coin().map_err(|error| coins::unreadable(&error))?;
        if let Some(id) = scripts.get(&coin.script_pubkey[..]) {
            if found.coins.len() == MAX_OUTPUTS {
                return Err(too_large("Too many outputs: look for less at once"));
            }
            kept.add(call, PER_FOUND)?;
            let Coin { value, height, coinbase, .. } = coin;
            let outpoint = entry.outpoint;
            found.coins.push(FoundCoin { outpoint, value, height, coinbase, script: *id });
        }
    }
    found.complete = true;
    Ok(found)
}

/// The texts of a script: itself in hex, and its descriptor.
fn texts(call: &Call<'_>, objects: &[Object], id: ScriptId) -> (String, String) {
    let descriptor = &objects[id.object as usize].descriptor;
    let (path, nth) = (id.path as usize, id.nth as usize);
    let script = descriptor.scripts(path, id.number).map(|mut all| all.swap_remove(nth));
    let specific = descriptor.specific(path, id.number, call.network());
    let text = specific.map(|mut all| all.swap_remove(nth));
    let was_derived = "its script was derived";
    (HEXLOWER.encode(&script.expect(was_derived)), text.expect(was_derived))
}

/// The blocks of a chain at these heights.
fn blocks(
    call: &Call<'_>,
    tip: BlockHash,
    heights: BTreeSet<u32>,
) -> Result<BTreeMap<u32, BlockHash>, RpcError> {
    let (heights, mut blocks) = (Vec::from_iter(heights), BTreeMap::new());
    for some in heights.chunks(HEIGHTS) {
        let some = some.to_vec();
        let found = call.node.ask(move |node| {
            let tree = node.chain().tree();
            let tip = tree.find(&tip).expect("it was the tip");
            let at = |height| tree.ancestor(tip, height).expect("not above it");
            some.into_iter().map(|height| (height, tree.node(at(height)).hash)).collect::<Vec<_>>()
        })?;
        blocks.extend(found);
    }
    Ok(blocks)
}

fn start(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let api = call.api;
    let running = api.coins.search.begin().ok_or_else(busy)?;
    let progress = &running.progress;
    if call.args.len() < 2 {
        let text = "scanobjects argument is required for the start action";
        return Err(RpcError::new(code::MISC_ERROR, text));
    }
    let _waiting = api.begin_wait()?;
    let mut kept = Kept::new(call);
    let objects = objects(call, &mut kept)?;
    let of_objects = kept.bytes;
    let scripts = scripts(call, &objects, progress, &mut kept)?;
    let view = coins::view_unless(call, &|| progress.is_aborted())?;
    let (tip, mut found) = match &view {
        Some(view) => (view.tip(), scan(call, view, &scripts, progress, &mut kept)?),
        None => {
            let tip = &call.node.snapshot().tip;
            let (hash, height) = (tip.hash, tip.height);
            (godwit_store::ChainPoint { hash, height }, Found::default())
        }
    };
    drop((view, scripts));
    kept.shrink_to(call, of_objects + PER_FOUND * found.coins.len());
    kept.most = call.room.limit();
    found.coins.sort_unstable_by_key(|coin| coin.outpoint);
    let blocks = blocks(call, tip.hash, found.coins.iter().map(|coin| coin.height).collect())?;
    let (mut unspents, mut total) = (Vec::with_capacity(found.coins.len()), 0_i64);
    let mut of_scripts = HashMap::new();
    for coin in found.coins {
        coins::check(call)?;
        if progress.is_aborted() {
            found.complete = false;
            break;
        }
        let (script, text) = match of_scripts.entry(coin.script) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let texts = texts(call, &objects, coin.script);
                kept.add(call, PER_SCRIPT + texts.0.len() + texts.1.len())?;
                new.insert(texts)
            }
        };
        // Each as a value and as text.
        kept.add(call, PER_OUTPUT + 2 * (script.len() + text.len()))?;
        total = total.saturating_add(coin.value);
        unspents.push(Json::object([
            ("txid", coin.outpoint.txid.to_string().into()),
            ("vout", coin.outpoint.vout.into()),
            ("scriptPubKey", script.clone().into()),
            ("desc", text.clone().into()),
            ("amount", Json::amount(coin.value)),
            ("coinbase", coin.coinbase.into()),
            ("height", coin.height.into()),
            ("blockhash", blocks[&coin.height].to_string().into()),
            ("confirmations", (tip.height - coin.height + 1).into()),
        ]));
    }
    Ok(Json::object([
        ("success", found.complete.into()),
        ("txouts", found.scanned.into()),
        ("height", tip.height.into()),
        ("bestblock", tip.hash.to_string().into()),
        ("unspents", Json::List(unspents)),
        ("total_amount", Json::amount(total)),
    ]))
}

pub(super) fn scan_set(call: &mut Call<'_>) -> Result<Json, RpcError> {
    match call.arg(0).as_text()? {
        "start" => start(call),
        "status" => Ok(match call.api.coins.search.under_way() {
            None => Json::Null,
            Some(progress) => {
                let percent = progress.percent.load(Ordering::Relaxed);
                Json::object([("progress", percent.into())])
            }
        }),
        "abort" => Ok(call.api.coins.search.abort().into()),
        other => Err(unfit(format!("Invalid action '{other}'"))),
    }
}
