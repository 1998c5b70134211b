// The dialect of the kernels in CUDA C++. No header is included: NVRTC finds none without a toolkit.
//
// A kernel is what one group of BLOCK threads does. THREADS begins what each of them does, with its number in
// `t`; END waits for all of them. What threads share is SHARED, what each keeps from one stretch to the next
// PRIVATE, to be read as name[ME][i]. REAL is float or bf16, read by LOAD and written by STORE.
typedef unsigned short bf16;
typedef long long wide;
typedef unsigned long long uwide;
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(BLOCK) NAME(name)( \
    void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void* b6, void* b7, void* b8, void* b9, \
    const Params params)
#define BUFFER(type, name, index) type* const name = (type*)b##index
#define GROUP ((int)blockIdx.x)
#define SHARED(type, name, count) __shared__ type name[count]
#define PRIVATE(type, name, count) type name[1][count]
#define ME 0
#define THREADS { const int t = threadIdx.x;
#define END } __syncthreads();
#define EXP(x) expf(x)
#define LOG(x) logf(x)
#define SQRT(x) sqrtf(x)
#define MAX(x, y) fmaxf(x, y)
#define BITS(x) __float_as_uint(x)
#define FLOAT(bits) __uint_as_float(bits)
#define BLOCK_SUM(values) block_sum(values)
#define BLOCK_MAX(values) block_max(values)

__device__ inline float get(const float* p, wide i) { return p[i]; }
__device__ inline void put(float* p, wide i, float x) { p[i] = x; }
__device__ inline float get(const bf16* p, wide i) { return __uint_as_float((unsigned)p[i] << 16); }
// To the nearest, ties to even; a NaN stays one.
__device__ inline void put(bf16* p, wide i, float x) {
  const unsigned bits = __float_as_uint(x);
  p[i] = x != x ? 0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define LOAD(p, i) get(p, i)
#define STORE(p, i, x) put(p, i, x)

__device__ inline float block_sum(float* values) {
  float x = values[threadIdx.x];
  for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffu, x, lane);
  __syncthreads();
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = x;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < BLOCK / 32; i++) sum += values[i];
  __syncthreads();
  return sum;
}

__device__ inline float block_max(float* values) {
  float x = values[threadIdx.x];
  for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, lane));
  __syncthreads();
  if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = x;
  __syncthreads();
  float top = values[0];
  for (int i = 1; i < BLOCK / 32; i++) top = fmaxf(top, values[i]);
  __syncthreads();
  return top;
}
