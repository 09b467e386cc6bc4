//! What was coded, how small and how well.

use std::collections::BTreeMap;

use safetensors::tensor::Metadata;
use serde::Serialize;

use super::parts::{self, Distortion, PartStore, distortion};
use super::recipe::{Recipe, Task};
use super::source::REST;
use crate::error::Result;

/// A finished quantization.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Layers of one kind and format, in the order of the block.
    pub kinds: Vec<KindSummary>,
    /// Weights of the projections: everything but embedding table and head, norms and biases.
    pub projection_weights: usize,
    /// Bits that a weight of the projections takes, scales included.
    pub projection_bits_per_weight: f64,
    /// Bytes of all tensors.
    pub bytes: usize,
    /// Matrices, and how many of them an earlier run had done.
    pub matrices: usize,
    /// Matrices that an earlier run had done.
    pub resumed: usize,
    /// Layers whose error feedback grew past its limit: they are coded without.
    pub tripped: Vec<String>,
    /// The shortest block of trellis codes, if any: their error grows as blocks shrink below 256.
    pub shortest_block: Option<usize>,
}

/// Layers of one kind that are stored alike.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindSummary {
    /// Kind of layer, such as `down_proj`.
    pub kind: String,
    /// Format in words.
    pub format: String,
    /// Layers.
    pub layers: usize,
    /// Weights of all layers.
    pub weights: usize,
    /// Bits that a weight takes, scales included.
    pub bits_per_weight: f64,
    /// Squared error over squared weights; `None` for what was copied.
    pub relative_error: Option<f64>,
}

/// What is added up of one kind.
#[derive(Default)]
struct Tally {
    layers: usize,
    weights: usize,
    bytes: usize,
    distortion: Distortion,
}

impl Summary {
    /// Adds up the headers of all parts.
    pub(super) fn gather(store: &PartStore, tasks: &[Task], resumed: usize) -> Result<Self> {
        let mut order = Vec::new();
        let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
        let (mut projections, mut bytes) = (Tally::default(), store.read(REST)?.1.data_len());
        let mut shortest_block = None;
        let mut tripped = Vec::new();
        for task in tasks {
            let metadata = store.read(&task.path)?.1;
            let size = metadata.data_len();
            let key = (task.kind().to_owned(), format(task, &metadata));
            if !tallies.contains_key(&key) {
                order.push(key.clone());
            }
            let of_task = distortion(&metadata);
            let tally = tallies.entry(key).or_default();
            tally.add(task.weights(), size, of_task);
            if parts::tripped(&metadata) {
                tripped.push(task.path.clone());
            }
            if task.recipe != Recipe::Keep {
                projections.add(task.weights(), size, of_task);
            }
            if let Recipe::Trellis { format, .. } = task.recipe {
                let block = format.block();
                shortest_block =
                    Some(shortest_block.map_or(block, |known: usize| known.min(block)));
            }
            bytes += size;
        }
        let kinds = order
            .into_iter()
            .filter_map(|key| {
                let tally = tallies.remove(&key)?;
                Some(tally.summary(key))
            })
            .collect();
        Ok(Self {
            kinds,
            projection_weights: projections.weights,
            projection_bits_per_weight: projections.bits_per_weight(),
            bytes,
            matrices: tasks.len(),
            resumed,
            tripped,
            shortest_block,
        })
    }
}

impl Tally {
    fn add(&mut self, weights: usize, bytes: usize, distortion: Distortion) {
        self.layers += 1;
        self.weights += weights;
        self.bytes += bytes;
        self.distortion.error += distortion.error;
        self.distortion.power += distortion.power;
    }

    fn bits_per_weight(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.weights.max(1) as f64
    }

    fn summary(self, (kind, format): (String, String)) -> KindSummary {
        let Distortion { error, power } = self.distortion;
        KindSummary {
            kind,
            format,
            layers: self.layers,
            weights: self.weights,
            bits_per_weight: self.bits_per_weight(),
            relative_error: (power > 0.0).then(|| error / power),
        }
    }
}

fn format(task: &Task, metadata: &Metadata) -> String {
    match task.recipe {
        Recipe::Affine(scheme) => format!("affine {scheme}"),
        Recipe::Trellis { format, axis, .. } => format!(
            "trellis {}-bit T{} axis {}",
            format.bits(),
            format.block(),
            axis.index()
        ),
        Recipe::Keep if distortion(metadata).power > 0.0 => "affine 8-bit, was dense".into(),
        Recipe::Keep => "as in the source".into(),
    }
}
