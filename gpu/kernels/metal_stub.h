// What kernels use of Metal's library, for Clang to check the shaders where there is no Mac: syntax, types and
// address spaces, nothing of what Metal's compiler does with them. scripts/check-kernels puts it in the place of
// <metal_stdlib>.
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned long ulong;
#define kernel
#define device __attribute__((address_space(1)))
#define constant __attribute__((address_space(2)))
// Inside a function Clang takes an address space for static variables alone.
#define threadgroup __attribute__((address_space(3)))
namespace metal {
enum class mem_flags { mem_threadgroup = 1, mem_device = 2 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
void threadgroup_barrier(mem_flags);
float fmax(float, float);
bool isnan(float);
template <typename T, typename U> T as_type(U x) { return __builtin_bit_cast(T, x); }
namespace precise {
float exp(float);
float log(float);
float sqrt(float);
}
}
