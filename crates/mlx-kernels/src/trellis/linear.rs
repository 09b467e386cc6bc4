//! A linear layer whose weight is in trellis codes.

use std::sync::Arc;

use mlx_rs::Array;

use super::plan::{Choices, by_choices};
use super::{OP, Plan, Product, Selection, TrellisWeight, check, product};
use crate::{Context, Error, with_context};

/// `x W^T` under a context that is settled, with what depends on the device, when the layer is built.
#[derive(Debug, Clone)]
pub struct TrellisLinear {
    weight: TrellisWeight,
    context: Arc<Context>,
    selection: Selection,
    choices: Choices,
}

impl TrellisLinear {
    /// The layer for the current context, with every kernel that there is.
    pub fn new(weight: TrellisWeight) -> Self {
        let context = Context::current();
        let choices = Choices::new(context.profile(), weight.geometry());
        Self {
            weight,
            context,
            selection: Selection::default(),
            choices,
        }
    }

    /// The same with another decode selection.
    pub fn with_selection(self, selection: Selection) -> Self {
        Self { selection, ..self }
    }

    /// The weight.
    pub fn weight(&self) -> &TrellisWeight {
        &self.weight
    }

    /// The context that the layer was built under.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The plan for x.
    ///
    /// # Errors
    ///
    /// When x is not one that the layer takes.
    pub fn plan(&self, x: &Array) -> Result<Plan, Error> {
        check(OP, x, &self.weight)?;
        Ok(self.planned(&product(x, &self.weight)))
    }

    fn planned(&self, product: &Product) -> Plan {
        let (backend, options) = (self.context.backend(), self.context.options());
        by_choices(product, backend, options, self.selection, &self.choices)
    }

    /// `[..., I]` to `[..., O]`, as [`matmul`](super::matmul).
    ///
    /// # Errors
    ///
    /// Those of [`matmul`](super::matmul).
    pub fn forward(&self, x: &Array) -> Result<Array, Error> {
        let plan = self.plan(x)?;
        with_context(&self.context, || {
            super::run::by_plan(plan, x, &self.weight, self.selection)
        })
    }
}
