//! The engine's wrapper and its naive twin, which gives the engine every spent output and every flag on every
//! call. The claims are compared with the twin's verdicts, too.

use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    KernelError, PrecomputedTransactionData, ScriptPubkey, ScriptVerifyError, Transaction, TxOut,
};
use godwit_primitives::ScriptFlags;
use godwit_script::{PreparedTx, ScriptError, SpentOutput};

use crate::native::Native;

/// An output that owns its script.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Output {
    pub(crate) value: i64,
    pub(crate) script_pubkey: Vec<u8>,
}

pub(crate) fn owned(outputs: Vec<bitcoin::TxOut>) -> Vec<Output> {
    let owned = |output: bitcoin::TxOut| Output {
        value: output.value.to_sat() as i64,
        script_pubkey: output.script_pubkey.into_bytes(),
    };
    outputs.into_iter().map(owned).collect()
}

/// The engine without the door's economies.
pub(crate) struct Naive {
    tx: Transaction,
    outputs: Vec<TxOut>,
    data: PrecomputedTransactionData,
}

impl Naive {
    pub(crate) fn new(tx_bytes: &[u8], spent: &[Output]) -> Self {
        let tx = Transaction::new(tx_bytes).expect("transaction parses");
        let outputs: Vec<TxOut> = spent
            .iter()
            .map(|output| {
                let script = ScriptPubkey::new(&output.script_pubkey).expect("memory suffices");
                TxOut::new(&script, output.value)
            })
            .collect();
        let data = PrecomputedTransactionData::new(&tx, &outputs).expect("one output an input");
        Self { tx, outputs, data }
    }

    pub(crate) fn accepts(&self, input: usize, flags: ScriptFlags) -> bool {
        let output = &self.outputs[input];
        let verdict = bitcoinkernel::verify(
            &output.script_pubkey(),
            Some(output.value()),
            &self.tx,
            input,
            Some(flags.bits()),
            &self.data,
        );
        match verdict {
            Ok(()) => true,
            Err(KernelError::ScriptVerify(ScriptVerifyError::Invalid)) => false,
            Err(error) => panic!("no verdict: {error}"),
        }
    }
}

/// The door and its twin over one transaction.
pub(crate) struct Pair {
    door: PreparedTx,
    naive: Naive,
    native: Native,
}

impl Pair {
    pub(crate) fn new(tx_bytes: &[u8], spent: &[Output]) -> Self {
        let door = prepare(tx_bytes, spent).expect("transaction parses, one output an input");
        let native = Native::new(tx_bytes, spent);
        Self { door, naive: Naive::new(tx_bytes, spent), native }
    }

    /// The common verdict of both about one input.
    pub(crate) fn accepts(&self, input: usize, flags: ScriptFlags) -> bool {
        let accepted = match self.door.verify_input(input, flags) {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error, ScriptError::Rejected { input });
                false
            }
        };
        assert_eq!(accepted, self.naive.accepts(input, flags), "input {input}, {flags:?}");
        self.native.compare(input, flags, accepted);
        accepted
    }

    /// The common verdict about the transaction: the first input that fails.
    pub(crate) fn first_failure(&self, flags: ScriptFlags) -> Option<usize> {
        let failed = (0..self.door.input_count()).find(|input| {
            let accepted = self.naive.accepts(*input, flags);
            self.native.compare(*input, flags, accepted);
            !accepted
        });
        let expected = failed.map_or(Ok(()), |input| Err(ScriptError::Rejected { input }));
        assert_eq!(self.door.verify(flags), expected);
        failed
    }
}

pub(crate) fn prepare(tx_bytes: &[u8], spent: &[Output]) -> Result<PreparedTx, ScriptError> {
    PreparedTx::new(tx_bytes, spent_outputs(spent))
}

pub(crate) fn spent_outputs(
    outputs: &[Output],
) -> impl ExactSizeIterator<Item = SpentOutput<'_>> + Clone {
    outputs
        .iter()
        .map(|output| SpentOutput { value: output.value, script_pubkey: &output.script_pubkey })
}
