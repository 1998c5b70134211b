// The kernel `attention` on tensor cores, for heads of DIM bf16 values: the same interface and the same result, but
// weights are rounded to bf16 before values are multiplied by them.
//
// A block serves one key-value head and MMA_ROWS query vectors of one run at most. A warp has 16 of them: their
// queries, scores and sums are in its registers, keys and values in shared memory. While scores are computed, values
// are copied, and the next keys while values are multiplied. A warp whose vectors see nothing of a tile skips it. The
// result of a vector does not depend on the other vectors of its block.
template <int DIM, int TILE_KEYS> struct Attention {
  // From a row of a tile to the next: 16 bytes more than a row has, so that the eight rows of a matrix are in different
  // banks.
  static const int STRIDE = DIM + 8;

  const bf16 *q, *k, *v;
  bf16 *keys, *values;
  int heads, kv, share, head;
  int first, tokens, sees, start, split, rest, window;
  float scale;
  // The lane's two vectors, and one past the last key that each sees.
  int vector[2], end[2];
  unsigned queries[DIM / 16][4];
  float scores[TILE_KEYS / 8][4], gathered[DIM / 8][4];
  float top[2], mass[2];

  __device__ int lane() const { return threadIdx.x % 32; }

  __device__ wide query_row(int vector) const {
    return (wide)(first + vector / share) * heads + head * share + vector % share;
  }

  __device__ void begin(const int* block) {
    first = block[0], tokens = block[1], sees = block[2];
    start = block[3], split = block[4], rest = block[5];
    for (int half = 0; half < 2; half++) {
      vector[half] = threadIdx.x / 32 * 16 + half * 8 + lane() / 4;
      end[half] = sees + vector[half] / share;
      top[half] = NOTHING;
      mass[half] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < DIM / 8; n++)
      for (int i = 0; i < 4; i++) gathered[n][i] = 0.0f;
  }

  // The lane's part of the four matrices of every 16 values of its vectors.
  __device__ void load_queries() {
    for (int half = 0; half < 2; half++) {
      const bool is_there = vector[half] < tokens * share;
      const unsigned* row = (const unsigned*)(q + (is_there ? query_row(vector[half]) : 0) * DIM) + lane() % 4;
#pragma unroll
      for (int i = 0; i < DIM / 8; i++) queries[i / 2][i % 2 * 2 + half] = is_there ? row[4 * i] : 0;
    }
  }

  // Begins to load the keys or values from `begin` on; zeros after the last.
  __device__ void begin_tile(bf16* tile, const bf16* x, int begin, int all) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < TILE_KEYS * (DIM / 8); i += BLOCK) {
      const int row = i / (DIM / 8), at = i % (DIM / 8) * 8, key = begin + row;
      const bool is_there = key < all;
      const wide from = is_there ? (key < split ? start + key : rest + key - split) : start;
      begin_copy(tile + row * STRIDE + at, x + (from * kv + head) * DIM + at, !is_there);
    }
  }

  // Whether any of the warp's vectors sees any key of a tile, and whether all see all.
  __device__ bool sees_some(int begin) const {
    const int vector = threadIdx.x / 32 * 16;
    return vector < tokens * share && begin < sees + (vector + 15) / share &&
      begin + TILE_KEYS > sees + vector / share - window;
  }
  __device__ bool sees_all(int begin) const {
    const int vector = threadIdx.x / 32 * 16;
    return begin + TILE_KEYS <= sees + vector / share && begin >= sees + (vector + 15) / share - window;
  }

  // Products of queries and the tile's keys.
  __device__ void score() {
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8; n++)
      for (int i = 0; i < 4; i++) scores[n][i] = 0.0f;
    const bf16* row = keys + (lane() / 16 * 8 + lane() % 8) * STRIDE + lane() / 8 % 2 * 8;
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 16; n++) {
        unsigned pair[4];
        load_matrices(pair, row + n * 16 * STRIDE + d * 16);
        multiply_add(scores[2 * n], queries[d], pair[0], pair[1]);
        multiply_add(scores[2 * n + 1], queries[d], pair[2], pair[3]);
      }
    }
  }

  // Scores of keys that a vector does not see.
  __device__ void mask(int begin) {
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 8; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int key = begin + n * 8 + lane() % 4 * 2 + i % 2;
        if (key >= end[i / 2] || key < end[i / 2] - window) scores[n][i] = NOTHING;
      }
    }
  }

  // Scores to weights; what was gathered before shrinks with the new largest score. Weights are of powers of 2.
  __device__ void weigh() {
    const float of_two = scale * 1.44269504f;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float largest = top[half];
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; n++)
        largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      for (int lanes = 1; lanes < 4; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
      const float shrink = power_of_2((top[half] - largest) * of_two);
      // A vector that has seen nothing has weights of zero, not of the difference of two roundings.
      const float most = largest > NOTHING ? largest * of_two : 0.0f;
      float sum = mass[half] * shrink;
#pragma unroll
      for (int n = 0; n < TILE_KEYS / 8; n++) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
          scores[n][i] = power_of_2(scores[n][i] * of_two - most);
          sum += scores[n][i];
        }
      }
