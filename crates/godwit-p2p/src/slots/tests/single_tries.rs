//! Connections that the operator tries once (`addnode` with `onetry`).

use super::*;

impl World {
    /// Tries once; whether that connects, which then stands.
    pub(super) fn tries(&mut self, target: &Target) -> bool {
        let peers: Vec<_> = self.links.iter().map(Link::peer).collect();
        let connects = self.slots.try_node(target, &peers);
        if connects {
            let (kind, target) = (ConnectionKind::Manual, target.clone());
            self.links.push(Link { kind, address: None, target, ready: true });
        }
        connects
    }

    fn refuses_try(&self, target: &Target) -> bool {
        let peers: Vec<_> = self.links.iter().map(Link::peer).collect();
        self.slots.refuses_try(target, &peers)
    }
}

fn names(kind: &str, count: usize) -> Vec<Target> {
    (0..count).map(|n| name(&format!("{kind}{n}.example"))).collect()
}

#[test]
fn single_tries_and_added_nodes_take_no_places_of_one_another() {
    let (tries, added) = (names("try", 8), names("added", 10));
    let mut world = World::new(config());
    assert!(tries.iter().all(|target| world.tries(target)));
    added.iter().for_each(|target| world.slots.add_node(target));
    assert_eq!(targets(&world.run(30.0)), added[..MAX_ADD_NODE_CONNECTIONS]);
    world.links.retain(|link| !tries.contains(&link.target));
    assert_eq!(targets(&world.run(1.0)), [], "nor those that become free");
    assert!(tries.iter().all(|target| world.tries(target)));
}

#[test]
fn single_tries_without_a_place_are_refused_and_not_made_later() {
    let tries = names("try", MAX_TRIED_CONNECTIONS + 3);
    let (made, refused) = tries.split_at(MAX_TRIED_CONNECTIONS);
    let mut world = World::new(config());
    assert!(made.iter().all(|target| !world.refuses_try(target) && world.tries(target)));
    assert!(refused.iter().all(|target| world.refuses_try(target) && !world.tries(target)));
    assert!(!world.refuses_try(&made[0]) && !world.tries(&made[0]), "it is connected");
    world.links.drain(..3);
    assert_eq!(targets(&world.run(120.0)), []);
    assert!(refused.iter().all(|target| !world.refuses_try(target) && world.tries(target)));
    assert!(world.refuses_try(&made[0]) && !world.tries(&made[0]));
}

/// As in Core, where a connection keeps the permit with which it was opened.
#[test]
fn a_connection_keeps_the_place_that_it_took() {
    let mut world = World::new(config());
    // Removed, but connected still.
    let removed = names("removed", MAX_ADD_NODE_CONNECTIONS);
    removed.iter().for_each(|target| world.slots.add_node(target));
    assert_eq!(targets(&world.run(1.0)), removed);
    removed.iter().for_each(|target| world.slots.remove_node(target));
    let later = name("later.example");
    world.slots.add_node(&later);
    assert_eq!(targets(&world.run(120.0)), []);
    // Tried, and to stay connected.
    let both = name("both.example");
    assert!(world.tries(&both));
    world.slots.add_node(&both);
    assert_eq!(targets(&world.run(120.0)), []);
    world.links.truncate(MAX_ADD_NODE_CONNECTIONS - 1);
    assert_eq!(targets(&world.run(120.0)), std::slice::from_ref(&later), "one place is free");
    // What was tried is an added peer's connection the next time.
    world.links.clear();
    assert_eq!(targets(&world.run(1.0)), [later, both]);
    let tries = names("try", MAX_TRIED_CONNECTIONS);
    assert!(tries.iter().all(|target| world.tries(target)));
}
