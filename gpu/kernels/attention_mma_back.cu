// The kernels `attention_queries` and `attention_keys` on tensor cores: the same interfaces and the same results, but
// weights and their gradients are rounded to bf16 before they are factors. There are two tiles of each kind in shared
// memory: while one is multiplied, the next is copied.

// A group of queries, as of `attention_mma`.
template <int DIM, int SPAN> struct AttentionQueries : QueryBlock {
  unsigned queries[DIM / 16][4], grads[DIM / 16][4];
  float weights[SPAN / 8][4], slopes[SPAN / 8][4], gathered[DIM / 8][4];
  // Of the lane's two vectors: the logarithm to base 2 of the sum of weights, and out times its gradient.
  float sum[2], pull[2];

  using QueryBlock::QueryBlock;

  __device__ void begin(const bf16* q, const bf16* out, const bf16* grad, const float* sums, float* pulls) {
    for (int half = 0; half < 2; half++) {
      const wide at = is_there(half) ? row(half) : -1;
      load_half<DIM>(queries, half, at < 0 ? nullptr : q + at * DIM);
      load_half<DIM>(grads, half, at < 0 ? nullptr : grad + at * DIM);
      const unsigned* pairs = (const unsigned*)(out + (at < 0 ? 0 : at) * DIM) + LANE % 4;
      float product = 0.0f;
#pragma unroll
      for (int i = 0; i < DIM / 8; i++) {
        const unsigned ours = grads[i / 2][i % 2 * 2 + half], theirs = pairs[4 * i];
        product += __uint_as_float(ours << 16) * __uint_as_float(theirs << 16);
        product += __uint_as_float(ours & 0xffff0000u) * __uint_as_float(theirs & 0xffff0000u);
      }
      pull[half] = sum_of_row(product);
      sum[half] = at < 0 ? 0.0f : sums[at] * LOG2_E;
      if (at >= 0 && LANE % 4 == 0) pulls[at] = pull[half];
    }
    clear(gathered);
  }

  __device__ void add(int begin, const bf16* keys, const bf16* values) {
    multiply_rows<DIM, SPAN>(weights, queries, keys);
    multiply_rows<DIM, SPAN>(slopes, grads, values);
    const bool all_seen = sees_all(begin, SPAN);
#pragma unroll
    for (int n = 0; n < SPAN / 8; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float weight = power_of_2(weights[n][i] * scale * LOG2_E - sum[i / 2]);
        slopes[n][i] = all_seen || sees_key(begin, n, i) ? weight * (slopes[n][i] - pull[i / 2]) * scale : 0.0f;
      }
    }
    multiply_tile<DIM, SPAN>(gathered, slopes, keys);
  }

  __device__ void run(bf16* tiles, const bf16* k, const bf16* v, bf16* dq) {
    const int size = SPAN * STRIDE(DIM);
    begin_tile<DIM, SPAN>(tiles, k, lowest());
    begin_tile<DIM, SPAN>(tiles + size, v, lowest());
    for (int begin = lowest(), which = 0; begin < all(); begin += SPAN, which ^= 1) {
      await_copies();
      __syncthreads();
      bf16* const next = tiles + (which ^ 1) * 2 * size;
      if (begin + SPAN < all()) {
        begin_tile<DIM, SPAN>(next, k, begin + SPAN);
        begin_tile<DIM, SPAN>(next + size, v, begin + SPAN);
      }
      bf16* const keys = tiles + which * 2 * size;
      if (sees_some(begin, SPAN)) add(begin, keys, keys + size);
    }
    for (int half = 0; half < 2; half++)
      if (is_there(half)) store_half<DIM>(dq + row(half) * DIM, half, gathered, 1.0f);
  }
};

#define ATTENTION_MMA_QUERIES(DIM, SPAN, BLOCKS) \
  extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) attention_mma_queries_##DIM##_bf16( \
      void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void* b6, void* b7, void* b8, void*, \
      const Params params) { \
    __shared__ __align__(16) bf16 tiles[4 * SPAN * STRIDE(DIM)]; \
    AttentionQueries<DIM, SPAN> attention(params, (const int*)b8); \
    attention.begin((const bf16*)b0, (const bf16*)b3, (const bf16*)b4, (const float*)b5, (float*)b7); \
    attention.run(tiles, (const bf16*)b1, (const bf16*)b2, (bf16*)b6); \
  }
ATTENTION_MMA_QUERIES(64, 32, 1)
ATTENTION_MMA_QUERIES(80, 32, 1)
ATTENTION_MMA_QUERIES(96, 32, 1)
ATTENTION_MMA_QUERIES(128, 32, 1)

// What a tile of query vectors has beside its queries and gradients: of every vector the logarithm to base 2 of its
// sum, out times its gradient, its token counted from the block's first key (-1 where there is none) and its position.
template <int SPAN> struct Beside { float sum[SPAN], pull[SPAN]; int token[SPAN], position[SPAN]; };

