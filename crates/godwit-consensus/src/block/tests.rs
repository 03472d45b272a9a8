use godwit_primitives::network::Network;
use godwit_primitives::{Block, BlockHeader, COIN, OutPoint, Transaction, TxIn, TxOut};

use super::*;
use crate::ResultClass;
use crate::fixtures::{
    block_of, coinbase, commitment, input, mined, mined_with_root, output, regtest, spend,
};

const HEIGHT: u32 = 500;

fn check(block: &Block) -> Result<(), Reject> {
    check_block(block.view(), &regtest(), |_| panic!("not a signet"))
}

/// Checks `block` at [`HEIGHT`] on top of a block of time 10,000 and median time past 9,000.
fn check_on_prev(block: &Block, params: &Params) -> Result<(), Reject> {
    let header = BlockHeader { time: 10_000, ..*block.header() };
    let ancestor = |_: u32| header;
    let prev =
        PrevContext { height: HEIGHT - 1, header, median_time_past: 9_000, ancestor: &ancestor };
    contextual_check_block(block.view(), &PlaceFacts::of(block.view()), &prev, params)
}

fn rejected(reason: RejectReason) -> Result<(), Reject> {
    Err(Reject::new(reason))
}

/// A coinbase and `count` transactions that spend different outputs.
fn transactions(count: u32) -> Vec<Transaction> {
    let spends = (1..=count).map(|n| Transaction { inputs: vec![input(n)], ..spend() });
    [coinbase(HEIGHT)].into_iter().chain(spends).collect()
}

/// Outputs of `sigops` signature operations.
fn signing(sigops: usize) -> TxOut {
    TxOut { value: 0, script_pubkey: vec![0xac; sigops] }
}

/// The transactions with a witness in the second, committed to by the coinbase.
fn with_witness() -> Vec<Transaction> {
    let mut txs = transactions(2);
    txs[1].inputs[0].witness = vec![vec![1, 2, 3]];
    commit(&mut txs);
    txs
}

fn commit(txs: &mut [Transaction]) {
    txs[0].inputs[0].witness = vec![vec![0; 32]];
    let output = commitment(txs);
    txs[0].outputs.push(output);
}

#[test]
fn a_block_passes() {
    for count in 0..5 {
        let block = mined(&transactions(count));
        assert_eq!(check(&block), Ok(()));
        assert_eq!(check_on_prev(&block, &regtest()), Ok(()));
    }
}

#[test]
fn work_goes_before_everything_else() {
    let good = mined(&transactions(1));
    let mut header = BlockHeader { bits: 0x1d00_ffff, ..*good.header() };
    header.nonce = 0;
    let block = block_of(&header, &[]);
    assert_eq!(check(&block), rejected(RejectReason::HighHash));
}

#[test]
fn merkle_root_and_repetitions() {
    let txs = transactions(2);
    let other = mined(&transactions(3));
    let block = mined_with_root(other.header().merkle_root, &txs);
    let result = check(&block);
    assert_eq!(result, rejected(RejectReason::BadTxnMrklRoot));
    assert_eq!(result.unwrap_err().class, ResultClass::Mutated);
    // Three transactions hash like four of which the last two are the same (CVE-2012-2459).
    let mut repeated = txs.clone();
    repeated.push(txs[2].clone());
    let block = mined_with_root(mined(&txs).header().merkle_root, &repeated);
    let result = check(&block);
    assert_eq!(result, rejected(RejectReason::BadTxnsDuplicate));
    assert_eq!(result.unwrap_err().class, ResultClass::Mutated);
}

#[test]
fn a_block_has_transactions() {
    assert_eq!(check(&mined(&[])), rejected(RejectReason::BadBlkLength));
}

#[test]
fn a_million_bytes_without_witness_are_the_limit() {
    let mut txs = transactions(2);
    let room = 1_000_000 - mined(&txs).view().stripped_size();
    // Lengths take five bytes instead of one.
    txs[1].outputs[0].script_pubkey = vec![0; room / 2 - 4 + 1];
    txs[2].outputs[0].script_pubkey = vec![0; room - room / 2 - 4 + 1];
    let block = mined(&txs);
    assert_eq!(block.view().stripped_size(), 1_000_000);
    assert_eq!(check(&block), Ok(()));
    assert_eq!(check_on_prev(&block, &regtest()), Ok(()));
    txs[2].outputs[0].script_pubkey.push(0);
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::BadBlkLength));
}

