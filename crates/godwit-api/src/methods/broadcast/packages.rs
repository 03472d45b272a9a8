//! `submitpackage` (Core `validation.cpp`, `AcceptPackage`).

use std::collections::{BTreeMap, BTreeSet};

use godwit_policy::{
    Class, FeeRate, Judged, PackageRefusal, Pay, Refusal, Terms, check_package,
    is_child_with_parents, judge, judge_package,
};
use godwit_primitives::{TxView, Txid, Wtxid};
use godwit_rpc::{Json, RpcError, code};

use super::ground::Ground;
use super::{
    ATTEMPTS, Call, SendRefusal, fees, max_burn, max_rate, moved, package, put, transactions, views,
};

/// A transaction that goes into the outbox.
struct Accepted<'a> {
    judged: Judged<'a>,
    /// These pay for it.
    payers: Vec<Wtxid>,
    /// What it replaces, and what was replaced by those of the package that it replaces.
    leaving: BTreeSet<Txid>,
}

impl<'a> Accepted<'a> {
    fn new(judged: Judged<'a>, payers: Vec<Wtxid>) -> Self {
        let leaving = judged.replaced.clone();
        Self { judged, payers, leaving }
    }
}

/// What comes of a transaction.
enum Outcome<'a> {
    Accepted(Accepted<'a>),
    /// It was there: virtual bytes and fee.
    There(u64, i64),
    /// It was there with another witness.
    OtherWitness(Wtxid),
    Refused(Refusal),
}

impl<'a> Outcome<'a> {
    fn accepted(&self) -> Option<&Accepted<'a>> {
        match self {
            Self::Accepted(accepted) => Some(accepted),
            _ => None,
        }
    }
}

/// What comes of a package: of each transaction, by its place, unless it is refused as a whole.
struct Outcomes<'a> {
    of: BTreeMap<usize, Outcome<'a>>,
    message: Option<&'static str>,
}

const FAILED: &str = "transaction failed";

fn outcomes<'a>(txs: &[TxView<'a>], ground: &'a Ground, most: Option<FeeRate>) -> Outcomes<'a> {
    let mut of = BTreeMap::new();
    if let Err(refusal) = check_package(txs) {
        return Outcomes { of, message: Some(refusal.reason()) };
    }
    let (mut pool, next_block) = (ground.pool(), ground.next_block());
    let (mut open, mut message) = (Vec::new(), None);
    for (n, tx) in txs.iter().enumerate() {
        let there = pool.get(&tx.txid()).map(|there| (there.wtxid, there.vsize, there.fee));
        if let Some((wtxid, vsize, fee)) = there {
            let same = wtxid == tx.wtxid();
            let outcome =
                if same { Outcome::There(vsize, fee) } else { Outcome::OtherWitness(wtxid) };
            of.insert(n, outcome);
            continue;
        }
        let terms = Terms { replaces: true, max_rate: most };
        match judge(*tx, &ground.coins, &pool, &next_block, terms) {
            Ok(judged) => {
                judged.replaced.iter().for_each(|txid| pool.remove(txid));
                pool.add(judged.tx);
                let mut accepted = Accepted::new(judged, vec![tx.wtxid()]);
                refuse_replaced(&mut of, txs, &mut accepted);
                of.insert(n, Outcome::Accepted(accepted));
            }
            Err(refusal) => {
                match refusal.class() {
                    Class::MissingInputs | Class::Reconsiderable if txs.len() > 1 => open.push(n),
                    _ => message = Some(FAILED),
                }
                of.insert(n, Outcome::Refused(refusal));
            }
        }
    }
    if message.is_some() || open.is_empty() {
        return Outcomes { of, message };
    }
    if open.len() == 1 {
        // Nobody else can pay for it. Core judges it again, as before.
        return Outcomes { of, message: Some(FAILED) };
    }
    let together: Vec<TxView<'a>> = open.iter().map(|n| txs[*n]).collect();
    let terms = Terms { replaces: false, max_rate: most };
    let verdict = judge_package(&together, &ground.coins, &pool, &next_block, terms, Pay::Together);
    if let Some((n, refusal)) = verdict.refused {
        let is_dust = matches!(refusal, Refusal::UnspentDust { .. });
        of.insert(open[n], Outcome::Refused(refusal));
        return Outcomes { of, message: Some(if is_dust { "unspent-dust" } else { FAILED }) };
    }
    if let Some(whole) = verdict.whole {
        return Outcomes { of, message: Some(PackageRefusal::reason(whole)) };
    }
    let payers: Vec<Wtxid> = together.iter().map(TxView::wtxid).collect();
    for (n, judged) in open.into_iter().zip(verdict.judged) {
        of.insert(n, Outcome::Accepted(Accepted::new(judged, payers.clone())));
    }
    Outcomes { of, message: None }
}

