// out[r, c] = bfloat(value(r, c) scale[r]): the stored matrix, one thread for four adjacent columns.
//
// Template: S (scales), R rows, C columns, TB weights a block, K bits a weight, L state bits, LAYOUT 0 or 2, TILE rows, which
// divides R. Grid (R C / 4, 1, 1), threadgroup (128, 1, 1). Inside a tile consecutive threadgroups take the same 512 columns of
// consecutive rows, whose codes follow each other in layout 2. C is a multiple of 512 unless TILE is 1.
constexpr int QUADS = C / 4;
constexpr int WORDS = TB * K / 32;
const int index = int(thread_position_in_grid.x);
if (index >= R * QUADS) {
  return;  // CUDA launches whole blocks.
}
const int within = index % (TILE * QUADS);
const int row = index / (TILE * QUADS) * TILE + within / 128 % TILE;
const int column = 4 * (within / (128 * TILE) * 128 + within % 128);

// The last of the four comes first in the stream; their windows lie in the 64 bits from its own on.
const device uint* block = codes + block_word<LAYOUT>(row, column / TB, R, C / TB, WORDS);
const int bit = (TB - 4 - column % TB) * K;
const int word = bit / 32;
const uint first = block[word];
const uint second = block[word + 1 == WORDS ? 0 : word + 1];
const uint low = aligned_word(first, second, bit % 32);
const uint high = second >> uint(bit % 32);

const float scale = float(scales[row]);
bfloat values[4];
UNROLL
for (int i = 0; i < 4; ++i) {
  values[i] = bfloat(refined_value(window<L>(low, high, (3 - i) * K)) * scale);
}
*reinterpret_cast<device bfloat4*>(out + size_t(row) * size_t(C) + size_t(column)) =
    bfloat4(values[0], values[1], values[2], values[3]);