#[test]
fn the_first_transaction_is_the_only_coinbase() {
    let mut txs = transactions(2);
    assert_eq!(check(&mined(&txs[1..])), rejected(RejectReason::BadCbMissing));
    txs.push(coinbase(HEIGHT + 1));
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::BadCbMultiple));
    // A null outpoint beside another input is not a coinbase.
    txs[3].inputs.push(input(9));
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::PrevoutNull));
}

#[test]
fn a_transaction_goes_before_the_sum_of_signature_operations() {
    let mut txs = transactions(2);
    txs[1].outputs.push(signing(20_001));
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::BadBlkSigops));
    txs[2].outputs.clear();
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::VoutEmpty));
}

#[test]
fn own_scripts_have_20_000_signature_operations_at_most() {
    let mut txs = transactions(2);
    txs[1].outputs.push(signing(12_000));
    txs[2].outputs.push(signing(7_979));
    txs[2].inputs[0].script_sig = vec![0xaf];
    txs[0].outputs.push(signing(1));
    assert_eq!(check(&mined(&txs)), Ok(()));
    txs[0].outputs.push(signing(1));
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::BadBlkSigops));
}

#[test]
fn lock_times_count_against_the_median_under_bip113() {
    let mut params = regtest();
    let locked = |lock_time: u32| {
        let mut txs = transactions(1);
        txs[1].lock_time = lock_time;
        txs[1].inputs[0].sequence = 0;
        mined(&txs)
    };
    let nonfinal = rejected(RejectReason::TxnsNonfinal);
    assert_eq!(check_on_prev(&locked(HEIGHT - 1), &params), Ok(()));
    assert_eq!(check_on_prev(&locked(HEIGHT), &params), nonfinal);
    let block_time = locked(0).header().time;
    assert_eq!(check_on_prev(&locked(block_time - 1), &params), nonfinal);
    params.csv_height = HEIGHT;
    assert_eq!(check_on_prev(&locked(block_time - 1), &params), nonfinal);
    assert_eq!(check_on_prev(&locked(500_000_000), &params), nonfinal);
    params.csv_height = HEIGHT + 1;
    assert_eq!(check_on_prev(&locked(block_time - 1), &params), Ok(()));
    assert_eq!(check_on_prev(&locked(block_time), &params), nonfinal);
}

#[test]
fn the_coinbase_starts_with_the_height_under_bip34() {
    let mut params = regtest();
    let block = mined(&[coinbase(HEIGHT + 1)]);
    assert_eq!(check_on_prev(&block, &params), rejected(RejectReason::BadCbHeight));
    let mut longer = coinbase(HEIGHT);
    longer.inputs[0].script_sig = vec![0x03, 0xf4, 0x01, 0x00];
    let padded = mined(&[longer]);
    assert_eq!(check_on_prev(&padded, &params), rejected(RejectReason::BadCbHeight));
    let mut shorter = coinbase(HEIGHT);
    shorter.inputs[0].script_sig.truncate(2);
    let cut = mined(&[shorter]);
    assert_eq!(check_on_prev(&cut, &params), rejected(RejectReason::BadCbHeight));
    params.bip34_height = HEIGHT + 1;
    assert_eq!(check_on_prev(&block, &params), Ok(()));
}

#[test]
fn witnesses_need_a_commitment() {
    let mut params = regtest();
    let committed = mined(&with_witness());
    assert_eq!(check(&committed), Ok(()));
    assert_eq!(check_on_prev(&committed, &params), Ok(()));
    let mut txs = with_witness();
    txs[0].outputs.pop();
    let result = check_on_prev(&mined(&txs), &params);
    assert_eq!(result, rejected(RejectReason::UnexpectedWitness));
    assert_eq!(result.unwrap_err().class, ResultClass::Mutated);
    // A commitment of 37 bytes is none.
    let mut txs = with_witness();
    txs[0].outputs.last_mut().unwrap().script_pubkey.pop();
    let result = check_on_prev(&mined(&txs), &params);
    assert_eq!(result, rejected(RejectReason::UnexpectedWitness));
    // Before segwit a commitment is only an output.
    params.segwit_height = HEIGHT + 1;
    let result = check_on_prev(&committed, &params);
    assert_eq!(result, rejected(RejectReason::UnexpectedWitness));
    let mut txs = with_witness();
    txs.iter_mut().for_each(|tx| tx.inputs[0].witness.clear());
    assert_eq!(check_on_prev(&mined(&txs), &params), Ok(()));
}

