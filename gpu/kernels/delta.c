// The gated delta rule and the convolution before it, token after token; a thread has a column of a state. Sums over
// tokens are in an order of their own, so the same gradient comes out each time.
#ifndef DELTA_CHUNK
// Tokens whose states the backward pass keeps at a time; before them it keeps one in so many.
#define DELTA_CHUNK 16
// Most taps of the convolution.
#define TAPS 64
// The value of column c that source says: a row of x, none (-1), or row -2 - source of past.
#define SOURCE(source) \
  ((source) >= 0 ? LOAD(x, (wide)(source) * width + c) : \
   (source) < -1 ? LOAD(past, (wide)(-2 - (source)) * width + c) : 0.0f)
// The sum over the taps of column c of token n.
#define CONVOLVED(sum, n) \
  float sum = 0.0f; \
  for (int back = taps - 1; back >= 0; back--) { \
    const int source = back ? sources[(wide)(n) * (taps - 1) + back - 1] : (n); \
    sum += LOAD(kernel_of, (wide)c * taps + taps - 1 - back) * SOURCE(source); \
  }
// What a group works on: a head of a run of tokens, which begins with one state and leaves another.
#define DELTA_GROUP(number) \
  const int key_heads = N(0), heads = N(1), key_dim = N(2), value_dim = N(3); \
  const int run = (number) / heads * 6, head = (number) % heads, size = key_dim * value_dim; \
  const int first = runs[run], tokens = runs[run + 1], from = runs[run + 2], to = runs[run + 3]; \
  const int keys = key_heads * key_dim, query_at = head / (heads / key_heads) * key_dim; \
  const int value_at = 2 * keys + head * value_dim, mixed_width = 2 * keys + heads * value_dim
// Where what a token gives begins.
#define QUERY(n) (unit + (wide)(n) * 2 * keys + query_at)
#define KEY(n) (QUERY(n) + keys)
#define GATES(n) (gates + ((wide)(n) * heads + head) * 2)
// log(1 + e^x), whose small values are e^x.
#define SOFTPLUS(soft, x) \
  const float small = EXP((x) > 0.0f ? -(x) : (x)); \
  const float soft = MAX(x, 0.0f) + (small < 1e-3f ? small - 0.5f * small * small : LOG(1.0f + small))
#endif

// out (4) = SiLU of the convolution of x (0) [.., N 0] with kernel (1) [N 0, N 1]; a group a token, whose predecessors
// sources (2) names, the nearest first; past (3).
KERNEL(convolution) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, kernel_of, 1);
  BUFFER(int, sources, 2);
  BUFFER(REAL, past, 3);
  BUFFER(REAL, out, 4);
  const int width = N(0), taps = N(1);
  THREADS
    for (int c = t; c < width; c += BLOCK) {
      CONVOLVED(sum, GROUP)
      STORE(out, (wide)GROUP * width + c, sum / (1.0f + EXP(-sum)));
    }
  END
}

// The rows of past (2) [.., N 1 - 1, N 0] as they are after the tokens of x (0); a group a row, whose own sources (1)
// names, the oldest first.
KERNEL(convolution_past) {
  BUFFER(REAL, x, 0);
  BUFFER(int, sources, 1);
  BUFFER(REAL, past, 2);
  PRIVATE(float, held, TAPS);
  const int width = N(0), rows = N(1) - 1;
  THREADS
    for (int c = t; c < width; c += BLOCK) {
      for (int i = 0; i < rows; i++) {
        const int source = sources[GROUP * rows + i];
        held[ME][i] = SOURCE(source);
      }
      for (int i = 0; i < rows; i++) STORE(past, ((wide)GROUP * rows + i) * width + c, held[ME][i]);
    }
  END
}