/// Refuses what was there or accepted before and left the pool for `later`, as Core does: what that one
/// replaced leaves the outbox all the same.
fn refuse_replaced(
    of: &mut BTreeMap<usize, Outcome<'_>>,
    txs: &[TxView<'_>],
    later: &mut Accepted<'_>,
) {
    for (n, outcome) in of {
        if !later.judged.replaced.contains(&txs[*n].txid()) {
            continue;
        }
        if let Outcome::Accepted(earlier) = outcome {
            later.leaving.append(&mut earlier.leaving);
        }
        *outcome = Outcome::Refused(Refusal::Full);
    }
}

fn told(tx: TxView<'_>, outcome: Option<&Outcome<'_>>) -> Json {
    let mut json = Json::object([("txid", tx.txid().to_string().into())]);
    match outcome {
        None => json.push("error", "package-not-validated"),
        Some(Outcome::OtherWitness(other)) => json.push("other-wtxid", other.to_string()),
        Some(Outcome::Refused(refusal)) => json.push("error", refusal.to_string()),
        Some(Outcome::There(vsize, fee)) => {
            json.push("vsize", *vsize);
            json.push("fees", Json::object([("base", Json::amount(*fee))]));
        }
        Some(Outcome::Accepted(Accepted { judged, payers, .. })) => {
            json.push("vsize", judged.tx.vsize);
            let payers = payers.iter().map(Wtxid::to_string).collect();
            json.push("fees", fees(judged, payers));
        }
    }
    json
}

/// What of the accepted went into the outbox.
enum Kept {
    All,
    /// For the others there is no room.
    Some,
    /// Nothing: tip or outbox are others by now.
    Moved,
}

/// Puts what was accepted into the outbox. What has no room there is refused, as Core refuses what its
/// mempool does not keep: from the last on, which spends from the others, with those that pay for it.
fn keep(
    call: &Call<'_>,
    ground: &Ground,
    of: &mut BTreeMap<usize, Outcome<'_>>,
) -> Result<Kept, RpcError> {
    let mut kept = Kept::All;
    loop {
        let accepted: Vec<&Accepted<'_>> = of.values().filter_map(Outcome::accepted).collect();
        if accepted.is_empty() {
            return Ok(kept);
        }
        let judged: Vec<&Judged<'_>> = accepted.iter().map(|one| &one.judged).collect();
        let leaving = accepted.iter().flat_map(|one| one.leaving.iter().copied()).collect();
        match put(call, ground, &judged, leaving)? {
            Ok(()) => return Ok(kept),
            Err(SendRefusal::Moved) => return Ok(Kept::Moved),
            Err(SendRefusal::Full) => {
                refuse_last(of);
                kept = Kept::Some;
            }
        }
    }
}

/// Refuses the last that was accepted, with those that pay for it.
fn refuse_last(of: &mut BTreeMap<usize, Outcome<'_>>) {
    let last = of.values().rev().find_map(Outcome::accepted);
    let payers = last.map(|last| last.payers.clone()).unwrap_or_default();
    for outcome in of.values_mut() {
        if outcome.accepted().is_some_and(|one| payers.contains(&one.judged.tx.wtxid)) {
            *outcome = Outcome::Refused(Refusal::Full);
        }
    }
}

/// Has those of a package announced again that were in the outbox and still are, whatever is said of it.
fn announce_again(call: &Call<'_>, txs: &[TxView<'_>], ground: &Ground) -> Result<(), RpcError> {
    let pool = ground.pool();
    let txids = txs.iter().map(TxView::txid);
    let there: Vec<Txid> = txids.filter(|txid| pool.get(txid).is_some()).collect();
    if there.is_empty() {
        return Ok(());
    }
    call.node.ask(move |node| there.iter().for_each(|txid| node.announce_again(txid)))
}

