// What is in f32 whatever the layers are in: logits, the optimizer. Samples are in sampling.c.

// sums (1), N 0 values, += the N 1 rows of parts (0); a thread a value.
KERNEL(sum_parts) {
  BUFFER(float, parts, 0);
  BUFFER(float, sums, 1);
  THREADS
    const int i = GROUP * BLOCK + t;
    if (i < N(0)) {
      float sum = sums[i];
      for (int part = 0; part < N(1); part++) sum += parts[(wide)part * N(0) + i];
      sums[i] = sum;
    }
  END
}

// Of a row of N 0 logits (0) under 1 / F 0 as temperature: the log-probability of target (1), to logp (2), the
// entropy (3), and the logarithm of the sum of exp(logit F 0) (4).
KERNEL(logp) {
  BUFFER(float, logits, 0);
  BUFFER(int, targets, 1);
  BUFFER(float, logp, 2);
  BUFFER(float, entropy, 3);
  BUFFER(float, sums, 4);
  SHARED(float, masses, BLOCK);
  SHARED(float, moments, BLOCK);
  const wide row = (wide)GROUP * N(0);
  THREADS
    float top = -1e30f;
    for (int i = t; i < N(0); i += BLOCK) top = MAX(top, logits[row + i]);
    masses[t] = top;
  END
  const float top = BLOCK_MAX(masses);
  THREADS
    float mass = 0.0f, moment = 0.0f;
    for (int i = t; i < N(0); i += BLOCK) {
      const float x = (logits[row + i] - top) * F(0);
      mass += EXP(x);
      moment += EXP(x) * x;
    }
    masses[t] = mass;
    moments[t] = moment;
  END
  const float mass = BLOCK_SUM(masses);
  const float moment = BLOCK_SUM(moments);
  THREADS
    if (t == 0) {
      logp[GROUP] = (logits[row + targets[GROUP]] - top) * F(0) - LOG(mass);
      entropy[GROUP] = LOG(mass) - moment / mass;
      sums[GROUP] = top * F(0) + LOG(mass);
    }
  END
}

// One step of AdamW on N 0 weights (0) with mean (1), square (2) and gradient (3). F: what the gradient is
// scaled by; share of the old mean, of the new; share of the old square, of the new; the rate; what the square is
// scaled by; what is added to its root; what weights are scaled by.
KERNEL(adamw) {
  BUFFER(float, weight, 0);
  BUFFER(float, mean, 1);
  BUFFER(float, square, 2);
  BUFFER(float, gradient, 3);
  THREADS
    EACH_VALUE(i) {
      const float g = gradient[i] * F(0);
      mean[i] = mean[i] * F(1) + g * F(2);
      square[i] = square[i] * F(3) + g * g * F(4);
      weight[i] = weight[i] * F(8) - mean[i] * F(5) / (SQRT(square[i] * F(6)) + F(7));
    }
  END
}

// The sum of squares of N 0 values (0), a part a group, to parts (1) at N 1 + GROUP.
KERNEL(squares) {
  BUFFER(float, x, 0);
  BUFFER(float, parts, 1);
  SHARED(float, partial, BLOCK);
  THREADS
    float sum = 0.0f;
    for (int k = 0; k < SQUARES / BLOCK; k++) {
      const wide i = (wide)GROUP * SQUARES + k * BLOCK + t;
      if (i < N(0)) sum += x[i] * x[i];
    }
    partial[t] = sum;
  END
  const float sum = BLOCK_SUM(partial);
  THREADS
    if (t == 0) parts[N(1) + GROUP] = sum;
  END
}
