// cuBLAS's products, and as much of cuRAND as opening a device asks for.
#include <cstring>
#include <memory>

#include "world.h"

#define API extern "C" __attribute__((visibility("default"))) int
using Handle = void*;
double read_value(uint64_t array, size_t index, const std::string& type);
void write_value(uint64_t array, size_t index, const std::string& type, double value);

namespace {
enum Status { STATUS_SUCCESS = 0, NOT_INITIALIZED = 1, STATUS_INVALID_VALUE = 7, EXECUTION_FAILED = 13, STATUS_NOT_SUPPORTED = 15 };

struct Blas { Handle stream = nullptr; uint64_t workspace = 0; size_t workspace_bytes = 0; };
std::set<void*> handles;

// A matrix as it is stored, by columns: rows, columns, the values from one column to the next.
struct Matrix {
  uint64_t address;
  int type, rows, columns, stride;
  std::string name() const { return type == 0 ? "f32" : type == 14 ? "bf16" : type == 1 ? "f64" : ""; }
  size_t size() const { return type == 0 ? 4 : type == 14 ? 2 : 8; }
  size_t bytes() const { return ((size_t)stride * (columns - 1) + rows) * size(); }
  // All values as floats, each row or column of the product one after the other.
  std::vector<float> values(bool by_rows) const {
    std::vector<float> all((size_t)rows * columns);
    const std::string type = name();
    for (int c = 0; c < columns; c++)
      for (int r = 0; r < rows; r++)
        all[by_rows ? (size_t)r * columns + c : (size_t)c * rows + r] = (float)read_value(address, (size_t)c * stride + r, type);
    return all;
  }
};

float dot(const float* x, const float* y, int count) {
  float sums[8] = {};
  int at = 0;
  for (; at + 8 <= count; at += 8)
    for (int lane = 0; lane < 8; lane++) sums[lane] += x[at + lane] * y[at + lane];
  float sum = 0;
  for (; at < count; at++) sum += x[at] * y[at];
  for (float part : sums) sum += part;
  return sum;
}

struct Product { bool is_a_transposed, is_b_transposed; int m, n, k; float alpha, beta; Matrix a, b, c; };

void multiply(const Product& p) {
  const std::vector<float> a = p.a.values(!p.is_a_transposed), b = p.b.values(p.is_b_transposed);
  const std::string type = p.c.name();
  for (int column = 0; column < p.n; column++)
    for (int row = 0; row < p.m; row++) {
      const size_t at = (size_t)column * p.c.stride + row;
      float value = p.alpha * dot(&a[(size_t)row * p.k], &b[(size_t)column * p.k], p.k);
      if (p.beta != 0) value += p.beta * (float)read_value(p.c.address, at, type);
      write_value(p.c.address, at, type, value);
    }
}

int submit_products(Handle handle, const std::vector<Product>& all) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (!handles.count(handle) || ready() != SUCCESS) return NOT_INITIALIZED;
  Blas* blas = (Blas*)handle;
  Stream* stream = stream_of(blas->stream);
  if (!stream) return STATUS_INVALID_VALUE;
  // Without memory of its own cuBLAS would allocate some, and choose another algorithm.
  if (stream->is_capturing && !blas->workspace) {
    refuse(CAPTURE_UNSUPPORTED, "a product is captured whose handle has no workspace");
    return EXECUTION_FAILED;
  }
  Operation operation{"a product", {}, nullptr};
  if (blas->workspace) operation.uses.push_back({blas->workspace, blas->workspace_bytes, true, 256, "the workspace"});
  for (const Product& p : all) {
    if (p.m <= 0 || p.n <= 0 || p.k <= 0 || p.a.stride < p.a.rows || p.b.stride < p.b.rows || p.c.stride < p.m) {
      refuse(INVALID_VALUE, "a product of %d x %d x %d with %d, %d and %d values from column to column", p.m, p.n, p.k, p.a.stride,
             p.b.stride, p.c.stride);
      return STATUS_INVALID_VALUE;
    }
    if (p.a.name().empty() || p.b.name().empty() || p.c.name().empty()) return STATUS_NOT_SUPPORTED;
    operation.uses.push_back({p.a.address, p.a.bytes(), false, p.a.size(), "the left matrix"});
    operation.uses.push_back({p.b.address, p.b.bytes(), false, p.b.size(), "the right matrix"});
    operation.uses.push_back({p.c.address, p.c.bytes(), true, p.c.size(), "the result"});
  }
  operation.run = [all] { for (const Product& product : all) multiply(product); return SUCCESS; };
  launches++;
  return submit(stream, std::move(operation)) == SUCCESS ? STATUS_SUCCESS : EXECUTION_FAILED;
}

