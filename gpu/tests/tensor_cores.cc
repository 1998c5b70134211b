// Attention on tensor cores, as fibers.cc runs it, against its formula in double: every head size, lengths that fill no
// tile, prefixes with suffixes, a cache, windows, and the threads of a block in four orders. scripts/check-kernels also
// compiles it with kernels that are wrong on purpose, which it must find.
#include "fibers.cc"

#include <random>
#include <string>
#include <vector>

// As in Rust: first token, tokens, keys that the first sees, first row of keys, how many before those from `rest` on.
struct Run { int first, tokens, sees, start, split, rest; };
struct Case { const char* what; int share, kv, window; std::vector<Run> runs; };

static const int WHOLE = 1 << 30;
static const std::vector<Case> CASES = {
  {"one token", 1, 1, WHOLE, {{0, 1, 1, 0, 1, 0}}},
  {"odd lengths", 7, 2, WHOLE, {{0, 61, 1, 0, 61, 0}, {61, 19, 1, 61, 19, 61}}},
  {"a long sequence", 1, 1, WHOLE, {{0, 301, 1, 0, 301, 0}}},
  {"a prompt with three completions", 2, 2, WHOLE,
    {{0, 67, 1, 0, 67, 0}, {67, 70, 68, 0, 67, 67}, {137, 1, 68, 0, 67, 137}, {138, 33, 68, 0, 67, 138}}},
  {"windows", 3, 1, 37, {{0, 90, 1, 0, 90, 0}, {90, 45, 91, 0, 90, 90}}},
  {"a window of one", 4, 1, 1, {{0, 75, 1, 0, 75, 0}}},
  {"a cache", 5, 2, WHOLE, {{0, 1, 150, 40, 200, 0}, {1, 3, 64, 240, 200, 0}, {4, 1, 65, 440, 200, 0}}},
};

static double worst_out, worst_sum;
static bool is_right = true;

struct Attending {
  int dim;
  const Case& of;
  std::vector<bf16> q, k, v, out;
  std::vector<float> sums;
  std::vector<int> table;
  int tokens = 0, rows = 0;

  Attending(int dim, const Case& of) : dim(dim), of(of) {
    for (const Run& run : of.runs) {
      const int seen = run.sees + run.tokens - 1, step = MMA_ROWS / of.share;
      tokens = std::max(tokens, run.first + run.tokens);
      rows = std::max(rows, std::max(run.start + std::min(seen, run.split), seen > run.split ? run.rest + seen - run.split : 0));
      for (int at = 0; at < run.tokens; at += step)
        for (int x : {run.first + at, std::min(step, run.tokens - at), run.sees + at, run.start, run.split, run.rest})
          table.push_back(x);
    }
    std::mt19937 random(dim + tokens);
    auto fill = [&](std::vector<bf16>& x, size_t count, float size) {
      x.resize(count);
      for (size_t i = 0; i < count; i++) put(x.data(), i, size * std::normal_distribution<float>()(random));
    };
    fill(q, (size_t)tokens * of.share * of.kv * dim, 1.5f);
    fill(k, (size_t)rows * of.kv * dim, 1.5f);
    fill(v, (size_t)rows * of.kv * dim, 1.0f);
    out.assign(q.size(), 0x7fc0);
    sums.assign((size_t)tokens * of.share * of.kv, NAN);
  }

  void run(const int* order) {
    void* b[10] = {q.data(), k.data(), v.data(), out.data(), sums.data(), table.data()};
    Params params = {{of.share * of.kv, of.kv, dim, of.window}, {(float)(1.0 / sqrt(dim))}};
    const std::string name = "attention_mma_" + std::to_string(dim) + "_bf16";
    if (tealight_emulate_cuda(order, name.c_str(), b, &params, (int)table.size() / 6 * of.kv)) abort();
  }

  void check_query(const Run& run, int token, int head) {
    const wide query = ((wide)(run.first + token) * of.share * of.kv + head) * dim;
    const int end = run.sees + token, begin = std::max(0, end - of.window);
    std::vector<double> scores;
    auto row = [&](int key) { return ((wide)(key < run.split ? run.start + key : run.rest + key - run.split) * of.kv + head / of.share) * dim; };
    double top = -1e300, mass = 0;
    for (int key = begin; key < end; key++) {
      double score = 0;
      for (int d = 0; d < dim; d++) score += (double)get(q.data(), query + d) * get(k.data(), row(key) + d);
      scores.push_back(score * (float)(1.0 / sqrt(dim)));
      top = std::max(top, scores.back());
    }
    for (double& score : scores) mass += score = exp(score - top);
    for (int d = 0; d < dim; d++) {
      double value = 0, size = 0;
      for (int key = begin; key < end; key++) {
        const double part = scores[key - begin] / mass * get(v.data(), row(key) + d);
        value += part;
        size += fabs(part);
      }
      // Weights and the result are rounded to bf16, whose steps are 1 / 256.
      const double error = fabs(get(out.data(), query + d) - value) / (size + 1e-3);
      worst_out = std::max(worst_out, error);
      is_right &= error < 1.0 / 128;
    }
    const double error = fabs(sums[query / dim] - (top + log(mass))) / (1 + fabs(top));
    worst_sum = std::max(worst_sum, error);
    is_right &= error < 1e-5;
  }

  void check() {
    for (const Run& run : of.runs)
      for (int token = 0; token < run.tokens; token++)
        for (int head = 0; head < of.share * of.kv; head++) check_query(run, token, head);
  }
};

int main() {
  int orders[4][BLOCK];
  for (int i = 0; i < BLOCK; i++) {
    orders[0][i] = i;
    orders[1][i] = BLOCK - 1 - i;
    orders[2][i] = (i * 97 + 31) % BLOCK;
    orders[3][i] = (i * 37 + 200) % BLOCK;
  }
  for (int dim : {64, 80, 96, 128, 256}) {
    worst_out = worst_sum = 0;
    for (const Case& of : CASES) {
      std::vector<bf16> first;
      for (const int* order : orders) {
        Attending attending(dim, of);
        attending.run(order);
        if (first.empty()) { attending.check(); first = attending.out; }
        const bool is_same = first == attending.out;
        if (!is_right || !is_same) {
          printf("heads of %d, %s: %s\n", dim, of.what, is_right ? "another order, another result" : "wrong");
          return 1;
        }
      }
    }
    printf("heads of %d: off by %.1e at most, sums by %.1e\n", dim, worst_out, worst_sum);
  }
}
