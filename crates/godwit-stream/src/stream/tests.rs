use std::cell::Cell;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::rc::Rc;

use allocator_api2::alloc::{AllocError, Layout};
use proptest::prelude::*;

use super::*;
use crate::{Global, MAX_SIZE};

/// Hands out memory filled with a pattern and counts what is asked of it.
#[derive(Clone, Default)]
struct Counting {
    calls: Rc<Cell<usize>>,
    largest: Rc<Cell<usize>>,
}

/// What memory of [`Counting`] holds before anybody writes to it.
const FRESH: u8 = 0xa5;

#[allow(unsafe_code)]
// SAFETY: every call is passed to `Global`; only bytes that it just handed out are written.
unsafe impl Allocator for Counting {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.calls.set(self.calls.get() + 1);
        self.largest.set(self.largest.get().max(layout.size()));
        let memory = Global.allocate(layout)?;
        // SAFETY: the allocation is new, exclusive, and `memory.len()` bytes long.
        unsafe { memory.cast::<u8>().as_ptr().write_bytes(FRESH, memory.len()) };
        Ok(memory)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: `memory` came from `Global` with this layout.
        unsafe { Global.deallocate(memory, layout) }
    }
}

fn counting() -> (Counting, DataStream<Counting>) {
    let allocator = Counting::default();
    (allocator.clone(), DataStream::new_in(allocator))
}

fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 + i / 256) as u8).collect()
}

/// Puts the next bytes of a slice into uninitialised memory, as `rustix::io::read` does.
#[allow(unsafe_code)]
fn give<'b>(from: &mut &[u8], most: usize, room: &'b mut [MaybeUninit<u8>]) -> &'b mut [u8] {
    let (now, later) = from.split_at(from.len().min(most).min(room.len()));
    *from = later;
    for (slot, byte) in room.iter_mut().zip(now) {
        slot.write(*byte);
    }
    // SAFETY: the loop initialised the first `now.len()` bytes.
    unsafe { room[..now.len()].assume_init_mut() }
}

#[test]
fn one_write_is_one_allocation_and_small_writes_double() {
    let (allocator, mut stream) = counting();
    stream.write(&pattern(1_000_000));
    assert_eq!(allocator.calls.get(), 1);

    let (allocator, mut stream) = counting();
    for _ in 0..1_000_000 {
        stream.write_u8(7);
    }
    assert!(allocator.calls.get() <= 18, "{} allocations", allocator.calls.get());
    assert!(allocator.largest.get() <= 2_000_000);
}

#[test]
fn a_reserved_write_allocates_nothing_more() {
    let (allocator, mut stream) = counting();
    stream.reserve(100);
    stream.write(&pattern(60));
    stream.write(&pattern(40));
    assert_eq!((allocator.calls.get(), stream.capacity()), (1, 100));
    stream.clear();
    stream.write(&pattern(100));
    assert_eq!(allocator.calls.get(), 1);
}

#[test]
fn cursor_moves_within_its_bounds() {
    let mut stream = DataStream::from(&pattern(10)[..]);
    assert_eq!(stream.read(4), Ok(&pattern(10)[..4]));
    assert_eq!((stream.len(), stream.as_slice().len()), (6, 10));
    assert_eq!(stream.read(7), Err(DecodeError::UnexpectedEnd));
    assert_eq!(stream.skip(usize::MAX), Err(DecodeError::UnexpectedEnd));
    assert_eq!(stream.unread(), &pattern(10)[4..]);
    assert_eq!(stream.rewind(5), Err(DecodeError::UnexpectedEnd));
    assert_eq!(stream.rewind(4), Ok(()));
    assert_eq!(stream.skip(10), Ok(()));
    assert!(stream.is_empty());
    stream.write(&[1, 2]);
    assert_eq!(stream.read(2), Ok(&[1, 2][..]));
    stream.truncate(3);
    assert_eq!((stream.len(), stream.as_slice()), (0, &pattern(10)[..3]));
    assert_eq!(stream.into_vec().as_slice(), &pattern(10)[..3]);
}

#[test]
fn a_failed_get_leaves_the_cursor() {
    let mut stream = DataStream::from(&[3u8, 1, 2][..]);
    assert_eq!(stream.get::<Vec<u8>>(), Err(DecodeError::UnexpectedEnd));
    assert_eq!(stream.len(), 3);
    stream.write_u8(9);
    assert_eq!(stream.get::<Vec<u8>>(), Ok(vec![1, 2, 9]));
    assert!(stream.is_empty());
}

