// The dialect of the kernels in OpenCL C; see cuda.h for what the words mean. No GPU of ours runs it: Oclgrind does, on a
// CPU, with real work-groups, and reports races and reads of memory that nothing has written.
typedef ushort bf16;
typedef long wide;
typedef ulong uwide;
#define KERNEL(name) kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1))) void NAME(name)( \
    global void* b0, global void* b1, global void* b2, global void* b3, global void* b4, global void* b5, \
    global void* b6, global void* b7, global void* b8, global void* b9, const Params params)
#define BUFFER(type, name, index) global type* const name = (global type*)b##index
#define GROUP ((int)get_group_id(0))
#define SHARED(type, name, count) local type name[count]
#define PRIVATE(type, name, count) type name[1][count]
#define ME 0
#define THREADS { const int t = (int)get_local_id(0);
#define END } barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#define EXP(x) exp(x)
#define LOG(x) log(x)
#define SQRT(x) sqrt(x)
#define MAX(x, y) fmax(x, y)
#define BITS(x) as_uint(x)
#define FLOAT(bits) as_float(bits)
#define BLOCK_SUM(values) block_sum(values, (int)get_local_id(0))
#define BLOCK_MAX(values) block_max(values, (int)get_local_id(0))

float __attribute__((overloadable)) get(const global float* p, wide i) { return p[i]; }
void __attribute__((overloadable)) put(global float* p, wide i, float x) { p[i] = x; }
float __attribute__((overloadable)) get(const global bf16* p, wide i) { return as_float((uint)p[i] << 16); }
void __attribute__((overloadable)) put(global bf16* p, wide i, float x) {
  const uint bits = as_uint(x);
  p[i] = x != x ? (bf16)0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define LOAD(p, i) get(p, i)
#define STORE(p, i, x) put(p, i, x)

// As in metal.h, whose reductions nothing else runs without a Mac.
float block_sum(local float* values, int t) {
  for (int half_width = BLOCK / 2; half_width > 0; half_width /= 2) {
    if (t < half_width) values[t] += values[t + half_width];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float sum = values[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

float block_max(local float* values, int t) {
  for (int half_width = BLOCK / 2; half_width > 0; half_width /= 2) {
    if (t < half_width) values[t] = fmax(values[t], values[t + half_width]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float top = values[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return top;
}
