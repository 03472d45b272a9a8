//! What a write costs beside `memcpy`, and beside the element-wise path that must not come back.

use std::hint::black_box;
use std::time::Instant;

use godwit_stream::{DataStream, PUBLIC_MEMORY, SerializeData};

/// Least time of many runs, in nanoseconds for each byte.
fn ns_per_byte(bytes: usize, mut run: impl FnMut()) -> f64 {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_nanos()
    };
    let least = (0..300).map(|_| time(&mut run)).min().expect("300 runs");
    least as f64 / bytes as f64
}

/// `cargo test --release -p godwit-stream -- --ignored --nocapture write_speed`
#[test]
#[ignore = "a measurement, prints and checks nothing"]
#[expect(clippy::disallowed_methods, reason = "the path that the others are compared with")]
fn write_speed() {
    println!("ns/byte    memcpy    write  element-wise");
    for piece in [8, 32, 128, 1024, 65_536, 1_000_000] {
        let total = 1_000_000 / piece * piece;
        let source = vec![7u8; piece];
        let mut target = vec![0u8; total];
        let memcpy = ns_per_byte(total, || {
            for chunk in target.chunks_exact_mut(piece) {
                chunk.copy_from_slice(black_box(&source));
            }
            black_box(&mut target);
        });
        let mut stream = DataStream::with_capacity(total);
        let write = ns_per_byte(total, || {
            stream.clear();
            for _ in 0..total / piece {
                stream.write(black_box(&source));
            }
            black_box(&mut stream);
        });
        let mut vector = SerializeData::with_capacity_in(total, PUBLIC_MEMORY);
        let elements = ns_per_byte(total, || {
            vector.clear();
            for _ in 0..total / piece {
                vector.extend_from_slice(black_box(&source));
            }
            black_box(&mut vector);
        });
        println!("{piece:>7}  {memcpy:>8.4} {write:>8.4}  {elements:>12.4}");
    }
}
