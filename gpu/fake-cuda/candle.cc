// Candle's own kernels, those that Tealight's CUDA backend reaches, by the names and arguments of candle-kernels' sources.
// Numbers are computed in double and rounded once.
#include <cmath>
#include <cstring>
#include <sstream>

#include "world.h"

namespace {
size_t size_of(const std::string& type) {
  static const std::map<std::string, size_t> sizes = {{"f32", 4}, {"bf16", 2}, {"u32", 4}, {"u8", 1}, {"f64", 8}, {"i64", 8}};
  auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

template <typename T> T at_index(uint64_t array, size_t index) {
  T value;
  memcpy(&value, (const char*)array + index * sizeof(T), sizeof(T));
  return value;
}

float of_bits(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }

uint16_t half_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return x != x ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
}  // namespace

double read_value(uint64_t array, size_t index, const std::string& type) {
  if (type == "f32") return at_index<float>(array, index);
  if (type == "bf16") return of_bits((uint32_t)at_index<uint16_t>(array, index) << 16);
  if (type == "u32") return at_index<uint32_t>(array, index);
  if (type == "f64") return at_index<double>(array, index);
  if (type == "i64") return (double)at_index<int64_t>(array, index);
  return at_index<uint8_t>(array, index);
}

void write_value(uint64_t array, size_t index, const std::string& type, double value) {
  char* to = (char*)array + index * size_of(type);
  auto put = [to](auto x) { memcpy(to, &x, sizeof x); };
  if (type == "f32") put((float)value);
  else if (type == "bf16") put(half_of((float)value));
  else if (type == "u32") put((uint32_t)value);
  else if (type == "f64") put(value);
  else if (type == "i64") put((int64_t)value);
  else put((uint8_t)value);
}

namespace {
// An argument that is a number of a kernel's type.
double scalar(uint64_t bits, const std::string& type) { return read_value((uint64_t)&bits, 0, type); }

// Dimensions with strides, in memory of the device; without them values are contiguous.
struct Layout {
  size_t dims;
  const uint64_t* sizes;
  size_t index(size_t i, size_t strides) const {
    if (!sizes) return i;
    size_t to = 0;
    for (size_t d = dims; d-- > 0; i /= sizes[d]) to += i % sizes[d] * sizes[strides * dims + d];
    return to;
  }
  // Values from the first one to the last that `count` of them reach.
  size_t extent(size_t count, size_t strides) const {
    if (!sizes || count == 0) return count;
    size_t last = 0;
    for (size_t d = 0; d < dims; d++) last += (sizes[d] - 1) * sizes[strides * dims + d];
    return last + 1;
  }
};

const std::map<std::string, double (*)(double)> UNARY = {
  {"ucopy", [](double x) { return x; }}, {"uneg", [](double x) { return -x; }}, {"urecip", [](double x) { return 1 / x; }},
  {"uexp", [](double x) { return exp(x); }}, {"ulog", [](double x) { return log(x); }},
  {"usqr", [](double x) { return x * x; }}, {"usqrt", [](double x) { return sqrt(x); }},
  {"ucos", [](double x) { return cos(x); }}, {"usin", [](double x) { return sin(x); }},
  {"uabs", [](double x) { return fabs(x); }}, {"utanh", [](double x) { return tanh(x); }},
  {"ufloor", [](double x) { return floor(x); }}, {"uceil", [](double x) { return ceil(x); }},
  {"uround", [](double x) { return round(x); }}, {"uerf", [](double x) { return erf(x); }},
  {"usilu", [](double x) { return x / (1 + exp(-x)); }}, {"usign", [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }},
  {"urelu", [](double x) { return x > 0 ? x : 0; }}};
const std::map<std::string, double (*)(double, double)> BINARY = {
  {"badd", [](double x, double y) { return x + y; }}, {"bsub", [](double x, double y) { return x - y; }},
  {"bmul", [](double x, double y) { return x * y; }}, {"bdiv", [](double x, double y) { return x / y; }},
  {"bmaximum", [](double x, double y) { return fmax(x, y); }}, {"bminimum", [](double x, double y) { return fmin(x, y); }},
  {"eq", [](double x, double y) { return x == y ? 1.0 : 0.0; }}, {"ne", [](double x, double y) { return x != y ? 1.0 : 0.0; }},
  {"lt", [](double x, double y) { return x < y ? 1.0 : 0.0; }}, {"le", [](double x, double y) { return x <= y ? 1.0 : 0.0; }},
  {"gt", [](double x, double y) { return x > y ? 1.0 : 0.0; }}, {"ge", [](double x, double y) { return x >= y ? 1.0 : 0.0; }}};

// A launch while it is put together: what it uses, and what it does.
struct Builder {
  const std::vector<uint64_t>& a;
  Operation& operation;
  void uses(int argument, size_t bytes, bool is_written, size_t alignment) {
    if (bytes) operation.uses.push_back({a[argument], bytes, is_written, alignment, "argument " + std::to_string(argument)});
  }
  void values(int argument, size_t count, bool is_written, const std::string& type) {
    uses(argument, count * size_of(type), is_written, size_of(type));
  }
  // Sizes and strides, `words` for each dimension; strides that are wrong would be read wrongly here too.
  Layout layout(int argument, size_t words) {
    uses(argument, a[argument] ? 8 * words * a[argument - 1] : 0, false, 8);
    return {a[argument - 1], (const uint64_t*)a[argument]};
  }
  bool runs(std::function<void()> work) {
    operation.run = [work = std::move(work)] { work(); return SUCCESS; };
    return true;
  }
};

bool copies(const std::string& op, const std::string& type, Builder& b) {
  const std::vector<uint64_t> a = b.a;
  const size_t size = size_of(type);
  if (op == "copy2d") {
    const size_t rows = a[2], width = a[3], from = a[4], to = a[5];
    if (rows && width) {
      b.values(0, (rows - 1) * from + width, false, type);
      b.values(1, (rows - 1) * to + width, true, type);
    }
    return b.runs([=] { for (size_t row = 0; row < rows; row++)
      memmove((char*)a[1] + row * to * size, (const char*)a[0] + row * from * size, width * size); });
  }
  if (op == "fill") {
    b.values(0, a[2], true, type);
    return b.runs([=] { for (size_t i = 0; i < a[2]; i++) memcpy((char*)a[0] + i * size, &a[1], size); });
  }
  if (op == "const_set") {
    const Layout layout = b.layout(2, 2);
    b.values(4, layout.extent(a[0], 1), true, type);
    return b.runs([=] { for (size_t i = 0; i < a[0]; i++) memcpy((char*)a[4] + layout.index(i, 1) * size, &a[3], size); });
  }
  return false;
}

// Rows of a dimension that indices choose.
bool selects(const std::string& of_ids, const std::string& type, Builder& b) {
  const std::vector<uint64_t> a = b.a;
  const size_t left = a[6], rows = a[7], count = a[8], right = a[9], bytes = right * size_of(type);
  b.layout(2, 2);
  b.values(3, count, false, of_ids);
  b.values(4, left * rows * right, false, type);
  b.values(5, left * count * right, true, type);
  b.operation.run = [=, name = b.operation.name] {
    for (size_t l = 0; l < left; l++)
      for (size_t i = 0; i < count; i++) {
        const size_t row = (size_t)read_value(a[3], i, of_ids);
        if (row >= rows) return refuse(LAUNCH_FAILED, "%s: row %zu of %zu", name.c_str(), row, rows);
        memcpy((char*)a[5] + (l * count + i) * bytes, (const char*)a[4] + (l * rows + row) * bytes, bytes);
      }
    return SUCCESS;
  };
  return true;
}

bool reduces(const std::string& op, const std::string& type, Builder& b) {
  const std::vector<uint64_t> a = b.a;
  const bool is_small = op == "fast_sum_small", is_max = op == "fast_max", is_min = op == "fast_min";
  if (!is_small && !is_max && !is_min && op != "fast_sum") return false;
  const size_t each = a[1], results = is_small ? a[0] : each ? a[0] / each : 0;
  const Layout layout = b.layout(3, 2);
  b.values(4, layout.extent(results * each, 1), false, type);
  b.values(5, results, true, type);
  return b.runs([=] {
    for (size_t to = 0; to < results; to++) {
      double total = is_max ? -INFINITY : is_min ? INFINITY : 0;
      for (size_t i = 0; i < each; i++) {
        const double x = read_value(a[4], layout.index(to * each + i, 1), type);
        total = is_max ? fmax(total, x) : is_min ? fmin(total, x) : total + x;
      }
      write_value(a[5], to, type, total);
    }
  });
}

// One result for each value, of one to three arrays with strides of their own, from argument 3 on; then the result.
bool elementwise(const std::vector<std::string>& words, const std::string& op, const std::string& type, Builder& b) {
  const std::vector<uint64_t> a = b.a;
  const size_t count = a[0];
  const auto unary = UNARY.find(op);
  const auto binary = BINARY.find(op);
  if (unary != UNARY.end() || op == "affine" || words[0] == "cast") {
    const std::string from = words[0] == "cast" ? words[1] : type;
    const double by = op == "affine" ? scalar(a[5], type) : 1, plus = op == "affine" ? scalar(a[6], type) : 0;
    const auto function = unary == UNARY.end() ? nullptr : unary->second;
    const Layout layout = b.layout(2, 2);
    // Without a source the result is changed in place.
    const uint64_t source = a[3] ? a[3] : a[4];
    if (a[3]) b.values(3, layout.extent(count, 1), false, from);
    b.values(4, count, true, type);
    return b.runs([=] { for (size_t i = 0; i < count; i++) {
      const double x = read_value(source, a[3] ? layout.index(i, 1) : i, from);
      write_value(a[4], i, type, function ? function(x) : x * by + plus);
    } });
  }
  if (binary != BINARY.end()) {
    const std::string to = op[0] == 'b' ? type : "u8";
    const auto function = binary->second;
    const Layout layout = b.layout(2, 3);
    for (int side = 0; side < 2; side++) b.values(3 + side, layout.extent(count, 1 + side), false, type);
    b.values(5, count, true, to);
    return b.runs([=] { for (size_t i = 0; i < count; i++)
      write_value(a[5], i, to, function(read_value(a[3], layout.index(i, 1), type), read_value(a[4], layout.index(i, 2), type)));
    });
  }
  if (words[0] == "where") {
    const std::string of_ids = words[1];
    const Layout layout = b.layout(2, 4);
    b.values(3, layout.extent(count, 1), false, of_ids);
    for (int side = 0; side < 2; side++) b.values(4 + side, layout.extent(count, 2 + side), false, type);
    b.values(6, count, true, type);
    return b.runs([=] { for (size_t i = 0; i < count; i++) {
      const int side = read_value(a[3], layout.index(i, 1), of_ids) != 0 ? 0 : 1;
      write_value(a[6], i, type, read_value(a[4 + side], layout.index(i, 2 + side), type));
    } });
  }
  return false;
}
}  // namespace

bool prepare_candle(const std::string& name, const std::vector<uint64_t>& arguments, Operation& operation) {
  std::vector<std::string> words;
  std::istringstream text(name);
  for (std::string word; std::getline(text, word, '_');) words.push_back(word);
  const std::string type = words.back();
  if (words.size() < 2 || !size_of(type)) return false;
  const std::string op = name.substr(0, name.size() - type.size() - 1);
  Builder builder{arguments, operation};
  if (words[0] == "is") return selects(words[1], type, builder);
  return copies(op, type, builder) || reduces(op, type, builder) || elementwise(words, op, type, builder);
}
