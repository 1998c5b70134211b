// A warp's instructions for tensor cores, in PTX for compute capability 8.0 and later. All lanes of a warp call them
// together.
//
// Of an 8 x 8 matrix lane l holds row l / 4 at columns 2 (l % 4) and the one after it, the first in the lower half of a
// register.

// Four matrices from shared memory: lane l names row l % 8 of matrix l / 8, which is 16 bytes at a multiple of 16.
__device__ inline void load_matrices(unsigned (&to)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
    : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// The same, each matrix transposed.
__device__ inline void load_transposed(unsigned (&to)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
    : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
    : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}

// sums += a b in f32. a [16, 16] is four matrices: rows 0 to 7, rows 8 to 15, and both of columns 8 to 15; b [16, 8] is
// two of its transpose: rows 0 to 7 and 8 to 15; sums [16, 8] are two, of two registers each.
__device__ inline void multiply_add(float (&sums)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
    "{%0, %1, %2, %3};"
    : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two values in bf16, to the nearest, ties to even.
__device__ inline unsigned pack(float low, float high) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// 2 to the power of x; what is too small for a normal number is zero.
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Begins to copy 16 bytes to shared memory, or to clear them. Both addresses are multiples of 16; what clears reads
// nothing.
__device__ inline void begin_copy(bf16* to, const bf16* from, bool clears) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(clears ? 0 : 16) : "memory");
}

// Waits for the copies of this thread; others see them after a barrier.
__device__ inline void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
