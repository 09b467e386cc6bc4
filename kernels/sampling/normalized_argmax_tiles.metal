// First pass of the greedy token of log-probabilities: the best candidate of each tile of 1024 ids of each row.
//
// Template: T, V ids a row, TILES = ceil(V / 1024). Grid (128 TILES, rows, 1), threadgroup (128, 1, 1).
//
// The score is logit - logsumexp rounded to T: rounding can make equal what the logits alone would order. Scores leave
// as float32, which holds them exactly.
threadgroup float tile_scores[4];
threadgroup uint tile_ids[4];

const uint slot = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const uint tile = threadgroup_position_in_grid.x;
const size_t row = size_t(threadgroup_position_in_grid.y);
const float normalizer = float(logsumexp[row]);

Candidate best = no_candidate();
UNROLL
for (uint j = 0u; j < 8u; ++j) {
  const uint id = 1024u * tile + slot + 128u * j;
  if (id < uint(V)) {
    const T score = T(float(logits[row * size_t(V) + size_t(id)]) - normalizer);
    best = better(best, candidate(float(score), id));
  }
}

best = threadgroup_best<4>(best, tile_scores, tile_ids, lane, simdgroup);
if (slot == 0u) {
  scores[row * size_t(TILES) + size_t(tile)] = best.score;
  ids[row * size_t(TILES) + size_t(tile)] = best.id;
}
