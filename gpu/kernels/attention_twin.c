// What the kernels on tensor cores are compared with: those of attention.c, on as many tokens or keys at a time as a
// group of them holds.
#define TWIN(name) static void name( \
    void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void* b6, void* b7, void* b8, void* b9, \
    const Params params, const int group)
// For every part of a group's queries, in `part`, what follows.
#define EACH_PART(blocks) \
  const int kv = N(1), share = N(0) / kv, *block = (const int*)(blocks) + group / kv * 6; \
  const int step = VECTORS / share < QUERIES / (share * N(2)) ? VECTORS / share : QUERIES / (share * N(2)); \
  for (int at = 0, part[6]; at < block[1] && next_part(part, block, at, step); at += step)

static int next_part(int* part, const int* block, int at, int step) {
  const int tokens = block[1] - at < step ? block[1] - at : step;
  const int values[6] = {block[0] + at, tokens, block[2] + at, block[3], block[4], block[5]};
  memcpy(part, values, sizeof values);
  return 1;
}

TWIN(attention_twin) {
  EACH_PART(b5) attention_bf16(b0, b1, b2, b3, b4, part, b6, b7, b8, b9, params, group % kv);
}

TWIN(attention_queries_twin) {
  EACH_PART(b8) attention_queries_bf16(b0, b1, b2, b3, b4, b5, b6, b7, part, b9, params, group % kv);
}

TWIN(attention_keys_twin) {
  const int kv = N(1), *block = (const int*)b8 + group / kv * 3, step = N(2) > TILE_DIM ? KEYS / 2 : KEYS;
  for (int at = 0; at < block[1]; at += step) {
    int part[3] = {block[0] + at, block[1] - at < step ? block[1] - at : step, block[2]};
    attention_keys_bf16(b0, b1, b2, b3, b4, b5, b6, b7, part, b9, params, group % kv);
  }
}

#define attention_mma_64_bf16 attention_twin
#define attention_mma_80_bf16 attention_twin
#define attention_mma_96_bf16 attention_twin
#define attention_mma_128_bf16 attention_twin
#define attention_mma_256_bf16 attention_twin
#define attention_mma_queries_64_bf16 attention_queries_twin
#define attention_mma_queries_80_bf16 attention_queries_twin
#define attention_mma_queries_96_bf16 attention_queries_twin
#define attention_mma_queries_128_bf16 attention_queries_twin
#define attention_mma_keys_64_bf16 attention_keys_twin
#define attention_mma_keys_80_bf16 attention_keys_twin
#define attention_mma_keys_96_bf16 attention_keys_twin
#define attention_mma_keys_128_bf16 attention_keys_twin
