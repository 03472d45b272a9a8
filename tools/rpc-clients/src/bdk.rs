//! A BDK wallet that follows the node by `Emitter`, block by block, and one that looks for its blocks by
//! `FilterIter`.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bdk_bitcoind_rpc::bip158::FilterIter;
use bdk_bitcoind_rpc::bitcoincore_rpc::{Auth, Client, RpcApi};
use bdk_bitcoind_rpc::{Emitter, NO_EXPECTED_MEMPOOL_TXS};
use bdk_wallet::{KeychainKind, SignOptions, Wallet};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{Amount, Network, ScriptBuf, Transaction};
use serde_json::json;

use crate::{Node, somebody};

/// BIP32's second test vector; its coins are worth nothing.
const EXTENDED: &str = "tprv8ZgxMBicQKsPdy6LMhUtFHAgpocR8GC6QmwMSFpZs7h6Eziw3SpThFfczTDh5rW2krkqffa11UpX3XkeTTB2FvzZKWXqPY54Y6Rq4AQ5R8L";

const COINBASE: Amount = Amount::from_sat(50 * 100_000_000);

fn wallet() -> Wallet {
    let descriptor = |branch: u8| format!("wpkh({EXTENDED}/84h/1h/0h/{branch}/*)");
    let wallet = Wallet::create(descriptor(0), descriptor(1)).network(Network::Regtest);
    wallet.create_wallet_no_persist().expect("a wallet")
}

struct Following {
    client: Arc<Client>,
    wallet: Wallet,
    emitter: Emitter<Arc<Client>>,
}

impl Following {
    /// All blocks up to the tip, then what was sent.
    fn catch_up(&mut self) -> u32 {
        let mut count = 0;
        while let Some(event) = self.emitter.next_block().expect("a block or none") {
            let (height, connected) = (event.block_height(), event.connected_to());
            self.wallet
                .apply_block_connected_to(&event.block, height, connected)
                .expect("it connects");
            count += 1;
        }
        let pool = self.emitter.mempool().expect("the mempool");
        self.wallet.apply_evicted_txs(pool.evicted);
        self.wallet.apply_unconfirmed_txs(pool.update);
        let tip = self.wallet.latest_checkpoint();
        assert_eq!(tip.hash(), self.client.get_best_block_hash().expect("a hash"));
        assert_eq!(u64::from(tip.height()), self.client.get_block_count().expect("a height"));
        count
    }

    /// Confirmed, and not.
    fn balance(&self) -> (Amount, Amount) {
        let balance = self.wallet.balance();
        (balance.confirmed, balance.trusted_pending + balance.untrusted_pending)
    }

    #[expect(deprecated)] // `Wallet::sign`, of which wallets are full.
    fn pay(&mut self, to: ScriptBuf, value: Amount) -> Transaction {
        let mut builder = self.wallet.build_tx();
        builder.add_recipient(to, value);
        let mut psbt = builder.finish().expect("a transaction");
        assert!(self.wallet.sign(&mut psbt, SignOptions::default()).expect("keys"));
        psbt.extract_tx().expect("complete")
    }

    fn mine_with(&self, transaction: &Transaction) {
        let to = somebody(7).to_string();
        let block = json!([to, [serialize_hex(transaction)]]);
        let block: Vec<serde_json::Value> = block.as_array().expect("a list").clone();
        self.client.call::<serde_json::Value>("generateblock", &block).expect("a block");
    }

    fn take_back(&self, count: u64) {
        let height = self.client.get_block_count().expect("a height");
        let hash = self.client.get_block_hash(height - count + 1).expect("a hash");
        self.client.invalidate_block(&hash).expect("taken back");
    }

    fn mine(&self, count: u64) {
        // One at a time: the client waits 15 seconds for an answer, and the machine may be busy.
        for _ in 0..count {
            self.client.generate_to_address(1, &somebody(8)).expect("a block");
        }
    }
}

