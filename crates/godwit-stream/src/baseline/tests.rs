use std::cell::{Cell, RefCell};
use std::slice;

use super::*;
use crate::{BufferPool, DataStream, PoolLimits};

const FRESH: u8 = 0xa5;
const WRITTEN: u8 = 0x5a;

/// Looks at each of its blocks that comes back, before it returns it. A block is filled when it is
/// given out, so that there is no byte in it that may not be read.
#[derive(Default)]
struct Inspecting {
    returned: RefCell<Vec<Vec<u8>>>,
    /// Calls that let it grow or shrink a block as it likes.
    resized: Cell<usize>,
}

impl Inspecting {
    /// Moves `len` bytes to `new` and frees the old block.
    ///
    /// # Safety
    ///
    /// Both are blocks of this allocator with `len` bytes at least; `old` is the layout of the old one.
    unsafe fn resize(&self, memory: NonNull<u8>, old: Layout, new: NonNull<[u8]>, len: usize) {
        self.resized.set(self.resized.get() + 1);
        // SAFETY: the caller's promises; blocks of which neither is freed lie apart.
        unsafe {
            ptr::copy_nonoverlapping(memory.as_ptr(), new.as_ptr().cast(), len);
            self.deallocate(memory, old);
        }
    }
}

// SAFETY: memory comes from `Global` and goes back to it; what is given out is a reference to this,
// and copies of a reference are interchangeable.
unsafe impl Allocator for Inspecting {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Global.allocate(layout)?;
        // SAFETY: a fresh block, valid for writes.
        unsafe { ptr::write_bytes(block.as_ptr().cast::<u8>(), FRESH, layout.size()) };
        Ok(block)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: still allocated, no longer the caller's, and written to its end since `allocate`.
        let block = unsafe { slice::from_raw_parts(memory.as_ptr(), layout.size()) };
        self.returned.borrow_mut().push(block.to_vec());
        // SAFETY: the caller hands back a block that came from `Global` with its layout.
        unsafe { Global.deallocate(memory, layout) }
    }

    unsafe fn grow(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.allocate(new)?;
        // SAFETY: the old block is the caller's, the new one at least as large.
        unsafe { self.resize(memory, old, block, old.size()) };
        Ok(block)
    }

    unsafe fn grow_zeroed(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.allocate_zeroed(new)?;
        // SAFETY: the old block is the caller's, the new one at least as large.
        unsafe { self.resize(memory, old, block, old.size()) };
        Ok(block)
    }

    unsafe fn shrink(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.allocate(new)?;
        // SAFETY: the old block is the caller's, and at least as large as the new one.
        unsafe { self.resize(memory, old, block, new.size()) };
        Ok(block)
    }
}

/// The blocks that came back from `run`, and how many of them were resized below the policy.
fn returned_by<'a, A: Allocator>(
    inspecting: &'a Inspecting,
    policy: impl FnOnce(&'a Inspecting) -> A,
    run: impl FnOnce(A),
) -> (Vec<Vec<u8>>, usize) {
    run(policy(inspecting));
    (inspecting.returned.take(), inspecting.resized.take())
}

/// A block of 100 bytes, of which 60 are written, is freed.
fn free<A: Allocator>(policy: A) {
    let mut stream = DataStream::with_capacity_in(100, policy);
    stream.write(&[WRITTEN; 60]);
}

/// A full block of 100 bytes becomes one of 200, and one of 10 again.
fn grow_and_shrink<A: Allocator>(policy: A) {
    let mut stream = DataStream::with_capacity_in(100, policy);
    stream.write(&[WRITTEN; 100]);
    let mut bytes = stream.into_vec();
    bytes.reserve_exact(100);
    assert_eq!(bytes.as_slice(), [WRITTEN; 100]);
    bytes.truncate(10);
    bytes.shrink_to_fit();
    assert_eq!(bytes.as_slice(), [WRITTEN; 10]);
}

/// What a block of `len` bytes holds of which so many were written.
fn block(written: usize, len: usize) -> Vec<u8> {
    [vec![WRITTEN; written], vec![FRESH; len - written]].concat()
}

