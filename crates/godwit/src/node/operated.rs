//! The operator's changes to a running node, which survive until the next run in the same process. Bans and
//! transactions are in files of their own.

use godwit_api::NodeState;
use godwit_p2p::{NodeCommand, Now, Target};

use super::core::NodeCore;

/// See the module's documentation.
pub(super) struct Operated {
    network_active: bool,
    /// `-addnode` and `addnode` together.
    added: Vec<Target>,
}

/// What of `added` and `before` differs: commands that lead from the first to the second.
fn changes(added: &[Target], before: &[Target]) -> Vec<NodeCommand> {
    let removed = added.iter().filter(|target| !before.contains(target));
    let missing = before.iter().filter(|target| !added.contains(target));
    let removals = removed.cloned().map(NodeCommand::RemoveNode);
    removals.chain(missing.cloned().map(NodeCommand::AddNode)).collect()
}

impl Operated {
    pub(super) fn of(core: &NodeCore) -> Self {
        Self { network_active: core.network_active(), added: core.peers().added_nodes() }
    }

    /// Makes a node that has just started the one that it was.
    pub(super) fn again(self, now: Now, core: &mut NodeCore) {
        core.set_network_active(now, self.network_active);
        let commands = changes(&core.peers().added_nodes(), &self.added);
        core.answer(now, Box::new(|node| commands.into_iter().for_each(|it| node.command(it))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_were_added_and_removed_stay_so() {
        let [a, b, c] = ["a", "b", "c"].map(|host| Target::Name { host: host.into(), port: 1 });
        let told = |added: &[&Target], before: &[&Target]| {
            let owned = |all: &[&Target]| all.iter().map(|it| (*it).clone()).collect::<Vec<_>>();
            format!("{:?}", changes(&owned(added), &owned(before)))
        };
        assert_eq!(told(&[&a, &b], &[&b, &a]), "[]");
        let expected = [NodeCommand::RemoveNode(a.clone()), NodeCommand::AddNode(c.clone())];
        assert_eq!(told(&[&a, &b], &[&b, &c]), format!("{expected:?}"));
    }
}
