// The driver's entry points, as far as cudarc and Candle call them. The library is named libcuda.so: NVRTC opens libcuda.so.1
// by itself and would need a real one.
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <regex>
#include <string_view>

#include "world.h"

// The kernels as C (gpu/kernels/emulated.c).
extern "C" int tealight_emulate(const char* name, void** buffers, const void* params, int groups);

#define API extern "C" __attribute__((visibility("default"))) int
using Handle = void*;

namespace {
int device_context, device_pool;

// A kernel as its PTX declares it: the bytes of its parameters, and most threads of a block.
struct Function {
  std::string name;
  std::vector<size_t> parameters;
  unsigned threads = 1024;
  bool copies_vectors = false;
};
struct Module { std::map<std::string, std::unique_ptr<Function>> functions; };
struct Event { Clock seen; };
struct Graph { std::vector<Operation> operations; };
std::set<void*> modules, functions, events, graphs_made, executables;

template <typename T> T* known(const std::set<void*>& all, Handle handle) { return all.count(handle) ? (T*)handle : nullptr; }

// The entries of a module's text. One that is not there has no parameters to be wrong about.
std::unique_ptr<Module> parse(const std::string& text) {
  auto module = std::make_unique<Module>();
  static const std::regex parameter("\\.param\\s+(?:\\.align\\s+\\d+\\s+)?\\.[a-z]+(\\d+)\\s+[\\w$]+(?:\\[(\\d+)\\])?");
  for (size_t at = text.find(".entry "); at != std::string::npos; at = text.find(".entry ", at + 1)) {
    const size_t open = text.find('(', at), close = text.find(')', open), body = text.find('{', close);
    const size_t end = std::min(text.find(".entry ", close), text.size());
    if (body == std::string::npos) break;
    auto function = std::make_unique<Function>();
    function->name = text.substr(at + 7, open - at - 7);
    const std::string list = text.substr(open, close - open), limits = text.substr(close, body - close);
    for (std::sregex_iterator each(list.begin(), list.end(), parameter), none; each != none; ++each) {
      const size_t bytes = std::stoul((*each)[1]) / 8;
      function->parameters.push_back((*each)[2].matched ? bytes * std::stoul((*each)[2]) : bytes);
    }
    if (const size_t most = limits.find(".maxntid "); most != std::string::npos) function->threads = atoi(&limits[most + 9]);
    function->copies_vectors = std::string_view(text).substr(body, end - body).find("cp.async") != std::string_view::npos;
    module->functions[function->name] = std::move(function);
  }
  return module;
}

// Whether the host has memory there: where a launch has fewer arguments than its kernel, what follows them is anything.
bool is_readable(const void* address, size_t bytes) {
  std::vector<char> to(bytes);
  iovec here = {to.data(), bytes}, there = {(void*)address, bytes};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool is_capturing(Stream* stream) { return stream && stream->is_capturing; }

// A call that would wait for, or change, what is only being recorded.
Result refused_in_capture(Stream* stream, const char* what) {
  stream->is_invalid = true;
  return refuse(CAPTURE_UNSUPPORTED, "%s in a capture", what);
}

Result ours(const Function& function, unsigned groups, const std::vector<std::vector<char>>& values, Operation& operation) {
  std::vector<void*> buffers;
  for (int at = 0; at < 10; at++) {
    uintptr_t address;
    memcpy(&address, values[at].data(), 8);
    // Attention on tensor cores copies 16 bytes of queries, keys and values at a time.
    const size_t alignment = function.copies_vectors && at < 3 ? 16 : function.name.find("_bf16") == std::string::npos ? 4 : 2;
    operation.uses.push_back({address, 1, true, alignment, "buffer " + std::to_string(at)});
    buffers.push_back((void*)address);
  }
  operation.run = [name = function.name, buffers, params = values[10], groups]() mutable {
    if (!tealight_emulate(name.c_str(), buffers.data(), params.data(), (int)groups)) return SUCCESS;
    return refuse(NOT_SUPPORTED, "%s: this fake has no such kernel; build it from the same source", name.c_str());
  };
  return SUCCESS;
}
}  // namespace

API cuInit(unsigned) { return SUCCESS; }
API cuDriverGetVersion(int* version) { *version = 13000; return SUCCESS; }
API cuDeviceGetCount(int* count) { *count = 1; return SUCCESS; }
API cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? SUCCESS : 101;
}
API cuDeviceGetName(char* name, int length, int) { snprintf(name, (size_t)length, "fake H100 on a CPU"); return SUCCESS; }
API cuDeviceTotalMem_v2(size_t* bytes, int) { *bytes = pool.total; return SUCCESS; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
  // Multiprocessors, compute capability 9.0, memory pools; whatever else is asked is 1.
  const std::map<int, int> values = {{16, 132}, {75, 9}, {76, 0}, {115, 1}};
  auto found = values.find(attribute);
  *value = found == values.end() ? 1 : found->second;
  return SUCCESS;
}
API cuDevicePrimaryCtxRetain(Handle* context, int) { *context = &device_context; return SUCCESS; }
API cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API cuCtxSetCurrent(Handle context) {
  if (context && context != &device_context) return refuse(INVALID_CONTEXT, "no such context");
  set_current(context != nullptr);
  return SUCCESS;
}
API cuCtxGetCurrent(Handle* context) { *context = is_current() ? &device_context : nullptr; return SUCCESS; }
API cuCtxSynchronize() {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  if (captures) return refuse(CAPTURE_UNSUPPORTED, "a wait for the device in a capture");
  for (void* stream : streams) host.join(((Stream*)stream)->seen);
  trim();
  return SUCCESS;
}