#[test]
fn a_block_that_is_freed_is_wiped_to_its_end_or_left_as_it_is() {
    let inspecting = Inspecting::default();
    let wiped = returned_by(&inspecting, ZeroAfterFree, free);
    assert_eq!(wiped, (vec![vec![0; 100]], 0));
    let kept = returned_by(&inspecting, BarrierOnly, free);
    assert_eq!(kept, (vec![block(60, 100)], 0));
    // The inspection itself: nobody wipes here.
    assert_eq!(returned_by(&inspecting, |plain| plain, free), kept);
}

#[test]
fn a_block_that_is_outgrown_is_wiped_too_and_never_resized_unseen() {
    let inspecting = Inspecting::default();
    let wiped = returned_by(&inspecting, ZeroAfterFree, grow_and_shrink);
    assert_eq!(wiped, (vec![vec![0; 100], vec![0; 200], vec![0; 10]], 0));
    let kept = returned_by(&inspecting, BarrierOnly, grow_and_shrink);
    assert_eq!(kept, (vec![block(100, 100), block(100, 200), block(10, 10)], 2));
    assert_eq!(returned_by(&inspecting, |plain| plain, grow_and_shrink), kept);
}

/// What a pool for one buffer of 100 bytes lets go: after one, after two more, and at its end.
fn pool<A: Allocator + Clone>(inspecting: &Inspecting, policy: A) -> [Vec<Vec<u8>>; 3] {
    let limits = PoolLimits { buffers: 1, buffer_bytes: 100, total_bytes: 100 };
    let pool = BufferPool::new_in(limits, policy);
    let take = || {
        let mut stream = pool.take();
        stream.reserve(100);
        stream.write(&[WRITTEN; 100]);
        stream
    };
    drop(take());
    let after_one = inspecting.returned.take();
    drop((take(), take()));
    let after_two = inspecting.returned.take();
    drop(pool);
    [after_one, after_two, inspecting.returned.take()]
}

#[test]
fn a_pool_lets_go_what_it_does_not_keep_as_the_policy_says() {
    let inspecting = Inspecting::default();
    let wiped = pool(&inspecting, ZeroAfterFree(&inspecting));
    assert_eq!(wiped, [vec![], vec![vec![0; 100]], vec![vec![0; 100]]]);
    let kept = pool(&inspecting, BarrierOnly(&inspecting));
    assert_eq!(kept, [vec![], vec![block(100, 100)], vec![block(100, 100)]]);
}

#[test]
fn zeroed_memory_is_zeroed() {
    fn grown<A: Allocator>(policy: A) -> Vec<u8> {
        let (old, new) = (Layout::array::<u8>(10), Layout::array::<u8>(30));
        let (old, new) = (old.expect("ten bytes"), new.expect("thirty bytes"));
        let memory = policy.allocate_zeroed(old).expect("there is memory").cast::<u8>();
        // SAFETY: each block is the policy's own, zeroed, and not used after its end.
        unsafe {
            let grown = policy.grow_zeroed(memory, old, new).expect("there is memory");
            let bytes = grown.as_ref().to_vec();
            policy.deallocate(grown.cast(), new);
            bytes
        }
    }
    let inspecting = Inspecting::default();
    assert_eq!(grown(ZeroAfterFree(&inspecting)), [0; 30]);
    assert_eq!(grown(BarrierOnly(&inspecting)), [0; 30]);
    assert_eq!(inspecting.resized.get(), 1, "the barrier's alone");
}

#[cfg(feature = "count-wipes")]
#[test]
fn the_observer_hears_of_each_block_that_is_freed() {
    // Other tests free on their own threads.
    thread_local! { static HEARD: Cell<(usize, usize)> = const { Cell::new((0, 0)) } }
    observe_wipes(|bytes| HEARD.set((HEARD.get().0 + 1, HEARD.get().1 + bytes)));
    let mut stream = DataStream::with_capacity(1000);
    stream.write(&[7; 1000]);
    assert_eq!(HEARD.get(), (0, 0));
    drop(stream);
    assert_eq!(HEARD.get(), (1, 1000));
}
