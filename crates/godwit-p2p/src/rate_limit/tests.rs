use proptest::prelude::*;

use super::*;

const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The same bucket, a nanosecond at a time.
struct Naive {
    burst: u64,
    amount: u64,
    interval: u64,
    level: u64,
    now: u64,
}

impl Naive {
    fn run_to(&mut self, now: u64) {
        while self.now < now {
            self.now += 1;
            if self.level < self.burst * self.interval {
                self.level = (self.level + self.amount).min(self.burst * self.interval);
            }
        }
    }

    fn take(&mut self, now: u64, n: u64) -> bool {
        self.run_to(now);
        let enough = self.level >= n * self.interval;
        self.level -= if enough { n * self.interval } else { 0 };
        enough
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn bucket_equals_one_that_counts_nanoseconds(
        (burst, amount, interval) in (0..20u64, 1..10u64, 1..10u64),
        steps in prop::collection::vec((0..30u64, 0..12u64, 0..3u8), 0..60),
    ) {
        let mut bucket = TokenBucket::new(seconds(0), burst, amount, Duration::from_nanos(interval));
        let mut naive = Naive { burst, amount, interval, level: burst * interval, now: 0 };
        let mut now = 0;
        for (elapsed, n, kind) in steps {
            now += elapsed;
            let at = Duration::from_nanos(now);
            match kind {
                0 => {
                    bucket.take(at, 0);
                    bucket.grant(n);
                    naive.run_to(now);
                    naive.level += n * interval;
                }
                1 => {
                    naive.run_to(now);
                    let taken = n.min(naive.level / interval);
                    naive.level -= taken * interval;
                    prop_assert_eq!(bucket.take_up_to(at, n), taken);
                }
                _ => prop_assert_eq!(bucket.take(at, n), naive.take(now, n)),
            }
        }
    }

    #[test]
    fn tokens_are_ready_when_it_says_and_not_before(
        (burst, amount, interval) in (1..20u64, 1..10u64, 1..10_000_000_000u64),
        (spent, n) in (0..20u64, 1..20u64),
    ) {
        let start = seconds(5);
        let mut bucket = TokenBucket::new(start, burst, amount, Duration::from_nanos(interval));
        bucket.take_up_to(start, spent);
        match bucket.ready_at(start, n) {
            None => prop_assert!(n > burst),
            Some(at) => {
                prop_assert!(bucket.clone().take(at, n));
                prop_assert!(at == start || !bucket.take(at - Duration::from_nanos(1), n));
            }
        }
    }
}

#[test]
fn b10_ten_million_addresses_pass_at_a_tenth_a_second() {
    let mut bucket = TokenBucket::addresses(seconds(0));
    assert_eq!(bucket.take_up_to(seconds(0), 1000), 1, "as in Core");
    let mut passed = 0;
    for message in 0..10_000 {
        passed += bucket.take_up_to(seconds(message / 10), 1000);
    }
    assert_eq!(passed, 99, "10,000 messages of 1000 addresses in 999 seconds");
    assert_eq!(bucket.take_up_to(seconds(1_000_000), 5000), ADDRESS_BURST);
    bucket.grant(1000);
    assert_eq!(bucket.take_up_to(seconds(1_000_000), 5000), 1000, "an answer that was asked for");
}

#[test]
fn b10_granted_tokens_do_not_vanish_and_do_not_grow() {
    let mut bucket = TokenBucket::addresses(seconds(0));
    bucket.grant(5000);
    assert_eq!(bucket.take_up_to(seconds(100_000), 10_000), 5001);
}

#[test]
fn b14_log_lines_of_all_peers_stay_below_a_megabyte_an_hour() {
    let mut all = TokenBucket::log(seconds(0));
    let mut one = TokenBucket::peer_log(seconds(0));
    let (mut lines, mut lines_of_one) = (0, 0);
    for attempt in 0..1_000_000u64 {
        let now = Duration::from_micros(attempt * 3600);
        lines += u64::from(all.take(now, 1));
        lines_of_one += u64::from(one.take(now, 1));
    }
    assert_eq!(lines, LOG_BURST + 3599);
    assert_eq!(lines_of_one, PEER_LOG_BURST + 59);
    assert!(lines * 250 < 1_000_000);
}

#[test]
fn b12_inventory_has_room_for_two_full_messages() {
    let mut bucket = TokenBucket::inventory(seconds(0));
    assert!(bucket.take(seconds(0), 50_000) && bucket.take(seconds(0), 50_000));
    assert!(!bucket.take(seconds(0), 1));
    assert_eq!(bucket.take_up_to(seconds(1), 50_000), 200);
}

#[test]
fn time_that_goes_back_or_far_ahead_does_no_harm() {
    let mut bucket = TokenBucket::new(seconds(10), 5, u64::MAX, Duration::from_nanos(1));
    assert!(bucket.take(seconds(3), 5));
    assert!(!bucket.take(seconds(3), 1));
    assert!(bucket.take(Duration::MAX, 5));
    let mut slow = TokenBucket::new(seconds(0), u64::MAX, 1, Duration::MAX);
    assert!(slow.take(seconds(0), u64::MAX / 2));
    assert!(slow.ready_at(Duration::MAX, u64::MAX).is_some());
}

const MEGABYTE: u64 = 1_000_000;

#[test]
fn no_upload_target_is_never_reached() {
    let mut target = UploadTarget::new(None);
    target.record(seconds(0), u64::MAX);
    assert!(!target.is_reached_for_old_blocks(seconds(0)));
}

#[test]
fn upload_target_keeps_room_for_the_blocks_of_the_rest_of_the_day() {
    // A day has 144 blocks of at most 4 MB: 576 MB.
    let mut target = UploadTarget::new(Some(576 * MEGABYTE + 1));
    assert!(!target.is_reached_for_old_blocks(seconds(0)));
    target.record(seconds(0), 1);
    assert!(target.is_reached_for_old_blocks(seconds(0)));
    // After ten minutes, one block less is to come.
    assert!(!target.is_reached_for_old_blocks(seconds(601)));
    target.record(seconds(601), 576 * MEGABYTE);
    assert!(target.is_reached_for_old_blocks(seconds(601)));
    assert!(UploadTarget::new(Some(576 * MEGABYTE)).is_reached_for_old_blocks(seconds(0)));
    assert!(UploadTarget::new(Some(5)).is_reached_for_old_blocks(seconds(0)));
}

#[test]
fn upload_target_starts_anew_each_day() {
    let mut target = UploadTarget::new(Some(1000 * MEGABYTE));
    target.record(seconds(50), 1000 * MEGABYTE);
    target.record(seconds(50) + UPLOAD_CYCLE, 1);
    assert!(target.is_reached_for_old_blocks(seconds(50) + UPLOAD_CYCLE));
    target.record(seconds(51) + UPLOAD_CYCLE, 1);
    assert!(!target.is_reached_for_old_blocks(seconds(51) + UPLOAD_CYCLE));
    assert_eq!(target.sent, 1);
}
