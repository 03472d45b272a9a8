//! Asks a node on this machine about the coins that a PSBT spends. The answer can make the signer warn or
//! refuse, but never permits anything: what the PSBT does not prove stays unproven.
//!
//! The node is asked before the key file is opened.

use std::fmt;
use std::time::Duration;

use bitcoin::{Amount, Denomination, OutPoint, ScriptBuf, TxOut};
use godwit_client::{CallError, Login, Server};
use godwit_keys::psbt::Psbt;
use godwit_rpc::Json;

use crate::options::{Config, NodeOptions};

/// The only host that is ever connected to.
const HOST: &str = "127.0.0.1";
const TIMEOUT: Duration = Duration::from_secs(30);
/// Coins per request.
const AT_ONCE: usize = 1_000;

/// Why nothing is known about the coins.
#[derive(Debug)]
pub(crate) enum NodeFailure {
    Call(CallError),
    /// The node refuses a question, or gives an answer that Bitcoin Core would not give.
    Answer(OutPoint),
}

impl fmt::Display for NodeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(error) => {
                // Anything may listen at that port, so its text must not be able to move the cursor.
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                f.write_str(&line.replace(char::is_control, "?"))
            }
            Self::Answer(outpoint) => write!(f, "it does not say whether {outpoint} is unspent"),
        }
    }
}

/// The node's answer about an outpoint.
#[derive(Debug, PartialEq)]
enum Found {
    Unspent(TxOut),
    Nothing,
}

/// Lines to show, and a reason not to sign.
pub(super) struct Coins {
    pub(super) lines: Vec<String>,
    /// An input for which the node knows another coin.
    pub(super) contradicted: Option<usize>,
}

/// Asks for every coin.
pub(super) fn look_up(
    config: &Config,
    node: &NodeOptions,
    psbt: &Psbt,
) -> Result<Coins, NodeFailure> {
    let server = Server { host: HOST.to_owned(), port: node.port, timeout: TIMEOUT };
    let cookie = node.cookie.clone().unwrap_or_else(|| config.network_dir().join(".cookie"));
    let login = Login {
        user: String::new(),
        password: None,
        cookie: Some(cookie),
        config_file: config.datadir.clone(),
    };
    let inputs = &psbt.unsigned_transaction().input;
    let outpoints: Vec<OutPoint> = inputs.iter().map(|input| input.previous_output).collect();
    let mut there = Vec::with_capacity(outpoints.len());
    for part in outpoints.chunks(AT_ONCE) {
        let answer = server.call(&login, None, &question(part)).map_err(NodeFailure::Call)?;
        for (number, outpoint) in part.iter().enumerate() {
            there.push(coin(&answer, number).ok_or(NodeFailure::Answer(*outpoint))?);
        }
    }
    Ok(compared(said_by(psbt), &there))
}

/// What a PSBT says about each coin, including coins that nobody could sign for by that data: their amounts
/// are in the fee that is shown.
fn said_by(psbt: &Psbt) -> impl Iterator<Item = Option<&TxOut>> {
    (0..psbt.inputs().len()).map(|index| psbt.spent_output_of(index))
}

/// One batch of `gettxout`, including the mempool.
fn question(outpoints: &[OutPoint]) -> String {
    let one = |(number, outpoint): (usize, &OutPoint)| {
        let OutPoint { txid, vout } = outpoint;
        format!(r#"{{"id":{number},"method":"gettxout","params":["{txid}",{vout},true]}}"#)
    };
    format!("[{}]", outpoints.iter().enumerate().map(one).collect::<Vec<_>>().join(","))
}

/// The answer with this number, or `None`.
fn coin(answers: &Json, number: usize) -> Option<Found> {
    let is_it =
        |answer: &&Json| answer.get("id").and_then(|id| id.as_integer().ok()) == Some(number);
    let answer = answers.as_list().ok()?.iter().find(is_it)?;
    if !answer.get("error").is_none_or(Json::is_null) {
        return None;
    }
    let result = answer.get("result")?;
    if result.is_null() {
        return Some(Found::Nothing);
    }
    let Json::Number(value) = result.get("value")? else { return None };
    let value = Amount::from_str_in(value, Denomination::Bitcoin).ok()?;
    let script = result.get("scriptPubKey")?.get("hex")?.as_text().ok()?;
    let script_pubkey = ScriptBuf::from_hex(script).ok()?;
    Some(Found::Unspent(TxOut { value, script_pubkey }))
}

/// Compares what the PSBT says about each coin with what the node says.
fn compared<'a>(said: impl Iterator<Item = Option<&'a TxOut>>, there: &[Found]) -> Coins {
    let mut coins = Coins { lines: Vec::new(), contradicted: None };
    for (index, (said, there)) in said.zip(there).enumerate() {
        match (said, there) {
            (_, Found::Nothing) => coins.lines.push(format!(
                "warning: the node has no unspent output for input {index}: it is spent, or the node does not \
                 know it yet"
            )),
            (Some(said), Found::Unspent(there)) if said != there => {
                coins.lines.push(format!(
                    "wrong: by the node, input {index} spends {} of the script {}",
                    there.value,
                    there.script_pubkey.to_hex_string()
                ));
                coins.contradicted = coins.contradicted.or(Some(index));
            }
            (_, Found::Unspent(_)) => {}
        }
    }
    if coins.lines.is_empty() {
        coins.lines.push("node: every input spends an output that is unspent".to_owned());
    }
    coins
}