// slopes (4) = the gradient of the convolution's sums for that (3) of its result; the others as there.
KERNEL(convolution_slopes) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, kernel_of, 1);
  BUFFER(int, sources, 2);
  BUFFER(REAL, grad, 3);
  BUFFER(float, slopes, 4);
  const int width = N(0), taps = N(1);
  BUFFER(REAL, past, 0);
  THREADS
    for (int c = t; c < width; c += BLOCK) {
      CONVOLVED(sum, GROUP)
      const float open = 1.0f / (1.0f + EXP(-sum));
      slopes[(wide)GROUP * width + c] =
        LOAD(grad, (wide)GROUP * width + c) * open * (1.0f + sum * (1.0f - open));
    }
  END
}

// dx (4) from slopes (0) and kernel (1); those that read token GROUP are readers (3) from starts (2)[GROUP] to the next:
// the reader, and how far before it the token is.
KERNEL(convolution_inputs) {
  BUFFER(float, slopes, 0);
  BUFFER(REAL, kernel_of, 1);
  BUFFER(int, starts, 2);
  BUFFER(int, readers, 3);
  BUFFER(REAL, dx, 4);
  const int width = N(0), taps = N(1);
  THREADS
    for (int c = t; c < width; c += BLOCK) {
      float sum = 0.0f;
      for (int i = starts[GROUP]; i < starts[GROUP + 1]; i++)
        sum += LOAD(kernel_of, (wide)c * taps + taps - 1 - readers[2 * i + 1]) *
          slopes[(wide)readers[2 * i] * width + c];
      STORE(dx, (wide)GROUP * width + c, sum);
    }
  END
}

// sums (3) [N 0, N 1] += the gradient of the kernel, of slopes (0) of N 2 tokens, x (1) and sources (2).
KERNEL(convolution_weights) {
  BUFFER(float, slopes, 0);
  BUFFER(REAL, x, 1);
  BUFFER(int, sources, 2);
  BUFFER(float, sums, 3);
  BUFFER(REAL, past, 1);
  const int width = N(0), taps = N(1);
  THREADS
    const int c = GROUP * BLOCK + t;
    for (int back = 0; back < taps && c < width; back++) {
      float sum = 0.0f;
      for (int n = 0; n < N(2); n++) {
        const int source = back ? sources[(wide)n * (taps - 1) + back - 1] : n;
        sum += slopes[(wide)n * width + c] * SOURCE(source);
      }
      sums[(wide)c * taps + taps - 1 - back] += sum;
    }
  END
}

// Of a token's mixed (0), b (1) and a (2): unit (5) [.., 2 N 0 N 2], queries and keys of length 1, the queries divided
// by the root of N 2; gates (6) [.., N 1, 2], decay exp(-exp(A_log (3)) softplus(a + dt_bias (4))) and sigmoid(b).
// F 0 is added to squared lengths.
KERNEL(delta_unit) {
  BUFFER(REAL, mixed, 0);
  BUFFER(REAL, b, 1);
  BUFFER(REAL, a, 2);
  BUFFER(REAL, a_log, 3);
  BUFFER(REAL, dt_bias, 4);
  BUFFER(float, unit, 5);
  BUFFER(float, gates, 6);
  const int key_heads = N(0), heads = N(1), key_dim = N(2), value_dim = N(3);
  const int keys = key_heads * key_dim;
  const wide row = (wide)GROUP * (2 * keys + heads * value_dim);
  THREADS
    for (int head = t; head < 2 * key_heads; head += BLOCK) {
      float square = 0.0f;
      for (int i = 0; i < key_dim; i++) {
        const float value = LOAD(mixed, row + head * key_dim + i);
        square += value * value;
      }
      const float scale = (head < key_heads ? 1.0f / SQRT((float)key_dim) : 1.0f) / SQRT(square + F(0));
      for (int i = 0; i < key_dim; i++)
        unit[(wide)GROUP * 2 * keys + head * key_dim + i] = LOAD(mixed, row + head * key_dim + i) * scale;
    }
    for (int head = t; head < heads; head += BLOCK) {
      const wide own = (wide)GROUP * heads + head;
      const float x = LOAD(a, own) + LOAD(dt_bias, head);
      SOFTPLUS(soft, x);
      gates[2 * own] = EXP(-EXP(LOAD(a_log, head)) * soft);
      gates[2 * own + 1] = 1.0f / (1.0f + EXP(-LOAD(b, own)));
    }
  END
}

