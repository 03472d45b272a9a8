//! Core's own code beside ours: the context-free rules on generated blocks, signet solutions.

use bitcoinkernel::notifications::types::BlockValidationResult;
use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    BLOCK_CHECK_ALL, BlockCheckResult, ChainParams, ChainType, PrecomputedTransactionData,
    ScriptPubkey, TxOut as KernelTxOut, verify,
};
use godwit_consensus::{
    ResultClass, SOLUTION_FLAGS, SignetSpend, check_block, check_proof_of_work,
};
use godwit_primitives::merkle::merkle_root;
use godwit_primitives::network::{Network, Params};
use godwit_primitives::{
    Block, BlockHash, BlockHeader, COIN, MAX_MONEY, MerkleRoot, OutPoint, Transaction, TxIn, TxOut,
    Txid,
};
use godwit_stream::DataStream;
use proptest::prelude::*;

fn class_of(result: BlockValidationResult) -> ResultClass {
    match result {
        BlockValidationResult::Consensus => ResultClass::Consensus,
        BlockValidationResult::InvalidHeader => ResultClass::InvalidHeader,
        BlockValidationResult::Mutated => ResultClass::Mutated,
        other => panic!("{other:?}"),
    }
}

/// How Core's `CheckBlock` classes a block under regtest's rules; `None` when it is valid.
pub(crate) fn check_on_regtest(block: &[u8]) -> Option<ResultClass> {
    let block = bitcoinkernel::Block::new(block).expect("decodes");
    match block.check(&ChainParams::new(ChainType::Regtest), BLOCK_CHECK_ALL) {
        BlockCheckResult::Valid => None,
        BlockCheckResult::Invalid(state) => Some(class_of(state.result())),
    }
}

/// Runs a signet solution's script in Core's engine.
pub(crate) fn verify_solution(spend: &SignetSpend<'_>) -> bool {
    let to_sign = bitcoinkernel::Transaction::new(&spend.to_sign).expect("decodes");
    let challenge = ScriptPubkey::new(spend.challenge).expect("any bytes");
    let spent = [KernelTxOut::new(&challenge, 0)];
    let data = PrecomputedTransactionData::new(&to_sign, &spent).expect("one output");
    verify(&challenge, Some(0), &to_sign, 0, Some(SOLUTION_FLAGS.bits()), &data).is_ok()
}

pub(crate) fn block_bytes(header: &BlockHeader, txs: &[Transaction]) -> Vec<u8> {
    let mut stream: DataStream = DataStream::new();
    stream.put(header);
    stream.write_compact_size(txs.len() as u64);
    txs.iter().for_each(|tx| stream.put(tx));
    stream.as_slice().to_vec()
}

pub(crate) fn root_of(txs: &[Transaction]) -> MerkleRoot {
    let (root, _) = merkle_root(txs.iter().map(|tx| tx.txid().to_bytes()));
    MerkleRoot::from_bytes(root)
}

/// Finds a nonce for a header of regtest's target.
pub(crate) fn mine(header: &mut BlockHeader, params: &Params) {
    while !check_proof_of_work(&header.block_hash(), header.bits, params) {
        header.nonce += 1;
    }
}

fn some_input() -> impl Strategy<Value = TxIn> {
    let name = prop_oneof![
        8 => (0u8..40, 0u32..2).prop_map(|(n, vout)| {
            OutPoint { txid: Txid::from_bytes([n + 1; 32]), vout }
        }),
        1 => Just(OutPoint::NULL),
        1 => Just(OutPoint { txid: Txid::ZERO, vout: 0 }),
        1 => Just(OutPoint { txid: Txid::from_bytes([1; 32]), vout: u32::MAX }),
    ];
    let size = prop_oneof![Just(0usize), Just(1), Just(2), Just(100), Just(101)];
    let witness = prop_oneof![4 => Just(vec![]), 1 => Just(vec![vec![7; 3]])];
    (name, size, witness).prop_map(|(prevout, size, witness)| TxIn {
        prevout,
        script_sig: vec![0xac; size],
        sequence: u32::MAX,
        witness,
    })
}

fn some_output() -> impl Strategy<Value = TxOut> {
    let value = prop_oneof![
        10 => Just(COIN),
        2 => Just(0),
        2 => Just(MAX_MONEY - COIN),
        1 => Just(MAX_MONEY),
        1 => Just(MAX_MONEY + 1),
        1 => Just(-1),
        1 => Just(i64::MAX),
        1 => Just(i64::MIN),
    ];
    // 1,000 CHECKMULTISIG are the limit of a block.
    let script = prop_oneof![
        10 => Just(vec![0x51]),
        1 => (990usize..1_003).prop_map(|count| vec![0xae; count]),
        1 => (19_900usize..20_003).prop_map(|count| vec![0xac; count]),
    ];
    (value, script).prop_map(|(value, script_pubkey)| TxOut { value, script_pubkey })
}

fn some_transaction() -> impl Strategy<Value = Transaction> {
    let outputs = prop_oneof![
        12 => proptest::collection::vec(some_output(), 1..3),
        1 => Just(vec![]),
    ];
    (proptest::collection::vec(some_input(), 1..5), outputs)
        .prop_map(|(inputs, outputs)| Transaction { version: 1, inputs, outputs, lock_time: 0 })
}

fn some_coinbase() -> impl Strategy<Value = Transaction> {
    let size = prop_oneof![Just(1usize), Just(2), Just(50), Just(100), Just(101)];
    (size, some_output()).prop_map(|(size, output)| Transaction {
        version: 1,
        inputs: vec![TxIn {
            prevout: OutPoint::NULL,
            script_sig: vec![0x51; size],
            sequence: u32::MAX,
            witness: vec![],
        }],
        outputs: vec![output],
        lock_time: 0,
    })
}

/// A coinbase mostly, other transactions, and sometimes the last of them again.
fn some_transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let first = proptest::option::weighted(0.95, some_coinbase());
    let others = proptest::collection::vec(some_transaction(), 0..4);
    (first, others, proptest::bool::weighted(0.1)).prop_map(|(first, others, again)| {
        let mut txs: Vec<Transaction> = first.into_iter().chain(others).collect();
        if again {
            txs.extend(txs.last().cloned());
        }
        txs
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn generated_blocks_are_judged_as_core_judges_them(
        txs in some_transactions(),
        rooted in proptest::bool::weighted(0.95),
        worked in proptest::bool::weighted(0.95),
    ) {
        let params = Params::new(Network::Regtest);
        let mut header = BlockHeader {
            version: 4,
            prev_blockhash: BlockHash::ZERO,
            merkle_root: if rooted { root_of(&txs) } else { MerkleRoot::ZERO },
            time: 1_300_000_000,
            bits: if worked { 0x207f_ffff } else { 0x2080_0000 },
            nonce: 0,
        };
        if worked {
            mine(&mut header, &params);
        }
        let bytes = block_bytes(&header, &txs);
        let block = Block::from_bytes(&bytes).unwrap();
        let ours = check_block(block.view(), &params, |_| unreachable!("regtest"));
        prop_assert_eq!(ours.err().map(|reject| reject.class), check_on_regtest(&bytes));
    }
}
