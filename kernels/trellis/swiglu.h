// silu(gate) * up on results that are already rounded to T.

#define TAIL_FLOAT 0
#define TAIL_STOCK 1

// The sigmoid in float32, with the precise exponential, rounded to T; so are the two products.
template <typename T>
inline T float_swiglu(T gate, T up) {
  const float g = float(gate);
  const T sigmoid = T(1.0f / (1.0f + precise::exp(-g)));
  const T activated = T(g * float(sigmoid));
  return T(float(activated) * float(up));
}

// MLX's own, operation by operation in T with its functions for T: what its kernels make of silu(gate) * up.
template <typename T>
inline T stock_swiglu(T gate, T up) {
  const T below_half = 1 / (1 + exp(abs(gate)));
  const T sigmoid = gate < 0 ? below_half : T(1 - below_half);
  const T activated = gate * sigmoid;
  return activated * up;
}

template <int TAIL, typename T>
inline T swiglu(T gate, T up) {
  return TAIL == TAIL_FLOAT ? float_swiglu(gate, up) : stock_swiglu(gate, up);
}
