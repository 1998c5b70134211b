// What means the same in every dialect. Sizes come from src/sizes.rs.
typedef struct Params { int n[8]; float f[12]; } Params;
#define N(index) params.n[index]
#define F(index) params.f[index]
// The values, of N 0 in all, that a thread of an elementwise kernel works on.
#define EACH_VALUE(i) \
  for (wide i = (wide)GROUP * ELEMENTS + t; i < N(0) && i < ((wide)GROUP + 1) * ELEMENTS; i += BLOCK)