#[test]
fn fill_from_takes_uninitialised_memory_and_stops_where_it_should() {
    let bytes = pattern(700_000);
    for (wanted, most) in [(700_000, 1_000_000), (700_000, 1_460), (800_000, 65_536), (1, 9)] {
        let mut left = &bytes[..];
        let (_, mut stream) = counting();
        stream.write(b"head");
        let got = stream.fill_from(wanted, |room| {
            assert!(room.len() <= wanted);
            Ok::<_, io::Error>(give(&mut left, most, room))
        });
        let expected = wanted.min(bytes.len());
        assert_eq!(got.unwrap(), expected);
        assert_eq!(&stream.as_slice()[4..], &bytes[..expected]);
    }
}

#[test]
fn fill_from_keeps_what_came_before_an_error() {
    let bytes = pattern(1000);
    let mut left = &bytes[..];
    let mut stream = DataStream::new();
    let result = stream.fill_from(5000, |room| match left {
        [] => Err(io::ErrorKind::WouldBlock),
        _ => Ok(give(&mut left, 300, room)),
    });
    assert_eq!(result, Err(io::ErrorKind::WouldBlock));
    assert_eq!(stream.as_slice(), bytes);
}

#[test]
#[should_panic(expected = "front of the buffer")]
fn fill_from_refuses_a_slice_from_elsewhere() {
    let mut stream = DataStream::new();
    let result = stream.fill_from(4, |_| Ok::<_, io::Error>(Box::leak(vec![1u8; 4].into())));
    unreachable!("{result:?}");
}

#[test]
fn capacity_follows_received_bytes_not_the_announced_length() {
    let announced = MAX_SIZE as usize;
    for received in [0usize, 1, 1000, READ_STEP, READ_STEP + 1, 1_000_000] {
        let bytes = pattern(received);
        let bound = received.max(READ_STEP / 2) * 2;

        let (allocator, mut stream) = counting();
        assert_eq!(stream.read_from(&mut &bytes[..], announced).unwrap(), received);
        assert_eq!(stream.as_slice(), bytes);
        assert!(allocator.largest.get() <= bound, "{received}: {}", allocator.largest.get());

        let (allocator, mut stream) = counting();
        let mut left = &bytes[..];
        let got = stream.fill_from(announced, |room| Ok::<_, ()>(give(&mut left, 1460, room)));
        assert_eq!(got, Ok(received));
        assert!(allocator.largest.get() <= bound, "{received}: {}", allocator.largest.get());
    }
}

/// Looks at the memory that it is to fill: zero is what `read_from` wrote there.
struct Spy {
    seen: Vec<u8>,
    give: usize,
}

impl Read for Spy {
    fn read(&mut self, window: &mut [u8]) -> io::Result<usize> {
        self.seen = window.to_vec();
        let n = self.give.min(window.len());
        window[..n].fill(1);
        self.give -= n;
        Ok(n)
    }
}

#[test]
fn a_reused_buffer_is_not_zeroed_again() {
    let (_, mut stream) = counting();
    stream.reserve(1000);
    let mut spy = Spy { seen: Vec::new(), give: 600 };
    assert_eq!(stream.read_from(&mut spy, 1000).unwrap(), 600);
    assert_eq!(spy.seen, [0; 400], "memory never written is zeroed first");
    stream.clear();
    let mut spy = Spy { seen: Vec::new(), give: 0 };
    assert_eq!(stream.read_from(&mut spy, 700).unwrap(), 0);
    assert_eq!(spy.seen[..600], [1; 600], "what the last use left");
    assert_eq!(spy.seen[600..], [0; 100]);
    assert_eq!(stream.buffer.initialised(), 1000);
}

#[test]
fn growth_and_fill_from_forget_what_was_initialised() {
    let (_, mut stream) = counting();
    stream.reserve(100);
    assert_eq!(stream.read_from(&mut &pattern(50)[..], 100).unwrap(), 50);
    assert_eq!(stream.buffer.initialised(), 100);
    stream.reserve(1000);
    assert_eq!(stream.buffer.initialised(), 50);
    assert_eq!(stream.read_from(&mut io::empty(), 100).unwrap(), 0);
    assert_eq!(stream.buffer.initialised(), 150);
    let got = stream.fill_from(10, |room| {
        room.fill(MaybeUninit::uninit());
        Ok::<_, ()>(give(&mut &pattern(3)[..], 3, room))
    });
    assert_eq!(got, Ok(10));
    assert_eq!((stream.buffer.len(), stream.buffer.initialised()), (60, 60));
}

