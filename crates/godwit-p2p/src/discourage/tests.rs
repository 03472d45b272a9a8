use super::*;

fn host(n: u32) -> Host {
    Host::Ipv4(n.to_be_bytes())
}

#[test]
fn hosts_are_told_apart() {
    let mut discouraged = Discouraged::new([1; 16]);
    assert_eq!(discouraged.len(), 0);
    discouraged.insert(&host(1));
    discouraged.insert(&Host::OnionV3([9; 32]));
    assert!(discouraged.contains(&host(1)) && discouraged.contains(&Host::OnionV3([9; 32])));
    assert!(!discouraged.contains(&host(2)) && !discouraged.contains(&Host::I2p([9; 32])));
    assert_eq!(discouraged.len(), 2);
}

#[test]
fn b11_a_million_hosts_cost_bounded_memory() {
    let mut discouraged = Discouraged::new([1; 16]);
    let total = 1_000_000;
    for n in 0..total {
        discouraged.insert(&host(n));
        assert!(discouraged.len() <= 2 * DISCOURAGED_HOSTS);
    }
    let last = total - DISCOURAGED_HOSTS as u32;
    assert!((last..total).all(|n| discouraged.contains(&host(n))), "the last ones are kept");
    assert!(!(0..10_000).any(|n| discouraged.contains(&host(n))), "the first ones are gone");
}

#[test]
fn b11_one_host_again_and_again_does_not_push_others_out() {
    let mut discouraged = Discouraged::new([1; 16]);
    discouraged.insert(&host(0));
    for _ in 0..10 * DISCOURAGED_HOSTS {
        discouraged.insert(&host(1));
    }
    assert_eq!(discouraged.len(), 2);
    assert!(discouraged.contains(&host(0)));
}

#[test]
fn last_ones_are_kept_across_a_change_of_generation() {
    let mut discouraged = Discouraged::new([1; 16]);
    for n in 0..=DISCOURAGED_HOSTS as u32 {
        discouraged.insert(&host(n));
    }
    assert!((0..=DISCOURAGED_HOSTS as u32).all(|n| discouraged.contains(&host(n))));
}
