//! A coded weight as data: random codes, what they decode to, and the weight as arrays.

use mlx_kernels::trellis::TrellisWeight;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Axis, Contract, Format, Geometry, Layout, decode, factored_scales};

use super::super::floats::{self, round};
use super::super::random::Random;
use super::super::{Failure, trellis::Shape};

/// A weight of random codes. Any words are valid codes.
#[derive(Debug, Clone)]
pub struct Coded {
    geometry: Geometry,
    codes: Vec<u32>,
    /// One for each stored row, exact in their type.
    scales: Vec<f32>,
    scale_dtype: Dtype,
}

impl Coded {
    /// The weight of a shape, with scales of both signs around 0.02. `salt` tells the weights of one
    /// case from each other.
    pub fn random(shape: &Shape, salt: u64) -> Result<Self, Failure> {
        let geometry = geometry(shape)?;
        let seed = (geometry.rows() * 10_007 + geometry.cols()) as u64;
        let mut random = Random::new(seed.wrapping_mul(31) + u64::from(shape.bits) + salt);
        let codes = (0..geometry.words())
            .map(|_| random.bits() as u32)
            .collect();
        let scales = (0..geometry.rows())
            .map(|_| round(random.normal() * 0.02, shape.scale_dtype))
            .collect();
        Ok(Self {
            geometry,
            codes,
            scales,
            scale_dtype: shape.scale_dtype,
        })
    }

    /// The same codes under scales that are powers of two of both signs.
    pub fn with_plain_scales(mut self) -> Self {
        for (row, scale) in self.scales.iter_mut().enumerate() {
            *scale = [0.5, -1.0, 2.0, -0.25][row % 4];
        }
        self
    }

    /// The weight as the operations take it.
    pub fn weight(&self) -> Result<TrellisWeight, Failure> {
        let shape: Vec<i32> = (self.geometry.codes_shape().iter())
            .map(|&size| size as i32)
            .collect();
        let scales = floats::array(&self.scales, &[self.scales.len() as i32], self.scale_dtype);
        let codes = Array::from_slice(&self.codes, &shape);
        Ok(TrellisWeight::new(codes, scales, &self.geometry.entry())?)
    }

    /// Stored rows and coded columns.
    pub fn extents(&self) -> [i32; 2] {
        [self.geometry.rows() as i32, self.geometry.cols() as i32]
    }

    /// The stored matrix, `[R, C]` row-major, decoded as `contract` says. Under the factored contract
    /// the scale's factor is applied too, in float32.
    pub fn stored(&self, contract: Contract) -> Result<Vec<f32>, Failure> {
        let decoded = decode(&self.geometry, &self.codes, &self.scales, contract);
        let mut stored = decoded.map_err(Failure::run)?;
        if contract == Contract::Factored {
            let factors = factored_scales(&self.scales);
            for (row, factor) in stored.chunks_mut(self.geometry.cols()).zip(factors) {
                for weight in row {
                    *weight *= factor;
                }
            }
        }
        Ok(stored)
    }

    /// The weight `[outputs, inputs]`, row-major, decoded as `contract` says.
    pub fn matrix(&self, contract: Contract) -> Result<Vec<f32>, Failure> {
        let stored = self.stored(contract)?;
        Ok(match self.geometry.axis() {
            Axis::Input => stored,
            Axis::Output => {
                let (rows, cols) = (self.geometry.rows(), self.geometry.cols());
                (0..cols * rows)
                    .map(|i| stored[i % rows * cols + i / rows])
                    .collect()
            }
        })
    }
}

fn geometry(shape: &Shape) -> Result<Geometry, Failure> {
    let (outputs, inputs) = (shape.outputs as usize, shape.inputs as usize);
    let (rows, cols) = match shape.axis {
        Axis::Input => (outputs, inputs),
        Axis::Output => (inputs, outputs),
    };
    let layout = if shape.interleaved {
        Layout::BlockPairs
    } else {
        Layout::Rows
    };
    Format::new(shape.bits, shape.state_bits, shape.block)
        .and_then(|format| Geometry::new(format, shape.axis, layout, rows, cols))
        .map_err(Failure::run)
}
