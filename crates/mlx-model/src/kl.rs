//! How far a candidate's output distributions are from a baseline's, token by token.
//!
//! Several arms (a model under a set of kernels) read the same windows of tokens. Of each pair of
//! arms, every position's two distributions over the vocabulary are compared, in float64.

mod divergence;
mod measure;
mod report;
mod statistics;

pub use divergence::{Divergence, LogSoftmax};
pub use measure::{Arm, KlOptions, measure, windows};
pub use report::{ArmReport, Measurement, PairReport, TopToken, WindowSpread, WorstToken};
pub use statistics::Summary;
