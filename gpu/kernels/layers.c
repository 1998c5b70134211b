// Forward passes of norms, positions, gates and sums.

// stream (2) = x (0) + more (1), or x where there is no more (N 1 is 0); out (4) = its norm times weight (3)
// and F 1. A group a row of N 0 values; F 0 is added to the mean square. The stream may lie where x does.
KERNEL(add_norm) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, more, 1);
  BUFFER(REAL, stream, 2);
  BUFFER(REAL, weight, 3);
  BUFFER(REAL, out, 4);
  SHARED(float, partial, BLOCK);
  const int width = N(0);
  const wide row = (wide)GROUP * width;
  THREADS
    float sum = 0.0f;
    for (int i = t; i < width; i += BLOCK) {
      float value = LOAD(x, row + i);
      if (N(1)) {
        STORE(stream, row + i, value + LOAD(more, row + i));
        // As it is kept.
        value = LOAD(stream, row + i);
      }
      sum += value * value;
    }
    partial[t] = sum;
  END
  const float scale = 1.0f / SQRT(BLOCK_SUM(partial) / (float)width + F(0));
  THREADS
    for (int i = t; i < width; i += BLOCK) {
      const float value = N(1) ? LOAD(stream, row + i) : LOAD(x, row + i);
      STORE(out, row + i, value * scale * (LOAD(weight, i) + F(1)));
    }
  END
}

// x (0) += y (1), N 0 values, four a thread.
KERNEL(add) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, y, 1);
  THREADS
    EACH_VALUE(i) STORE(x, i, LOAD(x, i) + LOAD(y, i));
  END
}

// Adds bias (1) to a row of N 0 values of x (0).
KERNEL(add_bias) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, bias, 1);
  const wide row = (wide)GROUP * N(0);
  THREADS
    for (int i = t; i < N(0); i += BLOCK) STORE(x, row + i, LOAD(x, row + i) + LOAD(bias, i));
  END
}

// The same of a row of N 0 values of x (0), of N 1 of y (2) and of N 2 of z (4), with a bias each (1, 3, 5).
KERNEL(add_biases) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, bias_of_x, 1);
  BUFFER(REAL, y, 2);
  BUFFER(REAL, bias_of_y, 3);
  BUFFER(REAL, z, 4);
  BUFFER(REAL, bias_of_z, 5);
  const wide x_row = (wide)GROUP * N(0), y_row = (wide)GROUP * N(1), z_row = (wide)GROUP * N(2);
  THREADS
    for (int i = t; i < N(0); i += BLOCK) STORE(x, x_row + i, LOAD(x, x_row + i) + LOAD(bias_of_x, i));
    for (int i = t; i < N(1); i += BLOCK) STORE(y, y_row + i, LOAD(y, y_row + i) + LOAD(bias_of_y, i));
    for (int i = t; i < N(2); i += BLOCK) STORE(z, z_row + i, LOAD(z, z_row + i) + LOAD(bias_of_z, i));
  END
}

// Rotates the first 2 N 1 values of the N 0 heads, N 2 values each, of a token's x (0) by angles whose cosines (1)
// and sines (2) are [tokens, N 1]; F 0 is 1, or -1 for the inverse.
KERNEL(rope) {
  BUFFER(REAL, x, 0);
  BUFFER(float, cosines, 1);
  BUFFER(float, sines, 2);
  const int pairs = N(1);
  const wide token = (wide)GROUP * N(0) * N(2);
  const wide angles = (wide)GROUP * pairs;
  THREADS
    for (int i = t; i < N(0) * pairs; i += BLOCK) {
      const int head = i / pairs, d = i % pairs;
      const wide low = token + (wide)head * N(2) + d, high = low + pairs;
      const float a = LOAD(x, low), b = LOAD(x, high);
      const float c = cosines[angles + d], s = sines[angles + d] * F(0);
      STORE(x, low, a * c - b * s);
      STORE(x, high, b * c + a * s);
    }
  END
}