// out (5) [.., N 1, N 3]: what queries find in states (4) [.., N 1, N 2, N 3], which tokens change; unit (0), mixed (1),
// gates (2), runs (3): first token, tokens, the state before them (-1 for zeros) and the place of that after them.
KERNEL(delta_rule) {
  BUFFER(float, unit, 0);
  BUFFER(REAL, mixed, 1);
  BUFFER(float, gates, 2);
  BUFFER(int, runs, 3);
  BUFFER(float, states, 4);
  BUFFER(REAL, out, 5);
  DELTA_GROUP(GROUP);
  THREADS
    if (t < value_dim) {
      const wide own = ((wide)to * heads + head) * size + t, before = ((wide)from * heads + head) * size + t;
      for (int i = 0; i < key_dim; i++)
        states[own + i * value_dim] = from < 0 ? 0.0f : states[before + i * value_dim];
      for (int n = first; n < first + tokens; n++) {
        float known = 0.0f, found = 0.0f;
        for (int i = 0; i < key_dim; i++) {
          const float left = states[own + i * value_dim] * GATES(n)[0];
          states[own + i * value_dim] = left;
          known += KEY(n)[i] * left;
        }
        const float change = GATES(n)[1] * (LOAD(mixed, (wide)n * mixed_width + value_at + t) - known);
        for (int i = 0; i < key_dim; i++) {
          const float next = states[own + i * value_dim] + KEY(n)[i] * change;
          states[own + i * value_dim] = next;
          found += QUERY(n)[i] * next;
        }
        STORE(out, ((wide)n * heads + head) * value_dim + t, found);
      }
    }
  END
}

