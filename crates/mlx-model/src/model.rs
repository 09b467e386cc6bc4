//! The decoder stack.

use std::path::Path;

use mlx_rs::ops::indexing::TryIndexOp;
use mlx_rs::transforms::eval;
use mlx_rs::{Array, Dtype};

use crate::cache::KvCache;
use crate::checkpoint::{Checkpoint, is_supported};
use crate::config::{ModelConfig, QuantizationScheme};
use crate::error::{ModelError, Result};
use crate::layers::{self, Block, Embedding, Linear, Pass, Residual};
use crate::rotation::Rotation;
use crate::usage::LayerKind;
use crate::weight::Weight;

/// How a model is loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// Dtype of activations. Floating-point tensors, scales among them, are converted to it:
    /// exactly if it is float32, else rounded where the file's is wider. `None` takes the file's.
    pub dtype: Option<Dtype>,
    /// Whether weights in trellis codes become 8-bit affine ones, in groups of 64, when they are
    /// loaded: nearly three times the memory of 3 bits and another rounding (about -45 dB), but MLX's
    /// own kernels serve them. Matrices whose columns are no whole groups are refused.
    pub expand_trellis: bool,
}

/// A decoder-only model of the Llama, Qwen2 or Qwen3 kind.
///
/// It holds weights and no state: the sequence is in a [`KvCache`], the kernels in a [`Pass`].
pub struct Model {
    config: ModelConfig,
    dtype: Dtype,
    embedding: Embedding,
    rotation: Option<Rotation>,
    blocks: Vec<Block>,
    final_norm: Array,
    head: Linear,
}

impl Model {
    /// Loads a GGUF file, or a folder with `config.json` and safetensors.
    ///
    /// # Errors
    /// A [`ModelError`] that names the file, key or tensor at fault.
    pub fn load(path: &Path, options: LoadOptions) -> Result<Self> {
        if let Some(dtype) = options.dtype
            && !is_supported(dtype)
        {
            let found = format!("{dtype:?}");
            return Err(ModelError::invalid(
                "dtype",
                found,
                "float32, float16 or bfloat16",
            ));
        }
        let mut checkpoint =
            Checkpoint::open(path, options.dtype)?.expanding_trellis(options.expand_trellis);
        let mut config = checkpoint.config.clone();
        let (vocabulary, hidden) = (config.vocabulary, config.hidden_size);
        let table = checkpoint.weight("model.embed_tokens", vocabulary, hidden)?;
        if let Weight::Trellis(table) = &table {
            return Err(ModelError::Quantization {
                name: "model.embed_tokens.weight".into(),
                what: "format",
                found: table.format(),
                expected: "affine or unquantized: rows are looked up one by one".into(),
            });
        }
        let embedding = Embedding::new(table);
        let rotation = Rotation::of(&mut checkpoint)?;
        let rope = layers::rotation(&config.rope)?;
        let blocks = (0..config.layers)
            .map(|layer| Block::load(&mut checkpoint, &config, layer, &rope))
            .collect::<Result<Vec<_>>>()?;
        let final_norm = checkpoint.float("model.norm.weight", &[hidden])?;
        let head = load_head(&mut checkpoint, &mut config, &embedding)?;
        let dtype = checkpoint.dtype;
        let model = Self {
            config,
            dtype,
            embedding,
            rotation,
            blocks,
            final_norm,
            head,
        };
        eval(model.arrays())?;
        Ok(model)
    }

