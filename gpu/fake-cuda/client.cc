// Calls that a driver refuses, and the same calls in order, which it does not: whether the fake tells them apart. Each case is a
// process of its own, since an error of the device ends the use of a context.
//   client         all cases: 0 where every one ended as it should
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using Handle = void*;
extern "C" {
int cuDevicePrimaryCtxRetain(Handle*, int);
int cuCtxSetCurrent(Handle);
int cuStreamCreate(Handle*, unsigned);
int cuStreamSynchronize(Handle);
int cuStreamWaitEvent(Handle, Handle, unsigned);
int cuEventCreate(Handle*, unsigned);
int cuEventRecord(Handle, Handle);
int cuMemAllocAsync(uintptr_t*, size_t, Handle);
int cuMemFreeAsync(uintptr_t, Handle);
int cuMemGetInfo_v2(size_t*, size_t*);
int cuDeviceGetDefaultMemPool(Handle*, int);
int cuMemPoolSetAttribute(Handle, int, void*);
int cuMemPoolGetAttribute(Handle, int, void*);
int cuMemcpyHtoDAsync_v2(uintptr_t, const void*, size_t, Handle);
int cuMemcpyDtoHAsync_v2(void*, uintptr_t, size_t, Handle);
int cuModuleLoadData(Handle*, const void*);
int cuModuleGetFunction(Handle*, Handle, const char*);
int cuLaunchKernel(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**, void**);
int cuStreamBeginCapture_v2(Handle, int);
int cuStreamEndCapture(Handle, Handle*);
int cuGraphInstantiateWithFlags(Handle*, Handle, unsigned long long);
int cuGraphLaunch(Handle, Handle);
int cuGetErrorString(int, const char**);
int cublasCreate_v2(Handle*);
int cublasSetStream_v2(Handle, Handle);
int cublasSetWorkspace_v2(Handle, void*, size_t);
int cublasGemmEx(Handle, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*, void*,
                 int, int, int, int);
}

#define EIGHT ".param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p"
#define OURS EIGHT ", .param .u64 p, .param .u64 p, .param .align 4 .b8 p[80]"
// The declarations of three kernels, as compilers write them.
static const char* MODULE =
    "// for the fake\n.version 8.0\n"
    ".visible .entry add_f32(" OURS ")\n.maxntid 256, 1, 1\n{ }\n"
    ".visible .entry attention_mma_64_bf16(" OURS ")\n.maxntid 256, 1, 1\n{ cp.async.cg.shared.global; }\n"
    ".visible .entry usqr_f32(.param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p, .param .u64 p)\n{ }\n";

static Handle module, stream, other;

static void must(int result, const char* what) {
  if (result == 0) return;
  const char* why;
  cuGetErrorString(result, &why);
  fprintf(stderr, "%s: %d, %s\n", what, result, why);
  _exit(2);
}
#define OK(call) must(call, #call)

static void open() {
  Handle context;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, MODULE));
  OK(cuStreamCreate(&stream, 1));
  OK(cuStreamCreate(&other, 1));
}

static uintptr_t memory(size_t bytes) {
  uintptr_t address;
  OK(cuMemAllocAsync(&address, bytes, stream));
  return address;
}

static Handle kernel(const char* name) {
  Handle function;
  OK(cuModuleGetFunction(&function, module, name));
  return function;
}

// Squares of `count` values by Candle's kernel.
static int square(uintptr_t from, uintptr_t to, size_t count, Handle on) {
  size_t none = 0;
  void* arguments[] = {&count, &none, &none, &from, &to};
  return cuLaunchKernel(kernel("usqr_f32"), 1, 1, 1, 256, 1, 1, 0, on, arguments, nullptr);
}

struct Params { int n[8]; float f[12]; };

// `x += y` by our kernel.
static int add(uintptr_t x, uintptr_t y, int count, Handle on, unsigned threads = 256, const char* name = "add_f32") {
  uintptr_t buffers[10] = {x, y, x, x, x, x, x, x, x, x};
  Params params = {{count}, {}};
  void* arguments[11];
  for (int at = 0; at < 10; at++) arguments[at] = &buffers[at];
  arguments[10] = &params;
  return cuLaunchKernel(kernel(name), 1, 1, 1, threads, 1, 1, 0, on, arguments, nullptr);
}

// `c = a b` of matrices of 2 x 2.
static int multiply(Handle blas, uintptr_t a, uintptr_t b, uintptr_t c, int stride = 2) {
  const float one = 1, zero = 0;
  return cublasGemmEx(blas, 0, 0, 2, 2, 2, &one, (void*)a, 0, stride, (void*)b, 0, 2, &zero, (void*)c, 0, 2, 68, -1);
}

