// y = x W^T on tensor cores for 1 to 8 rows: codes and activations multiply exactly, sums of a group are float32, and scale and bias are
// applied to them.
//
// Template: T (x, y: half or bfloat16), S (scales, biases), M, N, K, BITS, GROUP, WARPS that share K, AHEAD groups that a warp loads together,
// STAGES of such loads under way. Grid (32 WARPS, ceil(N / 16), 1), block (32 WARPS, 1, 1).
//
// A block owns 16 outputs. Each warp streams its own share of their codes, scales and biases through shared memory,
// AHEAD groups of every output at a time, and waits for no other warp until the sums are added up. A row's sums do not
// depend on the other rows: each column of a product has its own.
using P = Pairs<T>;
constexpr int COUNT = GROUP / 4;
using Codes = LaneCodes<BITS, COUNT>;
constexpr int GROUPS = K / GROUP;
constexpr int STEPS = COUNT / 4;
constexpr int CHUNKS = (GROUPS + AHEAD - 1) / AHEAD;
constexpr int GROUP_WORDS = GROUP / 32 * BITS;
constexpr int CODE_WORDS = AHEAD * GROUP_WORDS;
// Rows start at different banks.
constexpr int STRIDE = (CODE_WORDS + 3) / 4 * 4 + (CODE_WORDS % 32 == 0 ? 8 : 4);
constexpr int STAGE_WORDS = 16 * STRIDE;
constexpr int PARTIALS = WARPS * 16 * 8;
constexpr int STREAMED = WARPS * STAGES * STAGE_WORDS;

__shared__ alignas(16) unsigned memory[STREAMED > PARTIALS ? STREAMED : PARTIALS];

const int lane = int(threadIdx.x) % 32;
const int warp = int(threadIdx.x) / 32;
const int g = lane / 4;
const int t = lane % 4;
const int first_output = 16 * int(blockIdx.y);
unsigned* const stages = memory + warp * STAGES * STAGE_WORDS;
// Copies of 16 bytes need every row of codes aligned to them.
const bool wide = CODE_WORDS % 4 == 0 && GROUPS * GROUP_WORDS % 4 == 0 && reinterpret_cast<size_t>(w) % 16 == 0;

auto fetch = [&](int chunk) {
  if (chunk < CHUNKS) {
    unsigned* const stage = stages + chunk / WARPS % STAGES * STAGE_WORDS;
    const int live = min(AHEAD, GROUPS - chunk * AHEAD) * GROUP_WORDS;
    const unsigned* const source = w + size_t(chunk) * size_t(CODE_WORDS);
    if (wide) {
      constexpr int QUADS = CODE_WORDS / 4;
#pragma unroll
      for (int i = lane; i < 16 * QUADS; i += 32) {
        const int row = i / QUADS;
        const int word = i % QUADS * 4;
        const int output = min(first_output + row, N - 1);
        if (word < live) {
          copy_async<16>(stage + row * STRIDE + word, source + size_t(output) * size_t(GROUPS * GROUP_WORDS) + word);
        }
      }
    } else {
#pragma unroll 4
      for (int i = lane; i < 16 * CODE_WORDS; i += 32) {
        const int row = i / CODE_WORDS;
        const int word = i % CODE_WORDS;
        const int output = min(first_output + row, N - 1);
        if (word < live) {
          copy_async<4>(stage + row * STRIDE + word, source + size_t(output) * size_t(GROUPS * GROUP_WORDS) + word);
        }
      }
    }
  }
  asm volatile("cp.async.commit_group;");
};

