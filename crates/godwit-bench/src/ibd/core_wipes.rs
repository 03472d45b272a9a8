//! The same count in Bitcoin Core, by a probe of the kernel on its `memory_cleanse`.

use crate::contest::{Contest, Terms};
use crate::datadir::WorkDir;
use crate::failure::Failure;
use crate::ibd::arguments::CoreWipes;
use crate::ibd::rounds::{open_chain, terms};
use crate::ibd::scenario::Scenario;
use crate::ibd::subject::Subject;
use crate::ibd::wipes::{CaseWipes, Wipes};
use crate::node::Node;
use crate::programs::Programs;
use crate::servers::Servers;

/// Lets bitcoind sync under the probe once in each case.
pub fn run(count: &CoreWipes) -> Result<(), Failure> {
    let (file, chain) = open_chain(&count.chain, &count.cases)?;
    let work = WorkDir::beside(&file, "core-wipes")?;
    let programs = Programs {
        godwit: count.programs.join(Subject::Plain.name()).join("godwit"),
        bitcoind: count.probe.clone(),
        godwit_options: vec![],
        bitcoind_options: Vec::new(),
        probes: false,
    };
    let contest = Contest { rounds: 1, file, programs, chain: &chain, work: &work };
    let serve = || {
        let template = contest.make_server(Node::Godwit)?;
        Servers::start(&contest.programs, Node::Godwit, &template, 1)
    };
    let servers = count.cases.iter().any(Scenario::has_peer).then(serve).transpose()?;
    let mut cases = Vec::new();
    for case in &count.cases {
        let path = work.file(&format!("wipes-{}.folded", case.name));
        let terms = Terms { wipes: Some(&path), ..terms(case, &chain, servers.as_ref()) };
        contest.run_one(Node::Bitcoind, terms, false)?;
        let wipes = CaseWipes::read(case.name, &path, &chain)?;
        println!("{}: {} calls, {} bytes wiped", case.name, wipes.frees, wipes.bytes);
        cases.push(wipes);
    }
    servers.map_or(Ok(()), Servers::stop)?;
    let wipes = Wipes { program: Node::Bitcoind, every: count.every, cases };
    wipes.write(&count.out)?;
    crate::ibd::flame::write(&count.out, &wipes)?;
    work.remove()
}