API cuStreamCreate(Handle* stream, unsigned) {
  if (Result result = ready()) return result;
  *stream = new_stream();
  return SUCCESS;
}
API cuStreamCreateWithPriority(Handle* stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
API cuStreamDestroy_v2(Handle handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  // Kept, so that its number stays known; only the handle ends.
  return streams.erase(handle) ? SUCCESS : refuse(INVALID_HANDLE, "a stream is destroyed that is not there");
}
API cuStreamSynchronize(Handle handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  Stream* stream = stream_of(handle);
  if (!stream) return refuse(INVALID_HANDLE, "a wait for a stream that is not there");
  if (stream->is_capturing) return refused_in_capture(stream, "a wait for the stream");
  host.join(stream->seen);
  trim();
  return SUCCESS;
}
API cuStreamWaitEvent(Handle handle, Handle event_handle, unsigned) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Stream* stream = stream_of(handle);
  Event* event = known<Event>(events, event_handle);
  if (!stream || !event) return refuse(INVALID_HANDLE, "a wait: no such stream or event");
  if (!stream->is_capturing) stream->seen.join(event->seen);
  return ready();
}

API cuEventCreate(Handle* event, unsigned) {
  std::lock_guard<std::recursive_mutex> held(lock);
  *event = new Event;
  events.insert(*event);
  return ready();
}
API cuEventRecord(Handle event_handle, Handle handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Stream* stream = stream_of(handle);
  Event* event = known<Event>(events, event_handle);
  if (!stream || !event) return refuse(INVALID_HANDLE, "a record: no such stream or event");
  if (!stream->is_capturing) event->seen = stream->seen;
  return ready();
}
API cuEventSynchronize(Handle event_handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Event* event = known<Event>(events, event_handle);
  if (!event) return refuse(INVALID_HANDLE, "a wait for an event that is not there");
  host.join(event->seen);
  return ready();
}
API cuEventQuery(Handle event) { return cuEventSynchronize(event); }
API cuEventDestroy_v2(Handle event) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return events.erase(event) ? SUCCESS : refuse(INVALID_HANDLE, "an event is destroyed that is not there");
}

