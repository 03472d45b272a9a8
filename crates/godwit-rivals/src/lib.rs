//! The engines that godwit's benchmarks run beside, and what the machine can do at most.
//!
//! Plain functions over prepared inputs. Nothing here takes time or prints: the harness does.
//!
//! - [`control`]: the stream workloads of bitcoin/bitcoin#30987 in C++20, with four allocators.
//! - [`decode`]: Bitcoin Core, the `bitcoin` crate and `bitcoin_slices` on the bytes of a block.
//! - [`flush`]: LevelDB as Core sets it up, and other stores behind the feature `rivals`.
//! - [`limits`]: memory, page faults, hashes and signatures.

pub mod control;
pub mod decode;
pub mod flush;
pub mod limits;

/// One thing to be timed.
pub struct Subject {
    /// What the report's last column says; unique among all subjects.
    pub name: String,
    /// What a figure is given per: `"byte"`, `"block"`, `"coin"` or `"op"`.
    pub unit: &'static str,
    /// How many of them one call of `body` works through.
    pub units_per_iteration: f64,
    /// One iteration, on inputs that were prepared before; its result goes to
    /// [`black_box`](std::hint::black_box).
    pub body: Box<dyn FnMut()>,
}

impl Subject {
    fn new(
        name: impl Into<String>,
        unit: &'static str,
        units_per_iteration: f64,
        body: impl FnMut() + 'static,
    ) -> Self {
        Self { name: name.into(), unit, units_per_iteration, body: Box::new(body) }
    }
}

/// Mainnet block 702,861 (1,381,836 bytes, with witnesses), where no other block is at hand.
pub fn fallback_block() -> &'static [u8] {
    bitcoin_test_data::blocks::mainnet_702861()
}

/// Bytes that no compressor and no branch predictor sees through: xorshift64*.
const fn scrambled<const N: usize>(mut state: u64) -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes[i] = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8;
        i += 1;
    }
    bytes
}
