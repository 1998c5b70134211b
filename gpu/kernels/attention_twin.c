// What the kernels of attention_mma.cu are compared with: `attention`, on as many tokens at a time as a group of it
// holds.
#define TENSOR_CORES(dim) KERNEL_TWIN(attention_mma_##dim##_bf16)
#define KERNEL_TWIN(name) static void name( \
    void* b0, void* b1, void* b2, void* b3, void* b4, void* b5, void* b6, void* b7, void* b8, void* b9, \
    const Params params, const int group) { \
  const int kv = N(1), share = N(0) / kv, *block = (const int*)b5 + group / kv * 6; \
  int step = VECTORS / share < QUERIES / (share * N(2)) ? VECTORS / share : QUERIES / (share * N(2)); \
  for (int at = 0; at < block[1]; at += step) { \
    const int tokens = block[1] - at < step ? block[1] - at : step; \
    int part[6] = {block[0] + at, tokens, block[2] + at, block[3], block[4], block[5]}; \
    attention_bf16(b0, b1, b2, b3, b4, part, b6, b7, b8, b9, params, group % kv); \
  } \
}
TENSOR_CORES(64) TENSOR_CORES(80) TENSOR_CORES(96) TENSOR_CORES(128) TENSOR_CORES(256)
#undef TENSOR_CORES
