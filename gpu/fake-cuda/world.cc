// Memory, streams, and the rules that an operation must keep: see world.h.
#include "world.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>

std::recursive_mutex lock;
Clock host;
std::set<void*> streams;
Pool pool;
long launches, graphs, replays;
thread_local int captures = 0;
static thread_local bool has_context = false;

namespace {
std::map<int, std::string> reasons;
// After an error of the device every call of the process fails, as with a real one.
Result broken = SUCCESS;

// One number for each allocation that is there, or was: who wrote it last, and who has read it since.
struct Allocation {
  size_t bytes;
  bool is_freed = false;
  size_t writer = 0;
  uint64_t written = 0;
  std::map<size_t, uint64_t> readers;
};
std::map<uintptr_t, Allocation> allocations;
// Freed memory, whose addresses are not given out for a while: what still uses them is found.
std::deque<uintptr_t> freed;
size_t freed_bytes = 0;
const size_t FREED_MOST = 256 << 20, GUARD = 256;
const unsigned char GUARD_BYTE = 0xa5, NOBODY_WROTE = 0xff;

size_t rounded(size_t bytes) { return (bytes + 511) / 512 * 512; }

struct Report {
  Report() { if (const char* bytes = getenv("FAKE_CUDA_MEMORY")) pool.total = strtoull(bytes, nullptr, 10); }
  ~Report() {
    if (getenv("FAKE_CUDA_REPORT"))
      fprintf(stderr, "fake-cuda: %ld launches, %ld graphs, %ld replays\n", launches, graphs, replays);
  }
} report;

// The allocation with an address, there or freed.
std::map<uintptr_t, Allocation>::iterator holder(uintptr_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return allocations.end();
  auto found = std::prev(next);
  return address < found->first + found->second.bytes ? found : allocations.end();
}

Result in_order(const Stream* stream, const Allocation& memory, bool is_written, const std::string& who) {
  if (memory.writer != 0 && !stream->seen.has(memory.writer, memory.written))
    return refuse(LAUNCH_FAILED, "%s on stream %zu uses memory that stream %zu wrote, and no event or wait orders them",
                  who.c_str(), stream->number, memory.writer);
  if (is_written)
    for (auto [reader, at] : memory.readers)
      if (!stream->seen.has(reader, at))
        return refuse(LAUNCH_FAILED, "%s on stream %zu writes memory that stream %zu reads, and no event or wait orders them",
                      who.c_str(), stream->number, reader);
  return SUCCESS;
}
}  // namespace

Result refuse(Result result, const char* format, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::lock_guard<std::recursive_mutex> held(lock);
  reasons[result] = text;
  if (getenv("FAKE_CUDA_REPORT")) fprintf(stderr, "fake-cuda: refused: %s\n", text);
  if (result >= ILLEGAL_ADDRESS && result <= LAUNCH_FAILED) broken = result;
  return result;
}

const char* reason_of(Result result) {
  std::lock_guard<std::recursive_mutex> held(lock);
  auto found = reasons.find(result);
  return found == reasons.end() ? "no reason" : found->second.c_str();
}

void set_current(bool is_current) { has_context = is_current; }
bool is_current() { return has_context; }

Result ready() {
  if (broken != SUCCESS) return broken;
  return has_context ? SUCCESS : refuse(INVALID_CONTEXT, "this thread has no current context");
}

Stream* new_stream() {
  static size_t numbers = 0;
  std::lock_guard<std::recursive_mutex> held(lock);
  Stream* stream = new Stream;
  stream->number = ++numbers;
  streams.insert(stream);
  return stream;
}

Stream* stream_of(void* handle) {
  static Stream* of_default = new_stream();
  std::lock_guard<std::recursive_mutex> held(lock);
  if (!handle) return of_default;
  return streams.count(handle) ? (Stream*)handle : nullptr;
}

Result submit(Stream* stream, Operation operation) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  if (!stream) return refuse(INVALID_HANDLE, "%s: no such stream", operation.name.c_str());
  if (stream->is_capturing) {
    stream->captured.push_back(std::move(operation));
    return SUCCESS;
  }
  return perform(stream, operation);
}

