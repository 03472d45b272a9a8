//! Checks side by side, one in each lane: u1 G + u2 Q for all of them by the same steps, and what of it is
//! proven.

use crate::digits::{
    Digits, GENERATOR_DIGITS, GENERATOR_WINDOW, KEY_DIGITS, KEY_ENTRIES, KEY_WINDOW, entry_of,
};
use crate::field::{Field, Words, constant, even_lanes, inverse, load, square_root, zero_lanes};
use crate::generator::GeneratorTables;
use crate::point::{Affine, BETA, Jacobian, add, double, odd_multiples, one};
use crate::vector::{Entry, LaneMask, MAX_LANES, Vector};
use crate::verdict::{Matching, Proven, Sum};

/// Groups whose parities share one inversion: an eighth of one is 2 % of a check, half a one 6 %.
pub(crate) const GROUPS: usize = 8;

/// What the lanes compute with. Numbers below p, by lane; an empty lane is all zeros, which is no point of
/// the curve.
#[derive(Clone)]
pub(crate) struct Group {
    /// Q: x, and y unless it is compressed.
    pub(crate) key: [[Words; MAX_LANES]; 2],
    /// Lanes whose y is computed from x, and of these the ones where y is to be odd.
    pub(crate) compressed: LaneMask,
    pub(crate) odd_key: LaneMask,
    /// The factors u1 and u2.
    pub(crate) digits: [Digits; MAX_LANES],
    /// The two numbers of which the sum's x must be one.
    pub(crate) expected: [[Words; MAX_LANES]; 2],
    /// Lanes where the sum's y counts too, and of these the ones where it is to be odd.
    pub(crate) with_parity: LaneMask,
    pub(crate) odd_sum: LaneMask,
}

// What docs/limits.md says of a thread's batch.
const _: () = assert!(size_of::<[Group; GROUPS]>() <= 32 << 10);

impl Group {
    pub(crate) const EMPTY: Group = Group {
        key: [[[0; 4]; MAX_LANES]; 2],
        compressed: LaneMask(0),
        odd_key: LaneMask(0),
        digits: [Digits::ZERO; MAX_LANES],
        expected: [[[0; 4]; MAX_LANES]; 2],
        with_parity: LaneMask(0),
        odd_sum: LaneMask(0),
    };
}

/// Which lanes of each group are proven; at most [`GROUPS`] of them.
#[inline(always)]
pub(crate) fn prove<F: Field>(groups: &[Group], tables: &GeneratorTables) -> [Proven; GROUPS] {
    let mut proven = [Proven::default(); GROUPS];
    let mut matching = [Matching::<F>::nothing(); GROUPS];
    let mut any_parity = false;
    for (i, group) in groups.iter().enumerate() {
        let expected: [F; 2] = [load(&group.expected[0]), load(&group.expected[1])];
        matching[i] = sum::<F>(group, tables).finite().matching(expected[0], expected[1]);
        proven[i] = matching[i].by_x(group.with_parity);
        any_parity |= group.with_parity != LaneMask(0);
    }
    if any_parity {
        // One inversion for all: the products of those before, then back.
        let mut products = [one::<F>(); GROUPS];
        let mut product = matching[0].invertible_z();
        for i in 1..groups.len() {
            products[i] = product;
            product = product.mul(&matching[i].invertible_z());
        }
        let mut inverted = inverse(product);
        for i in (0..groups.len()).rev() {
            let z_inverse = inverted.mul(&products[i]);
            inverted = inverted.mul(&matching[i].invertible_z());
            let group = &groups[i];
            let by_parity = matching[i].by_parity(z_inverse, group.with_parity, group.odd_sum);
            proven[i] = proven[i].or(by_parity);
        }
    }
    proven
}

/// The keys, and the lanes where they are points of the curve.
#[inline(always)]
fn keys<F: Field>(group: &Group) -> (Affine<F>, LaneMask) {
    let x: F = load(&group.key[0]);
    let mut y: F = load(&group.key[1]);
    let right = x.sqr().mul(&x).add(constant(&[7, 0, 0, 0])).settle();
    if group.compressed != LaneMask(0) {
        let root = square_root(right);
        let negative = constant::<F>(&[0; 4]).sub::<1>(root).settle();
        let wrong = LaneMask(even_lanes(root).complement().0 ^ group.odd_key.0);
        y = F::select(group.compressed, F::select(wrong, negative, root), y);
    }
    let on_curve = zero_lanes(y.sqr().sub::<1>(right).settle());
    (Affine { x, y }, on_curve)
}

/// Odd multiples of each lane's Q and lambda Q.
struct KeyTables([[[Entry; KEY_ENTRIES]; 2]; MAX_LANES]);

