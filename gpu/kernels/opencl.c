// Launches by OpenCL: the kernels of opencl.h on memory of this process, copied there and back.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Params { int n[8]; float f[12]; } Params;
enum { BUFFERS = 10 };

static cl_context context;
static cl_command_queue queue;
static cl_program program;

static void check(cl_int status, const char* what) {
  if (status == CL_SUCCESS) return;
  fprintf(stderr, "OpenCL: %s fails with %d\n", what, status);
  abort();
}

static void open_device(const char* text) {
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;
  check(clGetPlatformIDs(1, &platform, NULL), "finding a platform");
  check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "finding a device");
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  check(status, "opening the device");
  queue = clCreateCommandQueue(context, device, 0, &status);
  check(status, "making a queue");
  program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
  check(status, "reading the kernels");
  if (clBuildProgram(program, 1, &device, "-cl-std=CL1.2", NULL, NULL) != CL_SUCCESS) {
    static char log[1 << 16];
    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
    fprintf(stderr, "OpenCL does not compile the kernels:\n%s\n", log);
    abort();
  }
}

// One launch; 1 where there is no kernel of that name. A buffer that is there twice is one piece of memory.
int tealight_emulate_opencl(const char* text, const char* name, void** buffers, const size_t* bytes,
                            const Params* params, int groups) {
  if (!context) open_device(text);
  cl_int status;
  cl_kernel kernel = clCreateKernel(program, name, &status);
  if (status != CL_SUCCESS) return 1;
  cl_mem memory[BUFFERS];
  int owner[BUFFERS];
  for (int i = 0; i < BUFFERS; i++) {
    // What a kernel has no use for is its first buffer again.
    void* own = buffers[i] ? buffers[i] : buffers[0];
    owner[i] = i;
    for (int j = i - 1; j >= 0; j--)
      if ((buffers[j] ? buffers[j] : buffers[0]) == own) owner[i] = owner[j];
    if (owner[i] == i) {
      memory[i] = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes[i], own, &status);
      check(status, "taking memory");
    } else {
      memory[i] = memory[owner[i]];
    }
    check(clSetKernelArg(kernel, i, sizeof(cl_mem), &memory[i]), "passing a buffer");
  }
  check(clSetKernelArg(kernel, BUFFERS, sizeof(Params), params), "passing numbers");
  const size_t local = BLOCK, global = (size_t)groups * BLOCK;
  if (getenv("TEALIGHT_TRACE")) fprintf(stderr, "%s: %d groups\n", name, groups);
  check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), "a launch");
  check(clFinish(queue), "a launch");
  for (int i = 0; i < BUFFERS; i++) {
    if (owner[i] != i) continue;
    check(clEnqueueReadBuffer(queue, memory[i], CL_TRUE, 0, bytes[i], buffers[i], 0, NULL, NULL), "reading");
    clReleaseMemObject(memory[i]);
  }
  clReleaseKernel(kernel);
  return 0;
}