API cuMemAllocAsync(uintptr_t* address, size_t bytes, Handle stream) { return allocate(address, bytes, stream_of(stream)); }
API cuMemFreeAsync(uintptr_t address, Handle stream) { return release(address, stream_of(stream)); }
// Both wait for all streams.
API cuMemAlloc_v2(uintptr_t* address, size_t bytes) {
  if (int result = allocate(address, bytes, stream_of(nullptr))) return result;
  return cuCtxSynchronize();
}
API cuMemFree_v2(uintptr_t address) {
  if (int result = cuCtxSynchronize()) return result;
  return release(address, stream_of(nullptr));
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  *total = pool.total;
  *free = pool.total - pool.reserved;
  return ready();
}
API cuDeviceGetDefaultMemPool(Handle* of, int) { *of = &device_pool; return SUCCESS; }
API cuMemPoolSetAttribute(Handle of, int attribute, void* value) {
  if (of != &device_pool || attribute != 4) return refuse(INVALID_VALUE, "attribute %d of a pool cannot be set", attribute);
  memcpy(&pool.threshold, value, 8);
  return ready();
}
API cuMemPoolGetAttribute(Handle of, int attribute, void* value) {
  const std::map<int, uint64_t> values = {{4, pool.threshold}, {5, pool.reserved}, {7, pool.used}};
  auto found = values.find(attribute);
  if (of != &device_pool || found == values.end()) return refuse(INVALID_VALUE, "a pool has no attribute %d", attribute);
  memcpy(value, &found->second, 8);
  return ready();
}

API cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, Handle handle) {
  Stream* stream = stream_of(handle);
  // A capture would read the host's memory when the graph runs.
  if (is_capturing(stream)) return refused_in_capture(stream, "a copy from the host");
  auto copy = [=] { memcpy((void*)to, from, bytes); return SUCCESS; };
  return submit(stream, {"a copy from the host", {{to, bytes, true, 1, "its destination"}}, copy});
}
API cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, Handle handle) {
  Stream* stream = stream_of(handle);
  if (is_capturing(stream)) return refused_in_capture(stream, "a copy to the host");
  auto copy = [=] { memcpy(to, (const void*)from, bytes); return SUCCESS; };
  return submit(stream, {"a copy to the host", {{from, bytes, false, 1, "its source"}}, copy});
}
API cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, Handle stream) {
  auto copy = [=] { memmove((void*)to, (const void*)from, bytes); return SUCCESS; };
  return submit(stream_of(stream), {"a copy on the device",
                                    {{from, bytes, false, 1, "its source"}, {to, bytes, true, 1, "its destination"}}, copy});
}
API cuMemsetD8Async(uintptr_t to, unsigned char value, size_t bytes, Handle stream) {
  auto set = [=] { memset((void*)to, value, bytes); return SUCCESS; };
  return submit(stream_of(stream), {"a fill", {{to, bytes, true, 1, "its destination"}}, set});
}

API cuModuleLoadData(Handle* module, const void* image) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  if (strncmp((const char*)image, "//", 2) && !strstr((const char*)image, ".version"))
    return refuse(INVALID_PTX, "a module that is no PTX");
  *module = parse((const char*)image).release();
  modules.insert(*module);
  return SUCCESS;
}
API cuModuleLoadDataEx(Handle* module, const void* image, unsigned, int*, void**) { return cuModuleLoadData(module, image); }
API cuModuleUnload(Handle) { return SUCCESS; }
API cuModuleGetFunction(Handle* function, Handle handle, const char* name) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Module* module = known<Module>(modules, handle);
  if (!module) return refuse(INVALID_HANDLE, "%s: no such module", name);
  auto found = module->functions.find(name);
  if (found == module->functions.end()) return refuse(NOT_FOUND, "the module has no kernel %s", name);
  *function = found->second.get();
  functions.insert(*function);
  return ready();
}

