// Second pass of the greedy token: the best of a row's tiles.
//
// Template: TILES entries a row. Grid (128, rows, 1), threadgroup (128, 1, 1).
threadgroup float group_scores[4];
threadgroup uint group_ids[4];

const uint slot = thread_index_in_threadgroup;
const uint lane = thread_index_in_simdgroup;
const uint simdgroup = simdgroup_index_in_threadgroup;
const size_t row = size_t(threadgroup_position_in_grid.y);

Candidate best = no_candidate();
for (uint tile = slot; tile < uint(TILES); tile += 128u) {
  const size_t entry = row * size_t(TILES) + size_t(tile);
  best = better(best, candidate(scores[entry], ids[entry]));
}

best = threadgroup_best<4>(best, group_scores, group_ids, lane, simdgroup);
if (slot == 0u) {
  tokens[row] = best.id;
}