pub(crate) fn follow(node: &Node) {
    let auth = Auth::UserPass(node.user.clone(), node.password.clone());
    let client = Arc::new(Client::new(&node.url, auth).expect("a client"));
    let mut wallet = wallet();
    let own = wallet.reveal_next_address(KeychainKind::External).address;
    let emitter =
        Emitter::new(Arc::clone(&client), wallet.latest_checkpoint(), 0, NO_EXPECTED_MEMPOOL_TXS);
    let mut following = Following { client, wallet, emitter };
    following.client.generate_to_address(1, &own).expect("a block");
    following.mine(100);
    // The genesis block is in the wallet, and is emitted as well.
    assert_eq!(following.catch_up(), 101);
    assert_eq!(following.balance(), (COINBASE, Amount::ZERO));

    let paid = Amount::from_sat(123_456_789);
    let first = following.pay(somebody(9).script_pubkey(), paid);
    following.client.send_raw_transaction(&first).expect("sent");
    assert_eq!(following.catch_up(), 0);
    let fee = following.wallet.calculate_fee(&first).expect("a fee");
    let rest = COINBASE - paid - fee;
    assert_eq!(following.balance(), (Amount::ZERO, rest));
    following.mine_with(&first);
    following.mine(2);
    assert_eq!(following.catch_up(), 3);
    assert_eq!(following.balance(), (rest, Amount::ZERO));

    // Three blocks are left for five; what was in them waits again.
    following.take_back(3);
    following.mine(5);
    assert_eq!(following.catch_up(), 5);
    wait_for(&mut following, (Amount::ZERO, rest));
    following.mine_with(&first);
    assert_eq!(following.catch_up(), 1);
    assert_eq!(following.balance(), (rest, Amount::ZERO));

    by_filters(&mut following, own.script_pubkey(), rest);
    println!("bdk: all was as expected");
}

/// The node takes up what a block had a moment after it left the block.
fn wait_for(following: &mut Following, balance: (Amount, Amount)) {
    let started = Instant::now();
    while following.balance() != balance {
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", following.wallet.balance());
        thread::sleep(Duration::from_millis(50));
        following.catch_up();
    }
}

/// A wallet that starts now finds its two blocks by their filters, and follows another branch.
fn by_filters(following: &mut Following, own: ScriptBuf, rest: Amount) {
    let client = Arc::clone(&following.client);
    let mut late = wallet();
    late.reveal_next_address(KeychainKind::External);
    let change = late.reveal_next_address(KeychainKind::Internal).script_pubkey();
    let scripts = [own, change];
    let scan = |late: &mut Wallet| {
        let mut matches = 0;
        for event in FilterIter::new(&client, late.latest_checkpoint(), scripts.clone()) {
            let event = event.expect("a filter");
            let (height, id) = (event.height(), event.cp.block_id());
            let update =
                bdk_wallet::Update { chain: Some(event.cp), ..bdk_wallet::Update::default() };
            late.apply_update(update).expect("it connects");
            if let Some(block) = &event.block {
                late.apply_block_connected_to(block, height, id).expect("it connects");
                matches += 1;
            }
        }
        assert_eq!(late.latest_checkpoint().hash(), client.get_best_block_hash().expect("a hash"));
        matches
    };
    assert_eq!(scan(&mut late), 2);
    assert_eq!(late.balance().confirmed, rest);
    following.take_back(1);
    following.mine(2);
    assert_eq!(scan(&mut late), 0);
    assert_eq!(late.balance().confirmed, Amount::ZERO);
    following.take_back(1);
    let payment = client.get_raw_mempool().expect("a list");
    let payment =
        payment.iter().map(|txid| client.get_raw_transaction(txid, None).expect("it waits"));
    payment.for_each(|payment| following.mine_with(&payment));
    following.mine(1);
    assert_eq!(scan(&mut late), 1);
    assert_eq!(late.balance().confirmed, rest);
}
