// Attention on tensor cores, as fibers.cc runs it, and its gradients against their formulas in double: every head size,
// lengths that fill no tile, prefixes with suffixes, a cache, windows, and the threads of a block in several orders.
// scripts/check-kernels also compiles it with kernels that are wrong on purpose, which it must find.
//   tensor_cores [forward|backward]
#include "fibers.cc"

#include <random>
#include <string>
#include <vector>

// As in Rust: first token, tokens, keys that the first sees, first row of keys, how many before those from `rest` on, and
// one past the last token that may see its keys; 0 where the keys are those of a cache.
struct Run { int first, tokens, sees, start, split, rest, until; };
struct Case { const char* what; int share, kv, window; std::vector<Run> runs; };

static const int WHOLE = 1 << 30;
static const std::vector<Case> CASES = {
  {"one token", 1, 1, WHOLE, {{0, 1, 1, 0, 1, 0, 1}}},
  {"odd lengths", 7, 2, WHOLE, {{0, 61, 1, 0, 61, 0, 61}, {61, 19, 1, 61, 19, 61, 80}}},
  {"a long sequence", 1, 1, WHOLE, {{0, 301, 1, 0, 301, 0, 301}}},
  {"a prompt with three completions", 2, 2, WHOLE,
    {{0, 67, 1, 0, 67, 0, 171}, {67, 70, 68, 0, 67, 67, 137}, {137, 1, 68, 0, 67, 137, 138}, {138, 33, 68, 0, 67, 138, 171}}},
  {"windows", 3, 1, 37, {{0, 90, 1, 0, 90, 0, 135}, {90, 45, 91, 0, 90, 90, 135}}},
  {"a window of one", 4, 1, 1, {{0, 75, 1, 0, 75, 0, 75}}},
  {"a cache", 5, 2, WHOLE, {{0, 1, 150, 40, 200, 0, 0}, {1, 3, 64, 240, 200, 0, 0}, {4, 1, 65, 440, 200, 0, 0}}},
};

// The largest error of each kind as a share of what bf16 allows: its steps are 1 / 256, and factors and results are rounded.
static double worst;
static void compare(double ours, double exact, double size, double most = 1.0 / 128) {
  const double error = fabs(ours - exact) / (size + 1e-3) / most;
  worst = error <= worst ? worst : error;
}

struct Attending {
  int dim, heads, tokens = 0, rows = 0;
  const Case& of;
  float scale;
  std::vector<bf16> q, k, v, grad, out, dq, dk, dv;
  std::vector<float> sums, pulls;
  std::vector<int> queries, keys, positions;
  // Exact gradients of keys and values, and the sums of their parts' sizes.
  std::vector<double> exact_k, size_k, exact_v, size_v;

  Attending(int dim, const Case& of) : dim(dim), heads(of.share * of.kv), of(of), scale((float)(1 / sqrt(dim))) {
    for (const Run& run : of.runs) {
      const int seen = run.sees + run.tokens - 1, step = MMA_ROWS / of.share;
      tokens = std::max(tokens, run.first + run.tokens);
      rows = std::max(rows, std::max(run.start + std::min(seen, run.split), seen > run.split ? run.rest + seen - run.split : 0));
      for (int at = 0; at < run.tokens; at += step)
        for (int x : {run.first + at, std::min(step, run.tokens - at), run.sees + at, run.start, run.split, run.rest})
          queries.push_back(x);
      for (int at = 0; at < run.tokens; at += MMA_ROWS)
        for (int x : {run.first + at, std::min(MMA_ROWS, run.tokens - at), run.until}) keys.push_back(x);
      for (int at = 0; at < run.tokens; at++) positions.push_back(run.sees - 1 + at);
    }
    std::mt19937 random(dim + tokens);
    auto fill = [&](std::vector<bf16>& x, int count, float size) {
      x.resize((size_t)count * dim);
      for (size_t i = 0; i < x.size(); i++) put(x.data(), i, size * std::normal_distribution<float>()(random));
    };
    fill(q, tokens * heads, 1.5f);
    fill(k, rows * of.kv, 1.5f);
    fill(v, rows * of.kv, 1.0f);
    fill(grad, tokens * heads, 1.0f);
    out.assign(q.size(), 0x7fc0), dq = out;
    dk.assign(k.size(), 0x7fc0), dv = dk;
    sums.assign((size_t)tokens * heads, NAN), pulls = sums;
    exact_k.assign(k.size(), 0), size_k = size_v = exact_v = exact_k;
  }

  void launch(const int* order, const char* kernel, std::vector<void*> buffers, size_t groups) {
    buffers.resize(10);
    Params params = {{heads, of.kv, dim, of.window}, {scale}};
    const std::string name = kernel + std::to_string(dim) + "_bf16";
    if (tealight_emulate_cuda(order, name.c_str(), buffers.data(), &params, (int)groups * of.kv)) abort();
  }
  void forward(const int* order) {
    launch(order, "attention_mma_", {q.data(), k.data(), v.data(), out.data(), sums.data(), queries.data()}, queries.size() / 6);
  }
  void backward(const int* order) {
    launch(order, "attention_mma_queries_", {q.data(), k.data(), v.data(), out.data(), grad.data(), sums.data(), dq.data(),
      pulls.data(), queries.data()}, queries.size() / 6);
    launch(order, "attention_mma_keys_", {q.data(), k.data(), v.data(), grad.data(), sums.data(), pulls.data(), dk.data(),
      dv.data(), keys.data(), positions.data()}, keys.size() / 3);
  }