#[test]
fn the_reserved_value_is_one_item_of_32_bytes() {
    for witness in [vec![], vec![vec![0; 31]], vec![vec![0; 33]], vec![vec![0; 32]; 2]] {
        let mut txs = with_witness();
        txs[0].inputs[0].witness = witness;
        let result = check_on_prev(&mined(&txs), &regtest());
        assert_eq!(result, rejected(RejectReason::BadWitnessNonceSize));
        assert_eq!(result.unwrap_err().class, ResultClass::Mutated);
    }
}

#[test]
fn the_commitment_covers_reserved_value_and_witnesses() {
    let mismatch = rejected(RejectReason::BadWitnessMerkleMatch);
    let mut txs = with_witness();
    txs[0].inputs[0].witness = vec![vec![1; 32]];
    assert_eq!(check_on_prev(&mined(&txs), &regtest()), mismatch);
    let mut txs = with_witness();
    txs[1].inputs[0].witness = vec![vec![1, 2, 4]];
    assert_eq!(check_on_prev(&mined(&txs), &regtest()), mismatch);
    // A block without other witnesses may commit too.
    let mut txs = transactions(2);
    commit(&mut txs);
    assert_eq!(check_on_prev(&mined(&txs), &regtest()), Ok(()));
}

#[test]
fn of_several_commitments_the_last_counts() {
    let mut txs = with_witness();
    let right = txs[0].outputs.pop().unwrap();
    let mut wrong = right.clone();
    wrong.script_pubkey[37] ^= 1;
    let mut longer = right.clone();
    longer.script_pubkey.push(7);
    for (outputs, expected) in [
        (vec![wrong.clone(), right.clone()], Ok(())),
        (vec![wrong.clone(), longer], Ok(())),
        (vec![right, wrong], rejected(RejectReason::BadWitnessMerkleMatch)),
    ] {
        txs[0].outputs.truncate(1);
        txs[0].outputs.extend(outputs);
        assert_eq!(check_on_prev(&mined(&txs), &regtest()), expected);
    }
}

#[test]
fn weight_is_four_million_at_most() {
    let of = |size: usize| {
        let mut txs = transactions(1);
        txs[1].inputs[0].witness = vec![vec![0; size]];
        commit(&mut txs);
        mined(&txs)
    };
    let size = 1_000_000;
    let room = 4_000_000 - of(size).view().weight();
    let block = of(size + room);
    assert_eq!(block.view().weight(), 4_000_000);
    assert_eq!(check_on_prev(&block, &regtest()), Ok(()));
    let result = check_on_prev(&of(size + room + 1), &regtest());
    assert_eq!(result, rejected(RejectReason::BadBlkWeight));
}

#[test]
fn signet_blocks_are_asked_for_a_solution_and_others_are_not() {
    let mut params = Params::with_signet_challenge(vec![0x51]);
    params.pow_limit = regtest().pow_limit;
    let signed = mined(&with_witness());
    let check = |block: &Block, valid: bool| check_block(block.view(), &params, |_| valid);
    let bad = rejected(RejectReason::BadSignetBlksig);
    assert_eq!(check(&signed, true), Ok(()));
    assert_eq!(check(&signed, false), bad);
    assert_eq!(bad.unwrap_err().class, ResultClass::Consensus);
    // Without a commitment there is no solution to ask about.
    assert_eq!(check(&mined(&transactions(1)), true), bad);
    // It goes before the merkle root.
    let unhashed = mined_with_root(signed.header().merkle_root, &transactions(1));
    assert_eq!(check(&unhashed, true), bad);
    let genesis = Block::from_bytes(&params.genesis_block()).unwrap();
    assert_eq!(check_block(genesis.view(), &params, |_| false), Ok(()));
}

#[test]
fn first_blocks_pass() {
    for network in Network::ALL {
        let params = Params::new(network);
        let genesis = Block::from_bytes(&params.genesis_block()).unwrap();
        assert_eq!(check_block(genesis.view(), &params, |_| false), Ok(()), "{network}");
    }
}

#[test]
fn amounts_are_checked_in_every_transaction() {
    let mut txs = transactions(3);
    txs[3].outputs = vec![output(-COIN)];
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::VoutNegative));
    txs[3].outputs = vec![output(COIN)];
    txs[3].inputs = vec![TxIn { prevout: OutPoint::NULL, ..input(1) }, input(2)];
    assert_eq!(check(&mined(&txs)), rejected(RejectReason::PrevoutNull));
}
