// The functions of mma.h on the fibers of fibers.cc: which lane has which value of a matrix is as PTX's manual says of
// ldmatrix .x4 and of mma.m16n8k16 with bf16, written down here a second time.
struct Handed { const bf16* row; unsigned a[4], b[2]; };
static Handed handed[2][BLOCK];

// Gives the lanes of a warp what each of them has. Two pieces of memory in turn: no lane is two calls ahead of another.
static const Handed* hand(Wait call, const Handed& mine) {
  Handed* const all = handed[fibers[threadIdx.x].calls++ % 2];
  all[threadIdx.x] = mine;
  wait_for(call);
  return all + threadIdx.x / 32 * 32;
}

static void must_be_aligned(const void* address) {
  if ((size_t)address % 16 != 0) { fprintf(stderr, "16 bytes that are not at a multiple of 16\n"); abort(); }
}

// The eight rows of each matrix must be in different banks of shared memory.
static void must_not_collide(const Handed* lanes) {
  for (int matrix = 0; matrix < 4; matrix++) {
    unsigned banks = 0;
    for (int row = 0; row < 8; row++) banks |= 1u << (size_t)lanes[matrix * 8 + row].row / 16 % 8;
    if (banks != 0xff) { fprintf(stderr, "rows of a matrix are in the same banks\n"); abort(); }
  }
}

static void load_matrices(unsigned (&to)[4], const bf16* row) {
  must_be_aligned(row);
  const Handed* lanes = hand(LOAD_WAIT, {row, {}, {}});
  must_not_collide(lanes);
  const int lane = threadIdx.x % 32;
  for (int matrix = 0; matrix < 4; matrix++) {
    const bf16* values = lanes[matrix * 8 + lane / 4].row + lane % 4 * 2;
    to[matrix] = values[0] | (unsigned)values[1] << 16;
  }
}

static void load_transposed(unsigned (&to)[4], const bf16* row) {
  must_be_aligned(row);
  const Handed* lanes = hand(TRANSPOSED_LOAD_WAIT, {row, {}, {}});
  must_not_collide(lanes);
  const int lane = threadIdx.x % 32;
  for (int matrix = 0; matrix < 4; matrix++) {
    const Handed* rows = lanes + matrix * 8 + lane % 4 * 2;
    to[matrix] = rows[0].row[lane / 4] | (unsigned)rows[1].row[lane / 4] << 16;
  }
}

static float half_of(unsigned both, int which) { return __uint_as_float(which ? both & 0xffff0000u : both << 16); }

static void multiply_add(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  const Handed* lanes = hand(MULTIPLY_WAIT, {nullptr, {a[0], a[1], a[2], a[3]}, {b0, b1}});
  for (int i = 0; i < 4; i++) {
    const int group = threadIdx.x % 32 / 4, row = i < 2 ? group : group + 8, column = threadIdx.x % 4 * 2 + (i & 1);
    for (int k = 0; k < 16; k++) {
      const unsigned left = lanes[row % 8 * 4 + k % 8 / 2].a[(row < 8 ? 0 : 1) + (k < 8 ? 0 : 2)];
      const unsigned right = lanes[column * 4 + k % 8 / 2].b[k < 8 ? 0 : 1];
      sums[i] += half_of(left, k & 1) * half_of(right, k & 1);
    }
  }
}

static unsigned pack(float low, float high) {
  bf16 both[2];
  put(both, 0, low);
  put(both, 1, high);
  return both[0] | (unsigned)both[1] << 16;
}

static float power_of_2(float x) {
  const float y = exp2f(x);
  return y < 1.17549435e-38f ? 0.0f : y;
}

// Copies that have begun, of every thread. The old values are lost when a copy begins, and the new ones are there when
// it is waited for: the earliest and the latest moment that a device allows.
struct Copy { bf16* to; const bf16* from; };
static Copy begun[BLOCK][64];
static int copies[BLOCK];

static void begin_copy(bf16* to, const bf16* from, bool clears) {
  must_be_aligned(to);
  must_be_aligned(from);
  memset(to, 0xff, 16);
  if (copies[threadIdx.x] == 64) { fprintf(stderr, "more copies than there is room for\n"); abort(); }
  begun[threadIdx.x][copies[threadIdx.x]++] = {to, clears ? nullptr : from};
}

static void await_copies() {
  for (int i = 0; i < copies[threadIdx.x]; i++) {
    const Copy& copy = begun[threadIdx.x][i];
    if (copy.from) memcpy(copy.to, copy.from, 16); else memset(copy.to, 0, 16);
  }
  copies[threadIdx.x] = 0;
}