#[cfg(test)]
mod tests {
    use bitcoin::absolute::LockTime;
    use bitcoin::transaction::Version;
    use bitcoin::{Transaction, TxIn};

    use super::*;

    fn output(value: u64) -> TxOut {
        TxOut { value: Amount::from_sat(value), script_pubkey: ScriptBuf::from_bytes(vec![0x51]) }
    }

    #[test]
    fn what_a_node_says_is_warned_of_or_refused() {
        let one = output(1);
        let cases = [
            (Some(&one), Found::Unspent(output(1)), None, "node: every input"),
            // Nothing is proven by it.
            (None, Found::Unspent(output(1)), None, "node: every input"),
            (
                Some(&one),
                Found::Nothing,
                None,
                "warning: the node has no unspent output for input 0",
            ),
            (
                Some(&one),
                Found::Unspent(output(2)),
                Some(0),
                "wrong: by the node, input 0 spends 0.00000002 BTC",
            ),
        ];
        for (said, there, contradicted, line) in cases {
            let coins = compared([said].into_iter(), &[there]);
            assert_eq!(coins.contradicted, contradicted);
            assert_eq!(coins.lines.len(), 1);
            assert!(coins.lines[0].starts_with(line), "{:?}", coins.lines);
        }
    }

    /// As others' inputs come: nothing tells how they are spent.
    #[test]
    fn a_coin_that_nobody_could_sign_for_is_compared_too() {
        for script in [vec![0x52, 0x02, 1, 2], [&[0x00, 0x20][..], &[7; 32]].concat()] {
            let transaction = Transaction {
                version: Version::TWO,
                lock_time: LockTime::ZERO,
                input: vec![TxIn::default()],
                output: Vec::new(),
            };
            let coin =
                TxOut { value: Amount::from_sat(5), script_pubkey: ScriptBuf::from_bytes(script) };
            let mut psbt = bitcoin::Psbt::from_unsigned_tx(transaction).expect("no scripts");
            psbt.inputs[0].witness_utxo = Some(coin.clone());
            let psbt = Psbt::decode(&psbt.serialize()).expect("a PSBT");
            let with = |value| Found::Unspent(TxOut { value, ..coin.clone() });
            let contradicted = |value| compared(said_by(&psbt), &[with(value)]).contradicted;
            assert_eq!(contradicted(Amount::from_sat(5)), None);
            assert_eq!(contradicted(Amount::from_sat(6)), Some(0));
        }
    }

    #[test]
    fn answers_are_known_by_their_number_and_read_to_the_satoshi() {
        let answers = r#"[{"result":null,"error":null,"id":1},
            {"result":{"value":20999999.97690001,"scriptPubKey":{"hex":"51"}},"error":null,"id":0},
            {"result":null,"error":{"code":-1,"message":"no"},"id":2},
            {"result":{"value":0.000000001,"scriptPubKey":{"hex":"51"}},"error":null,"id":3},
            {"result":{"value":"1","scriptPubKey":{"hex":"51"}},"error":null,"id":4},
            {"result":{"value":1,"scriptPubKey":{"hex":"5"}},"error":null,"id":5}]"#;
        let answers = Json::parse(answers.as_bytes()).expect("JSON");
        assert_eq!(coin(&answers, 0), Some(Found::Unspent(output(2_099_999_997_690_001))));
        assert_eq!(coin(&answers, 1), Some(Found::Nothing));
        for number in 2..7 {
            assert_eq!(coin(&answers, number), None, "{number}");
        }
        assert_eq!(coin(&Json::Null, 0), None);
    }
}
