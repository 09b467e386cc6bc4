//! The bit-shift trellis weight format: geometry, packing, decoding and encoding.
