use std::hint::black_box;
use std::slice;
use std::thread as std_thread;

use super::*;
use crate::Declassified;

const CANARY: [u8; 24] = *b"canary-left-on-the-stack";

/// Leaves the canary in a local variable, as libraries do with keys, out of reach of what is called
/// next.
#[inline(never)]
fn leaky() -> u8 {
    let mut local = [0u8; 4096];
    for (to, from) in local[64..].iter_mut().zip(CANARY) {
        *to = black_box(from);
    }
    black_box(&local)[64 + 7]
}

fn has_canary(stack: &LockedPages) -> bool {
    // SAFETY: the stack is mapped, and nothing runs on it.
    let bytes = unsafe { slice::from_raw_parts(stack.start().as_ptr(), stack.len()) };
    bytes.windows(CANARY.len()).any(|window| window == CANARY)
}

fn leaves_nothing_once_wiped(call_on: CallOn) {
    let mut stack = LockedPages::map(SECRET_STACK_SIZE).expect("memory");
    assert!(!has_canary(&stack));
    let outcome = run_on(&mut stack, call_on, leaky).expect("memory").expect("no panic");
    assert_eq!(outcome, CANARY[7]);
    assert!(has_canary(&stack), "the operation did run there, and leaves what it does");
    // SAFETY: what ran on the stack has returned.
    unsafe { stack.wipe() };
    assert!(!has_canary(&stack));
}

#[test]
fn a_copy_left_on_the_stack_is_there_until_it_is_wiped() {
    leaves_nothing_once_wiped(call_on);
    leaves_nothing_once_wiped(thread::call_on);
}

#[test]
fn it_runs_on_locked_pages_and_leaves_them_wiped() {
    let address = run_on_secret_stack(|| {
        let local = 0u8;
        leaky();
        Declassified((ptr::from_ref(black_box(&local)).addr(), leaky()))
    });
    let Declassified((address, result)) = address.expect("memory");
    assert_eq!(result, CANARY[7]);
    let local = 0u8;
    let here = ptr::from_ref(black_box(&local)).addr();
    assert!(here.abs_diff(address) > SECRET_STACK_SIZE, "another stack than that of the test");
    for stack in stacks().idle.iter() {
        assert!(!has_canary(stack));
        assert!(stack.locked());
    }
}

#[test]
fn borrowed_values_go_in_and_results_come_out() {
    let text = String::from("borrowed");
    let mut count = 0;
    let result = run_on_secret_stack(|| {
        count += text.len();
        Declassified(vec![text.clone(); 2])
    });
    assert_eq!((result.expect("memory").0.concat(), count), ("borrowedborrowed".to_owned(), 8));
}

#[test]
fn nesting_stays_on_the_stack() {
    let depth = run_on_secret_stack(|| {
        let outer = 0u8;
        run_on_secret_stack(|| {
            let inner = 0u8;
            let inner = ptr::from_ref(black_box(&inner)).addr();
            Declassified(inner.abs_diff(ptr::from_ref(black_box(&outer)).addr()))
        })
    });
    assert!(depth.expect("memory").expect("memory").0 < SECRET_STACK_SIZE);
}

fn carries_panics(call_on: CallOn) {
    let mut stack = LockedPages::map(SECRET_STACK_SIZE).expect("memory");
    let dropped = Mutex::new(Vec::new());
    struct OnDrop<'a>(&'a Mutex<Vec<u8>>);
    impl Drop for OnDrop<'_> {
        fn drop(&mut self) {
            idle_or(self.0).push(leaky());
        }
    }
    let outcome = run_on(&mut stack, call_on, || {
        let _guard = OnDrop(&dropped);
        resume_unwind(Box::new(black_box(17)));
    });
    let payload = outcome.expect("memory").expect_err("it panicked");
    assert_eq!(payload.downcast_ref(), Some(&17i32));
    assert_eq!(*idle_or(&dropped), [CANARY[7]], "what it owned is dropped");
}

