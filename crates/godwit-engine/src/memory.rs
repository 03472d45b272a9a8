//! Memory of what the engine makes of transactions: one limit for all threads of the process.
//!
//! Core keeps 24 bytes for each witness item, so that a block of 4 MB of empty ones takes 96 MB, and twice
//! that while its vector grows. Anybody who mines can make such blocks in a row.
//!
//! A thread that waits here has to hold no permit, and one that holds a permit waits for nothing: so every
//! wait ends. Permits are given in the order in which threads came, so that small ones do not keep a large
//! one waiting. What is to outlast the thread's work on it, for threads that verify other parts, has to fit
//! into a quarter of the memory, for which nobody waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use godwit_primitives::TxView;

use crate::free_memory::release_free_memory;

/// Bytes that the engine's transactions take at once, or a single one that is larger and those that are kept.
pub const ENGINE_MEMORY_BYTES: usize = 16 << 20;

/// The memory of this process's engine.
pub static ENGINE_MEMORY: EngineMemory = EngineMemory::new(ENGINE_MEMORY_BYTES);

/// A transaction that takes no more is not counted: nearly all are smaller by far.
const UNCOUNTED_BYTES: usize = 256 << 10;

/// A witness item: its place in Core's vector, and another one while that grows or the interpreter has a
/// copy.
const ITEM: usize = 2 * 24;
/// An item that is not empty has a piece of the heap, and its copy another one.
const FILLED_ITEM: usize = 2 * 32;
/// An input, and what Core and `PreparedTx` keep of the output that it spends, the script aside: with a copy
/// for each of five workers that have inputs of the transaction judged.
const INPUT: usize = 512;
/// An output, twice while the vector grows.
const OUTPUT: usize = 2 * 48;
/// Copies of the spent scripts: one, and three more while an input is refused.
const SPENT_SCRIPTS: usize = 4;
/// Copies of the transaction's bytes: the caller's and Core's, and one of the witness with the interpreter.
const COPIES: usize = 3;
/// More than all of these for each byte: a witness item of one byte, which has two, makes 59 of each.
const MOST_PER_BYTE: usize = 64;

/// What transactions take at once in the engine, by estimates that are never too small.
pub struct EngineMemory {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// By threads that hold a permit.
    used: usize,
    kept: usize,
    most: usize,
    /// Permits that were asked for and that were given, ever.
    asked: u64,
    given: u64,
}

/// Memory for one transaction; given back when it is dropped, so behind what the engine made.
pub struct EnginePermit<'a> {
    memory: &'a EngineMemory,
    bytes: usize,
    is_kept: bool,
}

