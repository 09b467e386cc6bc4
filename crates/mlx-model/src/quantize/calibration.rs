//! The inputs of the layers that are coded, from text that the model reads.
//!
//! The text goes through one block at a time, ahead of the coding: what is in memory is the block in float32, its
//! statistics, the residual stream of `4 tokens hidden` bytes, and at first the embedding table. The blocks that run are the
//! original ones, in the basis of the rotation.

use std::path::Path;

use mlx_kernels::Context;
use mlx_kernels::attention::Rotation as Rope;
use mlx_rs::transforms::eval;
use mlx_rs::{Array, Dtype};
use trellis_codec::{Hessian, HessianFactor};

use crate::cache::KvCache;
use crate::checkpoint::Checkpoint;
use crate::error::{ModelError, Result};
use crate::kernels::Extension;
use crate::layers::{self, Block, Embedding, Pass, Residual};
use crate::rotation::{Rotation, rotate};
use crate::statistics::{InputStatistics, Site};

/// Added to the diagonal, relative to its mean: the customary amount (GPTQ, Frantar et al. 2022). It keeps
/// directions that the text never showed from being taken for free.
const DAMPING: f64 = 0.01;

/// A text on its way through the blocks.
pub(super) struct Calibration {
    checkpoint: Checkpoint,
    rope: Rope,
    /// The residual stream of each window, before block `next`.
    streams: Vec<Residual>,
    next: usize,
    /// Of the block before `next`.
    statistics: InputStatistics,
    sum: Option<((usize, Site), Hessian)>,
    factor: Option<((usize, Site), HessianFactor)>,
}

impl Calibration {
    /// Embeds the windows.
    pub(super) fn open(input: &Path, rotation: Option<u64>, windows: &[Vec<u32>]) -> Result<Self> {
        let mut checkpoint = Checkpoint::open(input, Some(Dtype::Float32))?;
        if let Some(seed) = rotation {
            rotate(&mut checkpoint, seed)?;
        }
        let config = checkpoint.config.clone();
        let table =
            checkpoint.weight("model.embed_tokens", config.vocabulary, config.hidden_size)?;
        let embedding = Embedding::new(table);
        let rotation = Rotation::of(&mut checkpoint)?;
        let mut streams = Vec::new();
        for window in windows {
            config.check_tokens(window)?;
            KvCache::new(0, config.context_length).check_room(window.len())?;
            let indices = Array::from_slice(window, &[1, window.len() as i32]);
            let embedded = embedding.forward(&indices, Dtype::Float32)?;
            streams.push(Residual::new(match &rotation {
                Some(rotation) => rotation.apply(&embedded)?,
                None => embedded,
            }));
        }
        eval(streams.iter().flat_map(Residual::arrays))?;
        Ok(Self {
            rope: layers::rotation(&config.rope)?,
            checkpoint,
            streams,
            next: 0,
            statistics: InputStatistics::default(),
            sum: None,
            factor: None,
        })
    }

    /// The factor of a site, in blocks of `block` features. Blocks are asked for in their order.
    pub(super) fn factor(&mut self, site: (usize, Site), block: usize) -> Result<&HessianFactor> {
        let known = self.factor.take();
        let kept = known.filter(|(of, factor)| *of == site && factor.block() == block);
        let factor =
            match kept {
                Some((_, factor)) => factor,
                None => self.sum(site)?.factor(block, DAMPING).map_err(|source| {
                    ModelError::Statistics {
                        name: format!("block {}", site.0),
                        source,
                    }
                })?,
            };
        Ok(&self.factor.insert((site, factor)).1)
    }

    fn sum(&mut self, site: (usize, Site)) -> Result<&Hessian> {
        let known = self.sum.take().filter(|(of, _)| *of == site);
        let sum = if let Some((_, sum)) = known {
            sum
        } else {
            self.advance(site.0)?;
            let sum = self.statistics.take(site.0, site.1);
            sum.ok_or(ModelError::EmptyPrompt)?
        };
        Ok(&self.sum.insert((site, sum)).1)
    }

    /// Runs blocks up to and with `layer`, whose inputs are added up.
    fn advance(&mut self, layer: usize) -> Result<()> {
        while self.next <= layer {
            self.statistics = InputStatistics::default();
            let config = self.checkpoint.config.clone();
            let block = Block::load(&mut self.checkpoint, &config, self.next, &self.rope)?;
            let kernels = Extension::new(Context::detect());
            let pass = Pass {
                kernels: &kernels,
                usage: None,
                statistics: (self.next == layer).then_some(&self.statistics),
            };
            for stream in &mut self.streams {
                let mut cache = KvCache::new(config.layers, config.context_length);
                block.forward(stream, &mut cache, pass)?;
                eval(stream.arrays())?;
            }
            self.next += 1;
        }
        Ok(())
    }
}