fn idle_or<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn panics_are_carried_to_the_caller() {
    carries_panics(call_on);
    carries_panics(thread::call_on);
    let caught = catch_unwind(|| run_on_secret_stack(|| -> bool { panic!("{}", leaky()) }));
    let payload = caught.expect_err("it panicked");
    assert_eq!(payload.downcast_ref::<String>(), Some(&CANARY[7].to_string()));
    assert!(!INSIDE.get());
    assert!(stacks().idle.iter().all(|stack| !has_canary(stack)));
    let again = run_on_secret_stack(|| Declassified(leaky()));
    assert_eq!(again, Ok(Declassified(CANARY[7])), "the stack is usable again");
}

#[test]
fn threads_have_stacks_of_their_own() {
    std_thread::scope(|scope| {
        for seed in 0..4u64 {
            scope.spawn(move || {
                for round in 0..200 {
                    let sum = run_on_secret_stack(|| {
                        let numbers: [u64; 100] = std::array::from_fn(|n| n as u64 + seed + round);
                        std_thread::yield_now();
                        Declassified(black_box(numbers).iter().sum::<u64>())
                    });
                    assert_eq!(sum, Ok(Declassified(4950 + 100 * (seed + round))));
                }
            });
        }
    });
    assert!(stacks().idle.len() <= 16);
}

/// Fills registers as a library does that leaves a key in them, as wide as the processor has them.
#[cfg(target_arch = "x86_64")]
extern "C" fn fill_registers(_: *mut c_void) {
    // SAFETY: the features are there when the instructions run; the clobbers name the registers.
    unsafe {
        std::arch::asm!(
            "mov eax, 0x5a5a5a5a",
            "movq xmm5, rax",
            "movq xmm15, rax",
            // Bits stay behind `emms`, which makes the registers free again.
            "pcmpeqd mm0, mm0",
            "pcmpeqd mm7, mm7",
            "emms",
            clobber_abi("sysv64"),
        );
        if is_x86_feature_detected!("avx2") {
            std::arch::asm!("vpcmpeqd ymm5, ymm5, ymm5", clobber_abi("sysv64"));
        }
        if is_x86_feature_detected!("avx512f") {
            std::arch::asm!(
                "vpternlogd zmm6, zmm6, zmm6, 0xff",
                "vpternlogd zmm31, zmm31, zmm31, 0xff",
                "kxnorw k3, k3, k3",
                "kxnorw k7, k7, k7",
                clobber_abi("sysv64"),
            );
        }
        if is_x86_feature_detected!("avx512bw") {
            std::arch::asm!("kxnorq k3, k3, k3", clobber_abi("sysv64"));
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn registers_are_cleared() {
    let mut stack = LockedPages::map(SECRET_STACK_SIZE).expect("memory");
    let (avx, avx512) = (is_x86_feature_detected!("avx"), is_x86_feature_detected!("avx512f"));
    let avx512bw = is_x86_feature_detected!("avx512bw");
    let mut left = [[0u8; 64]; 5];
    // SAFETY: `fill_registers` takes any argument; the assembly stores at most 64 bytes to arrays of
    // that size, by instructions that the processor has.
    unsafe {
        call_on(&mut stack, fill_registers, ptr::null_mut()).expect("memory");
        std::arch::asm!(
            "movdqu [{0}], xmm5", "movdqu [{0} + 64], xmm15",
            "movq [{0} + 256], mm0", "movq [{0} + 264], mm7", "emms",
            in(reg) left.as_mut_ptr(), clobber_abi("sysv64"),
        );
        if avx {
            std::arch::asm!("vmovdqu [{0}], ymm5", in(reg) left.as_mut_ptr());
        }
        if avx512 {
            std::arch::asm!(
                "vmovdqu64 [{0} + 128], zmm6", "vmovdqu64 [{0} + 192], zmm31",
                "kmovw [{0} + 272], k3", "kmovw [{0} + 274], k7",
                in(reg) left.as_mut_ptr(),
            );
        }
        if avx512bw {
            std::arch::asm!("kmovq [{0} + 280], k3", in(reg) left.as_mut_ptr());
        }
    }
    assert_eq!(left, [[0; 64]; 5]);
}
