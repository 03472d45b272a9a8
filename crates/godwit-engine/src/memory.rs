//! Memory of the engine's objects for transactions: one limit for all threads of the process.
//!
//! Core keeps 24 bytes for each witness item, so a block of 4 MB of empty items takes 96 MB, and twice that
//! while its vector grows. Any miner can make such blocks in a row.
//!
//! A thread that waits for a permit must hold none, and a thread that holds a permit must not wait for
//! anything, so every wait ends. Permits are given in the order in which threads ask, so that small
//! transactions do not keep a large one waiting. Objects that outlast the thread's own work, because other
//! threads verify parts of the transaction, have to fit into a quarter of the memory, for which no thread
//! waits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use godwit_primitives::TxView;

use crate::free_memory::release_free_memory;

/// Bytes that the engine's objects take at once, at most; a single larger transaction may exceed it, beside
/// the objects that are kept.
pub const ENGINE_MEMORY_BYTES: usize = 16 << 20;

/// The memory budget of this process's engine.
pub static ENGINE_MEMORY: EngineMemory = EngineMemory::new(ENGINE_MEMORY_BYTES);

/// A transaction that takes no more than this is not counted: nearly all are far smaller.
const UNCOUNTED_BYTES: usize = 256 << 10;

/// A witness item: its place in Core's vector, and a second one while the vector grows or the interpreter has
/// a copy.
const ITEM: usize = 2 * 24;
/// An item that is not empty takes an allocation of its own, and its copy another one.
const FILLED_ITEM: usize = 2 * 32;
/// An input, with what Core and `PreparedTx` keep of the output that it spends, except the script. Includes a
/// copy for each of five workers that verify inputs of the transaction.
const INPUT: usize = 512;
/// An output, counted twice because the vector grows.
const OUTPUT: usize = 2 * 48;
/// Copies of the spent scripts: one, and three more while an input is refused.
const SPENT_SCRIPTS: usize = 4;
/// Copies of the transaction's bytes: the caller's, Core's, and one of the witness in the interpreter.
const COPIES: usize = 3;
/// Bounds all of these per byte of the transaction: a witness item of one byte, which is serialised as two,
/// takes 59 for each.
const MOST_PER_BYTE: usize = 64;

/// Counts the engine's memory, by estimates that are never too small.
pub struct EngineMemory {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Bytes of threads that hold a permit.
    used: usize,
    kept: usize,
    most: usize,
    /// Permits that were asked for, and permits that were given, since the start.
    asked: u64,
    given: u64,
}

/// Memory for one transaction. It is given back on drop, so the permit has to be dropped after the engine's
/// objects.
pub struct EnginePermit<'a> {
    memory: &'a EngineMemory,
    bytes: usize,
    is_kept: bool,
}

impl EngineMemory {
    /// A budget with another limit than the process's.
    pub const fn new(limit: usize) -> Self {
        let state = State { used: 0, kept: 0, most: 0, asked: 0, given: 0 };
        Self { limit, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits until there is memory for a transaction that spends scripts of `spent_scripts` bytes in all. A
    /// transaction that is larger than the limit waits until no other permit is in use; a small one needs no
    /// permit: `None`.
    ///
    /// The calling thread must not hold another permit.
    pub fn take(&self, tx_bytes: &[u8], spent_scripts: usize) -> Option<EnginePermit<'_>> {
        let bytes = estimate(tx_bytes, spent_scripts);
        (bytes > UNCOUNTED_BYTES).then(|| self.wait(bytes))
    }

    /// The most bytes that were in use at once.
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
        // There may be room for the next thread, too.
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
    /// Whether this memory may be kept while the thread waits for other memory, and after that. If there is
    /// room, the permit's bytes move to the part that is kept, and no thread has to wait for them any more.
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
        // The engine made millions of small allocations, which the allocator would keep for this thread. The
        // next thread gets its permit only when they have been returned to the system.
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

/// Bytes that the engine takes for a transaction at most, from parsing it until its inputs are verified.
fn estimate(tx_bytes: &[u8], spent_scripts: usize) -> usize {
    let scripts = SPENT_SCRIPTS * spent_scripts;
    let most = MOST_PER_BYTE * tx_bytes.len() + scripts;
    if most <= UNCOUNTED_BYTES {
        return most;
    }
    // If a transaction cannot be parsed, the engine refuses it too, after reading a part.
    TxView::parse(tx_bytes).map_or(most, |tx| counted(tx) + scripts)
}

fn counted(tx: TxView<'_>) -> usize {
    let items: usize = tx.witnesses().map(|witness| witness.len()).sum();
    let witness_bytes = tx.total_size() - tx.stripped_size();
    // An empty item has one byte, every other item at least two.
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

    /// One input, whose witness has `items` items of `len` bytes each.
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

    /// Bytes of permits in use, and bytes that are kept.
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
        // Keeping it sets the bytes in use to none, so that a large one may go.
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

    /// Each of the threads would otherwise keep some 60 MiB.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_a_large_transaction_took_goes_back_to_the_system_before_the_next_one_comes() {
        let test = "memory::tests::what_a_large_transaction_took_goes_back_to_the_system_before_the_next_one_comes";
        godwit_testdata::alone(test, judge_a_large_transaction_on_each_thread);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn judge_a_large_transaction_on_each_thread() {
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
                        // The thread lives until all are measured: what it keeps would otherwise pass to
                        // another one.
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
