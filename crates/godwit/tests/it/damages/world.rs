//! Peers with a chain and with a better branch of it, and the directories that are to be damaged.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use godwit::exit::Exit;
use godwit_p2p::{AddressBook, AddressEntry, Anchors, NetAddress, Services, Source};
use godwit_primitives::{BlockHash, TxOut};
use godwit_sim::chain::{GENERATOR_VERSION, cached_dat, generated};
use godwit_sim::miner::REGTEST_MAGIC;
use godwit_sim::plan::ChainPlan;
use godwit_sim::rng::Rng;
use serde_json::Value;

use super::directory::restore;
use crate::blocks::{blocks_of, child, child_paying, header, moved, small_chain, write_dat};
use crate::node::Node;
use crate::records;
use crate::running::Running;
use crate::sync::{free_port, serve, wait_until};

/// Blocks of the branch more than of the chain that it leaves.
const LONGER: usize = 5;

/// Blocks with transactions that a large directory does not have at first.
const LATE: usize = 60;

/// Those of them that the branch leaves.
const UNDONE: usize = 12;

/// Bytes of the data in a large output.
const WIDE: usize = 990_000;

const OP_RETURN: u8 = 0x6a;
const OP_PUSHDATA4: u8 = 0x4e;

/// A peer.
pub(super) struct Peer {
    node: Node,
    pub(super) port: u16,
    pub(super) stats: Value,
    /// The blocks of its chain.
    pub(super) hashes: Vec<BlockHash>,
}

impl Peer {
    fn new(node: Node, hashes: Vec<BlockHash>) -> Self {
        let stats = node.stats();
        assert_eq!(stats["height"], hashes.len());
        Self { node, port: free_port(), stats, hashes }
    }

    pub(super) fn height(&self) -> usize {
        self.hashes.len()
    }
}

/// The peers.
pub(super) struct World {
    pub(super) chain: Peer,
    pub(super) branch: Peer,
    /// Where a directory stops for the first time.
    half: usize,
    /// Up to this block of both chains no node runs scripts.
    pub(super) assumed: Option<BlockHash>,
}

/// A block file with the chain of a plan.
fn chain_file(plan: &ChainPlan) -> PathBuf {
    let home = PathBuf::from(std::env::var_os("HOME").expect("a home directory"));
    let name = format!("{}-v{GENERATOR_VERSION}.dat", plan.name);
    let cached = home.join(".cache/godwit/chains").join(name);
    match cached.exists() {
        true => cached,
        false => {
            let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
            cached_dat(plan, &dir, |_| ()).expect("a sound plan").path
        }
    }
}

/// A block that is nearly as large as one can be: its coinbase has bytes that nobody can spend.
fn wide_child(parent: &[u8], height: u16) -> Vec<u8> {
    let mut script = vec![OP_RETURN, OP_PUSHDATA4];
    script.extend((WIDE as u32).to_le_bytes());
    let start = script.len();
    script.resize(start + WIDE, 0);
    Rng::new(height.into()).fill(&mut script[start..]);
    child_paying(parent, height, TxOut { value: 0, script_pubkey: script })
}

fn hashes<'b>(blocks: impl IntoIterator<Item = &'b [u8]>) -> Vec<BlockHash> {
    blocks.into_iter().map(|block| header(block).block_hash()).collect()
}

impl World {
    /// With the small chain.
    pub(super) fn small() -> Self {
        let node = Node::new("regtest");
        let path = node.beside("chain.dat");
        write_dat(&path, small_chain());
        node.import(&path);
        Self::new(node, small_chain().iter().map(Vec::as_slice).collect(), 60, 128, false)
    }

    /// With the blocks of a plan, from the cache that `tools/bench-chain` fills, or made here; before the
    /// last of them so many blocks of one large output each, and behind them two weeks of empty ones. Large
    /// outputs fill block files and cost little else: coins and scripts were most of the hours. Scripts run
    /// in a few blocks alone: damage is not theirs to find.
    pub(super) fn large(plan: &ChainPlan, wide: usize) -> Self {
        let file = fs::read(chain_file(plan)).expect("the chain is there");
        let mut planned: Vec<Vec<u8>> = blocks_of(&file).into_iter().map(<[u8]>::to_vec).collect();
        drop(file);
        planned.truncate(planned.len() - plan.empty_tail as usize);
        let last = planned.split_off(planned.len() - LATE);
        let mut blocks = planned;
        let mut add = |next: &dyn Fn(&[u8], u16) -> Vec<u8>| {
            let height = blocks.len() as u16 + 1;
            blocks.push(next(blocks.last().expect("not empty"), height));
            usize::from(height)
        };
        let half = (0..wide).map(|_| add(&wide_child)).last().expect("some are wide");
        let busy = last.iter().map(|block| add(&|tip, height| moved(block, tip, height))).last();
        (0..plan.empty_tail).for_each(|_| _ = add(&|tip, height| child(tip, height, 1)));
        let fork = busy.expect("some are late") - UNDONE;
        let node = Node::new("regtest");
        let path = node.beside("chain.dat");
        write_dat(&path, &blocks);
        let assumed = format!("-assumevalid={}", header(&blocks[fork - 1]).block_hash());
        node.run(&[&"import", &assumed, &path]).expect(Exit::Success);
        fs::remove_file(&path).expect("it is there");
        Self::new(node, blocks.iter().map(Vec::as_slice).collect(), half, fork, true)
    }

