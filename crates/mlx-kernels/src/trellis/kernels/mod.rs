//! The trellis kernels one by one, for layers that have settled on one, for tests and for benchmarks.
//!
//! Each function adds the node of its kernel under the current [`Context`](crate::Context), which
//! must be one that runs kernels, and checks what the kernel calls for: the message of an error
//! begins with the kernel's name.

mod balanced;
mod decode;
mod down_mma;
mod expand;
mod factored_down;
mod factored_gateup;
mod gateup;
mod gateup_mma;
mod operands;
mod pair;
mod passes;
mod prefill;
mod reduce;
mod scatter;

pub use balanced::{balanced_is_eligible, scatter_balanced3, scatter_balanced3_shared};
pub use down_mma::{
    down_k3i_mma, down_k3i_mma_wide, down_mma, down_mma_is_eligible, down_mma_wide,
};
pub use expand::{expand, expand4, expand4_is_eligible};
pub use factored_down::{
    down_factored_is_eligible, down_factored_row, down_factored_rows, down_k3i_factored_row,
    down_k3i_factored_rows,
};
pub use factored_gateup::{gateup_factored_row, gateup_factored_rows, gateup_mixed_factored};
pub use gateup::{MixedOptions, Tail, gateup, gateup_mixed, gateup_shared, gateup_table};
pub use gateup_mma::{gateup_mma, gateup_mma_is_eligible, gateup_mma_wide};
pub use passes::{Pass, PassCosts, pass_costs, pass_plan};
pub use prefill::{
    SplitPartition, prefill_splitk, prefill_splitk_is_eligible, prefill_tiled,
    prefill_tiled_is_eligible, prefill_wide, prefill_wide_is_eligible,
};
pub use reduce::{reduce, reduce_shared};
pub use scatter::{ScatterOptions, scatter, scatter_is_eligible, scatter_shared};