API cuLaunchKernel(Handle handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                   unsigned block_z, unsigned shared, Handle stream, void** arguments, void**) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Function* function = known<Function>(functions, handle);
  if (!function) return refuse(INVALID_HANDLE, "a launch of no kernel");
  const char* name = function->name.c_str();
  const uint64_t threads = (uint64_t)block_x * block_y * block_z;
  if (!grid_x || !grid_y || !grid_z || grid_x > 0x7fffffff || grid_y > 65535 || grid_z > 65535)
    return refuse(INVALID_VALUE, "%s: a grid of %u x %u x %u", name, grid_x, grid_y, grid_z);
  if (!threads || threads > function->threads)
    return refuse(INVALID_VALUE, "%s: %lu threads, of at most %u", name, (unsigned long)threads, function->threads);
  if (shared > 48 << 10) return refuse(INVALID_VALUE, "%s: %u bytes of shared memory", name, shared);
  std::vector<std::vector<char>> values;
  for (size_t bytes : function->parameters) {
    void** at = arguments + values.size();
    if (!is_readable(at, sizeof *at) || !is_readable(*at, bytes))
      return refuse(INVALID_VALUE, "%s: %zu arguments, of %zu", name, values.size(), function->parameters.size());
    values.emplace_back((char*)*at, (char*)*at + bytes);
  }
  Operation operation{name, {}, nullptr};
  std::vector<size_t> of_ours(10, 8);
  of_ours.push_back(80);
  if (function->parameters == of_ours) {
    if (threads != 256) return refuse(INVALID_VALUE, "%s: %lu threads, of 256", name, (unsigned long)threads);
    if (Result result = ours(*function, grid_x, values, operation)) return result;
  } else {
    std::vector<uint64_t> numbers;
    for (const auto& value : values) {
      numbers.push_back(0);
      memcpy(&numbers.back(), value.data(), std::min<size_t>(8, value.size()));
    }
    if (!prepare_candle(function->name, numbers, operation)) return refuse(NOT_SUPPORTED, "this fake has no kernel %s", name);
  }
  launches++;
  return submit(stream_of(stream), std::move(operation));
}

API cuStreamBeginCapture_v2(Handle handle, int) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  Stream* stream = stream_of(handle);
  if (!handle || !stream) return refuse(INVALID_HANDLE, "the default stream, or none, cannot be captured");
  if (stream->is_capturing) return refuse(CAPTURE_UNMATCHED, "a capture on a stream that is captured");
  stream->is_capturing = true, stream->is_invalid = false;
  stream->captured.clear();
  captures++;
  return SUCCESS;
}
API cuStreamEndCapture(Handle handle, Handle* graph) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Stream* stream = stream_of(handle);
  *graph = nullptr;
  if (!is_capturing(stream)) return refuse(CAPTURE_UNMATCHED, "a capture ends that has not begun");
  stream->is_capturing = false;
  captures--;
  if (stream->is_invalid) return refuse(CAPTURE_INVALIDATED, "the capture had a call that cannot be captured");
  *graph = new Graph{std::move(stream->captured)};
  graphs_made.insert(*graph);
  graphs++;
  return ready();
}
API cuStreamIsCapturing(Handle handle, int* status) { *status = is_capturing(stream_of(handle)); return SUCCESS; }
API cuThreadExchangeStreamCaptureMode(int*) { return SUCCESS; }
API cuGraphInstantiateWithFlags(Handle* executable, Handle handle, unsigned long long) {
  std::lock_guard<std::recursive_mutex> held(lock);
  Graph* graph = known<Graph>(graphs_made, handle);
  if (!graph) return refuse(INVALID_HANDLE, "no such graph");
  *executable = new Graph(*graph);
  executables.insert(*executable);
  return ready();
}
API cuGraphUpload(Handle, Handle) { return ready(); }
API cuGraphLaunch(Handle handle, Handle stream_handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  Graph* graph = known<Graph>(executables, handle);
  Stream* stream = stream_of(stream_handle);
  if (!graph || !stream) return refuse(INVALID_HANDLE, "a graph is launched that is not there");
  if (stream->is_capturing) return refused_in_capture(stream, "the launch of a graph");
  replays++;
  for (const Operation& operation : graph->operations)
    if (Result result = perform(stream, operation)) return result;
  return SUCCESS;
}
API cuGraphExecDestroy(Handle graph) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return executables.erase(graph) ? SUCCESS : refuse(INVALID_HANDLE, "a graph is destroyed that is not there");
}
API cuGraphDestroy(Handle graph) {
  std::lock_guard<std::recursive_mutex> held(lock);
  return graphs_made.erase(graph) ? SUCCESS : refuse(INVALID_HANDLE, "a graph is destroyed that is not there");
}

API cuGetErrorName(int result, const char** name) {
  static const std::map<int, const char*> names = {
    {SUCCESS, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {INVALID_PTX, "CUDA_ERROR_INVALID_PTX"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"}, {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"}, {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"}};
  auto found = names.find(result);
  *name = found == names.end() ? "CUDA_ERROR_UNKNOWN" : found->second;
  return SUCCESS;
}
API cuGetErrorString(int result, const char** text) { *text = reason_of((Result)result); return SUCCESS; }
