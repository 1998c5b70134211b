// Causal attention over runs of tokens, with grouped heads, in one pass over the keys. No matrix of queries
// and keys is kept; the backward passes compute the weights again from the logarithm of their sum.
//
// A group serves one key-value head and the queries of a few tokens of one run, VECTORS of them at most. What
// its tokens see is one stretch of keys or two: key i is row `start + i` below `split`, then `rest + i - split`.
#ifndef NOTHING
#define NOTHING (-1e30f)
// What a group of queries is: its heads, its tokens and what they see.
#define QUERIES_OF_GROUP(blocks) \
  const int heads = N(0), kv = N(1), dim = N(2), share = heads / kv; \
  const int head = GROUP % kv, at = GROUP / kv * 6; \
  const int first = blocks[at], tokens = blocks[at + 1], sees = blocks[at + 2]; \
  const int start = blocks[at + 3], split = blocks[at + 4], rest = blocks[at + 5]; \
  const int vectors = tokens * share, all = sees + tokens - 1, window = N(3); \
  const int step = dim > TILE_DIM ? TILE / 2 : TILE; \
  /* Tiles begin at the same keys for every token of a sequence: its result has the same bits in every pass. */ \
  const int lowest = (sees > window ? sees - window : 0) / step * step
// Whether a query vector sees a key: not what follows it, nor what its window has left behind.
#define SEES(vector, key) \
  ((key) < sees + (vector) / share && (key) >= sees + (vector) / share - window)
// The row of a query vector counted from token `first`, and that of a key.
#define QUERY_ROW(vector) ((wide)(first + (vector) / share) * heads + head * share + (vector) % share)
#define KEY_ROW(key) ((wide)((key) < split ? start + (key) : rest + (key) - split))
// Loads `keys` keys or values from `begin` on.
#define LOAD_TILE(x) \
  for (int i = t; i < keys * dim; i += BLOCK) \
    tile[i / dim * (dim + 1) + i % dim] = LOAD(x, (KEY_ROW(begin + i / dim) * kv + head) * dim + i % dim)
#endif

// q (0) [tokens, N 0, N 2], k (1) and v (2) [rows, N 1, N 2] to out (3), as q, and the logarithm of every
// query's sum of weights, sums (4) [tokens, N 0]. blocks (5): first token, tokens, keys that the first sees,
// start, split, rest. F 0 scales the products; N 3 is how many tokens a token sees, itself included.
KERNEL(attention) {
  BUFFER(REAL, q, 0);
  BUFFER(REAL, k, 1);
  BUFFER(REAL, v, 2);
  BUFFER(REAL, out, 3);
  BUFFER(float, sums, 4);
  BUFFER(int, blocks, 5);
  SHARED(float, queries, QUERIES);
  SHARED(float, tile, TILE * (TILE_DIM + 1));
  SHARED(float, weights, VECTORS * TILE);
  SHARED(float, top, VECTORS);
  SHARED(float, mass, VECTORS);
  SHARED(float, shrink, VECTORS);
  PRIVATE(float, gathered, QUERIES / BLOCK);
  QUERIES_OF_GROUP(blocks);
  THREADS
    for (int i = t; i < vectors * dim; i += BLOCK) {
      const int vector = i / dim;
      const wide row = QUERY_ROW(vector);
      queries[i] = LOAD(q, row * dim + i % dim) * F(0);
    }
    if (t < VECTORS) { top[t] = NOTHING; mass[t] = 0.0f; }
    for (int j = 0; j < QUERIES / BLOCK; j++) gathered[ME][j] = 0.0f;
  END
  for (int begin = lowest; begin < all; begin += step) {
    const int keys = all - begin < step ? all - begin : step;
    THREADS
      LOAD_TILE(k);
    END
    THREADS
      for (int i = t; i < vectors * TILE; i += BLOCK) {
        const int vector = i / TILE, key = i % TILE;
        float product = NOTHING;
        if (key < keys && SEES(vector, begin + key)) {
          product = 0.0f;
          for (int d = 0; d < dim; d++) product += queries[vector * dim + d] * tile[key * (dim + 1) + d];
        }
        weights[i] = product;
      }
    END
    THREADS
      if (t < vectors) {
        float largest = top[t];
        for (int key = 0; key < TILE; key++) largest = MAX(largest, weights[t * TILE + key]);
        shrink[t] = EXP(top[t] - largest);
        float sum = mass[t] * shrink[t];
        for (int key = 0; key < TILE; key++) {
          const float weight = EXP(weights[t * TILE + key] - largest);
          weights[t * TILE + key] = weight;
          sum += weight;
        }
        top[t] = largest;
        mass[t] = sum;
      }
      LOAD_TILE(v);
    END
    THREADS
      for (int j = 0; j < QUERIES / BLOCK; j++) {
        const int i = t + j * BLOCK;
        if (i < vectors * dim) {
          const int vector = i / dim;
          float sum = gathered[ME][j] * shrink[vector];
          for (int key = 0; key < keys; key++)
            sum += weights[vector * TILE + key] * tile[key * (dim + 1) + i % dim];
          gathered[ME][j] = sum;
        }
      }
    END
  }
  THREADS
    for (int j = 0; j < QUERIES / BLOCK; j++) {
      const int i = t + j * BLOCK;
      if (i < vectors * dim) {
        const int vector = i / dim;
        const wide row = QUERY_ROW(vector);
        STORE(out, row * dim + i % dim, gathered[ME][j] / mass[vector]);
      }
    }
    if (t < vectors) {
      const wide row = QUERY_ROW(t);
      sums[row] = top[t] + LOG(mass[t]);
    }
  END
}

