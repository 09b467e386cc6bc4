// masked = logits + (allowed ? 0 : -infinity), a real addition: NaN stays NaN and -0 becomes +0.
//
// Template: T, V ids a row. Inputs: logits [rows, V] and bits [1 or rows, words]; id i is allowed when bit i % 32 of word
// i / 32 is set, and an id whose word is missing is not. One mask row serves all rows of logits.
// One thread an element: grid (rows V, 1, 1).
const uint element = thread_position_in_grid.x;
const uint row = element / uint(V);
if (row < uint(logits_shape[0])) {
  const uint id = element % uint(V);
  const uint words = uint(bits_shape[1]);
  const uint word = id / 32u;
  bool allowed = false;
  if (word < words) {
    const size_t mask_row = bits_shape[0] == 1 ? size_t(0) : size_t(row);
    allowed = ((bits[mask_row * size_t(words) + size_t(word)] >> (id % 32u)) & 1u) != 0u;
  }
  masked[element] = T(float(logits[element]) + (allowed ? 0.0f : -INFINITY));
}
