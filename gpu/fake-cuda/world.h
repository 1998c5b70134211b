// What the fake driver knows: memory, streams and what they have seen of each other. All of it is behind one lock, and every
// operation runs where it is launched, so results are those of a device that is never late. Whether they would also be those of
// one that is late is what the clocks say.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

// Results of the driver, with the numbers of cuda.h.
enum Result {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400,
  NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903,
};

// The reason of the last refusal, which cuGetErrorString returns.
Result refuse(Result result, const char* format, ...) __attribute__((format(printf, 2, 3)));
const char* reason_of(Result result);

// For every stream the number of its last operation that is known to have ended before.
struct Clock {
  std::map<size_t, uint64_t> seen;
  void join(const Clock& other) { for (auto [stream, at] : other.seen) { uint64_t& mine = seen[stream]; if (at > mine) mine = at; } }
  bool has(size_t stream, uint64_t at) const { auto found = seen.find(stream); return found != seen.end() && found->second >= at; }
};

// Memory that an operation uses: all of it in one allocation that is there, its address a multiple of `alignment`.
struct Use {
  uintptr_t address;
  size_t bytes;
  bool is_written;
  size_t alignment;
  std::string what;
};

struct Operation {
  std::string name;
  std::vector<Use> uses;
  std::function<Result()> run;
};

struct Stream {
  size_t number;
  uint64_t operations = 0;
  Clock seen;
  bool is_capturing = false, is_invalid = false;
  std::vector<Operation> captured;
};

extern std::recursive_mutex lock;
// What the host has waited for.
extern Clock host;
extern std::set<void*> streams;
extern long launches, graphs, replays;

// The stream of a handle, 0 being the default one; none where it is no handle.
Stream* stream_of(void* handle);
Stream* new_stream();
// Whether this thread has a context and nothing has broken it.
Result ready();
void set_current(bool is_current);
bool is_current();
// Captures that this thread has begun.
extern thread_local int captures;

// Runs an operation on a stream, or adds it to what the stream captures.
Result submit(Stream* stream, Operation operation);
// Runs it at once, also where it is part of a graph.
Result perform(Stream* stream, const Operation& operation);

// Pool of stream-ordered memory.
struct Pool { uint64_t threshold = 0, reserved = 0, used = 0, total = 8ull << 30; };
extern Pool pool;
Result allocate(uintptr_t* address, size_t bytes, Stream* stream);
Result release(uintptr_t address, Stream* stream);
// What a wait of the host does with memory that the pool does not use.
void trim();

// Kernels of Candle, by name, and the parts of `libraries.cc` that `driver.cc` does not need.
bool prepare_candle(const std::string& name, const std::vector<uint64_t>& arguments, Operation& operation);
