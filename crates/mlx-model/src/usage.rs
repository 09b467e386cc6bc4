//! Which kernels a run used, by layer kind.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// The projections of a decoder block, and the output head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// Queries.
    QProj,
    /// Keys.
    KProj,
    /// Values.
    VProj,
    /// Attention output.
    OProj,
    /// MLP gate.
    GateProj,
    /// MLP up-projection.
    UpProj,
    /// MLP down-projection.
    DownProj,
    /// Output head.
    LmHead,
}

impl LayerKind {
    /// Name as in checkpoints.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::QProj => "q_proj",
            Self::KProj => "k_proj",
            Self::VProj => "v_proj",
            Self::OProj => "o_proj",
            Self::GateProj => "gate_proj",
            Self::UpProj => "up_proj",
            Self::DownProj => "down_proj",
            Self::LmHead => "lm_head",
        }
    }

    /// Path of the layer in block `layer`; the head is in none.
    pub(crate) fn path(self, layer: usize) -> String {
        let module = match self {
            Self::QProj | Self::KProj | Self::VProj | Self::OProj => "self_attn",
            Self::GateProj | Self::UpProj | Self::DownProj => "mlp",
            Self::LmHead => return self.name().into(),
        };
        format!("model.layers.{layer}.{module}.{}", self.name())
    }
}

/// One line of a usage report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UsageLine {
    /// Which projection.
    pub layer: LayerKind,
    /// Its weights' format, such as `4-bit g32`.
    pub weights: String,
    /// Rows of x in one product.
    pub rows: usize,
    /// Kernel that ran.
    pub kernel: String,
    /// How many layers of this kind it ran for.
    pub layers: usize,
}

type Key = (LayerKind, String, usize, String);

/// Collects what each linear layer used.
#[derive(Debug, Default)]
pub struct Usage {
    layers: RefCell<BTreeMap<Key, BTreeSet<usize>>>,
}

impl Usage {
    pub(crate) fn record(
        &self,
        (layer, index): (LayerKind, usize),
        weights: String,
        rows: usize,
        kernel: String,
    ) {
        self.layers
            .borrow_mut()
            .entry((layer, weights, rows, kernel))
            .or_default()
            .insert(index);
    }

    /// What was used so far, in the order of the block.
    #[must_use]
    pub fn lines(&self) -> Vec<UsageLine> {
        self.layers
            .borrow()
            .iter()
            .map(|((layer, weights, rows, kernel), indices)| UsageLine {
                layer: *layer,
                weights: weights.clone(),
                rows: *rows,
                kernel: kernel.clone(),
                layers: indices.len(),
            })
            .collect()
    }
}
