//! Ledgers over a generated chain whose coins a naive twin has applied in order.

mod stores;

use std::collections::BTreeMap;
use std::sync::Arc;

use godwit_primitives::coin::is_unspendable;
use godwit_primitives::network::Network;
use godwit_primitives::{BlockHash, Coin};
use godwit_sim::rng::Rng;
use godwit_store::utxo::HashedOutPoint;
use godwit_stream::{DataStream, Encode};
use siphasher::sip128::SipHasher24;

use super::culprits::{Record, Role, disputes, for_each_role};
use super::ledger::{for_each_claimed, for_each_created, for_each_inside};
use super::sums::{Side, Sums};
use super::*;
use crate::chain::tests::blocks;
use crate::structure::{Received, structure};

/// Of the stores of these tests.
const PARTITIONS: usize = 64;

/// The coins of a store, as they are stored.
type Kept = Vec<(OutPoint, Vec<u8>)>;

fn encoded(coin: &Coin) -> Vec<u8> {
    let mut bytes = DataStream::new();
    coin.encode(&mut bytes);
    bytes.as_slice().to_vec()
}

fn claims(coins: Vec<Coin>) -> Claims {
    let mut stored = CompressedCoins::default();
    stored.extend(&coins);
    Claims { coins, stored }
}

/// A chain with the coins that each block spends, and those that are left.
struct Made {
    params: Arc<Params>,
    hasher: UtxoHasher,
    blocks: Vec<(Arc<Structured>, Claims)>,
    times: Vec<u32>,
    coins: BTreeMap<OutPoint, Coin>,
}

impl Made {
    fn new() -> Self {
        let params = Arc::new(Params::new(Network::Regtest));
        let (hasher, mut coins) = (UtxoHasher::new([5; 16]), BTreeMap::new());
        let (mut made, mut times) = (Vec::new(), vec![params.genesis.time]);
        for (height, bytes) in (1..).zip(blocks()) {
            let received = structure(DataStream::from(&bytes[..]), &params, &hasher, None);
            let Received::Structured(block) = received else { panic!("a valid block") };
            let mut spent = Vec::new();
            for (n, tx) in block.view().txs().enumerate() {
                if n > 0 {
                    spent.extend(tx.inputs().map(|input| {
                        coins.remove(&input.prevout).expect("an output of an earlier transaction")
                    }));
                }
                for (vout, output) in (0..).zip(tx.outputs()) {
                    let (value, script_pubkey) = (output.value, output.script_pubkey.into());
                    let coin = Coin { value, script_pubkey, height, coinbase: n == 0 };
                    if !is_unspendable(output.script_pubkey) {
                        coins.insert(OutPoint { txid: tx.txid(), vout }, coin);
                    }
                }
            }
            times.push(block.header().time);
            made.push((block, claims(spent)));
        }
        Self { params, hasher, blocks: made, times, coins }
    }

