// What means the same in every dialect.
#define BLOCK 256
typedef struct Params { int n[8]; float f[12]; } Params;
#define N(index) params.n[index]
#define F(index) params.f[index]
// The values, of N 0 in all, that a thread of an elementwise kernel works on: four of them.
#define EACH_VALUE(i) \
  for (wide i = (wide)GROUP * 4 * BLOCK + t; i < N(0) && i < ((wide)GROUP + 1) * 4 * BLOCK; i += BLOCK)