// The gradient of queries, dq (6), from q (0), k (1), v (2), out (3), the gradient of out (4) and sums (5);
// and of every query the product of out and its gradient, pulls (7) [tokens, N 0]. blocks (8) as above.
KERNEL(attention_queries) {
  BUFFER(REAL, q, 0);
  BUFFER(REAL, k, 1);
  BUFFER(REAL, v, 2);
  BUFFER(REAL, out, 3);
  BUFFER(REAL, grad, 4);
  BUFFER(float, sums, 5);
  BUFFER(REAL, dq, 6);
  BUFFER(float, pulls, 7);
  BUFFER(int, blocks, 8);
  SHARED(float, queries, QUERIES);
  SHARED(float, grads, QUERIES);
  SHARED(float, tile, TILE * (TILE_DIM + 1));
  SHARED(float, weights, VECTORS * TILE);
  SHARED(float, pull, VECTORS);
  SHARED(float, sum_of, VECTORS);
  PRIVATE(float, gathered, QUERIES / BLOCK);
  QUERIES_OF_GROUP(blocks);
  THREADS
    for (int i = t; i < vectors * dim; i += BLOCK) {
      const int vector = i / dim;
      const wide row = QUERY_ROW(vector);
      queries[i] = LOAD(q, row * dim + i % dim);
      grads[i] = LOAD(grad, row * dim + i % dim);
    }
    for (int j = 0; j < QUERIES / BLOCK; j++) gathered[ME][j] = 0.0f;
  END
  THREADS
    if (t < vectors) {
      const wide row = QUERY_ROW(t);
      float product = 0.0f;
      for (int d = 0; d < dim; d++) product += grads[t * dim + d] * LOAD(out, row * dim + d);
      pull[t] = product;
      pulls[row] = product;
      sum_of[t] = sums[row];
    }
  END
  for (int begin = lowest; begin < all; begin += step) {
    const int keys = all - begin < step ? all - begin : step;
    THREADS
      LOAD_TILE(v);
    END
    THREADS
      for (int i = t; i < vectors * TILE; i += BLOCK) {
        const int vector = i / TILE, key = i % TILE;
        float product = 0.0f;
        if (key < keys)
          for (int d = 0; d < dim; d++) product += grads[vector * dim + d] * tile[key * (dim + 1) + d];
        weights[i] = product - pull[vector];
      }
    END
    THREADS
      LOAD_TILE(k);
    END
    THREADS
      for (int i = t; i < vectors * TILE; i += BLOCK) {
        const int vector = i / TILE, key = i % TILE;
        float slope = 0.0f;
        if (key < keys && SEES(vector, begin + key)) {
          float product = 0.0f;
          for (int d = 0; d < dim; d++) product += queries[vector * dim + d] * tile[key * (dim + 1) + d];
          slope = EXP(product * F(0) - sum_of[vector]) * weights[i] * F(0);
        }
        weights[i] = slope;
      }
    END
    THREADS
      for (int j = 0; j < QUERIES / BLOCK; j++) {
        const int i = t + j * BLOCK;
        if (i < vectors * dim) {
          const int vector = i / dim;
          float sum = gathered[ME][j];
          for (int key = 0; key < keys; key++)
            sum += weights[vector * TILE + key] * tile[key * (dim + 1) + i % dim];
          gathered[ME][j] = sum;
        }
      }
    END
  }
  THREADS
    for (int j = 0; j < QUERIES / BLOCK; j++) {
      const int i = t + j * BLOCK;
      if (i < vectors * dim) {
        const int vector = i / dim;
        const wide row = QUERY_ROW(vector);
        STORE(dq, row * dim + i % dim, gathered[ME][j]);
      }
    }
  END
}

