// y[i] = T(partials[0, i] + partials[1, i] + ...), added in that order from 0, one thread an element.
//
// Template: T (y), SPLITS. The number of elements, M N, is read from the shape of the partials, [SPLITS, M, N].
// Grid (M N, 1, 1), threadgroup (256, 1, 1).
const size_t elements = size_t(partials_shape[1]) * size_t(partials_shape[2]);
const size_t element = size_t(thread_position_in_grid.x);
if (element >= elements) {
  return;  // CUDA launches whole blocks.
}
float sum = 0.0f;
UNROLL
for (int part = 0; part < SPLITS; ++part) {
  sum += partials[size_t(part) * elements + element];
}
y[element] = T(sum);
