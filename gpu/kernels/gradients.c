// Backward passes of norms, gates, the embedding and the output layer. Sums over tokens are in f32 and in an
// order of their own, so the same gradient comes out each time.

// dx (3) += the gradient of row x (0) of a norm with weight (1) for the gradient (2) of its result; a group a
// row of N 0 values, whose scale goes to scales (4). F 0 is added to the mean square,
// F 1 to the weight.
KERNEL(norm_inputs) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, weight, 1);
  BUFFER(REAL, grad, 2);
  BUFFER(REAL, dx, 3);
  BUFFER(float, scales, 4);
  SHARED(float, squares, BLOCK);
  SHARED(float, products, BLOCK);
  const int width = N(0);
  const wide row = (wide)GROUP * width;
  THREADS
    float square = 0.0f, product = 0.0f;
    for (int i = t; i < width; i += BLOCK) {
      const float value = LOAD(x, row + i);
      square += value * value;
      product += value * LOAD(grad, row + i) * (LOAD(weight, i) + F(1));
    }
    squares[t] = square;
    products[t] = product;
  END
  const float scale = 1.0f / SQRT(BLOCK_SUM(squares) / (float)width + F(0));
  const float shrink = BLOCK_SUM(products) * scale * scale * scale / (float)width;
  THREADS
    for (int i = t; i < width; i += BLOCK) {
      const float own = LOAD(grad, row + i) * (LOAD(weight, i) + F(1)) * scale - LOAD(x, row + i) * shrink;
      STORE(dx, row + i, LOAD(dx, row + i) + own);
    }
    if (t == 0) scales[GROUP] = scale;
  END
}

// Part GROUP, of PART rows, of the gradient of a norm's weight: parts (3) [.., N 0] from x (0), the gradient (1) of the
// result and scales (2), of N 1 rows in all.
KERNEL(norm_weights) {
  BUFFER(REAL, x, 0);
  BUFFER(REAL, grad, 1);
  BUFFER(float, scales, 2);
  BUFFER(float, parts, 3);
  const int width = N(0), end = (GROUP + 1) * PART < N(1) ? (GROUP + 1) * PART : N(1);
  THREADS
    for (int i = t; i < width; i += BLOCK) {
      float sum = 0.0f;
      for (int row = GROUP * PART; row < end; row++)
        sum += LOAD(x, (wide)row * width + i) * LOAD(grad, (wide)row * width + i) * scales[row];
      parts[(wide)GROUP * width + i] = sum;
    }
  END
}

// Part GROUP of the sums of the columns of x (0) [N 1, N 0], to parts (1).
KERNEL(column_sums) {
  BUFFER(REAL, x, 0);
  BUFFER(float, parts, 1);
  const int width = N(0), end = (GROUP + 1) * PART < N(1) ? (GROUP + 1) * PART : N(1);
  THREADS
    for (int i = t; i < width; i += BLOCK) {
      float sum = 0.0f;
      for (int row = GROUP * PART; row < end; row++) sum += LOAD(x, (wide)row * width + i);
      parts[(wide)GROUP * width + i] = sum;
    }
  END
}

// In place of gate (0) and up (1) their gradients for that (2) of gated's result, N 0 values; N 1 and F as there.
KERNEL(gated_back) {
  BUFFER(REAL, gate, 0);
  BUFFER(REAL, up, 1);
  BUFFER(REAL, grad, 2);
  THREADS
    EACH_VALUE(i) {
      const float x = LOAD(gate, i), y = LOAD(up, i), slope = LOAD(grad, i);
      const float square = F(1) * x * x;
      const float open = 1.0f / (1.0f + EXP(-F(0) * x * (1.0f + square)));
      const float factor = N(1) ? 1.0f : x, lead = N(1) ? 0.0f : 1.0f;
      const float turn = F(0) * factor * (1.0f + 3.0f * square);
      STORE(gate, i, slope * y * open * (lead + turn * (1.0f - open)));
      STORE(up, i, slope * factor * open);
    }
  END
}

// Adds to row ids[GROUP] of sums (2), N 0 values, the rows of dx (0) that order (1) names from
// starts[GROUP] to starts[GROUP + 1]: ids (3), starts (4).
KERNEL(embedding_back) {
  BUFFER(REAL, dx, 0);
  BUFFER(int, order, 1);
  BUFFER(float, sums, 2);
  BUFFER(int, ids, 3);
  BUFFER(int, starts, 4);
  const wide to = (wide)ids[GROUP] * N(0);
  THREADS
    for (int i = t; i < N(0); i += BLOCK) {
      float sum = sums[to + i];
      for (int at = starts[GROUP]; at < starts[GROUP + 1]; at++) sum += LOAD(dx, (wide)order[at] * N(0) + i);
      sums[to + i] = sum;
    }
  END
}

// sums (0) += x (1), N 0 values.
KERNEL(add_to) {
  BUFFER(float, sums, 0);
  BUFFER(REAL, x, 1);
  THREADS
    EACH_VALUE(i) sums[i] += LOAD(x, i);
  END
}

// The gradient of a row of N 0 logits (0), to out (4), for the gradient (3) of the log-probability of its
// target (1): (onehot - p) grad F 0, with F 0 one over the temperature and sums (2) the logarithm of the sum of
// exp(logit F 0).
KERNEL(logits_grad) {
  BUFFER(float, logits, 0);
  BUFFER(int, targets, 1);
  BUFFER(float, sums, 2);
  BUFFER(float, grad, 3);
  BUFFER(REAL, out, 4);
  const wide row = (wide)GROUP * N(0);
  const float slope = grad[GROUP] * F(0);
  THREADS
    for (int i = t; i < N(0); i += BLOCK) {
      const float p = EXP(logits[row + i] * F(0) - sums[GROUP]);
      STORE(out, row + i, ((i == targets[GROUP] ? 1.0f : 0.0f) - p) * slope);
    }
  END
}

// out (1) = x (0) in the type of out, N 0 values.
KERNEL(narrow) {
  BUFFER(float, x, 0);
  BUFFER(REAL, out, 1);
  THREADS
    EACH_VALUE(i) STORE(out, i, x[i]);
  END
}
