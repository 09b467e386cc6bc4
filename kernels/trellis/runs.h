// Runs: 32 columns of a row, from a multiple of 32 on.
//
// The states of a run lie in K words and the one that follows them, in the order of the stream: time runs backwards, so column j
// of a run has its state at bit (31 - j) K from the first of them on, and the word that follows those of a block's first run
// is the block's first. Call run_state with a `j` that is constant once loops are unrolled: then `words` stays in registers,
// and every shift is a constant. TB, the weights of a block, is a multiple of 32; L is at most K + 32.

// The K + 1 words of run `run` of the row whose codes start at `row_codes`.
template <int K, int TB>
inline void load_run(const device uint* row_codes, int run, thread uint* words) {
  constexpr int RUNS = TB / 32;
  const device uint* block = row_codes + size_t(run / RUNS) * size_t(RUNS * K);
  const int place = run % RUNS;
  const device uint* source = block + (RUNS - 1 - place) * K;
  UNROLL
  for (int i = 0; i < K; ++i) {
    words[i] = source[i];
  }
  words[K] = place == 0 ? block[0] : source[K];
}

// The state of column j of a run.
template <int K, int L>
inline uint run_state(const thread uint* words, int j) {
  const int bit = (31 - j) * K;
  return window<L>(words[bit / 32], words[bit / 32 + 1], bit % 32);
}
