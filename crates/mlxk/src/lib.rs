//! What the `mlxk` command checks, as a library: see [`verify`].

pub mod verify;
