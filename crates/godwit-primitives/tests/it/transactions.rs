//! The cases of Bitcoin Core's `UnserializeTransaction`, both sides of each boundary.

use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, TxView, Txid};
use godwit_stream::{DataStream, DecodeError, Encode, SpanReader};

fn encoded(tx: &Transaction) -> Vec<u8> {
    let mut out = DataStream::new();
    tx.encode(&mut out);
    out.as_slice().to_vec()
}

fn input(witness: &[&[u8]]) -> TxIn {
    TxIn {
        prevout: OutPoint { txid: Txid::from_bytes([9; 32]), vout: 1 },
        script_sig: vec![0x51],
        sequence: 0xffff_fffe,
        witness: witness.iter().map(|item| item.to_vec()).collect(),
    }
}

fn transaction(inputs: Vec<TxIn>) -> Transaction {
    let outputs = vec![TxOut { value: -1, script_pubkey: vec![0x6a] }];
    Transaction { version: 0xffff_ffff, inputs, outputs, lock_time: 7 }
}

/// Version, the bytes given, lock time.
fn raw(between: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0], between, &[0, 0, 0, 0]].concat()
}

fn error_of(bytes: &[u8]) -> DecodeError {
    TxView::parse(bytes).expect_err("not a transaction")
}

/// One input and one output on the wire, without counts.
const INPUT: [u8; 41] = [0; 41];
const OUTPUT: [u8; 9] = [0; 9];

fn with_flag(flag: u8, witness: &[u8]) -> Vec<u8> {
    raw(&[&[0, flag, 1], &INPUT[..], &[1], &OUTPUT, witness].concat())
}

#[test]
fn neither_inputs_nor_outputs_is_ten_bytes() {
    let bytes = raw(&[0, 0]);
    let view = TxView::parse(&bytes).expect("well-formed");
    assert_eq!((view.input_count(), view.output_count(), view.has_witness()), (0, 0, false));
    assert_eq!((view.total_size(), view.weight(), view.is_coinbase()), (10, 40, false));
    assert_eq!((view.inputs().next(), view.outputs().next()), (None, None));
    assert!(view.witnesses().next().is_none());
    assert_eq!(view.to_owned(), Transaction { version: 2, ..Transaction::default() });
    assert_eq!(encoded(&view.to_owned()), bytes);
}

#[test]
fn flag_is_the_witness_bit_alone() {
    assert!(TxView::parse(&with_flag(1, &[1, 0])).expect("an empty item is one").has_witness());
    assert_eq!(error_of(&with_flag(1, &[0])), DecodeError::SuperfluousWitness);
    assert_eq!(error_of(&with_flag(2, &[])), DecodeError::UnknownTransactionFlag);
    assert_eq!(error_of(&with_flag(3, &[1, 0])), DecodeError::UnknownTransactionFlag);
    assert_eq!(error_of(&with_flag(3, &[0])), DecodeError::SuperfluousWitness);
    assert_eq!(error_of(&with_flag(0xff, &[1, 0])), DecodeError::UnknownTransactionFlag);
    assert_eq!(error_of(&raw(&[0, 1, 0, 0])), DecodeError::SuperfluousWitness);
    // Flag 0 is no flag but the count of outputs: lock time follows, the rest is ignored.
    assert_eq!(TxView::parse(&with_flag(0, &[])).expect("ten bytes").total_size(), 10);
}

#[test]
fn without_inputs_the_reading_is_a_choice() {
    // One output, and no input: with the marker in mind, a flag and no inputs.
    let bytes = raw(&[&[0, 1][..], &OUTPUT].concat());
    assert!(TxView::parse(&bytes).is_err());
    let plain = TxView::parse_plain(&bytes).expect("well-formed");
    assert_eq!((plain.input_count(), plain.output_count(), plain.has_witness()), (0, 1, false));
    assert_eq!((plain.total_size(), plain.stripped_size()), (bytes.len(), bytes.len()));
    assert_eq!(encoded(&plain.to_owned()), bytes);
    // With inputs and without witness both readings are the same.
    let with_input = encoded(&transaction(vec![input(&[])]));
    let both = [TxView::parse(&with_input), TxView::parse_plain(&with_input)];
    let [extended, plain] = both.map(|view| view.expect("well-formed").to_owned());
    assert_eq!(extended, plain);
    for end in 0..bytes.len() {
        assert!(TxView::parse_plain(&bytes[..end]).is_err(), "{end} bytes");
    }
}

#[test]
fn every_truncation_is_an_end_of_data() {
    let tx = transaction(vec![input(&[b"a", b""]), input(&[])]);
    let mut plain = tx.clone();
    plain.inputs.iter_mut().for_each(|input| input.witness.clear());
    for bytes in [encoded(&tx), encoded(&plain), with_flag(2, &[]), raw(&[0, 0])] {
        for end in 0..bytes.len() - 4 {
            assert_eq!(error_of(&bytes[..end]), DecodeError::UnexpectedEnd, "{end} bytes");
        }
    }
}