// The gradients of keys, dk (6), and values, dv (7), from q (0), k (1), v (2), the gradient of out (3), sums
// (4) and pulls (5). blocks (8): first key, keys, and the token before which every token from the first key on
// is one that sees what comes before it. positions (9) of tokens in their sequences, for windows.
KERNEL(attention_keys) {
  BUFFER(REAL, q, 0);
  BUFFER(REAL, k, 1);
  BUFFER(REAL, v, 2);
  BUFFER(REAL, grad, 3);
  BUFFER(float, sums, 4);
  BUFFER(float, pulls, 5);
  BUFFER(REAL, dk, 6);
  BUFFER(REAL, dv, 7);
  BUFFER(int, blocks, 8);
  BUFFER(int, positions, 9);
  SHARED(float, keys, KEYS * (TILE_DIM + 1));
  SHARED(float, values, KEYS * (TILE_DIM + 1));
  SHARED(float, queries, QUERIES);
  SHARED(float, grads, QUERIES);
  SHARED(float, weights, VECTORS * KEYS);
  SHARED(float, slopes, VECTORS * KEYS);
  PRIVATE(float, of_keys, KEYS * TILE_DIM / BLOCK);
  PRIVATE(float, of_values, KEYS * TILE_DIM / BLOCK);
  const int heads = N(0), kv = N(1), dim = N(2), share = heads / kv;
  const int head = GROUP % kv, at = GROUP / kv * 3;
  const int first = blocks[at], count = blocks[at + 1], until = blocks[at + 2];
  const int all = (until - first) * share;
  const int step = QUERIES / dim < VECTORS ? QUERIES / dim : VECTORS;
  THREADS
    for (int i = t; i < count * dim; i += BLOCK) {
      const wide row = ((wide)(first + i / dim) * kv + head) * dim + i % dim;
      keys[i / dim * (dim + 1) + i % dim] = LOAD(k, row);
      values[i / dim * (dim + 1) + i % dim] = LOAD(v, row);
    }
    for (int j = 0; j < KEYS * TILE_DIM / BLOCK; j++) of_keys[ME][j] = of_values[ME][j] = 0.0f;
  END
  for (int begin = 0; begin < all; begin += step) {
    const int vectors = all - begin < step ? all - begin : step;
    THREADS
      for (int i = t; i < vectors * dim; i += BLOCK) {
        const int vector = begin + i / dim;
        const wide row = QUERY_ROW(vector);
        queries[i] = LOAD(q, row * dim + i % dim);
        grads[i] = LOAD(grad, row * dim + i % dim);
      }
    END
    THREADS
      for (int i = t; i < vectors * KEYS; i += BLOCK) {
        const int vector = i / KEYS, key = i % KEYS, token = (begin + vector) / share;
        float weight = 0.0f, slope = 0.0f;
        if (key < count && token >= key && positions[first + token] - positions[first + key] < N(3)) {
          const wide row = QUERY_ROW(begin + vector);
          float product = 0.0f, pull = 0.0f;
          for (int d = 0; d < dim; d++) {
            product += queries[vector * dim + d] * keys[key * (dim + 1) + d];
            pull += grads[vector * dim + d] * values[key * (dim + 1) + d];
          }
          weight = EXP(product * F(0) - sums[row]);
          slope = weight * (pull - pulls[row]) * F(0);
        }
        weights[i] = weight;
        slopes[i] = slope;
      }
    END
    THREADS
      for (int j = 0; j < KEYS * TILE_DIM / BLOCK; j++) {
        const int i = t + j * BLOCK;
        if (i < count * dim) {
          const int key = i / dim, d = i % dim;
          float of_key = of_keys[ME][j], of_value = of_values[ME][j];
          for (int vector = 0; vector < vectors; vector++) {
            of_key += slopes[vector * KEYS + key] * queries[vector * dim + d];
            of_value += weights[vector * KEYS + key] * grads[vector * dim + d];
          }
          of_keys[ME][j] = of_key;
          of_values[ME][j] = of_value;
        }
      }
    END
  }
  THREADS
    for (int j = 0; j < KEYS * TILE_DIM / BLOCK; j++) {
      const int i = t + j * BLOCK;
      if (i < count * dim) {
        const wide row = ((wide)(first + i / dim) * kv + head) * dim + i % dim;
        STORE(dk, row, of_keys[ME][j]);
        STORE(dv, row, of_values[ME][j]);
      }
    }
  END
}