// out (2) = x sigmoid(f(x)) up (1) for x of gate (0) and f(x) = F 0 (x + F 1 x^3), or, where N 1 is 1, sigmoid(f(x)) up;
// N 0 values, four a thread.
KERNEL(gated) {
  BUFFER(REAL, gate, 0);
  BUFFER(REAL, up, 1);
  BUFFER(REAL, out, 2);
  THREADS
    EACH_VALUE(i) {
      const float x = LOAD(gate, i);
      const float factor = N(1) ? 1.0f : x;
      STORE(out, i, factor / (1.0f + EXP(-F(0) * x * (1.0f + F(1) * x * x))) * LOAD(up, i));
    }
  END
}

// Copies row GROUP of x (0), N 0 values, to the row of out (1) that places (2) names.
KERNEL(store_rows) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, out, 1);
  BUFFER(int, places, 2);
  const wide from = (wide)GROUP * N(0), to = (wide)places[GROUP] * N(0);
  THREADS
    for (int i = t; i < N(0); i += BLOCK) STORE(out, to + i, LOAD(x, from + i));
  END
}

// Copies the row of the table (0) that ids (2) names, N 0 values, times F 0, to row GROUP of out (1).
KERNEL(pick_rows) {
  BUFFER(REAL, table, 0);
  BUFFER(REAL, out, 1);
  BUFFER(int, ids, 2);
  const wide from = (wide)ids[GROUP] * N(0), to = (wide)GROUP * N(0);
  THREADS
    for (int i = t; i < N(0); i += BLOCK) STORE(out, to + i, F(0) * LOAD(table, from + i));
  END
}

// What a token leaves in a cache, in one launch: rotates its queries (0) in place, N 0 heads, and its keys (1), N 1
// heads, on their way to the row of the cache's keys (3) that places (5) names; copies its values (2) to that row of
// the cache's values (4). The first 2 N 2 of the N 3 values of a head turn, by cosines and sines [tokens, N 2] of queries
// (6, 7) and of keys (8, 9).
KERNEL(rope_store) {
  BUFFER(REAL, queries, 0);
  BUFFER(REAL, keys, 1);
  BUFFER(REAL, values, 2);
  BUFFER(REAL, cached_keys, 3);
  BUFFER(REAL, cached_values, 4);
  BUFFER(int, places, 5);
  BUFFER(float, query_cosines, 6);
  BUFFER(float, query_sines, 7);
  BUFFER(float, key_cosines, 8);
  BUFFER(float, key_sines, 9);
  const int pairs = N(2), dim = N(3), width = N(1) * N(3);
  const wide angles = (wide)GROUP * pairs;
  const wide from = (wide)GROUP * width, to = (wide)places[GROUP] * width;
  THREADS
    for (int i = t; i < N(0) * pairs; i += BLOCK) {
      const int d = i % pairs;
      const wide low = ((wide)GROUP * N(0) + i / pairs) * dim + d, high = low + pairs;
      const float a = LOAD(queries, low), b = LOAD(queries, high);
      const float c = query_cosines[angles + d], s = query_sines[angles + d];
      STORE(queries, low, a * c - b * s);
      STORE(queries, high, b * c + a * s);
    }
    for (int i = t; i < N(1) * pairs; i += BLOCK) {
      const int d = i % pairs, low = i / pairs * dim + d, high = low + pairs;
      const float a = LOAD(keys, from + low), b = LOAD(keys, from + high);
      const float c = key_cosines[angles + d], s = key_sines[angles + d];
      STORE(cached_keys, to + low, a * c - b * s);
      STORE(cached_keys, to + high, b * c + a * s);
    }
    for (int i = t; i < width; i += BLOCK) {
      if (i % dim >= 2 * pairs) STORE(cached_keys, to + i, LOAD(keys, from + i));
      STORE(cached_values, to + i, LOAD(values, from + i));
    }
  END
}

// N 1 columns of rows of x (0) to columns of rows of out (1), times F 0: N 0 values in all. Rows of x have N 2 values, the
// first column is N 3; rows of out have N 4, the first column is N 5.
KERNEL(columns) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, out, 1);
  THREADS
    EACH_VALUE(i) {
      const int row = i / N(1), at = i % N(1);
      STORE(out, (wide)row * N(4) + N(5) + at, LOAD(x, (wide)row * N(2) + N(3) + at) * F(0));
    }
  END
}
