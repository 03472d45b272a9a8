//! Odd multiples of G and of 2^128 G, made at the first use in some milliseconds. A test holds every entry
//! against libsecp256k1.

use std::sync::OnceLock;

use crate::digits::GENERATOR_ENTRIES;
use crate::field::outlined::Outlined;
use crate::field::products::Ifma;
use crate::field::radix52::Radix52;
use crate::field::{Field, constant, inverse};
use crate::point::{Affine, GENERATOR, Jacobian, add, double, one};
use crate::vector::model::Model;
use crate::vector::{Entry, LaneMask, Vector};

/// One lane of the model: what needs no speed.
type Single = Outlined<Radix52<Model<1>, Ifma>>;

/// Entry i of each table is 2 i + 1 times its point.
#[derive(Debug)]
pub(crate) struct GeneratorTables(pub(crate) [Box<[Entry]>; 2]);

/// The tables, made by whichever thread asks first.
pub(crate) fn tables() -> &'static GeneratorTables {
    static TABLES: OnceLock<GeneratorTables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let [x, y] = GENERATOR;
        let g = Affine { x: constant(&x), y: constant(&y) };
        let mut high = Jacobian { x: g.x, y: g.y, z: one() };
        for _ in 0..128 {
            high = double(&high);
        }
        let high = affine(&[high])[0];
        GeneratorTables([odd_multiples(&g), odd_multiples(&high)])
    })
}

fn odd_multiples(point: &Affine<Single>) -> Box<[Entry]> {
    let first = Jacobian { x: point.x, y: point.y, z: one() };
    let twice = affine(&[double(&first)])[0];
    let mut sums = vec![first];
    for i in 1..GENERATOR_ENTRIES {
        let last = sums[i - 1];
        sums.push(add(&last, &twice, LaneMask(0), last.z));
    }
    affine(&sums).iter().map(entry).collect()
}

/// Points of Z = 1, by one inversion. No Z is 0: the multiples are far from the order of G.
fn affine(points: &[Jacobian<Single>]) -> Vec<Affine<Single>> {
    let mut products = vec![one::<Single>()];
    for point in points {
        products.push(products[products.len() - 1].mul(&point.z));
    }
    let mut inverted = inverse(products[points.len()]);
    let mut affine = Vec::with_capacity(points.len());
    for (point, before) in points.iter().zip(&products).rev() {
        let z_inverse = inverted.mul(before);
        inverted = inverted.mul(&point.z);
        let square = z_inverse.sqr();
        affine.push(Affine { x: point.x.mul(&square), y: point.y.mul(&square.mul(&z_inverse)) });
    }
    affine.reverse();
    affine
}

fn entry(point: &Affine<Single>) -> Entry {
    let mut entry = Entry::ZERO;
    let words = point.x.pack().into_iter().chain(point.y.pack());
    for (to, word) in entry.0.iter_mut().zip(words) {
        *to = word.store()[0];
    }
    entry
}