    fn new(node: Node, blocks: Vec<&[u8]>, half: usize, fork: usize, is_assumed: bool) -> Self {
        let other = Node::new("regtest");
        restore(&other, &node.network_dir());
        let mut branch = vec![blocks[fork - 1].to_vec()];
        for height in fork + 1..=blocks.len() + LONGER {
            let tip = branch.last().expect("not empty");
            branch.push(child(tip, height as u16, 0));
        }
        let path = other.beside("branch.dat");
        write_dat(&path, &branch[1..]);
        other.import(&path);
        let mut on_branch = hashes(blocks[..fork].iter().copied());
        on_branch.extend(hashes(branch[1..].iter().map(Vec::as_slice)));
        let assumed = is_assumed.then(|| on_branch[fork - 1]);
        let (chain, branch) = (Peer::new(node, hashes(blocks)), Peer::new(other, on_branch));
        Self { chain, branch, half, assumed }
    }

    pub(super) fn serve(&self) -> Vec<Running<'_>> {
        [&self.chain, &self.branch].map(|peer| serve(&peer.node, peer.port)).into()
    }
}

/// A directory that is to be damaged.
pub(super) struct Master {
    pub(super) node: Node,
    /// The blocks in its files.
    pub(super) stored: Vec<BlockHash>,
}

impl From<Node> for Master {
    fn from(node: Node) -> Self {
        let stored = records::block_hashes(&node);
        Self { node, stored }
    }
}

/// The directories that are to be damaged.
pub(super) struct Masters {
    /// With the whole chain.
    pub(super) whole: Master,
    /// The same, earlier: with a part of it, and all headers.
    pub(super) half: Master,
    /// The same a little later, killed before a commit.
    pub(super) killed: Master,
    /// Of another chain.
    pub(super) other: Node,
}

impl Masters {
    pub(super) fn make(world: &World) -> Self {
        let [whole, half, killed, other] = [(); 4].map(|()| Node::new("regtest"));
        let connect = format!("-connect=127.0.0.1:{}", world.chain.port);
        let assumed =
            world.assumed.map_or("-assumevalid=0".into(), |hash| format!("-assumevalid={hash}"));
        let sync = |node: &Node, height: usize| {
            let stop = format!("-stopatheight={height}");
            node.run(&[&connect, &"-listen=0", &assumed, &stop]).expect(Exit::Success);
        };
        sync(&half, world.half);
        remember_peers(&half, 1);
        restore(&whole, &half.network_dir());
        restore(&killed, &half.network_dir());
        let mut running = Running::start(&killed, &[&connect, &"-listen=0", &assumed, &"-par=1"]);
        wait_until("blocks came", || running.log().connected() > 40);
        assert!(running.kill(), "a node ends by a signal alone");
        drop(running);
        // Several runs of coins.
        let height = world.chain.height();
        let steps = [world.half + (height - world.half) / 3, height - 20, height - 8, height];
        steps.into_iter().for_each(|step| sync(&whole, step));
        remember_peers(&whole, 2);
        remember_peers(&killed, 2);
        let path = other.beside("chain.dat");
        write_dat(&path, &generated(&ChainPlan::small(7))[..140]);
        other.import(&path);
        remember_peers(&other, 3);
        Self { whole: whole.into(), half: half.into(), killed: killed.into(), other }
    }
}

/// Files of addresses, none of which is called: nobody is called but those whom the command line names, and
/// the anchor is nobody's port.
fn remember_peers(node: &Node, seed: u8) {
    let entry = |address: &str| AddressEntry {
        time: 1_700_000_000,
        services: Services::NETWORK,
        address: address.parse().expect("an address"),
    };
    let mut book = AddressBook::new([seed; 32]);
    let entries: Vec<AddressEntry> =
        (1..200).map(|n| entry(&format!("8.{n}.8.{seed}:8333"))).collect();
    let source: NetAddress = "9.9.9.9:8333".parse().expect("an address");
    book.add(1_700_000_000, &entries, Source::Host(source.host), 0);
    let anchors = Anchors::new([entry(&format!("127.0.0.1:{seed}"))]);
    let write = |name: &str, bytes: Vec<u8>| {
        fs::write(node.network_dir().join(name), bytes).expect("a file");
    };
    write("peers.dat", book.to_bytes(REGTEST_MAGIC));
    write("anchors.dat", anchors.to_bytes(REGTEST_MAGIC));
}

/// The blocks of these that a directory does not have.
pub(super) fn missing(stored: &[BlockHash], wanted: &[BlockHash]) -> HashSet<BlockHash> {
    let stored: HashSet<&BlockHash> = stored.iter().collect();
    wanted.iter().filter(|hash| !stored.contains(hash)).copied().collect()
}
