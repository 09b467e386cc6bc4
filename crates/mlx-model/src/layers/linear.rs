//! Linear layers and the embedding table.

use mlx_rs::{Array, Dtype};

use super::Pass;
use crate::checkpoint::Checkpoint;
use crate::config::QuantizationScheme;
use crate::error::{ModelError, Result};
use crate::kernels::Product;
use crate::usage::LayerKind;
use crate::weight::{TrellisMatrix, Weight};

/// `x W^T + b`.
#[derive(Clone)]
pub(crate) struct Linear {
    weight: Weight,
    bias: Option<Array>,
    place: (LayerKind, usize),
}

impl Linear {
    pub(crate) fn new(weight: Weight, bias: Option<Array>, place: (LayerKind, usize)) -> Self {
        Self {
            weight,
            bias,
            place,
        }
    }

    /// Builds the layer at `path`, `outputs` x `inputs`.
    pub(crate) fn load(
        checkpoint: &mut Checkpoint,
        path: &str,
        place: (LayerKind, usize),
        [outputs, inputs]: [i32; 2],
        bias: bool,
    ) -> Result<Self> {
        let weight = checkpoint.weight(path, outputs, inputs)?;
        let bias_name = format!("{path}.bias");
        let bias = (bias || checkpoint.contains(&bias_name))
            .then(|| checkpoint.float(&bias_name, &[outputs]))
            .transpose()?;
        Ok(Self {
            weight,
            bias,
            place,
        })
    }

    pub(crate) fn forward(&self, x: &Array, pass: Pass<'_>) -> Result<Array> {
        let Product { output, kernel } = match &self.weight {
            Weight::Dense(weight) => pass.kernels.dense_matmul(x, weight)?,
            Weight::Quantized(weight) => pass.kernels.quantized_matmul(x, weight)?,
            Weight::Trellis(weight) => pass.kernels.trellis_matmul(x, weight)?,
        };
        self.finish(x, Product { output, kernel }, pass)
    }

    /// The results of several layers with one input, their products taken together where the kernels
    /// can.
    pub(crate) fn forward_all<const N: usize>(
        layers: [&Self; N],
        x: &Array,
        pass: Pass<'_>,
    ) -> Result<[Array; N]> {
        let quantized = layers.map(|layer| match &layer.weight {
            Weight::Quantized(weight) => Some(weight),
            _ => None,
        });
        let quantized: Vec<_> = quantized.into_iter().flatten().collect();
        let results: Vec<Array> = if quantized.len() == N {
            let products = pass.kernels.quantized_matmuls(x, &quantized)?;
            let layers = layers.into_iter().zip(products);
            layers
                .map(|(layer, product)| layer.finish(x, product, pass))
                .collect::<Result<_>>()?
        } else {
            layers
                .into_iter()
                .map(|layer| layer.forward(x, pass))
                .collect::<Result<_>>()?
        };
        results.try_into().map_err(|results: Vec<Array>| {
            let found = results.len();
            ModelError::invalid("number of products", found, format!("{N}, one a weight"))
        })
    }

    /// Notes what computed a product, and adds the bias.
    fn finish(&self, x: &Array, product: Product, pass: Pass<'_>) -> Result<Array> {
        let Product { output, kernel } = product;
        self.note(x, &kernel, pass);
        if let Some(statistics) = pass.statistics {
            statistics.record(self.place, x)?;
        }
        match &self.bias {
            Some(bias) => Ok(output.add(bias)?),
            None => Ok(output),
        }
    }

    /// The weight, if it is in trellis codes and nothing is added to the product.
    pub(crate) fn plain_trellis(&self) -> Option<&TrellisMatrix> {
        match (&self.weight, &self.bias) {
            (Weight::Trellis(weight), None) => Some(weight),
            _ => None,
        }
    }

    /// Notes the kernel that multiplied x.
    pub(crate) fn note(&self, x: &Array, kernel: &str, pass: Pass<'_>) {
        if let Some(usage) = pass.usage {
            let rows = x.size() / x.dim(-1) as usize;
            usage.record(self.place, self.weight.format(), rows, kernel.to_owned());
        }
    }

    pub(crate) fn requantize(&self, scheme: QuantizationScheme, dtype: Dtype) -> Result<Self> {
        let (kind, index) = self.place;
        let name = format!("{} of layer {index}", kind.name());
        let weight = self.weight.requantize(&name, scheme, dtype)?;
        Ok(Self {
            weight,
            bias: self.bias.clone(),
            place: self.place,
        })
    }

    pub(crate) fn arrays<'a>(&'a self, arrays: &mut Vec<&'a Array>) {
        arrays.extend(self.weight.arrays());
        arrays.extend(&self.bias);
    }
}

/// The token embedding table; where the output head is tied, its weights too.
#[derive(Clone)]
pub(crate) struct Embedding {
    weight: Weight,
}

impl Embedding {
    pub(crate) fn new(weight: Weight) -> Self {
        Self { weight }
    }

    pub(crate) fn weight(&self) -> &Weight {
        &self.weight
    }

    /// Rows of the table for `tokens` (uint32, any shape), in `dtype`.
    pub(crate) fn forward(&self, tokens: &Array, dtype: Dtype) -> Result<Array> {
        let rows = match &self.weight {
            Weight::Dense(weight) => weight.take_axis(tokens, 0)?,
            Weight::Quantized(weight) => weight.gather(tokens)?,
            // A table in trellis codes is refused where models are loaded; this is its meaning.
            Weight::Trellis(weight) => weight.decode()?.take_axis(tokens, 0)?,
        };
        Ok(rows.as_dtype(dtype)?)
    }

    pub(crate) fn arrays<'a>(&'a self, arrays: &mut Vec<&'a Array>) {
        arrays.extend(self.weight.arrays());
    }
}
