// The CUDA text itself on a CPU: what only cuda.h has, its reduction by shuffles and its bf16, runs nowhere else without a
// GPU. A block is BLOCK fibers on one thread of the CPU, a warp 32 of them. A fiber runs until it waits; where all wait,
// all go on. Threads that do not wait together end the process with a message: a device would hang or worse.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "common.h"

#define __global__
#define __device__ static
#define __shared__ static
#define __launch_bounds__(threads)
namespace {
struct Index { unsigned x; };
Index blockIdx, threadIdx;

enum Wait { RUNS, BLOCK_WAIT, WARP_WAIT, ENDED };
struct Fiber { ucontext_t context; Wait wait; };
Fiber fibers[BLOCK];
ucontext_t scheduler;
float exchanged[BLOCK];

void wait_for(Wait what) {
  Fiber& fiber = fibers[threadIdx.x];
  fiber.wait = what;
  swapcontext(&fiber.context, &scheduler);
}

inline float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
}  // namespace

static inline void __syncthreads() { wait_for(BLOCK_WAIT); }

static inline float __shfl_xor_sync(unsigned mask, float x, int lanes) {
  if (mask != 0xffffffffu || lanes <= 0 || lanes >= 32) { fprintf(stderr, "a shuffle of part of a warp\n"); abort(); }
  exchanged[threadIdx.x] = x;
  wait_for(WARP_WAIT);
  const float other = exchanged[threadIdx.x ^ (unsigned)lanes];
  wait_for(WARP_WAIT);
  return other;
}

#include "cuda.h"

typedef void Kernel(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, const Params);
#include "all.h"

static struct { Kernel* kernel; void** b; const Params* params; } launch;

static void body() {
  void** b = launch.b;
  launch.kernel(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], *launch.params);
  fibers[threadIdx.x].wait = ENDED;
}

// Runs every thread of a block to its end; they must wait at the same kind of barrier each time.
static void run_block(const char* name) {
  const size_t size = 256 << 10;
  static char* stacks = (char*)malloc(BLOCK * size);
  for (unsigned t = 0; t < BLOCK; t++) {
    getcontext(&fibers[t].context);
    fibers[t].context.uc_stack.ss_sp = stacks + t * size;
    fibers[t].context.uc_stack.ss_size = size;
    fibers[t].context.uc_link = &scheduler;
    fibers[t].wait = RUNS;
    makecontext(&fibers[t].context, body, 0);
  }
  for (bool all_ended = false; !all_ended;) {
    // The last thread first: what depends on the order of threads differs from the C text's order.
    for (unsigned turn = 0; turn < BLOCK; turn++) {
      threadIdx.x = BLOCK - 1 - turn;
      swapcontext(&scheduler, &fibers[threadIdx.x].context);
    }
    for (unsigned t = 1; t < BLOCK; t++) {
      if (fibers[t].wait == fibers[0].wait) continue;
      fprintf(stderr, "%s: thread %u of block %u is not where thread 0 is\n", name, t, blockIdx.x);
      abort();
    }
    all_ended = fibers[0].wait == ENDED;
  }
}

// Runs all blocks of a kernel in turn; 1 where there is none of that name.
extern "C" int tealight_emulate_cuda(const char* name, void** b, const Params* params, int groups) {
  for (unsigned i = 0; i < sizeof(KERNELS) / sizeof(KERNELS[0]); i++) {
    if (strcmp(KERNELS[i].name, name) != 0) continue;
    launch = {KERNELS[i].kernel, b, params};
    for (int group = 0; group < groups; group++) {
      blockIdx.x = (unsigned)group;
      run_block(name);
    }
    return 0;
  }
  return 1;
}
