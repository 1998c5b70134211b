// The kernel `attention` on tensor cores, for heads of DIM bf16 values: the same interface and the same result, but
// weights are rounded to bf16 before values are multiplied by them.
//
// A block serves one key-value head and MMA_ROWS query vectors of one run at most. A warp has 16 of them: their
// queries, scores and sums are in its registers, keys and values in shared memory. While scores are computed, values
// are copied, and the next keys while values are multiplied. A warp whose vectors see nothing of a tile skips it. The
// result of a vector does not depend on the other vectors of its block.
template <int DIM, int SPAN> struct Attention : QueryBlock {
  unsigned queries[DIM / 16][4];
  float scores[SPAN / 8][4], gathered[DIM / 8][4];
  float top[2], mass[2];

  using QueryBlock::QueryBlock;

  __device__ void begin(const bf16* q) {
    for (int half = 0; half < 2; half++) {
      load_half<DIM>(queries, half, is_there(half) ? q + row(half) * DIM : nullptr);
      top[half] = NOTHING;
      mass[half] = 0.0f;
    }
    clear(gathered);
  }

  // Scores of keys that a vector does not see.
  __device__ void mask(int begin) {
#pragma unroll
    for (int n = 0; n < SPAN / 8; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (!sees_key(begin, n, i)) scores[n][i] = NOTHING;
    }
  }

  // Scores to weights; what was gathered before shrinks with the new largest score. Weights are powers of 2.
  __device__ void weigh() {
    const float of_two = scale * LOG2_E;
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float largest = top[half];
#pragma unroll
      for (int n = 0; n < SPAN / 8; n++)
        largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
      for (int lanes = 1; lanes < 4; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, lanes));
      const float shrink = power_of_2((top[half] - largest) * of_two);
      // A vector that has seen nothing has weights of zero, not of the difference of two roundings.
      const float most = largest > NOTHING ? largest * of_two : 0.0f;
      float sum = mass[half] * shrink;
#pragma unroll
      for (int n = 0; n < SPAN / 8; n++) {
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

  __device__ void store(bf16* out, float* sums) const {
    for (int half = 0; half < 2; half++) {
      const float sum = sum_of_row(mass[half]);
      if (!is_there(half)) continue;
      store_half<DIM>(out + row(half) * DIM, half, gathered, 1.0f / sum);
      if (LANE % 4 == 0) sums[row(half)] = top[half] * scale + logf(sum);
    }
  }

  __device__ void run(bf16* keys, bf16* values, const bf16* k, const bf16* v) {
    // Tiles begin at the same keys for every token of a sequence, wherever its window and its block begin.
    const int from = lowest() / SPAN * SPAN;
    begin_tile<DIM, SPAN>(keys, k, from);
    for (int begin = from; begin < all(); begin += SPAN) {
      const bool computes = sees_some(begin, SPAN);
      await_copies();
      __syncthreads();
      begin_tile<DIM, SPAN>(values, v, begin);
      if (computes) multiply_rows<DIM, SPAN>(scores, queries, keys);
      await_copies();
      __syncthreads();
      if (begin + SPAN < all()) begin_tile<DIM, SPAN>(keys, k, begin + SPAN);
      if (computes) {
        if (!sees_all(begin, SPAN)) mask(begin);
        weigh();
        multiply_tile<DIM, SPAN>(gathered, scores, values);
      }
    }
  }
};

// Buffers and numbers as of `attention`; F 0 is above zero. BLOCKS fit a multiprocessor at a time.
#define ATTENTION_MMA(DIM, SPAN, BLOCKS) \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) attention_mma_##DIM##_bf16( \
      void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void*, void*, void*, void*, const Params params) { \
    __shared__ __align__(16) bf16 keys[SPAN * STRIDE(DIM)]; \
    __shared__ __align__(16) bf16 values[SPAN * STRIDE(DIM)]; \
    Attention<DIM, SPAN> attention(params, (const int*)b5); \
    attention.begin((const bf16*)b0); \
    attention.run(keys, values, (const bf16*)b1, (const bf16*)b2); \
    attention.store((bf16*)b3, (float*)b4); \
  }
ATTENTION_MMA(64, 64, 2)
ATTENTION_MMA(80, 48, 2)
ATTENTION_MMA(96, 32, 2)
ATTENTION_MMA(128, 64, 1)
ATTENTION_MMA(256, 32, 1)
