//! Calls in place of inlined code, for vectors that are plain Rust: the point code, inlined down to loops
//! over lanes, would take minutes to compile.

use super::Field;
use crate::vector::LaneMask;

/// A field whose operations are functions of their own. The same operations: only where they stand differs.
#[derive(Clone, Copy)]
pub(crate) struct Outlined<F>(pub(crate) F);

impl<F: Field> Field for Outlined<F> {
    type V = F::V;

    #[inline(never)]
    fn unpack(words: &[Self::V; 4]) -> Self {
        Outlined(F::unpack(words))
    }

    #[inline(never)]
    fn pack(self) -> [Self::V; 4] {
        self.0.pack()
    }

    #[inline(never)]
    fn mul(&self, other: &Self) -> Self {
        Outlined(self.0.mul(&other.0))
    }

    #[inline(never)]
    fn sqr(&self) -> Self {
        Outlined(self.0.sqr())
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        Outlined(self.0.add(other.0))
    }

    #[inline(never)]
    fn times_power(self, count: u32) -> Self {
        Outlined(self.0.times_power(count))
    }

    #[inline(never)]
    fn sub<const M: u64>(self, other: Self) -> Self {
        Outlined(self.0.sub::<M>(other.0))
    }

    #[inline(never)]
    fn settle(self) -> Self {
        Outlined(self.0.settle())
    }

    #[inline(never)]
    fn fit(self) -> Self {
        Outlined(self.0.fit())
    }

    #[inline(never)]
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self {
        Outlined(F::select(mask, yes.0, no.0))
    }
}
