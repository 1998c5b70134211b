// The dialect of the kernels in the Metal Shading Language; see cuda.h for what the words mean. `program` puts Metal's
// library before common.h.
typedef ushort bf16;
typedef long wide;
typedef ulong uwide;
#define KERNEL(name) kernel void NAME(name)( \
    device void* b0 [[buffer(0)]], device void* b1 [[buffer(1)]], device void* b2 [[buffer(2)]], \
    device void* b3 [[buffer(3)]], device void* b4 [[buffer(4)]], device void* b5 [[buffer(5)]], \
    device void* b6 [[buffer(6)]], device void* b7 [[buffer(7)]], device void* b8 [[buffer(8)]], \
    device void* b9 [[buffer(9)]], constant Params& params [[buffer(10)]], \
    uint thread_number [[thread_position_in_threadgroup]], uint group_number [[threadgroup_position_in_grid]])
#define BUFFER(type, name, index) device type* const name = (device type*)b##index
#define GROUP ((int)group_number)
#define SHARED(type, name, count) threadgroup type name[count]
#define PRIVATE(type, name, count) type name[1][count]
#define ME 0
#define THREADS { const int t = (int)thread_number;
#define END } threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
#define EXP(x) precise::exp(x)
#define LOG(x) precise::log(x)
#define SQRT(x) precise::sqrt(x)
#define MAX(x, y) fmax(x, y)
#define BITS(x) as_type<uint>(x)
#define FLOAT(bits) as_type<float>(bits)
#define BLOCK_SUM(values) block_sum(values, (int)thread_number)
#define BLOCK_MAX(values) block_max(values, (int)thread_number)

inline float get(device const float* p, wide i) { return p[i]; }
inline void put(device float* p, wide i, float x) { p[i] = x; }
inline float get(device const bf16* p, wide i) { return as_type<float>((uint)p[i] << 16); }
inline void put(device bf16* p, wide i, float x) {
  const uint bits = as_type<uint>(x);
  p[i] = isnan(x) ? (bf16)0x7fc0 : (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define LOAD(p, i) get(p, i)
#define STORE(p, i, x) put(p, i, x)

inline float block_sum(threadgroup float* values, int t) {
  for (int half_width = BLOCK / 2; half_width > 0; half_width /= 2) {
    if (t < half_width) values[t] += values[t + half_width];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const float sum = values[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return sum;
}

inline float block_max(threadgroup float* values, int t) {
  for (int half_width = BLOCK / 2; half_width > 0; half_width /= 2) {
    if (t < half_width) values[t] = fmax(values[t], values[t + half_width]);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  const float top = values[0];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  return top;
}