#[test]
fn written_memory_counts_as_initialised_and_the_rest_is_zeroed_in_steps() {
    let (_, mut stream) = counting();
    stream.reserve(1_000_000);
    stream.write(&[9; 600]);
    stream.clear();
    let mut spy = Spy { seen: Vec::new(), give: 0 };
    assert_eq!(stream.read_from(&mut spy, 1_000_000).unwrap(), 0);
    assert_eq!(spy.seen[..600], [9; 600]);
    assert_eq!(spy.seen[600..], vec![0; READ_STEP - 600]);
}

#[test]
fn read_from_survives_a_source_that_lies_or_interrupts() {
    struct Liar;
    impl Read for Liar {
        fn read(&mut self, window: &mut [u8]) -> io::Result<usize> {
            Ok(window.len() + 1)
        }
    }
    struct Interrupted<'a>(&'a [u8], bool);
    impl Read for Interrupted<'_> {
        fn read(&mut self, window: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(window) }
        }
    }
    let mut stream = DataStream::new();
    let error = stream.read_from(&mut Liar, 10).unwrap_err();
    assert_eq!((error.kind(), stream.len()), (io::ErrorKind::InvalidData, 0));
    let bytes = pattern(10);
    assert_eq!(stream.read_from(&mut Interrupted(&bytes, false), 10).unwrap(), 10);
    assert_eq!(stream.as_slice(), bytes);
}

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<u8>),
    Read(usize),
    Skip(usize),
    Rewind(usize),
    Truncate(usize),
    Reserve(usize),
    Fill(Vec<u8>, usize),
    ReadFrom(Vec<u8>, usize),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => bytes().prop_map(Step::Write),
        4 => (0usize..30).prop_map(Step::Read),
        1 => (0usize..30).prop_map(Step::Skip),
        2 => (0usize..30).prop_map(Step::Rewind),
        1 => (0usize..80).prop_map(Step::Truncate),
        1 => (0usize..200).prop_map(Step::Reserve),
        2 => (bytes(), 0usize..60).prop_map(|(b, n)| Step::Fill(b, n)),
        2 => (bytes(), 0usize..60).prop_map(|(b, n)| Step::ReadFrom(b, n)),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_vector_and_an_index(steps in prop::collection::vec(step(), 0..60)) {
        let (_, mut stream) = counting();
        let (mut bytes, mut at) = (Vec::<u8>::new(), 0usize);
        for step in steps {
            match step {
                Step::Write(new) => { stream.write(&new); bytes.extend(new); }
                Step::Read(n) => {
                    let expected = bytes[at..].get(..n);
                    prop_assert_eq!(stream.read(n).ok(), expected);
                    at += expected.map_or(0, <[u8]>::len);
                }
                Step::Skip(n) => {
                    let fits = n <= bytes.len() - at;
                    prop_assert_eq!(stream.skip(n).is_ok(), fits);
                    at += if fits { n } else { 0 };
                }
                Step::Rewind(n) => {
                    prop_assert_eq!(stream.rewind(n).is_ok(), n <= at);
                    at = at.checked_sub(n).unwrap_or(at);
                }
                Step::Truncate(n) => {
                    stream.truncate(n);
                    bytes.truncate(n);
                    at = at.min(bytes.len());
                }
                Step::Reserve(n) => {
                    stream.reserve(n);
                    prop_assert!(stream.capacity() >= bytes.len() + n);
                }
                Step::Fill(new, n) => {
                    let mut left = &new[..];
                    let got = stream.fill_from(n, |room| Ok::<_, ()>(give(&mut left, 7, room)));
                    prop_assert_eq!(got, Ok(n.min(new.len())));
                    bytes.extend(&new[..n.min(new.len())]);
                }
                Step::ReadFrom(new, n) => {
                    let got = stream.read_from(&mut &new[..], n).unwrap();
                    prop_assert_eq!(got, n.min(new.len()));
                    bytes.extend(&new[..got]);
                }
                Step::Clear => { stream.clear(); bytes.clear(); at = 0; }
            }
            prop_assert_eq!(stream.as_slice(), &bytes[..]);
            prop_assert_eq!(stream.unread(), &bytes[at..]);
            prop_assert_eq!((stream.len(), stream.is_empty()), (bytes.len() - at, at == bytes.len()));
        }
    }
}
