// A token that may be the greedy choice, and the order between two of them: larger score, then lower id.
struct Candidate {
  float score;
  uint id;
};

// What a slot without a token holds: it loses to every token but one that scores -infinity with a larger id.
inline Candidate no_candidate() {
  Candidate none;
  none.score = -INFINITY;
  none.id = 0xFFFFFFFFu;
  return none;
}

// A score that is not a number counts as -infinity.
inline Candidate candidate(float score, uint id) {
  Candidate made;
  made.score = isnan(score) ? -INFINITY : score;
  made.id = id;
  return made;
}

inline Candidate better(Candidate a, Candidate b) {
  const bool first = a.score > b.score || (a.score == b.score && a.id < b.id);
  return first ? a : b;
}

// The best of a simdgroup, in its lane 0. Every lane takes part.
inline Candidate simdgroup_best(Candidate best) {
  for (ushort step = 16; step > 0; step = ushort(step / 2)) {
    Candidate other;
    other.score = simd_shuffle_down(best.score, step);
    other.id = simd_shuffle_down(best.id, step);
    best = better(best, other);
  }
  return best;
}

// The best of a threadgroup of SIMDGROUPS simdgroups, in lane 0 of simdgroup 0. Every thread takes part; `scores` and
// `ids` hold an entry a simdgroup.
template <int SIMDGROUPS>
inline Candidate threadgroup_best(Candidate best, threadgroup float* scores, threadgroup uint* ids, uint lane,
                                  uint simdgroup) {
  best = simdgroup_best(best);
  if (lane == 0u) {
    scores[simdgroup] = best.score;
    ids[simdgroup] = best.id;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Candidate entry = no_candidate();
  if (simdgroup == 0u && lane < uint(SIMDGROUPS)) {
    entry.score = scores[lane];
    entry.id = ids[lane];
  }
  return simdgroup_best(entry);
}