#[test]
fn compact_sizes_are_canonical_and_at_most_32_mib() {
    let count = |count: &[u8]| raw(&[count, &[0; 100]].concat());
    assert_eq!(error_of(&count(&[0xfd, 0xfc, 0])), DecodeError::NonCanonicalCompactSize);
    assert_eq!(error_of(&count(&[0xfd, 0, 0])), DecodeError::NonCanonicalCompactSize);
    assert_eq!(error_of(&count(&[0xfe, 1, 0, 0, 2])), DecodeError::CompactSizeTooLarge);
    assert_eq!(error_of(&count(&[0xfe, 0, 0, 0, 2])), DecodeError::UnexpectedEnd);
    let script = |len: &[u8]| raw(&[&[1], &INPUT[..36], len, &[0; 100]].concat());
    assert_eq!(error_of(&script(&[0xfd, 0xfc, 0])), DecodeError::NonCanonicalCompactSize);
    assert_eq!(error_of(&script(&[0xfe, 1, 0, 0, 2])), DecodeError::CompactSizeTooLarge);
    assert_eq!(error_of(&script(&[0xff; 9])), DecodeError::CompactSizeTooLarge);
    assert_eq!(error_of(&script(&[0xfe, 0, 0, 0, 2])), DecodeError::UnexpectedEnd);
}

#[test]
fn scripts_of_every_length_form_round_trip() {
    for len in [0, 1, 252, 253, 254, 65_535, 65_536, 100_000] {
        let mut tx = transaction(vec![input(&[&vec![3; len], b"", &vec![4; len]])]);
        tx.inputs[0].script_sig = vec![1; len];
        tx.outputs[0].script_pubkey = vec![2; len];
        let bytes = encoded(&tx);
        let view = TxView::parse(&bytes).expect("just encoded");
        assert_eq!(view.total_size(), bytes.len());
        assert_eq!(view.to_owned(), tx);
        let witness = view.witnesses().next().expect("one input");
        assert_eq!(witness.item(2).map(<[u8]>::len), Some(len));
        assert_eq!((witness.item(3), witness.is_empty()), (None, false));
        let mut output = DataStream::new();
        output.put(&tx.outputs[0]);
        assert_eq!(output.get().as_ref(), Ok(&tx.outputs[0]));
        assert!(output.is_empty());
        assert_eq!(SpanReader::new(&bytes[..bytes.len() - 1]).get::<Transaction>().ok(), None);
    }
}

#[test]
fn owned_and_view_agree_and_ignore_what_follows() {
    let tx = transaction(vec![input(&[]), input(&[b"sig", b"key"]), input(&[b""])]);
    let bytes = encoded(&tx);
    let followed = [&bytes[..], b"more"].concat();
    let view = TxView::parse(&followed).expect("just encoded");
    assert_eq!(view.bytes(), bytes);
    assert_eq!((view.txid(), view.wtxid()), (tx.txid(), tx.wtxid()));
    assert_ne!(view.txid().to_bytes(), view.wtxid().to_bytes());
    assert_eq!(view.version(), 0xffff_ffff);
    let lens: Vec<_> = view.witnesses().map(|witness| witness.len()).collect();
    assert_eq!(lens, [0, 2, 1]);
    assert_eq!(view.input(1).map(|input| input.sequence), Some(0xffff_fffe));
    assert_eq!((view.input(3), view.output(1)), (None, None));
    assert_eq!(view.output(0).map(|output| output.value), Some(-1));
    let mut reader = SpanReader::new(&followed);
    assert_eq!(reader.get(), Ok(tx.clone()));
    assert_eq!(reader.rest(), b"more");
    let mut stripped = DataStream::new();
    tx.encode_stripped(&mut stripped);
    assert_eq!(stripped.len(), view.stripped_size());
    assert_eq!(view.weight(), 3 * stripped.len() + bytes.len());
}

#[test]
fn coinbase_is_one_input_with_the_null_outpoint() {
    let with = |prevouts: &[OutPoint]| {
        let inputs = prevouts.iter().map(|&prevout| TxIn { prevout, ..input(&[b"x"]) });
        let tx = transaction(inputs.collect());
        let bytes = encoded(&tx);
        let view = TxView::parse(&bytes).expect("just encoded");
        assert_eq!(view.is_coinbase(), tx.is_coinbase());
        tx.is_coinbase()
    };
    let other = OutPoint { txid: Txid::from_bytes([1; 32]), vout: 0 };
    assert!(with(&[OutPoint::NULL]));
    assert!(!with(&[OutPoint::NULL, OutPoint::NULL]));
    assert!(!with(&[OutPoint { vout: 0, ..OutPoint::NULL }]));
    assert!(!with(&[OutPoint { vout: u32::MAX, ..other }]));
}