Result perform(Stream* stream, const Operation& operation) {
  const char* name = operation.name.c_str();
  stream->seen.join(host);
  std::vector<std::pair<Allocation*, bool>> used;
  for (const Use& use : operation.uses) {
    const char* what = use.what.c_str();
    auto found = holder(use.address);
    if (found == allocations.end()) return refuse(ILLEGAL_ADDRESS, "%s: %s is in no memory of the device", name, what);
    Allocation& memory = found->second;
    if (memory.is_freed) return refuse(ILLEGAL_ADDRESS, "%s: %s is in memory that was freed", name, what);
    if (use.bytes > found->first + memory.bytes - use.address)
      return refuse(ILLEGAL_ADDRESS, "%s: %s has %zu bytes, and its memory ends after %zu", name, what, use.bytes,
                    (size_t)(found->first + memory.bytes - use.address));
    if (use.address % use.alignment)
      return refuse(MISALIGNED_ADDRESS, "%s: %s is at no multiple of %zu bytes", name, what, use.alignment);
    if (Result result = in_order(stream, memory, use.is_written, operation.name + ": " + use.what)) return result;
    used.push_back({&memory, use.is_written});
  }
  const uint64_t at = ++stream->operations;
  stream->seen.seen[stream->number] = at;
  for (auto [memory, is_written] : used) {
    if (is_written) {
      memory->writer = stream->number, memory->written = at;
      memory->readers.clear();
    } else {
      memory->readers[stream->number] = at;
    }
  }
  return operation.run();
}

Result allocate(uintptr_t* address, size_t bytes, Stream* stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  if (!stream) return refuse(INVALID_HANDLE, "an allocation: no such stream");
  if (stream->is_capturing || captures) {
    if (stream->is_capturing) stream->is_invalid = true;
    return refuse(CAPTURE_UNSUPPORTED, "an allocation of %zu bytes in a capture", bytes);
  }
  if (bytes == 0) return refuse(INVALID_VALUE, "an allocation of no bytes");
  if (pool.used + rounded(bytes) > pool.total) return refuse(OUT_OF_MEMORY, "no %zu bytes are free", bytes);
  *address = (uintptr_t)aligned_alloc(512, rounded(bytes) + 512);
  if (!*address) return refuse(OUT_OF_MEMORY, "this machine has no %zu bytes", bytes);
  // NaN shows where memory is read that nothing wrote; what is behind the end must stay as it is.
  memset((void*)*address, NOBODY_WROTE, bytes);
  memset((void*)(*address + bytes), GUARD_BYTE, GUARD);
  pool.used += rounded(bytes);
  if (pool.used > pool.reserved) pool.reserved = pool.used;
  stream->seen.join(host);
  Allocation memory;
  memory.bytes = bytes;
  memory.writer = stream->number;
  memory.written = stream->seen.seen[stream->number] = ++stream->operations;
  allocations[*address] = memory;
  return SUCCESS;
}

Result release(uintptr_t address, Stream* stream) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (Result result = ready()) return result;
  if (!stream) return refuse(INVALID_HANDLE, "a release: no such stream");
  if (stream->is_capturing) {
    stream->is_invalid = true;
    return refuse(CAPTURE_UNSUPPORTED, "memory is freed in a capture");
  }
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.is_freed) return refuse(INVALID_VALUE, "memory is freed that is not there");
  Allocation& memory = found->second;
  stream->seen.join(host);
  if (Result result = in_order(stream, memory, true, "a release")) return result;
  const unsigned char* guard = (const unsigned char*)(address + memory.bytes);
  for (size_t at = 0; at < GUARD; at++)
    if (guard[at] != GUARD_BYTE)
      return refuse(ILLEGAL_ADDRESS, "something wrote behind the end of memory of %zu bytes", memory.bytes);
  memory.is_freed = true;
  memset((void*)address, NOBODY_WROTE, memory.bytes);
  pool.used -= rounded(memory.bytes);
  freed.push_back(address);
  freed_bytes += memory.bytes;
  while (freed_bytes > FREED_MOST) {
    auto oldest = allocations.find(freed.front());
    freed_bytes -= oldest->second.bytes;
    free((void*)oldest->first);
    allocations.erase(oldest);
    freed.pop_front();
  }
  return SUCCESS;
}

void trim() {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (pool.reserved > pool.threshold) pool.reserved = std::max<uint64_t>(pool.used, pool.threshold);
}
