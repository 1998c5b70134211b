#!/usr/bin/env python3
"""Compiles CUDA C++ to PTX as tealight does on a user's machine, by NVRTC (PyPI: nvidia-cuda-nvrtc) with the architecture alone:
    scripts/nvrtc.py compute_90 < kernels.cu > kernels.ptx      ends with 75 where there is no NVRTC"""

import ctypes
import sys
from pathlib import Path


def library():
    """NVRTC of Python's packages, else of the system. What it opens itself stands beside it, and is opened before."""
    try:
        import nvidia.cu13 as packages
        for folder in packages.__path__:
            for builtins in sorted(Path(folder, "lib").glob("libnvrtc-builtins.so.*")):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(Path(folder, "lib", "libnvrtc.so.13")))
    except (ImportError, OSError):
        pass
    return ctypes.CDLL("libnvrtc.so.13")


def compiled(nvrtc, text, architecture):
    """The PTX, or the compiler's log and None."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernels.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
    failed = nvrtc.nvrtcCompileProgram(program, 1, options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    sys.stderr.write(log.value.decode())
    # A warning is a fault too.
    if failed or log.value.strip():
        return None
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value


def main():
    try:
        nvrtc = library()
    except OSError:
        sys.exit(75)
    ptx = compiled(nvrtc, sys.stdin.buffer.read(), sys.argv[1])
    if ptx is None:
        sys.exit(1)
    sys.stdout.buffer.write(ptx)


main()