impl EngineMemory {
    /// With another limit than the process's.
    pub const fn new(limit: usize) -> Self {
        let state = State { used: 0, kept: 0, most: 0, asked: 0, given: 0 };
        Self { limit, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until there is memory for a transaction that spends scripts of so many bytes in all. One that is
    /// larger than the limit goes alone, and a small one needs none: `None`.
    ///
    /// The calling thread may not hold another permit.
    pub fn take(&self, tx_bytes: &[u8], spent_scripts: usize) -> Option<EnginePermit<'_>> {
        let bytes = estimate(tx_bytes, spent_scripts);
        (bytes > UNCOUNTED_BYTES).then(|| self.wait(bytes))
    }

    /// The most that was given at once.
    pub fn most(&self) -> usize {
        self.lock().most
    }

    /// Number of threads that wait for a permit.
    pub fn waiting(&self) -> u64 {
        let state = self.lock();
        state.asked - state.given
    }

    fn wait(&self, bytes: usize) -> EnginePermit<'_> {
        let mut state = self.lock();
        let turn = state.asked;
        state.asked += 1;
        let limit = self.limit - self.most_kept();
        let waits = |state: &mut State| {
            let fits = state.used == 0 || state.used.saturating_add(bytes) <= limit;
            state.given != turn || !fits
        };
        let state = self.changed.wait_while(state, waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.used += bytes;
        state.most = state.most.max(state.used + state.kept);
        state.given += 1;
        // There may be room for the next one, too.
        self.wake(state);
        EnginePermit { memory: self, bytes, is_kept: false }
    }

    fn most_kept(&self) -> usize {
        self.limit / 4
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        let is_waiting = state.asked != state.given;
        drop(state);
        if is_waiting {
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic and leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EnginePermit<'_> {
    /// Whether the memory may be kept while this thread waits for that of others, or after it: there is room,
    /// and from now on nobody waits for this.
    pub fn keep(&mut self) -> bool {
        let mut state = self.memory.lock();
        if !self.is_kept && state.kept.saturating_add(self.bytes) <= self.memory.most_kept() {
            state.used -= self.bytes;
            state.kept += self.bytes;
            self.is_kept = true;
            self.memory.wake(state);
        }
        self.is_kept
    }
}

impl Drop for EnginePermit<'_> {
    fn drop(&mut self) {
        // Millions of small pieces, which the allocator would keep for this thread: the next one gets its
        // permit when they are the system's again.
        if self.bytes > self.memory.limit {
            release_free_memory();
        }
        let mut state = self.memory.lock();
        match self.is_kept {
            true => state.kept -= self.bytes,
            false => state.used -= self.bytes,
        }
        self.memory.wake(state);
    }
}

/// Bytes that the engine takes for a transaction at most, from its start until it has judged its inputs.
fn estimate(tx_bytes: &[u8], spent_scripts: usize) -> usize {
    let scripts = SPENT_SCRIPTS * spent_scripts;
    let most = MOST_PER_BYTE * tx_bytes.len() + scripts;
    if most <= UNCOUNTED_BYTES {
        return most;
    }
    // What cannot be parsed the engine refuses, too, after it has read a part.
    TxView::parse(tx_bytes).map_or(most, |tx| counted(tx) + scripts)
}

fn counted(tx: TxView<'_>) -> usize {
    let items: usize = tx.witnesses().map(|witness| witness.len()).sum();
    let witness_bytes = tx.total_size() - tx.stripped_size();
    // An empty one has one byte, each other at least two.
    let filled = items.min(witness_bytes.saturating_sub(items));
    let witnesses = ITEM * items + FILLED_ITEM * filled;
    witnesses + INPUT * tx.input_count() + OUTPUT * tx.output_count() + COPIES * tx.total_size()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// One input, whose witness has so many items of so many bytes each.
    fn tx(items: u32, len: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 1];
        bytes.extend([1; 32]);
        bytes.extend([0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x51]);
        bytes.push(0xfe);
        bytes.extend(items.to_le_bytes());
        for _ in 0..items {
            bytes.push(len);
            bytes.extend(std::iter::repeat_n(7, len.into()));
        }
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn estimates_count_witness_items_and_lengths_alone_bound_them() {
        for len in [0, 1, 2, 40, 200] {
            let bytes = tx(100_000, len);
            let counted = estimate(&bytes, 10);
            let item = 48 + usize::from(len) + if len == 0 { 0 } else { 64 };
            assert!(counted >= 100_000 * item, "{counted} for items of {len}");
            assert!(counted <= MOST_PER_BYTE * bytes.len() + 10 * SPENT_SCRIPTS, "{len}");
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(estimate(cut, 0), MOST_PER_BYTE * cut.len(), "it does not parse");
        }
        // The largest block of one transaction: Core was seen to take 24 bytes an item, 48 while it grows.
        let worst = estimate(&tx(3_990_000, 0), 4);
        assert!((190_000_000..210_000_000).contains(&worst), "{worst}");
    }

    #[test]
    fn small_transactions_need_no_permit() {
        let memory = EngineMemory::new(1);
        let of = |scripts| memory.take(&[], scripts).is_some();
        assert!(!of(UNCOUNTED_BYTES / SPENT_SCRIPTS));
        assert!(of(UNCOUNTED_BYTES / SPENT_SCRIPTS + 1));
        assert!(memory.take(&[0xff; UNCOUNTED_BYTES / MOST_PER_BYTE], 0).is_none());
        assert!(memory.take(&[0xff; UNCOUNTED_BYTES / MOST_PER_BYTE + 1], 0).is_some());
        assert!(memory.most() > UNCOUNTED_BYTES);
    }

    /// Bytes of permits, and of what is kept.
    fn in_use(memory: &EngineMemory) -> (usize, usize) {
        let state = memory.lock();
        (state.used, state.kept)
    }

    #[test]
    fn a_quarter_is_for_what_is_kept_and_nobody_waits_for_it() {
        let memory = EngineMemory::new(100);
        let mut kept = [15, 11, 10].map(|bytes| memory.wait(bytes));
        assert_eq!([0, 1, 2].map(|at: usize| kept[at].keep()), [true, false, true]);
        assert!(kept[0].keep(), "still");
        let [_, other, _] = &kept;
        assert_eq!(in_use(&memory), (other.bytes, 25));
        drop(memory.wait(75 - 11));
        assert_eq!(memory.most(), 100);
        drop(kept);
        assert_eq!(in_use(&memory), (0, 0));
        // It takes what is used to nothing, so that a large one may go.
        let mut kept = memory.wait(25);
        assert!(kept.keep());
        drop(memory.wait(76));
        assert_eq!(memory.most(), 101);
    }

    #[test]
    fn what_fits_is_given_and_one_byte_more_waits() {
        let memory = EngineMemory::new(100);
        let (first, second) = (memory.wait(45), memory.wait(30));
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            let memory = &memory;
            scope.spawn(move || {
                let permit = memory.wait(31);
                sender.send(()).unwrap();
                drop(permit);
            });
            assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
            drop(second);
            assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "one byte more");
            drop(first);
            receiver.recv().unwrap();
        });
        assert_eq!(memory.most(), 75);
    }

    #[test]
    fn one_above_the_limit_goes_alone_and_is_not_overtaken() {
        let memory = EngineMemory::new(100);
        let held = memory.wait(10);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for (turn, bytes) in [(1, 1_000), (2, 10)] {
                let (memory, sender) = (&memory, sender.clone());
                scope.spawn(move || {
                    let permit = memory.wait(bytes);
                    sender.send(bytes).unwrap();
                    drop(permit);
                });
                while memory.lock().asked <= turn {
                    thread::yield_now();
                }
            }
            assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
            drop(held);
            assert_eq!([(); 2].map(|()| receiver.recv().unwrap()), [1_000, 10]);
        });
        assert_eq!((memory.most(), memory.lock().used), (1_000, 0));
    }

    /// Each of the threads would keep some 60 MiB.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_a_large_transaction_took_goes_back_to_the_system_before_the_next_one_comes() {
        use crate::free_memory::tests::anonymous;
        use crate::prepared::{PreparedTx, SpentOutput};

        const THREADS: usize = 4;
        let memory = EngineMemory::new(ENGINE_MEMORY_BYTES);
        let bytes = tx(1_800_000, 1);
        let judged = || {
            let permit = memory.take(&bytes, 2).expect("it is counted");
            let spent = SpentOutput { value: 1, script_pubkey: &[0x60, 2] };
            let prepared = PreparedTx::new(&bytes, [spent].into_iter());
            assert_eq!(prepared.map(|tx| tx.input_count()), Ok(1));
            drop(permit);
        };
        let before = anonymous();
        let (sender, ended) = mpsc::channel();
        thread::scope(|scope| {
            let go_on: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (go, on) = mpsc::channel::<()>();
                    let sender = sender.clone();
                    scope.spawn(move || {
                        judged();
                        sender.send(()).expect("the test waits");
                        // Until all are measured: what a thread keeps would be another one's.
                        on.recv().ok();
                    });
                    ended.recv().expect("it ends");
                    go
                })
                .collect();
            let after = anonymous();
            drop(go_on);
            assert!(after < before + (96 << 20), "{before} and {after} bytes");
        });
    }
}
