// The kernels as plain C: every stretch between barriers is a loop over the threads of a group. It is how
// their arithmetic and their barriers are tested without a GPU; cuda.h says what the words mean.
#include <math.h>
#include <string.h>

#include "common.h"
typedef unsigned short bf16;
typedef long long wide;
typedef unsigned long long uwide;
#define KERNEL(name) static void NAME(name)( \
    void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void* b6, void* b7, void* b8, void* b9, \
    const Params params, const int GROUP)
#define BUFFER(type, name, index) type* const name = (type*)b##index
#define SHARED(type, name, count) type name[count]
#define PRIVATE(type, name, count) type name[BLOCK][count]
#define ME t
#ifdef ORDERED
// The threads of a group in the order that the caller gives: what depends on it is a race.
static _Thread_local const int* turns;
#define THREADS for (int turn = 0; turn < BLOCK; turn++) { const int t = turns[turn];
#else
#define THREADS for (int t = 0; t < BLOCK; t++) {
#endif
#define END }
#define EXP(x) expf(x)
#define LOG(x) logf(x)
#define SQRT(x) sqrtf(x)
#define MAX(x, y) fmaxf(x, y)
#define BITS(x) bits_of(x)
#define FLOAT(bits) float_of(bits)
#define BLOCK_SUM(values) block_sum(values)
#define BLOCK_MAX(values) block_max(values)

static inline unsigned bits_of(float x) {
  unsigned bits;
  memcpy(&bits, &x, 4);
  return bits;
}
static inline float float_of(unsigned bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static inline float get_f32(const float* p, wide i) { return p[i]; }
static inline void put_f32(float* p, wide i, float x) { p[i] = x; }
static inline float get_bf16(const bf16* p, wide i) { return float_of((unsigned)p[i] << 16); }
static inline void put_bf16(bf16* p, wide i, float x) {
  const unsigned bits = bits_of(x);
  p[i] = x != x ? 0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define LOAD(p, i) _Generic((p), float*: get_f32, bf16*: get_bf16)((void*)(p), i)
#define STORE(p, i, x) _Generic((p), float*: put_f32, bf16*: put_bf16)((void*)(p), i, x)

static float block_sum(float* values) {
  float sum = 0.0f;
  for (int t = 0; t < BLOCK; t++) sum += values[t];
  return sum;
}

static float block_max(float* values) {
  float top = values[0];
  for (int t = 1; t < BLOCK; t++) top = fmaxf(top, values[t]);
  return top;
}

typedef void Kernel(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, const Params, const int);
#include "all.h"

// Runs all groups of a kernel in turn; 1 where there is none of that name.
#ifdef ORDERED
int tealight_emulate_ordered(const int* threads, const char* name, void** b, const Params* params, int groups) {
  turns = threads;
#else
int tealight_emulate(const char* name, void** b, const Params* params, int groups) {
#endif
  for (unsigned i = 0; i < sizeof(KERNELS) / sizeof(KERNELS[0]); i++) {
    if (strcmp(KERNELS[i].name, name) != 0) continue;
    for (int group = 0; group < groups; group++)
      KERNELS[i].kernel(b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], *params, group);
    return 0;
  }
  return 1;
}