Accumulator sum = {};
const size_t low_output = size_t(min(first_output + g, N - 1));
const size_t high_output = size_t(min(first_output + g + 8, N - 1));
#pragma unroll
for (int stage = 0; stage < STAGES - 1; ++stage) {
  fetch(warp + WARPS * stage);
}
// Scales and biases of a chunk, in registers one chunk ahead of their use: AHEAD of each for the lane's two outputs.
const S* const scale_rows[2] = {scales + low_output * size_t(GROUPS), scales + high_output * size_t(GROUPS)};
const S* const bias_rows[2] = {biases + low_output * size_t(GROUPS), biases + high_output * size_t(GROUPS)};
using Packed = PackedElements<S, AHEAD>;
const bool packed = GROUPS % AHEAD == 0 && Packed::aligned(scales) && Packed::aligned(biases);
auto read = [&](int chunk, Packed (&scale)[2], Packed (&bias)[2]) {
  const int group = chunk * AHEAD;
  if (packed) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scale[half].load(scale_rows[half] + group);
      bias[half].load(bias_rows[half] + group);
    }
  } else {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scale[half].gather(scale_rows[half] + group, GROUPS - group);
      bias[half].gather(bias_rows[half] + group, GROUPS - group);
    }
  }
};
const T* const row = x + size_t(min(g, M - 1)) * size_t(K) + size_t(t * COUNT);
const bool vectors = K % 8 == 0 && reinterpret_cast<size_t>(x) % 16 == 0;

Packed next_scale[2];
Packed next_bias[2];
read(warp < CHUNKS ? warp : 0, next_scale, next_bias);
for (int chunk = warp; chunk < CHUNKS; chunk += WARPS) {
  unsigned values[AHEAD][COUNT / 2];
#pragma unroll
  for (int ahead = 0; ahead < AHEAD; ++ahead) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      values[ahead][i] = 0u;
    }
  }
  if (g < M) {
    if (vectors) {
#pragma unroll
      for (int ahead = 0; ahead < AHEAD; ++ahead) {
        const int group = GROUPS % AHEAD == 0 ? chunk * AHEAD + ahead : min(chunk * AHEAD + ahead, GROUPS - 1);
        load_vectors<COUNT>(row + group * GROUP, values[ahead]);
      }
    } else {
#pragma unroll
      for (int ahead = 0; ahead < AHEAD; ++ahead) {
        load_elements<COUNT>(row + min(chunk * AHEAD + ahead, GROUPS - 1) * GROUP, values[ahead]);
      }
    }
  }
  Packed scale[2];
  Packed bias[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    scale[half] = next_scale[half];
    bias[half] = next_bias[half];
  }
  read(min(chunk + WARPS, CHUNKS - 1), next_scale, next_bias);
  fetch(chunk + WARPS * (STAGES - 1));
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1));
  __syncwarp();
  const unsigned* const stage = stages + chunk / WARPS % STAGES * STAGE_WORDS;
#pragma unroll
  for (int ahead = 0; ahead < AHEAD; ++ahead) {
    if (GROUPS % AHEAD != 0 && chunk * AHEAD + ahead >= GROUPS) {
      break;
    }
    Codes codes[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      codes[half].load_shared(stage + (8 * half + g) * STRIDE + ahead * GROUP_WORDS, t);
      codes[half].align(t);
    }
    Accumulator dots = {};
    Accumulator total = {};
    const unsigned ones[4] = {P::ONES, P::ONES, P::ONES, P::ONES};
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
      unsigned a[4];
      unsigned b[2];
#pragma unroll
      for (int p = 0; p < 2; ++p) {
        a[2 * p] = P::template integers<BITS>(codes[0].pair(2 * step + p));
        a[2 * p + 1] = P::template integers<BITS>(codes[1].pair(2 * step + p));
        b[p] = Codes::matching(values[ahead], 2 * step + p);
      }
      P::multiply_add(dots, a, b);
      P::multiply_add(total, ones, b);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum.value[i] = __fmaf_rn(scale[i / 2].at(ahead), dots.value[i],
                               __fmaf_rn(bias[i / 2].at(ahead), total.value[i], sum.value[i]));
    }
  }
  __syncwarp();
}

asm volatile("cp.async.wait_all;");
__syncthreads();
float* const partials = reinterpret_cast<float*>(memory);
#pragma unroll
for (int i = 0; i < 4; ++i) {
  partials[(warp * 8 + 2 * t + i % 2) * 16 + 8 * (i / 2) + g] = sum.value[i];
}
__syncthreads();
for (int i = int(threadIdx.x); i < 16 * M; i += 32 * WARPS) {
  float total = 0.0f;
#pragma unroll
  for (int part = 0; part < WARPS; ++part) {
    total += partials[part * 128 + i];
  }
  const int output = first_output + i % 16;
  if (output < N) {
    y[size_t(i / 16) * size_t(N) + size_t(output)] = T(total);
  }
}