// The gradients of what delta_rule read for that (7) of its result: of_unit (8) [.., N 1, 2, N 2] of queries and keys,
// rest (9) [.., N 1, N 3 + 2] of values, of the logarithm of the decay and of beta. pulls (5), like states (4), are
// those of the states after each run: the sum of those of the runs that go on from it, from runs[4] on, runs[5] of
// them. Groups count from N 4 on; each has scratch (6): a mark for every chunk, N 5 of them, and a chunk.
KERNEL(delta_back) {
  BUFFER(float, unit, 0);
  BUFFER(REAL, mixed, 1);
  BUFFER(float, gates, 2);
  BUFFER(int, runs, 3);
  BUFFER(float, states, 4);
  BUFFER(float, pulls, 5);
  BUFFER(float, scratch, 6);
  BUFFER(REAL, grad, 7);
  BUFFER(float, of_unit, 8);
  BUFFER(float, rest, 9);
  SHARED(float, of_known, BLOCK);
  SHARED(float, alongs, BLOCK);
  SHARED(float, of_beta, BLOCK);
  SHARED(float, of_decay, BLOCK);
  DELTA_GROUP(N(4) + GROUP);
  const wide marks = (wide)GROUP * ((N(5) + DELTA_CHUNK) * (wide)size + 2 * DELTA_CHUNK * value_dim);
  const wide kept = marks + N(5) * (wide)size, missing = kept + DELTA_CHUNK * (wide)size;
  const wide changes = missing + DELTA_CHUNK * value_dim;
  const wide pull = ((wide)to * heads + head) * size;
  THREADS
    if (t < value_dim) {
      for (int i = 0; i < key_dim; i++) {
        const int at = i * value_dim + t;
        float sum = 0.0f;
        for (int other = runs[run + 4]; other < runs[run + 4] + runs[run + 5]; other++)
          sum += pulls[((wide)other * heads + head) * size + at];
        pulls[pull + at] = sum;
        scratch[kept + at] = from < 0 ? 0.0f : states[((wide)from * heads + head) * size + at];
      }
      for (int n = 0; n < tokens; n++) {
        float known = 0.0f;
        for (int i = 0; i < key_dim; i++) {
          const int at = i * value_dim + t;
          if (n % DELTA_CHUNK == 0) scratch[marks + n / DELTA_CHUNK * (wide)size + at] = scratch[kept + at];
          scratch[kept + at] *= GATES(first + n)[0];
          known += KEY(first + n)[i] * scratch[kept + at];
        }
        const float change =
          GATES(first + n)[1] * (LOAD(mixed, (wide)(first + n) * mixed_width + value_at + t) - known);
        for (int i = 0; i < key_dim; i++) scratch[kept + i * value_dim + t] += KEY(first + n)[i] * change;
      }
    }
  END
  for (int chunk = (tokens - 1) / DELTA_CHUNK; chunk >= 0 && tokens > 0; chunk--) {
    const int begin = chunk * DELTA_CHUNK;
    const int count = tokens - begin < DELTA_CHUNK ? tokens - begin : DELTA_CHUNK;
    THREADS
      if (t < value_dim) {
        for (int j = 0; j < count; j++) {
          const int n = first + begin + j;
          float known = 0.0f;
          for (int i = 0; i < key_dim; i++) {
            const int at = i * value_dim + t;
            const float before = j == 0 ? scratch[marks + chunk * (wide)size + at] :
              scratch[kept + (j - 1) * (wide)size + at] + KEY(n - 1)[i] * scratch[changes + (j - 1) * value_dim + t];
            const float left = before * GATES(n)[0];
            scratch[kept + j * (wide)size + at] = left;
            known += KEY(n)[i] * left;
          }
          const float gap = LOAD(mixed, (wide)n * mixed_width + value_at + t) - known;
          scratch[missing + j * value_dim + t] = gap;
          scratch[changes + j * value_dim + t] = GATES(n)[1] * gap;
        }
      }
    END
    for (int j = count - 1; j >= 0; j--) {
      const int n = first + begin + j;
      const wide left = kept + j * (wide)size, change = changes + j * value_dim;
      const wide slope = ((wide)n * heads + head) * value_dim;
      const wide units = ((wide)n * heads + head) * 2 * key_dim, others = ((wide)n * heads + head) * (value_dim + 2);
      THREADS
        alongs[t] = 0.0f;
        of_beta[t] = 0.0f;
        if (t < value_dim) {
          float of_change = 0.0f;
          for (int i = 0; i < key_dim; i++) {
            const wide at = pull + i * value_dim + t;
            pulls[at] += QUERY(n)[i] * LOAD(grad, slope + t);
            of_change += KEY(n)[i] * pulls[at];
          }
          of_known[t] = -GATES(n)[1] * of_change;
          rest[others + t] = -of_known[t];
          alongs[t] = scratch[change + t] * LOAD(grad, slope + t);
          of_beta[t] = of_change * scratch[missing + j * value_dim + t];
        }
      END
      const float along = BLOCK_SUM(alongs);
      const float beta_pull = BLOCK_SUM(of_beta);
      THREADS
        of_decay[t] = 0.0f;
        if (t < key_dim) {
          float of_query = KEY(n)[t] * along, of_key = 0.0f, sum = 0.0f;
          for (int c = 0; c < value_dim; c++) {
            const float was = scratch[left + t * value_dim + c], own = pulls[pull + t * value_dim + c];
            of_query += was * LOAD(grad, slope + c);
            of_key += own * scratch[change + c] + was * of_known[c];
            sum += (own + KEY(n)[t] * of_known[c]) * was;
          }
          of_unit[units + t] = of_query;
          of_unit[units + key_dim + t] = of_key;
          of_decay[t] = sum;
        }
      END
      const float decay_pull = BLOCK_SUM(of_decay);
      THREADS
        if (t < value_dim)
          for (int i = 0; i < key_dim; i++) {
            const wide at = pull + i * value_dim + t;
            pulls[at] = GATES(n)[0] * (pulls[at] + KEY(n)[i] * of_known[t]);
          }
        if (t == 0) {
          rest[others + value_dim] = decay_pull;
          rest[others + value_dim + 1] = beta_pull;
        }
      END
    }
  }
}