/// Hands in a child with its parents, or one transaction.
pub(in crate::methods) fn submit(call: &mut Call<'_>) -> Result<Json, RpcError> {
    let list = package(call)?;
    let rate = max_rate(call.arg(1))?;
    let most = (rate.fee > 0).then_some(rate);
    let all = transactions(list, Some(max_burn(call.arg(2))?))?;
    let txs = views(&all);
    if txs.len() > 1 && !is_child_with_parents(&txs) {
        let text =
            "package topology disallowed. not child-with-parents or parents depend on each other.";
        return Err(RpcError::new(code::VERIFY_ERROR, text));
    }
    for _ in 0..ATTEMPTS {
        let ground = Ground::of(call, &txs)?;
        let Outcomes { mut of, mut message } = outcomes(&txs, &ground, most);
        match keep(call, &ground, &mut of)? {
            Kept::All => {}
            Kept::Some => message = Some(FAILED),
            Kept::Moved => continue,
        }
        announce_again(call, &txs, &ground)?;
        let accepted = of.values().filter_map(Outcome::accepted);
        let replaced: BTreeSet<Txid> =
            accepted.flat_map(|one| one.judged.replaced.iter().copied()).collect();
        let mut told_of = BTreeSet::new();
        let results = txs
            .iter()
            .enumerate()
            .filter(|(_, tx)| told_of.insert(tx.wtxid()))
            .map(|(n, tx)| (tx.wtxid().to_string().into(), told(*tx, of.get(&n))))
            .collect();
        return Ok(Json::object([
            ("package_msg", message.unwrap_or("success").into()),
            ("tx-results", Json::Object(results)),
            (
                "replaced-transactions",
                replaced.iter().map(Txid::to_string).map(Json::from).collect(),
            ),
        ]));
    }
    Err(moved())
}

#[cfg(test)]
mod tests {
    use godwit_policy::PoolTx;

    use super::*;

    /// A transaction without a witness that spends output `n` of another one.
    fn bytes(n: u8) -> Vec<u8> {
        let input = [&[9; 32][..], &[n, 0, 0, 0], &[0], &[0xff; 4]].concat();
        let output = [&[5, 0, 0, 0, 0, 0, 0, 0][..], &[1, 0x51]].concat();
        [&[2, 0, 0, 0][..], &[1], &input, &[1], &output, &[0; 4]].concat()
    }

    fn accepted<'a>(tx: TxView<'a>, payers: &[TxView<'_>], replaced: &[Txid]) -> Accepted<'a> {
        let (txid, wtxid, fee, vsize) = (tx.txid(), tx.wtxid(), 100, 60);
        let rate = FeeRate { fee, size: vsize };
        let replaced = replaced.iter().copied().collect();
        let tx = PoolTx { tx, txid, wtxid, fee, vsize, weight: 240 };
        Accepted::new(Judged { tx, replaced, rate }, payers.iter().map(TxView::wtxid).collect())
    }

    #[test]
    fn what_a_later_one_of_the_package_replaces_is_refused() {
        let [older, other] = [1, 2].map(|n| Txid::from_bytes([n; 32]));
        let all = [1, 2, 3, 4, 5].map(bytes);
        let txs = all.each_ref().map(|bytes| TxView::parse(bytes).expect("a transaction"));
        let alone = |n: usize, replaced: &[Txid]| accepted(txs[n], &txs[n..=n], replaced);
        let mut last = alone(4, &[other, txs[0].txid(), txs[2].txid()]);
        let mut of = BTreeMap::from([
            (0, Outcome::Accepted(alone(0, &[older]))),
            (1, Outcome::Accepted(alone(1, &[]))),
            (2, Outcome::There(60, 100)),
            (3, Outcome::There(60, 100)),
        ]);
        refuse_replaced(&mut of, &txs, &mut last);
        assert!(matches!(of[&0], Outcome::Refused(Refusal::Full)));
        assert!(matches!(of[&1], Outcome::Accepted(..)));
        assert!(matches!(of[&2], Outcome::Refused(Refusal::Full)));
        assert!(matches!(of[&3], Outcome::There(..)));
        // Core tells of these, and not of what a refused one replaced; that leaves, too.
        let told = BTreeSet::from([other, txs[0].txid(), txs[2].txid()]);
        assert_eq!(last.judged.replaced, told);
        assert_eq!(last.leaving, &told | &BTreeSet::from([older]));
    }

    #[test]
    fn what_has_no_room_is_refused_from_the_end_with_what_pays_for_it() {
        let all = [1, 2, 3, 4, 5].map(bytes);
        let txs = all.each_ref().map(|bytes| TxView::parse(bytes).expect("a transaction"));
        let pair = [txs[1], txs[4]];
        let mut of = BTreeMap::from([
            (0, Outcome::Accepted(accepted(txs[0], &txs[..1], &[]))),
            (1, Outcome::Accepted(accepted(txs[1], &pair, &[]))),
            (2, Outcome::There(60, 100)),
            (3, Outcome::Accepted(accepted(txs[3], &txs[3..4], &[]))),
            (4, Outcome::Accepted(accepted(txs[4], &pair, &[]))),
        ]);
        for refused in [&[1, 4][..], &[1, 3, 4], &[0, 1, 3, 4], &[0, 1, 3, 4]] {
            refuse_last(&mut of);
            let full = of.iter().filter(|(_, one)| matches!(one, Outcome::Refused(Refusal::Full)));
            assert_eq!(full.map(|(n, _)| *n).collect::<Vec<_>>(), refused);
        }
    }
}
