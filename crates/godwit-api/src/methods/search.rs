//! The unspent outputs of descriptors.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;

use data_encoding::HEXLOWER;
use godwit_chain::CoinsView;
use godwit_primitives::{BlockHash, Coin, OutPoint};
use godwit_rpc::{Json, JsonKind, RpcError, code};

use super::{Call, coins, descriptors, parse};
use crate::coin_calls::Progress;
use crate::script::Descriptor;

/// Numbers of a descriptor whose range is not said.
const RANGE: RangeInclusive<u32> = 0..=1000;

/// Memory of a script that is looked for.
const PER_SCRIPT: usize = 160;

/// Memory of an output that was found, its value and its text in the answer, beside script and descriptor.
const PER_OUTPUT: usize = 1500;

/// Coins between two looks whether the search is to end.
const LOOK_EVERY: u64 = 1 << 10;

/// Heights of which the blocks are asked at once.
const HEIGHTS: usize = 1000;

/// A descriptor, and the numbers that are looked for.
struct Object {
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    object: u32,
    path: u32,
    number: u32,
    nth: u32,
}

fn unfit(text: impl Into<String>) -> RpcError {
    RpcError::new(code::INVALID_PARAMETER, text)
}

/// One of the objects that a search is for (Core `EvalDescriptorStringOrObject`).
fn object(call: &Call<'_>, value: &Json) -> Result<Object, RpcError> {
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
    let descriptor = Descriptor::parse(text, call.network(), false).map_err(refused)?;
    let numbers = if descriptor.is_range() { numbers } else { 0..=0 };
    let object = Object { descriptor, numbers };
    // Before one of many numbers is derived for nothing.
    let first = object.descriptor.scripts(0, *object.numbers.start());
    match first {
        Ok(_) => Ok(object),
        Err(_) => {
            let text = format!("Cannot derive script without private keys: '{text}'");
            Err(refused(text))
        }
    }
}

/// The scripts that are looked for; of one that is named twice, the first place.
fn scripts(call: &mut Call<'_>, objects: &[Object]) -> Result<HashMap<Vec<u8>, Place>, RpcError> {
    let count =
        objects.iter().fold(0, |count: usize, object| count.saturating_add(object.scripts()));
    if count > descriptors::MAX_SCRIPTS {
        return Err(unfit("Range is too large"));
    }
    call.room.grow(count * PER_SCRIPT)?;
    let mut scripts = HashMap::new();
    for (n, object) in (0..).zip(objects) {
        for path in 0..object.descriptor.paths() {
            for number in object.numbers.clone() {
                coins::check(call)?;
                let of_number = object.descriptor.scripts(path, number);
                let of_number =
                    of_number.map_err(|_| unfit("Cannot derive script without private keys"))?;
                for (nth, script) in (0..).zip(of_number) {
                    let place = Place { object: n, path: path as u32, number, nth };
                    scripts.entry(script).or_insert(place);
                }
            }
        }
    }
    Ok(scripts)
}

/// What a search has found.
#[derive(Default)]
struct Found {
    coins: Vec<(OutPoint, Coin, Place)>,
    scanned: u64,
    complete: bool,
}

fn scan(
    call: &mut Call<'_>,
    view: &CoinsView,
    scripts: &HashMap<Vec<u8>, Place>,
    progress: &Progress,
) -> Result<Found, RpcError> {
    let expected = view.expected_coins().max(1);
    let mut found = Found::default();
    let mut scan = view.scan().map_err(|error| coins::unreadable(&error))?;
    while let Some(entry) = scan.next().map_err(|error| coins::unreadable(&error))? {
        if found.scanned.is_multiple_of(LOOK_EVERY) {
            coins::check(call)?;
            if progress.aborted.load(Ordering::SeqCst) {
                return Ok(found);
            }
            let percent = (found.scanned * 100 / expected).min(100);
            progress.percent.store(percent as u32, Ordering::Relaxed);
        }
        found.scanned += 1;
        let coin = entry.coin().map_err(|error| coins::unreadable(&error))?;
        if let Some(place) = scripts.get(&coin.script_pubkey[..]) {
            call.room.grow(PER_OUTPUT + 6 * coin.script_pubkey.len())?;
            found.coins.push((entry.outpoint, coin, *place));
        }
    }
    found.complete = true;
    Ok(found)
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
    let running = api
        .coins
        .begin_search()
        .ok_or_else(|| unfit("Scan already in progress, use action \"abort\" or \"status\""))?;
    let progress = &running.progress;
    if call.args.len() < 2 {
        let text = "scanobjects argument is required for the start action";
        return Err(RpcError::new(code::MISC_ERROR, text));
    }
    let objects = call.arg(1).as_list()?.iter().map(|value| object(call, value));
    let objects = objects.collect::<Result<Vec<_>, _>>()?;
    let _waiting = api.begin_wait()?;
    let scripts = scripts(call, &objects)?;
    let view = coins::view_unless(call, &|| progress.aborted.load(Ordering::SeqCst))?;
    let (tip, mut found) = match &view {
        Some(view) => (view.tip(), scan(call, view, &scripts, progress)?),
        None => {
            let tip = &call.node.snapshot().tip;
            let tip = godwit_store::ChainPoint { hash: tip.hash, height: tip.height };
            (tip, Found::default())
        }
    };
    drop((view, scripts));
    found.coins.sort_unstable_by_key(|(outpoint, ..)| *outpoint);
    let heights = found.coins.iter().map(|(_, coin, _)| coin.height).collect();
    let blocks = blocks(call, tip.hash, heights)?;
    let (mut unspents, mut total) = (Vec::with_capacity(found.coins.len()), 0);
    for (outpoint, coin, place) in found.coins {
        let descriptor = &objects[place.object as usize].descriptor;
        let texts = descriptor.specific(place.path as usize, place.number, call.network());
        let text =
            texts.ok().and_then(|mut texts| texts.get_mut(place.nth as usize).map(std::mem::take));
        let text = text.expect("its script was derived");
        call.room.grow(3 * text.len())?;
        total += coin.value;
        unspents.push(Json::object([
            ("txid", outpoint.txid.to_string().into()),
            ("vout", outpoint.vout.into()),
            ("scriptPubKey", HEXLOWER.encode(&coin.script_pubkey).into()),
            ("desc", text.into()),
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
        "status" => Ok(match call.api.coins.search() {
            None => Json::Null,
            Some(progress) => {
                let percent = progress.percent.load(Ordering::Relaxed);
                Json::object([("progress", percent.into())])
            }
        }),
        "abort" => {
            let running = call.api.coins.search();
            if let Some(progress) = &running {
                progress.aborted.store(true, Ordering::SeqCst);
            }
            Ok(running.is_some().into())
        }
        other => Err(unfit(format!("Invalid action '{other}'"))),
    }
}