#pragma unroll
      for (int n = 0; n < DIM / 8; n++) {
        gathered[n][2 * half] *= shrink;
        gathered[n][2 * half + 1] *= shrink;
      }
      top[half] = largest;
      mass[half] = sum;
    }
  }

  // Adds the tile's values, each times its weight. Two of the matrices of scores are a half of those of a factor.
  __device__ void gather() {
    const bf16* row = values + (lane() / 8 % 2 * 8 + lane() % 8) * STRIDE + lane() / 16 * 8;
#pragma unroll
    for (int n = 0; n < TILE_KEYS / 16; n++) {
      const float(&left)[4] = scores[2 * n], (&right)[4] = scores[2 * n + 1];
      const unsigned weights[4] = {
        pack(left[0], left[1]), pack(left[2], left[3]), pack(right[0], right[1]), pack(right[2], right[3])};
#pragma unroll
      for (int d = 0; d < DIM / 16; d++) {
        unsigned pair[4];
        load_transposed(pair, row + n * 16 * STRIDE + d * 16);
        multiply_add(gathered[2 * d], weights, pair[0], pair[1]);
        multiply_add(gathered[2 * d + 1], weights, pair[2], pair[3]);
      }
    }
  }

  __device__ void store(bf16* out, float* sums) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = mass[half];
      for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
      if (vector[half] < tokens * share) {
        const wide row = query_row(vector[half]);
        const float inverse = 1.0f / sum;
        unsigned* to = (unsigned*)(out + row * DIM) + lane() % 4;
#pragma unroll
        for (int n = 0; n < DIM / 8; n++)
          to[4 * n] = pack(gathered[n][2 * half] * inverse, gathered[n][2 * half + 1] * inverse);
        if (lane() % 4 == 0) sums[row] = top[half] * scale + logf(sum);
      }
    }
  }

  __device__ void run(bf16* out, float* sums) {
    const int all = sees + tokens - 1, lowest = sees > window ? sees - window : 0;
    begin_tile(keys, k, lowest, all);
    load_queries();
    for (int begin = lowest; begin < all; begin += TILE_KEYS) {
      const bool computes = sees_some(begin);
      await_copies();
      __syncthreads();
      begin_tile(values, v, begin, all);
      if (computes) score();
      await_copies();
      __syncthreads();
      if (begin + TILE_KEYS < all) begin_tile(keys, k, begin + TILE_KEYS, all);
      if (computes) {
        if (!sees_all(begin)) mask(begin);
        weigh();
        gather();
      }
    }
    store(out, sums);
  }
};

// Buffers and numbers as of `attention`; F 0 is above zero. BLOCKS fit a multiprocessor at a time.
#define ATTENTION_MMA(DIM, TILE_KEYS, BLOCKS) \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) attention_mma_##DIM##_bf16( \
      void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void*, void*, void*, void*, const Params params) { \
    __shared__ __align__(16) bf16 keys[TILE_KEYS * Attention<DIM, TILE_KEYS>::STRIDE]; \
    __shared__ __align__(16) bf16 values[TILE_KEYS * Attention<DIM, TILE_KEYS>::STRIDE]; \
    Attention<DIM, TILE_KEYS> attention; \
    attention.q = (const bf16*)b0, attention.k = (const bf16*)b1, attention.v = (const bf16*)b2; \
    attention.keys = keys, attention.values = values; \
    attention.heads = N(0), attention.kv = N(1), attention.share = N(0) / N(1); \
    attention.head = (int)blockIdx.x % N(1), attention.window = N(3), attention.scale = F(0); \
    attention.begin((const int*)b5 + (int)blockIdx.x / N(1) * 6); \
    attention.run((bf16*)b3, (float*)b4); \
  }
ATTENTION_MMA(64, 64, 2)
ATTENTION_MMA(80, 48, 2)
ATTENTION_MMA(96, 48, 2)
ATTENTION_MMA(128, 64, 1)
ATTENTION_MMA(256, 32, 1)