// The gradients of a token's mixed (0), to (5), b and a, whose own follow in ba (6) [.., 2, N 1], from of_unit (1) and
// rest (2); unit (3) and gates (4) are delta_unit's. What A_log's and dt_bias's gradients have of it goes to sums (7)
// [.., 2, N 1]; a (8), weights (9) [2, N 1]: A_log and dt_bias. F 0 as there.
KERNEL(delta_inputs) {
  BUFFER(REAL, mixed, 0);
  BUFFER(float, of_unit, 1);
  BUFFER(float, rest, 2);
  BUFFER(float, unit, 3);
  BUFFER(float, gates, 4);
  BUFFER(REAL, to, 5);
  BUFFER(REAL, ba, 6);
  BUFFER(float, sums, 7);
  BUFFER(REAL, a, 8);
  BUFFER(REAL, weights, 9);
  const int key_heads = N(0), heads = N(1), key_dim = N(2), value_dim = N(3), share = heads / key_heads;
  const int keys = key_heads * key_dim;
  const wide row = (wide)GROUP * (2 * keys + heads * value_dim);
  THREADS
    for (int place = t; place < 2 * key_heads; place += BLOCK) {
      const int is_key = place / key_heads, head = place % key_heads;
      const wide at = row + place * key_dim, own = (wide)GROUP * 2 * keys + place * key_dim;
      // What the value heads of this key head pull at it; ptxas spills nothing of an offset that is written so.
      const wide pulls = (((wide)GROUP * heads + head * share) * 2 + is_key) * key_dim;
      const int stride = 2 * key_dim;
      float square = 0.0f, along = 0.0f;
      for (int i = 0; i < key_dim; i++) {
        float pull = 0.0f;
        for (int value = 0; value < share; value++) pull += of_unit[pulls + (wide)value * stride + i];
        square += LOAD(mixed, at + i) * LOAD(mixed, at + i);
        along += unit[own + i] * pull;
      }
      const float inverse = 1.0f / SQRT(square + F(0));
      const float scale = is_key ? 1.0f : 1.0f / SQRT((float)key_dim);
      for (int i = 0; i < key_dim; i++) {
        float pull = 0.0f;
        for (int value = 0; value < share; value++) pull += of_unit[pulls + (wide)value * stride + i];
        STORE(to, at + i, inverse * (scale * pull - along / scale * unit[own + i]));
      }
    }
    for (int c = t; c < heads * value_dim; c += BLOCK)
      STORE(to, row + 2 * keys + c,
        rest[((wide)GROUP * heads + c / value_dim) * (value_dim + 2) + c % value_dim]);
    for (int head = t; head < heads; head += BLOCK) {
      const wide own = (wide)GROUP * heads + head;
      const float of_decay = rest[own * (value_dim + 2) + value_dim];
      const float of_beta = rest[own * (value_dim + 2) + value_dim + 1];
      const float beta = gates[2 * own + 1], rate = EXP(LOAD(weights, head));
      const float x = LOAD(a, own) + LOAD(weights, heads + head);
      SOFTPLUS(soft, x);
      const float of_a = -of_decay * rate / (1.0f + EXP(-x));
      STORE(ba, (wide)GROUP * 2 * heads + head, of_beta * beta * (1.0f - beta));
      STORE(ba, (wide)GROUP * 2 * heads + heads + head, of_a);
      sums[(wide)GROUP * 2 * heads + head] = -of_decay * rate * soft;
      sums[(wide)GROUP * 2 * heads + heads + head] = of_a;
    }
  END
}
