// The CUDA text itself on a CPU: what only cuda.h has, its reduction by shuffles and its bf16, and attention on tensor
// cores run nowhere else without a GPU. A block is BLOCK fibers on one thread of the CPU, a warp 32 of them. A fiber
// runs until it waits. A warp runs until it waits for its block: where a barrier is missing, one warp is far ahead of
// another. Threads that do not wait together end the process with a message: a device would hang or worse.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "common.h"

#define __global__
#define __device__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// What is shared is NaN where a block begins, with linkers that say where a section is.
#ifdef __linux__
#define __shared__ static __attribute__((section("tealight_shared")))
extern "C" char __start_tealight_shared[], __stop_tealight_shared[];
#else
#define __shared__ static
#endif
namespace {
struct Index { unsigned x; };
Index blockIdx, threadIdx;

enum Wait { RUNS, BLOCK_WAIT, SHUFFLE_WAIT, LOAD_WAIT, TRANSPOSED_LOAD_WAIT, MULTIPLY_WAIT, ENDED };
// `calls` counts those that lanes of a warp make together.
struct Fiber { ucontext_t context; Wait wait; unsigned calls; };
Fiber fibers[BLOCK];
ucontext_t scheduler;
float exchanged[2][BLOCK];

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
  float* const all = exchanged[fibers[threadIdx.x].calls++ % 2];
  all[threadIdx.x] = x;
  wait_for(SHUFFLE_WAIT);
  return all[threadIdx.x ^ (unsigned)lanes];
}

#include "cuda.h"

typedef void Kernel(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, const Params);
#include "mma_emulated.h"
#include "all.h"

static struct { Kernel* kernel; void** b; const Params* params; const char* name; } launch;
// The threads of a block in the order that their turns have, by warp.
static unsigned turns[BLOCK / 32][32];

static void body() {
  void** b = launch.b;
  launch.kernel(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], *launch.params);
  fibers[threadIdx.x].wait = ENDED;
}

// Ends the process unless a thread is where another is.
static void must_be_together(unsigned thread, unsigned other) {
  if (fibers[thread].wait == fibers[other].wait) return;
  fprintf(stderr, "%s: thread %u of block %u is not where thread %u is\n", launch.name, thread, blockIdx.x, other);
  abort();
}

// Runs a warp until it waits for its block, or ends.
static void run_warp(const unsigned* lanes) {
  do {
    for (int turn = 0; turn < 32; turn++) {
      threadIdx.x = lanes[turn];
      swapcontext(&scheduler, &fibers[threadIdx.x].context);
    }
    for (int turn = 1; turn < 32; turn++) must_be_together(lanes[turn], lanes[0]);
  } while (fibers[lanes[0]].wait != BLOCK_WAIT && fibers[lanes[0]].wait != ENDED);
}

// Runs every thread of a block to its end.
static void run_block() {
  const size_t size = 256 << 10;
  static char* stacks = (char*)malloc(BLOCK * size);
#ifdef __linux__
  memset(__start_tealight_shared, 0xff, __stop_tealight_shared - __start_tealight_shared);
#endif
  for (unsigned t = 0; t < BLOCK; t++) {
    getcontext(&fibers[t].context);
    fibers[t].context.uc_stack.ss_sp = stacks + t * size;
    fibers[t].context.uc_stack.ss_size = size;
    fibers[t].context.uc_link = &scheduler;
    fibers[t].wait = RUNS;
    makecontext(&fibers[t].context, body, 0);
  }
  do {
    for (unsigned warp = 0; warp < BLOCK / 32; warp++) run_warp(turns[warp]);
    for (unsigned t = 1; t < BLOCK; t++) must_be_together(t, 0);
  } while (fibers[0].wait != ENDED);
}

// Warps in the order of their first threads, their lanes in the order of theirs.
static void order_turns(const int* threads) {
  unsigned warps = 0, places[BLOCK / 32], counts[BLOCK / 32] = {};
  for (int i = 0; i < BLOCK; i++) {
    const unsigned warp = (unsigned)threads[i] / 32;
    if (counts[warp] == 0) places[warp] = warps++;
    turns[places[warp]][counts[warp]++] = (unsigned)threads[i];
  }
}

// Runs all blocks of a kernel in turn, the threads of each in the order given; 1 where there is none of that name.
extern "C" int tealight_emulate_cuda(const int* threads, const char* name, void** b, const Params* params, int groups) {
  for (unsigned i = 0; i < sizeof(KERNELS) / sizeof(KERNELS[0]); i++) {
    if (strcmp(KERNELS[i].name, name) != 0) continue;
    launch = {KERNELS[i].kernel, b, params, name};
    order_turns(threads);
    for (int group = 0; group < groups; group++) {
      blockIdx.x = (unsigned)group;
      run_block();
    }
    return 0;
  }
  return 1;
}