    fn with_place<T>(&self, n: usize, each: impl FnOnce(&Place<'_>) -> T) -> T {
        let height = n as u32 + 1;
        let median_time_past = |height: u32| {
            let mut last: Vec<u32> = self.times[..=height as usize].to_vec();
            let mut last = last.split_off(last.len().saturating_sub(11));
            last.sort_unstable();
            last[last.len() / 2]
        };
        let rules = BlockRules {
            height,
            flags: script_flags(height, &self.blocks[n].0.hash(), &self.params),
            sequence_locks: self.params.is_active(Deployment::Csv, height),
            no_overwrite: false,
            prev_median_time_past: median_time_past(height - 1),
            params: Arc::clone(&self.params),
        };
        each(&Place { rules, median_time_past: &median_time_past, overwritten: false })
    }

    /// What is found where block `n` claims other coins than it spent, and the store has these.
    fn audit(&self, other: Option<(usize, &Claims)>, kept: &Kept) -> Found {
        let (mac, mut ledger) = (Mac::new([3; 16]), Ledger::new());
        let (mut faults, mut records) = (Vec::new(), Vec::new());
        for (n, (block, own)) in self.blocks.iter().enumerate() {
            let claims = other.filter(|(at, _)| *at == n).map_or(own, |(_, claims)| claims);
            self.with_place(n, |place| {
                let taken = ledger.take_block(&mac, place, block, claims);
                faults.extend(taken.err().map(|fault| (n, fault)));
                for_each_role(block, place, claims, |coin, role, stored| {
                    records.push(Record::new(coin, role, stored));
                });
            });
        }
        for (outpoint, stored) in kept {
            let coin = self.hasher.hash(*outpoint);
            ledger.take_coin(&mac, &coin, stored);
            records.push(Record::new(&coin, Role::Kept, [stored, &[]]));
        }
        let (wrong, disputes) = (ledger.sums.wrong(), disputes(records, PARTITIONS));
        assert_eq!(wrong.is_empty(), disputes.is_empty(), "{wrong:?}: {disputes:?}");
        let of_coins = disputes.into_iter().map(|dispute| match dispute {
            Dispute::Coin { outpoint, fault, .. } => (outpoint, fault),
            other => panic!("{other}"),
        });
        Found { faults, coins: of_coins.collect() }
    }

    fn kept(&self) -> Kept {
        self.coins.iter().map(|(outpoint, coin)| (*outpoint, encoded(coin))).collect()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    faults: Vec<(usize, ClaimError)>,
    coins: Vec<(OutPoint, CoinFault)>,
}

const NOTHING: Found = Found { faults: Vec::new(), coins: Vec::new() };

#[test]
fn a_chain_is_proven_in_any_order_on_any_number_of_ledgers() {
    let made = Made::new();
    assert_eq!(made.audit(None, &made.kept()), NOTHING);
    let (mac, mut rng) = (Mac::new([9; 16]), Rng::new(4));
    for count in [1usize, 2, 7, 16] {
        let mut order: Vec<usize> = (0..made.blocks.len()).collect();
        for index in (1..order.len()).rev() {
            order.swap(index, rng.below(index as u64 + 1) as usize);
        }
        let mut ledgers: Vec<Ledger> = (0..count).map(|_| Ledger::new()).collect();
        for (turn, n) in order.into_iter().enumerate() {
            let (block, claims) = &made.blocks[n];
            let ledger = &mut ledgers[turn % count];
            made.with_place(n, |place| ledger.take_block(&mac, place, block, claims)).unwrap();
        }
        for (turn, (outpoint, stored)) in made.kept().iter().enumerate() {
            ledgers[turn % count].take_coin(&mac, &made.hasher.hash(*outpoint), stored);
        }
        let mut all = ledgers.pop().unwrap();
        assert!(ledgers.is_empty() || !all.sums.wrong().is_empty(), "a part is not the whole");
        ledgers.into_iter().for_each(|ledger| all.merge(ledger));
        assert_eq!(all.sums.wrong(), Vec::<u16>::new());
        let Counts { blocks, inputs, outputs, coins, .. } = all.counts;
        assert_eq!((blocks as usize, coins as usize), (made.blocks.len(), made.coins.len()));
        assert_eq!(outputs - inputs, coins);
        assert_eq!(repeated(all.coinbases, &[]), None);
    }
}

/// Each field of a claim that is another one, and claims of other inputs and blocks.
#[test]
fn each_changed_claim_is_refuted_and_named() {
    let made = Made::new();
    let (kept, mut inside, mut early, mut rules, mut sums) = (made.kept(), 0, 0, 0, 0);
    let places = made.blocks.iter().enumerate();
    let places = places.flat_map(|(n, (_, claims))| (0..claims.coins.len()).map(move |at| (n, at)));
    let places: Vec<(usize, usize)> = places.collect();
    for (n, input) in places.iter().copied().step_by(places.len() / 20) {
        let height = n as u32 + 1;
        let changes: [&dyn Fn(&mut Coin); 9] = [
            &|coin| coin.value += 1,
            &|coin| coin.value = 0,
            &|coin| coin.value = -1,
            &|coin| coin.height -= 1,
            &|coin| coin.height = height,
            &|coin| coin.height = u32::MAX >> 1,
            &|coin| coin.coinbase = !coin.coinbase,
            &|coin| coin.script_pubkey[0] ^= 1,
            &|coin| coin.script_pubkey.push(0x51),
        ];
        for change in changes {
            let mut coins = made.blocks[n].1.coins.clone();
            let old = coins[input].clone();
            change(&mut coins[input]);
            if coins[input] == old {
                continue;
            }
            let Found { faults, coins } = made.audit(Some((n, &claims(coins))), &kept);
            assert!(faults.iter().all(|(at, _)| *at == n), "{faults:?}");
            match faults.first() {
                Some((_, ClaimError::Inside { input: of })) => {
                    assert_eq!((*of, coins.len()), (input, 0));
                    inside += 1;
                    continue;
                }
                Some((_, ClaimError::Early { input: of, .. })) => {
                    assert_eq!(*of, input);
                    early += 1;
                }
                Some((_, ClaimError::Rule(_))) => rules += 1,
                Some((_, other)) => panic!("{other}"),
                None => sums += 1,
            }
            let [(_, CoinFault::Claimed { created, spent_at, .. })] = &coins[..] else {
                panic!("{coins:?}")
            };
            assert_eq!((&created[..], *spent_at), (&encoded(&old)[..], height));
        }
    }
    println!("{inside} inside, {early} early, {rules} by rules, {sums} by sums alone");
    assert!([inside, early, rules, sums].iter().all(|count| *count > 2));
}

#[test]
fn claims_of_two_inputs_or_blocks_that_change_places_are_named() {
    let made = Made::new();
    let (mut within, mut between) = (0, 0);
    let mut last: Option<usize> = None;
    for (n, (block, own)) in made.blocks.iter().enumerate() {
        if own.coins.len() < 2 || !block.inside().is_empty() || own.coins[0] == own.coins[1] {
            continue;
        }
        let mut coins = own.coins.clone();
        coins.swap(0, 1);
        let found = made.audit(Some((n, &claims(coins))), &made.kept());
        assert_eq!(found.coins.len(), 2, "{found:?}");
        within += 1;
        if let Some(before) = last {
            let mut coins = own.coins.clone();
            coins[0] = made.blocks[before].1.coins[0].clone();
            if coins[0] != own.coins[0] {
                let found = made.audit(Some((n, &claims(coins))), &made.kept());
                assert_eq!(found.coins.len(), 1, "{found:?}");
                between += 1;
            }
        }
        last = Some(n);
        if within >= 10 {
            break;
        }
    }
    assert!(within > 2 && between > 1, "{within}, {between}");
}

#[test]
fn whatever_the_store_has_instead_is_named() {
    let made = Made::new();
    let kept = made.kept();
    let spent = made.blocks.iter().flat_map(|(block, own)| {
        let mut spends = Vec::new();
        for_each_claimed(block, own, |coin, stored| spends.push((coin.outpoint, stored.to_vec())));
        spends
    });
    let spent: Kept = spent.collect();
    for n in (0..kept.len()).step_by(kept.len() / 20) {
        let (outpoint, stored) = kept[n].clone();
        let only = |fault| Found { faults: Vec::new(), coins: vec![(outpoint, fault)] };
        let with = |change: &dyn Fn(&mut Kept)| {
            let mut kept = kept.clone();
            change(&mut kept);
            made.audit(None, &kept)
        };
        let at = made.coins[&outpoint].height;
        let created: Box<[u8]> = stored.clone().into();
        let missing = CoinFault::Missing { created: created.clone(), at };
        assert_eq!(with(&|kept| drop(kept.remove(n))), only(missing));
        let doubled = with(&|kept| kept.push((outpoint, stored.clone())));
        assert_eq!(doubled, only(CoinFault::Doubled));
        let mut other = stored.clone();
        *other.last_mut().unwrap() ^= 1;
        let changed = with(&|kept| kept[n].1 = other.clone());
        assert_eq!(changed, only(CoinFault::Changed { created, kept: other.into() }));
        let invented = OutPoint { vout: 77_777, ..outpoint };
        let found = with(&|kept| kept.push((invented, stored.clone())));
        let fault = CoinFault::Invented { kept: stored.clone().into() };
        assert_eq!(found.coins, [(invented, fault)]);
        let (outpoint, stored) = &spent[n % spent.len()];
        let found = with(&|kept| kept.push((*outpoint, stored.clone())));
        assert!(matches!(found.coins[..], [(of, CoinFault::Kept { .. })] if of == *outpoint));
    }
    // Two coins whose contents change places.
    let mut swapped = kept.clone();
    let second = (1..kept.len()).find(|n| kept[*n].1 != kept[0].1).unwrap();
    (swapped[0].1, swapped[second].1) = (kept[second].1.clone(), kept[0].1.clone());
    assert_eq!(made.audit(None, &swapped).coins.len(), 2);
}

#[test]
fn a_coin_that_one_block_created_and_spent_is_named_as_spent_if_the_store_has_it() {
    let (made, mut seen) = (Made::new(), 0);
    for ((block, _), height) in made.blocks.iter().zip(1..) {
        let mut inside = None;
        for_each_inside(block, height, |coin, stored| {
            inside = Some((coin.outpoint, stored.concat()));
        });
        let Some((outpoint, stored)) = inside else { continue };
        let found = made.audit(None, &[made.kept(), vec![(outpoint, stored)]].concat());
        assert_eq!(found.coins, [(outpoint, CoinFault::Kept { spent_at: height })]);
        seen += 1;
        if seen == 5 {
            break;
        }
    }
    assert!(seen > 0, "no block spends what it creates");
}

fn some_coin() -> (HashedOutPoint, Vec<u8>) {
    let outpoint = OutPoint { txid: Txid::from_bytes([7; 32]), vout: 3 };
    (UtxoHasher::new([1; 16]).hash(outpoint), [10, 9, 0x51].repeat(5))
}

#[test]
fn a_coin_that_is_spent_more_than_once_is_never_lost() {
    let (mac, (coin, stored)) = (Mac::new([8; 16]), some_coin());
    let mut sums = Sums::new();
    sums.add(&mac, &coin, [&stored, &[]], Side::Created);
    for times in 1..=(1u32 << 16) + 1 {
        sums.add(&mac, &coin, [&stored, &[]], Side::Gone);
        if times < 4 || (times - 1).is_power_of_two() || times.is_power_of_two() {
            assert_eq!(sums.wrong().is_empty(), times == 1, "{times}");
        }
    }
    // Sums far beyond 64 bits are what they were after merging.
    let (mut twice, mut other) = (Sums::new(), Sums::new());
    twice.add(&mac, &coin, [&stored, &[]], Side::Created);
    other.add(&mac, &coin, [&stored, &[]], Side::Gone);
    (0..64).for_each(|_| twice.merge(&sums));
    (0..64).for_each(|_| other.merge(&sums));
    assert!(!twice.wrong().is_empty());
    twice.merge(&other);
    assert!(!twice.wrong().is_empty());
}

#[test]
fn a_tag_is_siphash_2_4_of_128_bits() {
    // The reference implementation's, of no byte and of a zero (vectors.h, vectors_sip128).
    let hasher = SipHasher24::new_with_key(&std::array::from_fn(|n| n as u8));
    let known = ["a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45"];
    for (message, known) in [&[][..], &[0]].into_iter().zip(known) {
        assert_eq!(hex::encode(hasher.hash(message).as_bytes()), known);
    }
    // In two pieces or one; and of what else is said of the same bytes, no two are equal.
    let (mac, (coin, stored)) = (Mac::new([8; 16]), some_coin());
    for split in 0..=stored.len() {
        let mut sums = Sums::new();
        sums.add(&mac, &coin, [&stored, &[]], Side::Created);
        sums.add(&mac, &coin, [&stored[..split], &stored[split..]], Side::Gone);
        assert!(sums.wrong().is_empty());
    }
    let mut moved = coin;
    (moved.outpoint.vout, moved.key) = (4, coin.key);
    let mut sums = Sums::new();
    sums.add(&mac, &coin, [&stored, &[]], Side::Created);
    sums.add(&mac, &moved, [&stored, &[]], Side::Gone);
    assert!(!sums.wrong().is_empty());
}

/// Nothing but the tag decides: cut short, it lets a wrong coin pass as often as it should.
#[test]
fn tags_of_12_bits_pass_falsely_as_often_as_they_should() {
    const KEYS: u32 = 40_960;
    let (coin, stored) = some_coin();
    let mut other = stored.clone();
    other[1] ^= 1;
    let (mut sums, mut falsely) = (Sums::new(), 0);
    for n in 0..KEYS {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&n.to_le_bytes());
        let mac = Mac::cut(key, 12);
        sums.add(&mac, &coin, [&stored, &[]], Side::Created);
        sums.add(&mac, &coin, [&other, &[]], Side::Gone);
        falsely += u32::from(sums.wrong().is_empty());
        sums.add(&mac, &coin, [&other, &[]], Side::Created);
        sums.add(&mac, &coin, [&stored, &[]], Side::Gone);
        // What is true is never refuted.
        if n.is_multiple_of(1024) {
            assert!(sums.wrong().is_empty());
        }
    }
    // Ten are expected: fewer than one or more than 25 come once in 20,000 keys.
    assert!((1..=25).contains(&falsely), "{falsely} of {KEYS}");
}

#[test]
fn the_two_overwritten_coinbases_of_main_pass_and_a_third_does_not() {
    let txid = |n: u8| Txid::from_bytes([n; 32]);
    let known = vec![
        (txid(1), 91_722),
        (txid(2), 91_812),
        (txid(3), 91_813),
        (txid(2), 91_842),
        (txid(1), 91_880),
    ];
    assert_eq!(repeated(known.clone(), &[91_812, 91_722]), None);
    // Below the second block the first one's coinbase is a coin like any other.
    assert_eq!(repeated(known[..3].to_vec(), &[]), None);
    assert_eq!(repeated(known.clone(), &[91_722]), Some((txid(2), 91_812, 91_842)));
    let third = [known.clone(), vec![(txid(1), 100_000)]].concat();
    assert_eq!(repeated(third, &[91_812, 91_722]), Some((txid(1), 91_880, 100_000)));
    let another = [known, vec![(txid(3), 91_842)]].concat();
    assert_eq!(repeated(another, &[91_812, 91_722]), Some((txid(3), 91_813, 91_842)));
    // Of an overwritten block all but the coinbase counts.
    let made = Made::new();
    let (block, _) = made.blocks.iter().find(|(block, _)| block.view().tx_count() > 2).unwrap();
    let count = |overwritten| {
        let median_time_past = |_| 0;
        let rules = made.with_place(0, |place| place.rules.clone());
        let place = Place { rules, median_time_past: &median_time_past, overwritten };
        let mut coins = Vec::new();
        for_each_created(block, &place, |coin, _| coins.push(coin.outpoint.txid));
        coins
    };
    let coinbase = block.view().txids()[0];
    assert!(count(false).contains(&coinbase) && !count(true).contains(&coinbase));
    assert!(!count(true).is_empty());
}

#[test]
fn what_is_told_is_one_line_each() {
    let block = ChainPoint { hash: BlockHash::ZERO, height: 7 };
    let made = Made::new();
    let (outpoint, coin) = made.coins.iter().next().unwrap();
    let kept: Box<[u8]> = encoded(coin).into();
    let disputes = [
        Dispute::Claim { block, fault: ClaimError::Early { input: 3, height: 9 } },
        Dispute::Coin { outpoint: *outpoint, partition: 4, fault: CoinFault::Invented { kept } },
        Dispute::Part { partition: 5, ranges: 6 },
        Dispute::Elusive,
    ];
    for dispute in &disputes {
        assert!(!dispute.to_string().contains('\n'), "{dispute}");
    }
    let mut list = Disputes::default();
    (0..DISPUTES + 5).for_each(|_| list.add(Dispute::Elusive));
    assert_eq!((list.told.len(), list.more), (DISPUTES, 5));
    // Whatever was found before: partitions are named, undo records made again and blocks suspected.
    let outpoint = *outpoint;
    let coin = |fault| Dispute::Coin { outpoint, partition: 4, fault };
    let (created, claimed): (Box<[u8]>, Box<[u8]>) = Default::default();
    list.add(Dispute::Part { partition: 5, ranges: 6 });
    list.add(coin(CoinFault::Claimed { created, claimed, spent_at: 8 }));
    list.add(coin(CoinFault::SpentTwice { first: 3, second: 9 }));
    list.add(Dispute::Claim { block, fault: ClaimError::Script { tx: 1, input: 0 } });
    assert_eq!(list.told.last(), Some(&Dispute::Part { partition: 5, ranges: 6 }));
    assert_eq!((list.told.len(), list.more), (DISPUTES + 1, 8));
    assert_eq!(list.records, BTreeSet::from([7, 8]));
    assert_eq!(list.suspects, BTreeSet::from([9]));
    assert_eq!(list.suspects_if_claims_are_true, BTreeSet::from([7]));
}

#[test]
fn coins_are_told_apart_where_their_texts_are_equal() {
    // P2PKH, as godwit stores it and in the form of any other script.
    let script: Vec<u8> = [&[0x76, 0xa9, 20][..], &[7; 20], &[0x88, 0xac]].concat();
    let script_pubkey = script.as_slice().into();
    let coin = Coin { value: 4093, script_pubkey, height: 247, coinbase: false };
    let created = encoded(&coin);
    let (head, _) = created.split_at(created.len() - 21);
    let kept: Box<[u8]> = [head, &[25 + 6], &coin.script_pubkey[..]].concat().into();
    let created: Box<[u8]> = created.into();
    let told = CoinFault::Changed { created: created.clone(), kept }.to_string();
    let shown = "the store has 4093 satoshi of height 247 with script 76a914";
    assert!(told.starts_with(shown), "{told}");
    assert!(told.ends_with(", and what was created looks the same in other bytes"), "{told}");
    let coinbase = encoded(&Coin { coinbase: true, ..coin });
    let told = CoinFault::Changed { created, kept: coinbase.into() }.to_string();
    assert!(told.contains("4093 satoshi of a coinbase at height 247 with script "), "{told}");
    assert!(told.contains(", and what was created is 4093 satoshi of height 247 "), "{told}");
}