impl KeyTables {
    /// The tables, and the Z that their points have in common.
    #[inline(always)]
    fn new<F: Field>(key: &Affine<F>) -> (KeyTables, F) {
        let (multiples, z) = odd_multiples(key);
        let beta = constant::<F>(&BETA);
        let mut tables = KeyTables([[[Entry::ZERO; KEY_ENTRIES]; 2]; MAX_LANES]);
        for (i, point) in multiples.iter().enumerate() {
            let x = point.x.pack();
            let beta_x = point.x.mul(&beta).pack();
            let y = point.y.pack();
            for word in 0..4 {
                let (x, beta_x, y) = (x[word].store(), beta_x[word].store(), y[word].store());
                for lane in 0..F::V::LANES {
                    let [q, lambda_q] = &mut tables.0[lane];
                    q[i].0[word] = x[lane];
                    lambda_q[i].0[word] = beta_x[lane];
                    q[i].0[4 + word] = y[lane];
                    lambda_q[i].0[4 + word] = y[lane];
                }
            }
        }
        (tables, z)
    }
}

/// One entry for each lane as a point.
#[inline(always)]
fn gather<F: Field>(entries: &[&Entry; MAX_LANES]) -> Affine<F> {
    let [x0, x1, x2, x3, y0, y1, y2, y3] = F::V::gather(entries);
    Affine { x: F::unpack(&[x0, x1, x2, x3]), y: F::unpack(&[y0, y1, y2, y3]) }
}

/// The entry of window `at` of part `part` of the key's factor, and the lanes in which it is subtracted.
#[inline(always)]
fn key_entries<F: Field>(
    group: &Group,
    tables: &KeyTables,
    part: usize,
    at: usize,
) -> (Affine<F>, LaneMask) {
    let mut entries = [&tables.0[0][0][0]; MAX_LANES];
    let mut negate = LaneMask::default();
    for lane in 0..F::V::LANES {
        let window = usize::from(group.digits[lane].key[part][at]);
        let (index, negative) = entry_of(window, KEY_WINDOW);
        entries[lane] = &tables.0[lane][part][index];
        negate.insert(lane, negative);
    }
    (gather(&entries), negate)
}

/// The same of the generator's factor.
#[inline(always)]
fn generator_entries<F: Field>(
    group: &Group,
    tables: &GeneratorTables,
    part: usize,
    at: usize,
) -> (Affine<F>, LaneMask) {
    let table = &tables.0[part];
    let mut entries = [&table[0]; MAX_LANES];
    let mut negate = LaneMask::default();
    for lane in 0..F::V::LANES {
        let window = usize::from(group.digits[lane].generator[part][at]);
        let (index, negative) = entry_of(window, GENERATOR_WINDOW);
        entries[lane] = &table[index];
        negate.insert(lane, negative);
    }
    (gather(&entries), negate)
}

/// u1 G + u2 Q: doublings from the topmost window down, and at each place the entries whose windows begin
/// there.
#[inline(always)]
pub(crate) fn sum<F: Field>(group: &Group, tables: &GeneratorTables) -> Sum<F> {
    let (key, on_curve) = keys::<F>(group);
    let (key_tables, scale) = KeyTables::new(&key);
    let top = KEY_WINDOW * (KEY_DIGITS - 1);
    let (first, negate) = key_entries::<F>(group, &key_tables, 0, KEY_DIGITS - 1);
    let negative = constant::<F>(&[0; 4]).sub::<1>(first.y).settle();
    let y = F::select(negate, negative, first.y);
    let mut sum = Jacobian { x: first.x, y, z: one() };
    for place in (0..=top).rev() {
        if place != top {
            sum = double(&sum);
        }
        let with_generator =
            place % GENERATOR_WINDOW == 0 && place / GENERATOR_WINDOW < GENERATOR_DIGITS;
        // Parts 0 and 1 are of the key, 2 and 3 of the generator; one loop, so that the addition is compiled
        // once. The first entry of the key is the sum to begin with.
        for part in usize::from(place == top)..4 {
            let (entry, negate, z) = if part >= 2 && with_generator {
                let window = place / GENERATOR_WINDOW;
                let (entry, negate) = generator_entries(group, tables, part - 2, window);
                (entry, negate, sum.z.mul(&scale))
            } else if part < 2 && place % KEY_WINDOW == 0 {
                let window = place / KEY_WINDOW;
                let (entry, negate) = key_entries(group, &key_tables, part, window);
                (entry, negate, sum.z)
            } else {
                continue;
            };
            sum = add(&sum, &entry, negate, z);
        }
    }
    Sum::new(sum, scale, on_curve)
}
