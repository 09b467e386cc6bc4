//! Shared helpers of the integration tests: golden cases and float64 references.

pub mod golden;