    /// The model's configuration.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Dtype of activations.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Bytes that the weights take in memory.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.arrays().iter().map(|array| array.nbytes()).sum()
    }

    /// An empty cache for one sequence.
    #[must_use]
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(self.config.layers, self.config.context_length)
    }

    /// Runs `tokens` behind those in the cache. Returns logits, `[tokens, vocabulary]`, lazily.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, or more than the context length; any error of
    /// the kernels or of MLX.
    pub fn forward(&self, tokens: &[u32], cache: &mut KvCache, pass: Pass<'_>) -> Result<Array> {
        let hidden = self.hidden(tokens, cache, pass)?;
        self.logits(&hidden, pass)
    }

    /// Runs a prompt in chunks of at most `chunk` tokens, evaluating each, and returns the logits
    /// of its last token only, `[1, vocabulary]`.
    ///
    /// # Errors
    /// As [`Self::forward`], before any token has been run; a `chunk` of 0.
    pub fn prefill(
        &self,
        tokens: &[u32],
        cache: &mut KvCache,
        pass: Pass<'_>,
        chunk: usize,
    ) -> Result<Array> {
        self.check_tokens(tokens, cache)?;
        if chunk == 0 {
            return Err(ModelError::invalid("prefill chunk", 0, "at least 1"));
        }
        let mut last = None;
        for part in tokens.chunks(chunk) {
            last = Some(self.hidden(part, cache, pass)?);
            eval(cache.arrays())?;
        }
        let hidden = last.ok_or(ModelError::EmptyPrompt)?;
        let end = hidden.dim(1);
        self.logits(&hidden.try_index((.., end - 1..end, ..))?, pass)
    }

    /// The same model with every matrix quantized anew, from its float32 values.
    ///
    /// # Errors
    /// A matrix whose columns are not whole groups; any error of MLX.
    pub fn requantize(&self, scheme: QuantizationScheme) -> Result<Self> {
        let table = self
            .embedding
            .weight()
            .requantize("embed_tokens", scheme, self.dtype)?;
        let tied = self.config.tied_head == Some(true);
        let head = if tied {
            Linear::new(table.clone(), None, (LayerKind::LmHead, 0))
        } else {
            self.head.requantize(scheme, self.dtype)?
        };
        let blocks = self
            .blocks
            .iter()
            .map(|block| {
                let block = block.requantize(scheme, self.dtype)?;
                // Now, so that no more than one block's float32 weights are in memory.
                let mut arrays = Vec::new();
                block.arrays(&mut arrays);
                eval(arrays)?;
                Ok(block)
            })
            .collect::<Result<Vec<_>>>()?;
        let model = Self {
            config: self.config.clone(),
            dtype: self.dtype,
            embedding: Embedding::new(table),
            rotation: self.rotation.clone(),
            blocks,
            final_norm: self.final_norm.clone(),
            head,
        };
        eval(model.arrays())?;
        Ok(model)
    }

    fn hidden(&self, tokens: &[u32], cache: &mut KvCache, pass: Pass<'_>) -> Result<Array> {
        self.check_tokens(tokens, cache)?;
        let indices = Array::from_slice(tokens, &[1, tokens.len() as i32]);
        let embedded = self.embedding.forward(&indices, self.dtype)?;
        let mut residual = Residual::new(match &self.rotation {
            Some(rotation) => rotation.apply(&embedded)?,
            None => embedded,
        });
        for block in &self.blocks {
            block.forward(&mut residual, cache, pass)?;
        }
        cache.advance(tokens.len());
        let eps = self.config.norm_eps;
        match &self.rotation {
            // The norm's weights are of the model's own channels.
            Some(rotation) => {
                let normed = residual.norm(rotation.unit(), eps, pass)?;
                Ok(rotation.undo(&normed)?.multiply(&self.final_norm)?)
            }
            None => residual.norm(&self.final_norm, eps, pass),
        }
    }

    fn logits(&self, hidden: &Array, pass: Pass<'_>) -> Result<Array> {
        let logits = self.head.forward(hidden, pass)?;
        Ok(logits.reshape(&[hidden.dim(1), self.config.vocabulary])?)
    }

    fn check_tokens(&self, tokens: &[u32], cache: &KvCache) -> Result<()> {
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        self.config.check_tokens(tokens)?;
        cache.check_room(tokens.len())
    }

    fn arrays(&self) -> Vec<&Array> {
        let mut arrays = vec![&self.final_norm];
        self.embedding.arrays(&mut arrays);
        arrays.extend(self.rotation.iter().flat_map(Rotation::arrays));
        for block in &self.blocks {
            block.arrays(&mut arrays);
        }
        if self.config.tied_head != Some(true) {
            self.head.arrays(&mut arrays);
        }
        arrays
    }
}

/// The output head, tied to the embedding if the configuration says so or, where it is silent, if
/// the file has no head of its own. Settles [`ModelConfig::tied_head`].
fn load_head(
    checkpoint: &mut Checkpoint,
    config: &mut ModelConfig,
    embedding: &Embedding,
) -> Result<Linear> {
    let place = (LayerKind::LmHead, 0);
    let tied = config
        .tied_head
        .unwrap_or_else(|| !checkpoint.contains("lm_head.weight"));
    config.tied_head = Some(tied);
    if tied {
        return Ok(Linear::new(embedding.weight().clone(), None, place));
    }
    Linear::load(
        checkpoint,
        "lm_head",
        place,
        [config.vocabulary, config.hidden_size],
        false,
    )
}
