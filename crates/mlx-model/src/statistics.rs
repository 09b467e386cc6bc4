//! What linear layers get to see: the sums of the outer products of their inputs.

use std::cell::RefCell;
use std::collections::BTreeMap;

use mlx_rs::Array;
use trellis_codec::Hessian;

use crate::error::{ModelError, Result};
use crate::usage::LayerKind;

/// A place of a decoder block whose activations enter linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// The normalised residual stream before attention: the input of q, k and v.
    Attention,
    /// The heads' results, merged: the input of the attention output.
    Heads,
    /// The normalised residual stream before the MLP: the input of gate and up.
    Mlp,
    /// The gated activations: the input of down.
    Inner,
}

impl Site {
    /// Where a layer's input comes from; `None` for the head.
    #[must_use]
    pub fn of(kind: LayerKind) -> Option<Self> {
        match kind {
            LayerKind::QProj | LayerKind::KProj | LayerKind::VProj => Some(Self::Attention),
            LayerKind::OProj => Some(Self::Heads),
            LayerKind::GateProj | LayerKind::UpProj => Some(Self::Mlp),
            LayerKind::DownProj => Some(Self::Inner),
            LayerKind::LmHead => None,
        }
    }

    /// The layer that speaks for all that share the input.
    fn recorder(self) -> LayerKind {
        match self {
            Self::Attention => LayerKind::QProj,
            Self::Heads => LayerKind::OProj,
            Self::Mlp => LayerKind::GateProj,
            Self::Inner => LayerKind::DownProj,
        }
    }
}

/// Collects `sum of x x^T` over the inputs `x` of each site of each block that runs.
///
/// Takes `8 n^2` bytes for a site of `n` features: `8 (2 hidden^2 + heads^2 + inner^2)` for a block.
#[derive(Debug, Default)]
pub struct InputStatistics {
    sums: RefCell<BTreeMap<(usize, Site), Hessian>>,
}

impl InputStatistics {
    /// Adds the rows of `x`, `[.., features]`, which is evaluated.
    pub(crate) fn record(&self, (kind, layer): (LayerKind, usize), x: &Array) -> Result<()> {
        let Some(site) = Site::of(kind).filter(|site| site.recorder() == kind) else {
            return Ok(());
        };
        let named = |source| ModelError::Statistics {
            name: format!("{} of layer {layer}", kind.name()),
            source,
        };
        let rows = x
            .to_vec_cast::<f32>()
            .map_err(|error| ModelError::invalid("activations", error, "float32 values"))?;
        let mut sums = self.sums.borrow_mut();
        let sum = match sums.entry((layer, site)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(Hessian::new(x.dim(-1) as usize).map_err(named)?)
            }
        };
        sum.add(&rows).map_err(named)
    }

    /// Takes out the sum of a site; `None` if nothing ran there.
    pub fn take(&self, layer: usize, site: Site) -> Option<Hessian> {
        self.sums.borrow_mut().remove(&(layer, site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_input_counts_once_at_its_site() {
        let values: Vec<f32> = (0..20).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
        let x = |range: std::ops::Range<usize>| {
            let rows = (range.len() / 4) as i32;
            Array::from_slice(&values[range], &[1, rows, 4])
        };
        let statistics = InputStatistics::default();
        statistics.record((LayerKind::QProj, 2), &x(0..12)).unwrap();
        // k and v read what q reads, the head is not coded.
        statistics.record((LayerKind::KProj, 2), &x(0..12)).unwrap();
        statistics
            .record((LayerKind::LmHead, 0), &x(0..12))
            .unwrap();
        statistics
            .record((LayerKind::QProj, 2), &x(12..20))
            .unwrap();
        statistics
            .record((LayerKind::DownProj, 2), &x(0..4))
            .unwrap();
        let found = statistics.take(2, Site::Attention).unwrap();
        let mut expected = Hessian::new(4).unwrap();
        expected.add(&values).unwrap();
        assert_eq!(found.samples(), 5);
        assert_eq!(
            found.factor(2, 0.01).unwrap().elements(),
            expected.factor(2, 0.01).unwrap().elements()
        );
        assert_eq!(statistics.take(2, Site::Inner).unwrap().samples(), 1);
        assert!(statistics.take(2, Site::Attention).is_none());
        assert!(statistics.take(0, Site::Mlp).is_none());
    }
}
