// What a lane owns where the code runs along the outputs: adjacent stream positions of one block, for which it keeps
// sums as it walks down the rows.
//
// PER positions each, and 32 lanes a block of 32 PER; or, where PER is 0, the positions whose symbols begin in the
// lane's word, and as many blocks a simdgroup as fit into 32 words. Every position is some lane's, and a row's words
// are read side by side. Which lane owns a position changes no bit of its sum.

// The most positions of a lane.
template <int K, int PER>
constexpr int owned_positions() {
  return PER == 0 ? (31 + K) / K : PER;
}

// Blocks of a simdgroup.
template <int TB, int K, int PER>
constexpr int owned_blocks() {
  return PER == 0 ? 32 / (TB * K / 32) : 1;
}

struct LaneShare {
  int block;
  int first;  // Stream position in the block.
  int count;  // Positions; none in lanes for which there is no word.
};

template <int BLOCKS, int TB, int K, int PER>
inline LaneShare lane_share(int group, int lane) {
  constexpr int WORDS = TB * K / 32;
  LaneShare share;
  if (PER != 0) {
    share.block = group;
    share.first = PER * lane;
    share.count = PER;
  } else {
    const int place = lane / WORDS;
    const int word = lane % WORDS;
    const int block = owned_blocks<TB, K, PER>() * group + place;
    const bool live = place < owned_blocks<TB, K, PER>() && block < BLOCKS;
    share.block = live ? block : BLOCKS - 1;
    share.first = (32 * word + K - 1) / K;
    share.count = live ? (32 * word + 31 + K) / K - share.first : 0;
  }
  return share;
}

// The states of a lane's positions in one row: those of share.count columns from the highest index down. The words that
// do not begin in the lane's own are its neighbours' and come from the cache.
template <int TB, int K, int L, int PER>
inline ColumnStates<owned_positions<K, PER>(), K, L> load_share(const device uint* block, LaneShare share) {
  constexpr int LAST_OFFSET = PER != 0 ? last_offset(PER * K) : 32 % K == 0 ? 0 : K - 1;
  return load_column_states<owned_positions<K, PER>(), K, L, TB * K / 32, LAST_OFFSET>(block, share.first);
}

// Rows of codes that are read at a time: enough that reads do not wait for each other.
#define ROWS_AHEAD 8

// The first of the rows that are read for those from `row` on: near the last of R rows, they end with it.
template <int R>
inline int batch_start(int row) {
  return R < ROWS_AHEAD ? 0 : min(row, R - ROWS_AHEAD);
}

// The states in a batch of rows, STEP words apart.
template <int R, int STEP, int TB, int K, int L, int PER>
inline void load_batch(const device uint* block, int start, LaneShare share,
                       thread ColumnStates<owned_positions<K, PER>(), K, L>* states) {
  const device uint* first = block + size_t(start) * size_t(STEP);
  UNROLL
  for (int a = 0; a < ROWS_AHEAD; ++a) {
    states[a] = load_share<TB, K, L, PER>(first + min(a, R - 1) * STEP, share);
  }
}

// Writes a lane's sums for one row of x to the C partial results from `target` on.
template <int TB, int K, int PER>
inline void store_share(device float* target, LaneShare share, const thread float* sums) {
  constexpr int N = owned_positions<K, PER>();
  UNROLL
  for (int i = 0; i < N; ++i) {
    const int position = N - 1 - i;
    if (position < share.count) {
      target[share.block * TB + TB - 1 - share.first - position] = sums[i];
    }
  }
}
