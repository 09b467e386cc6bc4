//! How fast products with trellis weights are here, beside decoding the weight alone.
//!
//! ```text
//! cargo run --release -p mlx-kernels-cpu --example trellis_throughput -- [INPUTSxOUTPUTS [REPEATS]]
//! ```
//!
//! Weights rotate over more than the caches hold; row counts take turns within each round. The last column is the time
//! that the host decoder takes to expand the same weight, over that of the product: what a product that expands first
//! has spent before it begins.

use std::hint::black_box;
use std::time::Instant;

use half::bf16;
use mlx_kernels_cpu::trellis::matmul;
use trellis_codec::{Axis, Contract, Format, Geometry, Layout, decode};

/// Bytes of codes to rotate over.
const ROTATION: usize = 96 << 20;
const ROWS: [usize; 7] = [1, 2, 3, 4, 8, 16, 64];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let shape = arguments.next().unwrap_or_else(|| "2560x4096".to_owned());
    let (inputs, outputs) = shape.split_once('x').ok_or("a shape is INPUTSxOUTPUTS")?;
    let (inputs, outputs) = (inputs.parse()?, outputs.parse()?);
    let repeats: usize = arguments.next().map_or(Ok(9), |text| text.parse())?;
    println!("{inputs} inputs, {outputs} outputs, bf16");
    println!("axis k rows   median us    least us  Gweights/s  decoding/product");
    for (axis, stored, cols) in [
        (Axis::Input, outputs, inputs),
        (Axis::Output, inputs, outputs),
    ] {
        for bits in [2, 3, 4] {
            let geometry = Geometry::new(
                Format::new(bits, 12, 256)?,
                axis,
                Layout::Rows,
                stored,
                cols,
            )?;
            measure(&geometry, repeats)?;
        }
    }
    Ok(())
}

fn measure(geometry: &Geometry, repeats: usize) -> Result<(), Box<dyn std::error::Error>> {
    let copies = (ROTATION / (4 * geometry.words())).max(2);
    let codes: Vec<Vec<u32>> = (0..copies)
        .map(|copy| {
            (0..geometry.words())
                .map(|i| ((i + copy) as u32).wrapping_mul(2_654_435_761))
                .collect()
        })
        .collect();
    let mut fresh = codes.iter().cycle();
    let mut next = || fresh.next().ok_or("there is at least one copy");
    let scales = vec![bf16::from_f32(0.02); geometry.rows()];
    let most = ROWS[ROWS.len() - 1];
    let x = vec![bf16::from_f32(0.5); most * geometry.input_features()];
    let mut y = vec![bf16::ZERO; most * geometry.output_features()];
    let mut times = vec![Vec::new(); ROWS.len()];
    let mut decoding = Vec::new();
    let wide: Vec<f32> = scales.iter().map(|scale| scale.to_f32()).collect();
    for _ in 0..repeats {
        for (&rows, times) in ROWS.iter().zip(&mut times) {
            let x = &x[..rows * geometry.input_features()];
            let y = &mut y[..rows * geometry.output_features()];
            let words = next()?;
            let start = Instant::now();
            matmul(
                geometry,
                rows,
                x.into(),
                words,
                (&scales[..]).into(),
                y.into(),
            )?;
            times.push(start.elapsed().as_secs_f64());
        }
        let words = next()?;
        let start = Instant::now();
        black_box(decode(geometry, words, &wide, Contract::ExactBf16)?);
        decoding.push(start.elapsed().as_secs_f64());
    }
    decoding.sort_by(f64::total_cmp);
    for (rows, mut times) in ROWS.into_iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let (median, least) = (times[times.len() / 2], times[0]);
        println!(
            "{:>4} {} {rows:>4} {:>11.1} {:>11.1} {:>11.2} {:>17.1}",
            geometry.axis().index(),
            geometry.format().bits(),
            median * 1e6,
            least * 1e6,
            geometry.weights() as f64 / least / 1e9,
            decoding[0] / least,
        );
    }
    Ok(())
}
