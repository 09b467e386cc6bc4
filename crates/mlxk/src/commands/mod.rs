//! One file a command.

pub mod bench;
pub mod doctor;
pub mod generate;
pub mod kl;
pub mod plan;
pub mod quantize;
pub mod verify;
