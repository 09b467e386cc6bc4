//! Llama- and Qwen-style models on MLX arrays: loading, generation, KL measurement.