  double product(const std::vector<bf16>& x, wide i, const std::vector<bf16>& y, wide j, bool of_sizes = false) const {
    double sum = 0;
    for (int d = 0; d < dim; d++) {
      const double part = (double)get(x.data(), i + d) * get(y.data(), j + d);
      sum += of_sizes ? fabs(part) : part;
    }
    return sum;
  }

  void check_query(const Run& run, int token, int head, bool back) {
    const wide query = ((wide)(run.first + token) * heads + head) * dim;
    const int end = run.sees + token, begin = std::max(0, end - of.window);
    auto row = [&](int key) {
      return ((wide)(key < run.split ? run.start + key : run.rest + key - run.split) * of.kv + head / of.share) * dim;
    };
    std::vector<double> weights, slopes, sizes;
    double top = -1e300, mass = 0, pull = 0;
    for (int key = begin; key < end; key++) {
      weights.push_back(product(q, query, k, row(key)) * scale);
      top = std::max(top, weights.back());
    }
    for (double& weight : weights) mass += weight = exp(weight - top);
    const double size_of_pull = back ? product(grad, query, out, query, true) : 0;
    for (int key = begin; key < end && back; key++) pull += weights[key - begin] / mass * product(grad, query, v, row(key));
    for (int key = begin; key < end; key++) {
      const double weight = weights[key - begin] /= mass;
      if (!back) continue;
      slopes.push_back(weight * (product(grad, query, v, row(key)) - pull) * scale);
      sizes.push_back(weight * (product(grad, query, v, row(key), true) + size_of_pull) * scale);
    }
    for (int d = 0; d < dim; d++) {
      double value = 0, size = 0, slope = 0, size_of_slope = 0;
      for (int key = begin; key < end; key++) {
        const int i = key - begin;
        const double part = weights[i] * get(v.data(), row(key) + d), of_key = get(k.data(), row(key) + d);
        value += part, size += fabs(part);
        if (!back) continue;
        slope += slopes[i] * of_key, size_of_slope += sizes[i] * fabs(of_key);
        const double of_query = get(q.data(), query + d), of_grad = get(grad.data(), query + d);
        exact_k[row(key) + d] += slopes[i] * of_query, size_k[row(key) + d] += sizes[i] * fabs(of_query);
        exact_v[row(key) + d] += weights[i] * of_grad, size_v[row(key) + d] += weights[i] * fabs(of_grad);
      }
      if (back) compare(get(dq.data(), query + d), slope, size_of_slope);
      else compare(get(out.data(), query + d), value, size);
    }
    if (!back) compare(sums[query / dim], top + log(mass), 1 + fabs(top), 1e-5);
  }

  void check(bool back) {
    for (const Run& run : of.runs)
      for (int token = 0; token < run.tokens; token++)
        for (int head = 0; head < heads; head++) check_query(run, token, head, back);
    for (size_t i = 0; i < dk.size() && back; i++) {
      compare(get(dk.data(), i), exact_k[i], size_k[i]);
      compare(get(dv.data(), i), exact_v[i], size_v[i]);
    }
  }
};

static int orders[3][BLOCK];

// Whether results are right, and the same in every order.
static bool is_right(int dim, const Case& of, bool back) {
  Attending first(dim, of);
  first.forward(orders[0]);
  if (back) first.backward(orders[0]);
  first.check(back);
  if (!(worst < 1)) { printf("heads of %d, %s: wrong\n", dim, of.what); return false; }
  for (const int* order : {orders[1], orders[2]}) {
    Attending other(dim, of);
    other.forward(order);
    if (back) other.backward(order);
    if (other.out == first.out && other.dq == first.dq && other.dk == first.dk && other.dv == first.dv) continue;
    printf("heads of %d, %s: another order, another result\n", dim, of.what);
    return false;
  }
  return true;
}

int main(int count, char** arguments) {
  for (int i = 0; i < BLOCK; i++) {
    orders[0][i] = i;
    orders[1][i] = BLOCK - 1 - i;
    orders[2][i] = (i * 97 + 31) % BLOCK;
  }
  for (const std::string pass : {"forward", "backward"}) {
    if (count > 1 && pass != arguments[1]) continue;
    const bool back = pass == "backward";
    for (int dim : {64, 80, 96, 128, 256}) {
      if (back && dim == 256) continue;
      worst = 0;
      for (const Case& of : CASES)
        if (!(back && of.runs[0].until == 0) && !is_right(dim, of, back)) return 1;
      printf("%s, heads of %d: at most %.0f %% of the error that rounding allows\n", pass.c_str(), dim, 100 * worst);
    }
  }
}