Product product(int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda, const void* b, int bt, int ldb,
                const void* beta, void* c, int ct, int ldc) {
  const Matrix left{(uint64_t)a, at, ta ? k : m, ta ? m : k, lda}, right{(uint64_t)b, bt, tb ? n : k, tb ? k : n, ldb};
  return {ta != 0, tb != 0, m, n, k, *(const float*)alpha, *(const float*)beta, left, right, {(uint64_t)c, ct, m, n, ldc}};
}
}  // namespace

API cublasCreate_v2(Handle* handle) {
  std::lock_guard<std::recursive_mutex> held(lock);
  if (ready() != SUCCESS) return NOT_INITIALIZED;
  *handle = new Blas;
  handles.insert(*handle);
  return STATUS_SUCCESS;
}
API cublasDestroy_v2(Handle handle) { return handles.erase(handle) ? STATUS_SUCCESS : NOT_INITIALIZED; }
API cublasSetStream_v2(Handle handle, Handle stream) {
  if (!handles.count(handle) || !stream_of(stream)) return NOT_INITIALIZED;
  // As documented: the handle goes back to the default workspace.
  *(Blas*)handle = Blas{stream, 0, 0};
  return STATUS_SUCCESS;
}
API cublasSetWorkspace_v2(Handle handle, void* workspace, size_t bytes) {
  if (!handles.count(handle)) return NOT_INITIALIZED;
  if ((uint64_t)workspace % 256) return STATUS_INVALID_VALUE;
  ((Blas*)handle)->workspace = (uint64_t)workspace;
  ((Blas*)handle)->workspace_bytes = bytes;
  return STATUS_SUCCESS;
}
API cublasSetMathMode(Handle, int) { return STATUS_SUCCESS; }
API cublasGetPointerMode_v2(Handle, int* mode) { *mode = 0; return STATUS_SUCCESS; }
API cublasSetPointerMode_v2(Handle, int) { return STATUS_SUCCESS; }
API cublasGemmEx(Handle handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda,
                 const void* b, int bt, int ldb, const void* beta, void* c, int ct, int ldc, int, int) {
  return submit_products(handle, {product(ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc)});
}
API cublasGemmStridedBatchedEx(Handle handle, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at,
                               int lda, long long of_a, const void* b, int bt, int ldb, long long of_b, const void* beta,
                               void* c, int ct, int ldc, long long of_c, int count, int, int) {
  std::vector<Product> all;
  const Product first = product(ta, tb, m, n, k, alpha, a, at, lda, b, bt, ldb, beta, c, ct, ldc);
  for (int each = 0; each < count; each++) {
    all.push_back(first);
    all.back().a.address += (uint64_t)(each * of_a) * first.a.size();
    all.back().b.address += (uint64_t)(each * of_b) * first.b.size();
    all.back().c.address += (uint64_t)(each * of_c) * first.c.size();
  }
  return submit_products(handle, all);
}

API curandCreateGenerator(Handle* generator, int) { *generator = &handles; return SUCCESS; }
API curandSetPseudoRandomGeneratorSeed(Handle, unsigned long long) { return SUCCESS; }
API curandSetStream(Handle, Handle) { return SUCCESS; }
API curandDestroyGenerator(Handle) { return SUCCESS; }
