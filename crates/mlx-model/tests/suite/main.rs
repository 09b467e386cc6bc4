//! Models end to end: tiny ones built in the test, and the real one where it has been fetched.

mod folder_errors;
mod forward;
mod generation;
mod gguf_bytes;
mod gguf_errors;
mod kl;
mod quantize;
mod reference;
mod smollm2;
mod tiny;
mod tokenizer;
mod trellis;
