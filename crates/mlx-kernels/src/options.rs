//! What callers ask of plans.

use crate::trellis::MlpPolicy;

/// What a caller asks of every plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PlanOptions {
    /// A row's bits must not depend on the rows beside it or on how many there are, so that greedy
    /// speculative decoding gives the text of plain greedy decoding. The CPU code always holds to
    /// this; on a GPU it costs the choice of the fastest kernel for each row count.
    pub batch_invariant: bool,
    /// What MLPs in trellis codes do for few rows, on a GPU; batch-invariant plans always pack.
    pub mlp_policy: MlpPolicy,
}
