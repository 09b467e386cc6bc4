//! Quantized-matmul, norm and sampling kernels for the CPU, over plain slices.