static const float VALUES[4] = {1, 2, 3, 4};
static uintptr_t values() {
  const uintptr_t x = memory(sizeof VALUES);
  OK(cuMemcpyHtoDAsync_v2(x, VALUES, sizeof VALUES, stream));
  return x;
}

static void is(uintptr_t x, float first, float last) {
  float found[4];
  OK(cuMemcpyDtoHAsync_v2(found, x, sizeof found, stream));
  OK(cuStreamSynchronize(stream));
  if (found[0] == first && found[3] == last) return;
  fprintf(stderr, "%g .. %g, which should be %g .. %g\n", found[0], found[3], first, last);
  _exit(2);
}

// --- What is in order: 0 each.
static int steps_and_a_graph_compute() {
  const uintptr_t x = values(), y = memory(16);
  OK(square(x, y, 4, stream));
  OK(add(y, x, 4, stream));
  is(y, 2, 20);
  Handle graph, executable, capture = other;
  OK(cuStreamBeginCapture_v2(capture, 1));
  OK(add(y, x, 4, capture));
  OK(add(y, x, 4, capture));
  OK(cuStreamEndCapture(capture, &graph));
  is(y, 2, 20);
  OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cuGraphLaunch(executable, stream));
  is(y, 4, 28);
  return 0;
}
static int an_event_orders_two_streams() {
  const uintptr_t x = values(), y = memory(16);
  Handle event;
  OK(cuEventCreate(&event, 0));
  OK(cuEventRecord(event, stream));
  OK(cuStreamWaitEvent(other, event, 0));
  OK(square(x, y, 4, other));
  OK(cuEventRecord(event, other));
  OK(cuStreamWaitEvent(stream, event, 0));
  is(y, 1, 16);
  return 0;
}
static int a_product_computes() {
  Handle blas;
  OK(cublasCreate_v2(&blas));
  OK(cublasSetStream_v2(blas, stream));
  const uintptr_t x = values(), y = memory(16);
  OK(multiply(blas, x, x, y));
  is(y, 7, 22);
  return 0;
}
static int a_pool_keeps_what_it_is_told_to() {
  Handle pool;
  size_t before, kept, total;
  unsigned long long most = ~0ull, reserved, used;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  OK(cuMemFreeAsync(memory(1 << 20), stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemGetInfo_v2(&before, &total));
  OK(cuMemPoolSetAttribute(pool, 4, &most));
  OK(cuMemFreeAsync(memory(1 << 20), stream));
  OK(cuStreamSynchronize(stream));
  OK(cuMemGetInfo_v2(&kept, &total));
  OK(cuMemPoolGetAttribute(pool, 5, &reserved));
  OK(cuMemPoolGetAttribute(pool, 7, &used));
  return before == total && kept == total - (1 << 20) && reserved == 1 << 20 && used == 0 ? 0 : 1;
}

// --- What is refused: the driver's number each.
static int allocation_in_a_capture() {
  uintptr_t address;
  OK(cuStreamBeginCapture_v2(stream, 1));
  return cuMemAllocAsync(&address, 16, stream);
}
static int end_of_a_capture_that_went_wrong() {
  Handle graph;
  allocation_in_a_capture();
  return cuStreamEndCapture(stream, &graph);
}
static int wait_in_a_capture() {
  OK(cuStreamBeginCapture_v2(stream, 1));
  return cuStreamSynchronize(stream);
}
static int copy_to_the_host_in_a_capture() {
  const uintptr_t x = values();
  float found[4];
  OK(cuStreamBeginCapture_v2(stream, 1));
  return cuMemcpyDtoHAsync_v2(found, x, sizeof found, stream);
}
static int an_argument_too_few() {
  // Behind the last one is anything; here an address of nothing.
  size_t count = 4, none = 0;
  uintptr_t x = values();
  void* arguments[] = {&count, &none, &none, &x, (void*)8};
  return cuLaunchKernel(kernel("usqr_f32"), 1, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr);
}
static int a_buffer_too_few() {
  // The numbers stand where the tenth buffer should.
  const uintptr_t x = values();
  uintptr_t buffers[9];
  Params params[2] = {{{4}, {}}, {{4}, {}}};
  void* arguments[11];
  for (int at = 0; at < 9; at++) buffers[at] = x, arguments[at] = &buffers[at];
  arguments[9] = &params[0], arguments[10] = &params[1];
  return cuLaunchKernel(kernel("add_f32"), 1, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr);
}
static int vectors_at_odd_addresses() {
  const uintptr_t x = memory(4096);
  return add(x, x + 2, 4, stream, 256, "attention_mma_64_bf16");
}
static int memory_that_was_freed() {
  const uintptr_t x = values(), y = memory(16);
  OK(cuMemFreeAsync(y, stream));
  return square(x, y, 4, stream);
}
static int a_graph_of_memory_that_was_freed() {
  const uintptr_t x = values(), y = memory(16);
  Handle graph, executable;
  OK(cuStreamBeginCapture_v2(other, 1));
  OK(square(x, y, 4, other));
  OK(cuStreamEndCapture(other, &graph));
  OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
  OK(cuGraphLaunch(executable, stream));
  OK(cuMemFreeAsync(y, stream));
  return cuGraphLaunch(executable, stream);
}
static int a_read_beyond_memory() {
  const uintptr_t x = values();
  return square(x, memory(64), 5, stream);
}
static int a_write_behind_the_end() {
  // The kernel is told of a value more than there is: seen where the memory is freed.
  const uintptr_t x = memory(32), y = memory(16);
  OK(add(y, x, 5, stream));
  return cuMemFreeAsync(y, stream);
}
static int two_streams_without_an_event() { return square(values(), memory(16), 4, other); }
static int a_stream_that_frees_what_another_reads() {
  const uintptr_t x = values(), y = memory(16);
  OK(cuStreamSynchronize(stream));
  OK(square(x, y, 4, other));
  return cuMemFreeAsync(x, stream);
}
static int every_call_after_an_error_of_the_device() {
  memory_that_was_freed();
  return cuStreamSynchronize(stream);
}
static int a_thread_without_a_context() {
  OK(cuCtxSetCurrent(nullptr));
  uintptr_t address;
  return cuMemAllocAsync(&address, 16, stream);
}
static int more_threads_than_the_kernel_has() {
  const uintptr_t x = values();
  return add(x, x, 4, stream, 512);
}
static int a_kernel_that_the_module_lacks() {
  Handle function;
  return cuModuleGetFunction(&function, module, "usqr_f16");
}
static int more_memory_than_there_is() {
  uintptr_t address;
  return cuMemAllocAsync(&address, 1ull << 40, stream);
}
static int a_captured_product_without_a_workspace() {
  Handle blas;
  OK(cublasCreate_v2(&blas));
  const uintptr_t scratch = memory(4096), x = values();
  OK(cublasSetWorkspace_v2(blas, (void*)scratch, 4096));
  // This takes the workspace away again.
  OK(cublasSetStream_v2(blas, other));
  OK(cuStreamBeginCapture_v2(other, 1));
  return multiply(blas, x, x, x);
}
static int a_product_with_columns_too_near() {
  Handle blas;
  OK(cublasCreate_v2(&blas));
  OK(cublasSetStream_v2(blas, stream));
  const uintptr_t x = values();
  return multiply(blas, x, x, memory(16), 1);
}

#define CASE(name, result) {#name, name, result}
static const struct { const char* name; int (*run)(); int result; } CASES[] = {
    CASE(steps_and_a_graph_compute, 0), CASE(an_event_orders_two_streams, 0), CASE(a_product_computes, 0),
    CASE(a_pool_keeps_what_it_is_told_to, 0), CASE(allocation_in_a_capture, 900), CASE(end_of_a_capture_that_went_wrong, 901),
    CASE(wait_in_a_capture, 900), CASE(copy_to_the_host_in_a_capture, 900), CASE(an_argument_too_few, 1),
    CASE(a_buffer_too_few, 700), CASE(vectors_at_odd_addresses, 716), CASE(memory_that_was_freed, 700),
    CASE(a_graph_of_memory_that_was_freed, 700), CASE(a_read_beyond_memory, 700), CASE(a_write_behind_the_end, 700),
    CASE(two_streams_without_an_event, 719), CASE(a_stream_that_frees_what_another_reads, 719),
    CASE(every_call_after_an_error_of_the_device, 700), CASE(a_thread_without_a_context, 201),
    CASE(more_threads_than_the_kernel_has, 1), CASE(a_kernel_that_the_module_lacks, 500), CASE(more_memory_than_there_is, 2),
    CASE(a_captured_product_without_a_workspace, 13), CASE(a_product_with_columns_too_near, 7)};

int main() {
  int failed = 0, refused = 0;
  for (const auto& each : CASES) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      open();
      const int result = each.run();
      if (result == each.result) _exit(0);
      fprintf(stderr, "%s: %d, which should be %d\n", each.name, result, each.result);
      _exit(1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) printf("FAILED %s\n", each.name);
    failed += status != 0;
    refused += each.result != 0;
  }
  const int all = (int)(sizeof CASES / sizeof CASES[0]);
  printf("fake-cuda: %d of %d cases, %d of them refused\n", all - failed, all, refused);
  return failed != 0;
}
