// How the matrix kernels cut a product with codes that run along the outputs: y = x W, with W stored as [R, C].
//
// A simdgroup owns 8 S adjacent stream positions of one block of 256 columns, and one of SPLITS ranges of rows of W, whose sums
// are partial results. It takes 8 rows of W at a time: A holds activations (rows of x by rows of W), and S matrices B hold codes
// (rows of W by positions), fragment column c of matrix s being the position S c + s of the share. So the two columns that a
// lane holds are, over the S matrices, 2 S adjacent positions of one row, read from a few words.

// A simdgroup's share of the work.
struct DownShare {
  int split;
  int row;       // First row of the split,
  int end;       // and the one past its last.
  int block;     // Of 256 columns.
  int position;  // First stream position in the block.
};

template <int R, int C, int S, int SPLITS>
inline DownShare down_share(int simdgroup) {
  constexpr int PARTS = 32 / S;
  constexpr int GROUPS = C / 256 * PARTS;
  constexpr int ROWS = ((R + SPLITS - 1) / SPLITS + 7) / 8 * 8;
  const int group = simdgroup % GROUPS;
  DownShare share;
  share.split = simdgroup / GROUPS;
  share.row = min(share.split * ROWS, R);
  share.end = min(share.row + ROWS, R);
  share.block = group / PARTS;
  share.position = group % PARTS * 8 * S;
  return share;
}

// Words that hold 2 S windows of L bits, K bits apart, from bit 0 on.
constexpr int window_words(int K, int L, int S) {
  return ((2 * S - 1) * K + L + 31) / 32;
}

// N of these words. A window that lies across two of them lies in a joint: the high half of words[i - 1] below the low half of
// words[i]. So every window costs one shift and one mask. L is at most 16.
template <int N>
struct Windows {
  uint words[N];
  uint joints[N];
};

// The windows of 2 S positions from `position` on, a multiple of 2 S, in a block of 256 that starts at `block`.
template <int K, int S, int N>
inline void load_windows(const device uint* block, int position, thread Windows<N>& windows) {
  constexpr int WORDS = 8 * K;
  const int word = position * K / 32;
  uint loaded[N + 1];
  UNROLL
  for (int i = 0; i <= N; ++i) {
    if (i < N || 2 * S * K % 32 != 0) {
      loaded[i] = block[word + i < WORDS ? word + i : word + i - WORDS];
    }
  }
  UNROLL
  for (int i = 0; i < N; ++i) {
    windows.words[i] = 2 * S * K % 32 == 0 ? loaded[i] : aligned_word(loaded[i], loaded[i + 1], position * K % 32);
  }
  windows.joints[0] = 0u;
  UNROLL
  for (int i = 1; i < N; ++i) {
    windows.joints[i] = (windows.words[i - 1] >> 16u) | (windows.words[i] << 16u);
  }
}

// The state in window t.
template <int K, int L, int N>
inline uint state_in(const thread Windows<N>& windows, int t) {
  const int word = t * K / 32;
  const int offset = t * K % 32;
  const uint bits = offset + L > 32 ? windows.joints[word + 1] >> uint(offset - 16) : windows.words[word] >> uint(offset);
  return bits & ((1u << uint(L)) - 1u);
}
