// Products of a warp's 16 rows with a tile in shared memory: rows of DIM bf16 values, STRIDE(DIM) apart, which is 16
// bytes more than they are long, so that the eight rows of a matrix are in different banks. Lane l has of every 8
// columns two, from 2 (l % 4) on, in row l / 4 and in the row 8 below it.
#define STRIDE(DIM) ((DIM) + 8)
#define LANE ((int)threadIdx.x % 32)
// The first of the warp's rows among those of its block.
#define WARP_ROW ((int)threadIdx.x / 32 * 16)
#define LOG2_E 1.44269504f

template <int COUNT> __device__ inline void clear(float (&sums)[COUNT][4]) {
#pragma unroll
  for (int n = 0; n < COUNT; n++)
    for (int i = 0; i < 4; i++) sums[n][i] = 0.0f;
}

// The lane's part of half of the rows, from `row` on, as matrices that are factors; zeros without a row.
template <int DIM> __device__ inline void load_half(unsigned (&to)[DIM / 16][4], int half, const bf16* row) {
  const unsigned* pairs = (const unsigned*)row + LANE % 4;
#pragma unroll
  for (int i = 0; i < DIM / 8; i++) to[i / 2][i % 2 * 2 + half] = row ? pairs[4 * i] : 0;
}

// The other way around, each value times `factor`.
template <int DIM> __device__ inline void store_half(bf16* row, int half, const float (&x)[DIM / 8][4], float factor) {
  unsigned* pairs = (unsigned*)row + LANE % 4;
#pragma unroll
  for (int i = 0; i < DIM / 8; i++) pairs[4 * i] = pack(x[i][2 * half] * factor, x[i][2 * half + 1] * factor);
}

// sums [16, SPAN] = rows times the transpose of a tile of SPAN rows.
template <int DIM, int SPAN> __device__ inline void multiply_rows(
    float (&sums)[SPAN / 8][4], const unsigned (&rows)[DIM / 16][4], const bf16* tile) {
  clear(sums);
  const bf16* row = tile + (LANE / 16 * 8 + LANE % 8) * STRIDE(DIM) + LANE / 8 % 2 * 8;
#pragma unroll
  for (int d = 0; d < DIM / 16; d++) {
#pragma unroll
    for (int n = 0; n < SPAN / 16; n++) {
      unsigned pair[4];
      load_matrices(pair, row + n * 16 * STRIDE(DIM) + d * 16);
      multiply_add(sums[2 * n], rows[d], pair[0], pair[1]);
      multiply_add(sums[2 * n + 1], rows[d], pair[2], pair[3]);
    }
  }
}

// sums [16, DIM] += weights [16, SPAN] times the tile. Two of the matrices of weights are half of those of a factor.
template <int DIM, int SPAN> __device__ inline void multiply_tile(
    float (&sums)[DIM / 8][4], const float (&weights)[SPAN / 8][4], const bf16* tile) {
  const bf16* row = tile + (LANE / 8 % 2 * 8 + LANE % 8) * STRIDE(DIM) + LANE / 16 * 8;
#pragma unroll
  for (int n = 0; n < SPAN / 16; n++) {
    const float(&left)[4] = weights[2 * n], (&right)[4] = weights[2 * n + 1];
    const unsigned factor[4] = {
      pack(left[0], left[1]), pack(left[2], left[3]), pack(right[0], right[1]), pack(right[2], right[3])};
#pragma unroll
    for (int d = 0; d < DIM / 16; d++) {
      unsigned pair[4];
      load_transposed(pair, row + n * 16 * STRIDE(DIM) + d * 16);
      multiply_add(sums[2 * d], factor, pair[0], pair[1]);
      multiply_add(sums[2 * d + 1], factor, pair[2], pair[3]);
    }
  }
}

// The sum over the four lanes that share a row.
__device__ inline float sum_of_row(float x) {
  for (int lanes = 1; lanes < 4; lanes *= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

// A block's queries: a key-value head, a run's tokens and what they see, as in attention.c; the lane's two vectors, and
// one past the last key that each sees.
struct QueryBlock {
  int heads, kv, share, head, first, tokens, sees, start, split, rest, window;
  float scale;
  int vector[2], end[2];

  __device__ QueryBlock(const Params& params, const int* blocks) {
    heads = N(0), kv = N(1), share = heads / kv, head = (int)blockIdx.x % kv, window = N(3), scale = F(0);
    const int* block = blocks + (int)blockIdx.x / kv * 6;
    first = block[0], tokens = block[1], sees = block[2];
    start = block[3], split = block[4], rest = block[5];
    for (int half = 0; half < 2; half++) {
      vector[half] = WARP_ROW + half * 8 + LANE / 4;
      end[half] = sees + vector[half] / share;
    }
  }

  __device__ int lowest() const { return sees > window ? sees - window : 0; }
  __device__ int all() const { return sees + tokens - 1; }
  __device__ bool is_there(int half) const { return vector[half] < tokens * share; }
  // The row of one of the lane's vectors among all.
  __device__ wide row(int half) const {
    return (wide)(first + vector[half] / share) * heads + head * share + vector[half] % share;
  }

  // Begins to load the keys or values from `begin` on; zeros after the last.
  template <int DIM, int SPAN> __device__ void begin_tile(bf16* tile, const bf16* x, int begin) const {
#pragma unroll 1
    for (int i = threadIdx.x; i < SPAN * (DIM / 8); i += BLOCK) {
      const int row = i / (DIM / 8), at = i % (DIM / 8) * 8, key = begin + row;
      const bool is_key = key < all();
      const wide from = is_key ? (key < split ? start + key : rest + key - split) : start;
      begin_copy(tile + row * STRIDE(DIM) + at, x + (from * kv + head) * DIM + at, !is_key);
    }
  }

  // Whether any of the warp's vectors sees any key of a tile, and whether all see all.
  __device__ bool sees_some(int begin, int count) const {
    return WARP_ROW < tokens * share && begin < sees + (WARP_ROW + 15) / share &&
      begin + count > sees + WARP_ROW / share - window;
  }
  __device__ bool sees_all(int begin, int count) const {
    return begin + count <= sees + WARP_ROW / share && begin >= sees + (WARP_ROW + 15) / share - window;
  }
  // Whether a vector sees the key of one of its values in matrix n of the scores.
  __device__ bool sees_key(int begin, int n, int i) const {
    const int key = begin + n * 8 + LANE % 4 * 2 + i % 2;
    return key < end[i / 2] && key >= end[i / 2] - window;
  }
};