// A block of at most MMA_ROWS keys of one head, 16 of a warp, and the queries of every token that may see them.
template <int DIM, int SPAN> struct AttentionKeys {
  const bf16 *q, *grad;
  const float *sums, *pulls;
  const int* positions;
  int heads, kv, share, head, first, count, all, window;
  float scale;
  unsigned keys[DIM / 16][4], values[DIM / 16][4];
  float weights[SPAN / 8][4], slopes[SPAN / 8][4], of_keys[DIM / 8][4], of_values[DIM / 8][4];
  int position[2];

  __device__ AttentionKeys(const Params& params, const int* blocks) {
    heads = N(0), kv = N(1), share = heads / kv, head = (int)blockIdx.x % kv, window = N(3), scale = F(0);
    const int* block = blocks + (int)blockIdx.x / kv * 3;
    first = block[0], count = block[1], all = (block[2] - first) * share;
  }

  __device__ int key(int half) const { return WARP_ROW + half * 8 + LANE / 4; }
  __device__ wide key_row(int half) const { return (wide)(first + key(half)) * kv + head; }

  __device__ void begin(const bf16* k, const bf16* v) {
    for (int half = 0; half < 2; half++) {
      const bool is_there = key(half) < count;
      load_half<DIM>(keys, half, is_there ? k + key_row(half) * DIM : nullptr);
      load_half<DIM>(values, half, is_there ? v + key_row(half) * DIM : nullptr);
      position[half] = is_there ? positions[first + key(half)] : 0;
    }
    clear(of_keys);
    clear(of_values);
  }

  // Begins to load the vectors from `begin` on, their queries and then their gradients; zeros after the last.
  __device__ void begin_tile(bf16* tile, Beside<SPAN>& beside, int begin) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < SPAN * (DIM / 8); i += BLOCK) {
      const int row = i / (DIM / 8), at = i % (DIM / 8) * 8, vector = begin + row;
      const bool is_there = vector < all;
      const wide from = (is_there ? query_row(vector) : (wide)first * heads) * DIM + at;
      begin_copy(tile + row * STRIDE(DIM) + at, q + from, !is_there);
      begin_copy(tile + (SPAN + row) * STRIDE(DIM) + at, grad + from, !is_there);
    }
    if (threadIdx.x < SPAN) {
      const int vector = begin + threadIdx.x;
      const bool is_there = vector < all;
      beside.sum[threadIdx.x] = is_there ? sums[query_row(vector)] * LOG2_E : 0.0f;
      beside.pull[threadIdx.x] = is_there ? pulls[query_row(vector)] : 0.0f;
      beside.token[threadIdx.x] = is_there ? vector / share : -1;
      beside.position[threadIdx.x] = is_there ? positions[first + vector / share] : 0;
    }
  }

  __device__ wide query_row(int vector) const {
    return (wide)(first + vector / share) * heads + head * share + vector % share;
  }

  __device__ void add(const bf16* tile, const Beside<SPAN>& beside) {
    const bf16* const grads = tile + SPAN * STRIDE(DIM);
    multiply_rows<DIM, SPAN>(weights, keys, tile);
    multiply_rows<DIM, SPAN>(slopes, values, grads);
#pragma unroll
    for (int n = 0; n < SPAN / 8; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int vector = n * 8 + LANE % 4 * 2 + i % 2, half = i / 2;
        const bool is_seen = beside.token[vector] >= key(half) && beside.position[vector] - position[half] < window;
        const float weight = power_of_2(weights[n][i] * scale * LOG2_E - beside.sum[vector]);
        weights[n][i] = is_seen ? weight : 0.0f;
        slopes[n][i] = is_seen ? weight * (slopes[n][i] - beside.pull[vector]) * scale : 0.0f;
      }
    }
    multiply_tile<DIM, SPAN>(of_values, weights, grads);
    multiply_tile<DIM, SPAN>(of_keys, slopes, tile);
  }

  __device__ void run(bf16* tiles, Beside<SPAN>* beside, bf16* dk, bf16* dv) {
    const int size = 2 * SPAN * STRIDE(DIM);
    begin_tile(tiles, beside[0], 0);
    for (int begin = 0, which = 0; begin < all; begin += SPAN, which ^= 1) {
      await_copies();
      __syncthreads();
      if (begin + SPAN < all) begin_tile(tiles + (which ^ 1) * size, beside[which ^ 1], begin + SPAN);
      // The last of the tile's tokens sees the first of the warp's keys.
      const int last = (begin + SPAN < all ? begin + SPAN : all) - 1;
      if (WARP_ROW < count && last / share >= WARP_ROW) add(tiles + which * size, beside[which]);
    }
    for (int half = 0; half < 2; half++) {
      if (key(half) >= count) continue;
      store_half<DIM>(dk + key_row(half) * DIM, half, of_keys, 1.0f);
      store_half<DIM>(dv + key_row(half) * DIM, half, of_values, 1.0f);
    }
  }
};

#define ATTENTION_MMA_KEYS(DIM, SPAN) \
  extern "C" __global__ void __launch_bounds__(BLOCK, 1) attention_mma_keys_##DIM##_bf16( \
      void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void* b6, void* b7, void* b8, void* b9, \
      const Params params) { \
    __shared__ __align__(16) bf16 tiles[4 * SPAN * STRIDE(DIM)]; \
    __shared__ Beside<SPAN> beside[2]; \
    AttentionKeys<DIM, SPAN> attention(params, (const int*)b8); \
    attention.q = (const bf16*)b0, attention.grad = (const bf16*)b3, attention.positions = (const int*)b9; \
    attention.sums = (const float*)b4, attention.pulls = (const float*)b5; \
    attention.begin((const bf16*)b1, (const bf16*)b2); \
    attention.run(tiles, beside, (bf16*)b6, (bf16*)b7); \
  }
ATTENTION_MMA_KEYS(64, 32)
ATTENTION_MMA_KEYS(80, 32)
ATTENTION_MMA_KEYS(96, 32)
ATTENTION_MMA_KEYS(128, 16)
