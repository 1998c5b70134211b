// Every kernel in each of its types, and a table of them by name. `Kernel` is their type as the includer calls them.
#define NAME(name) name##_f32
#define REAL float
#include "layers.c"
#include "attention.c"
#include "gradients.c"
#include "delta.c"
#undef REAL
#undef NAME
#define NAME(name) name##_bf16
#define REAL bf16
#include "layers.c"
#include "attention.c"
#include "gradients.c"
#include "delta.c"
#undef REAL
#undef NAME
#define NAME(name) name##_f32
#include "single.c"
#include "sampling.c"
// For those on tensor cores the kernel that they are held against.
#include "attention_twin.c"

static const struct { const char* name; Kernel* kernel; } KERNELS[] = {
#define ONE(name) {#name "_f32", name##_f32},
#define TWO(name) {#name "_f32", name##_f32}, {#name "_bf16", name##_bf16},
#define TENSOR_CORES(dim) {"attention_mma_" #dim "_bf16", attention_mma_##dim##_bf16},
#include "names.h"
};
