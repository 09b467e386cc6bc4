//! One file a command.

pub mod doctor;
pub mod plan;
