//! Encodes unit Gaussians at every width and prints the relative error beside the bound `2^-2k`, and the rate.
//!
//! ```text
//! cargo run --release -p trellis-codec --example encode_rate [-- rms|fast|balanced|thorough [COLUMNS [ROWS]]]
//! ```
//!
//! Published figures are for rows of one block of 256; rows of more blocks share a scale and have a slightly larger
//! error. The rate of a core is that of single rows, the best of many: on a machine that is busy with other things it is
//! the better guide.

use std::hint::black_box;
use std::time::Instant;

use trellis_codec::{Axis, Encoder, Format, Geometry, Layout, ScaleSearch, SimdLevel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let search = match args.next().as_deref() {
        None | Some("balanced") => ScaleSearch::Balanced,
        Some("rms") => ScaleSearch::Rms,
        Some("fast") => ScaleSearch::Fast,
        Some("thorough") => ScaleSearch::Thorough,
        Some(other) => return Err(format!("unknown search {other:?}").into()),
    };
    let cols: usize = args.next().map_or(Ok(1024), |text| text.parse())?;
    let rows: usize = args
        .next()
        .map_or(Ok((1 << 20) / cols.max(1)), |text| text.parse())?;
    let threads = std::thread::available_parallelism()?.get();

    let weights = gaussians(rows * cols);
    println!(
        "{search:?} search, {rows} rows of {cols}, {:?}, {threads} threads",
        SimdLevel::detect()
    );
    println!(
        "{:>2} {:>10} {:>10} {:>12} {:>14}",
        "k", "error", "2^-2k", "weights/s", "weights/s/core"
    );
    for bits in 1..=8 {
        let format = Format::new(bits, 12, 256)?;
        let geometry = Geometry::new(format, Axis::Input, Layout::Rows, rows, cols)?;
        let encoder = Encoder::new(format).with_search(search);
        let start = Instant::now();
        let encoded = encoder.encode_stored(&geometry, &weights)?;
        let rate = weights.len() as f64 / start.elapsed().as_secs_f64();
        let core_rate = core_rate(&encoder, &weights[..cols.min(weights.len())])?;
        let bound = 0.25_f64.powi(bits as i32);
        let error = encoded.distortion.relative();
        println!("{bits:>2} {error:>10.6} {bound:>10.6} {rate:>12.0} {core_rate:>14.0}");
    }
    Ok(())
}

/// Weights per second of one core, on one row.
fn core_rate(encoder: &Encoder, row: &[f32]) -> Result<f64, Box<dyn std::error::Error>> {
    let geometry = Geometry::new(encoder.format(), Axis::Input, Layout::Rows, 1, row.len())?;
    let mut least = f64::INFINITY;
    for _ in 0..200 {
        let start = Instant::now();
        black_box(encoder.encode_stored(&geometry, row)?);
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(row.len() as f64 / least)
}

/// Unit Gaussians by Box and Muller from `SplitMix64`.
fn gaussians(count: usize) -> Vec<f32> {
    let mut state = 1_u64;
    let mut uniform = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    (0..count)
        .map(|_| {
            ((-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()) as f32
        })
        .collect()
}
