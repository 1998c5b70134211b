// Tokens drawn from logits, with what is cut off the distribution, wholly on the device.

// A pass over a row tells apart so many values of four bits of a mass.
#define DIGITS 16

// Whether the filters so far keep token i, whose mass has these bits: in order of falling mass, of equal ones the
// first. Masses are not negative, so that their order is that of their bits.
#define KEPT(bits, i) ((bits) > limit[0] || ((bits) == limit[0] && (i) <= last[0]))

// Draws from a row of N 0 logits (0), the GROUPth or, where N 1 is 1, that of rows (2), under 1 / F 0 as temperature:
// the token goes to tokens (3), its log-probability after the filters to logp (4). By inverse CDF of uniform (1), or,
// where N 2 is 1, the first of the largest. Filters in turn: the N 3 likeliest tokens, 0 for all; the likeliest up to
// the share F 1 of what is left, 1 for all; those of at least F 2 of the largest mass. Where logits are not finite the
// token is 0, so that it may be looked up, and its log-probability not a number.
//
// A filter keeps the beginning of the tokens in order of falling mass, up to where their number (phase 0) or mass
// (phase 1) comes to a goal. Eight passes over the row find the mass of the last one, four bits at a time from the
// highest: every thread has a bin of its own for each digit, so that the sums have one order. Then those of equal mass
// are counted, by the descent that finds the drawn token too (phase 2): the row is cut into a piece a thread, the piece
// where the sum passes the goal into a piece a thread, and so on.
KERNEL(sample) {
  BUFFER(float, logits, 0);
  BUFFER(float, uniform, 1);
  BUFFER(int, rows, 2);
  BUFFER(int, tokens, 3);
  BUFFER(float, logp, 4);
  SHARED(float, sums, BLOCK);
  SHARED(float, bins, DIGITS * BLOCK);
  SHARED(float, digits, DIGITS);
  // What a sum is to come to, and what came before the digits found so far.
  SHARED(float, goal, 1);
  SHARED(float, before, 1);
  // The smallest mass that is kept, and the last token of that mass.
  SHARED(unsigned, limit, 1);
  SHARED(int, last, 1);
  // The digits found so far, and where the piece begins that the descent is in.
  SHARED(unsigned, found, 1);
  SHARED(int, first, 1);
  const wide row = (wide)(N(1) ? rows[GROUP] : GROUP) * N(0);
  const int is_greedy = N(2);
  THREADS
    float top = -1e30f;
    for (int i = t; i < N(0); i += BLOCK) top = MAX(top, logits[row + i]);
    sums[t] = top;
    if (t == 0) { limit[0] = 0; last[0] = N(0) - 1; }
  END
  const float top = BLOCK_MAX(sums);
  float mass_of_kept = 0.0f;
  for (int phase = 0; phase < 3; phase++) {
    if ((phase == 0 && N(3) == 0) || (phase == 1 && F(1) >= 1.0f)) continue;
    THREADS
      if (t == 0 && phase == 2 && F(2) > 0.0f && BITS(F(2)) > limit[0]) {
        limit[0] = BITS(F(2));
        last[0] = N(0) - 1;
      }
    END
    THREADS
      float sum = 0.0f;
      for (int i = t; i < N(0) && phase > 0; i += BLOCK) {
        const float mass = EXP((logits[row + i] - top) * F(0));
        if (KEPT(BITS(mass), i)) sum += mass;
      }
      sums[t] = sum;
    END
    mass_of_kept = BLOCK_SUM(sums);
    THREADS
      if (t == 0) {
        goal[0] = phase == 0 ? (float)N(3) : phase == 1 ? F(1) * mass_of_kept : uniform[GROUP] * mass_of_kept;
        if (phase == 2 && is_greedy) goal[0] = 0.0f;
        before[0] = 0.0f;
        found[0] = 0;
        first[0] = 0;
      }
    END
    for (int shift = 28; shift >= 0 && phase < 2; shift -= 4) {
      THREADS
        for (int digit = 0; digit < DIGITS; digit++) bins[digit * BLOCK + t] = 0.0f;
        for (int i = t; i < N(0); i += BLOCK) {
          const float mass = EXP((logits[row + i] - top) * F(0));
          const unsigned bits = BITS(mass), begin = bits >> shift;
          if (begin / DIGITS == found[0] && KEPT(bits, i)) {
            bins[(int)(begin % DIGITS) * BLOCK + t] += phase == 1 ? mass : 1.0f;
          }
        }
      END
      // As many parts of a digit's bins as there are digits, then the parts.
      THREADS
        float sum = 0.0f;
        for (int i = 0; i < DIGITS; i++) sum += bins[t / DIGITS * BLOCK + t % DIGITS + DIGITS * i];
        sums[t] = sum;
      END
      THREADS
        if (t < DIGITS) {
          float sum = 0.0f;
          for (int i = 0; i < DIGITS; i++) sum += sums[t * DIGITS + i];
          digits[t] = sum;
        }
      END
      THREADS
        if (t == 0) {
          // Where rounding leaves the goal past the end: the last that there is.
          float sum = before[0];
          int chosen = 0;
          for (int digit = DIGITS - 1; digit >= 0; digit--) {
            if (digits[digit] > 0.0f) {
              chosen = digit;
              before[0] = sum;
              sum += digits[digit];
              if (sum >= goal[0]) break;
            }
          }
          found[0] = found[0] * DIGITS + (unsigned)chosen;
        }
      END
    }
    THREADS
      if (t == 0 && phase < 2) {
        // How many of equal mass come to the goal, less a half: the descent looks for more than that.
        const float share = (goal[0] - before[0]) / (phase == 1 ? FLOAT(found[0]) : 1.0f);
        int count = share < (float)N(0) ? (int)share : N(0);
        if (count < N(0) && (float)count < share) count++;
        goal[0] = (float)count - 0.5f;
      }
    END
    int piece = 1;
    for (int length = N(0); length > 1; length = piece) {
      piece = (length + BLOCK - 1) / BLOCK;
      THREADS
        const int begin = first[0] + t * piece;
        int end = begin + piece < first[0] + length ? begin + piece : first[0] + length;
        if (end > N(0)) end = N(0);
        float sum = 0.0f;
        for (int i = begin; i < end; i++) {
          const float x = logits[row + i];
          const float mass = EXP((x - top) * F(0));
          const unsigned bits = BITS(mass);
          if (phase < 2) sum += bits == found[0] && KEPT(bits, i) ? 1.0f : 0.0f;
          else if (is_greedy) sum += x == top ? 1.0f : 0.0f;
          else if (KEPT(bits, i)) sum += mass;
        }
        sums[t] = sum;
      END
      THREADS
        if (t == 0) {
          float sum = 0.0f, before_piece = 0.0f;
          int chosen = 0;
          for (int i = 0; i < BLOCK; i++) {
            if (sums[i] > 0.0f) {
              chosen = i;
              before_piece = sum;
              sum += sums[i];
              if (sum > goal[0]) break;
            }
          }
          goal[0] -= before_piece;
          first[0] += chosen * piece;
        }
      END
    }
    THREADS
      if (t == 0 && phase < 2) {
        limit[0] = found[0];
        last[0] = first[0];
      }
    END
  }
  THREADS
    if (t == 0) {
      const int is_finite = mass_of_kept > 0.0f && mass_of_kept < 1e30f && top > -1e30f && top < 1e30f;
      tokens[GROUP] = is_finite ? first[0] : 0;
      logp[GROUP] =
          is_finite ? (logits[row + first[0]] - top) * F(0) - LOG(mass_of_kept) : FLOAT(0x7fc00000u);
    }
  END
}
