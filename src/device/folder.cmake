# SPDX-License-Identifier: Apache-2.0
if(LATHE_CUDA)
  set_source_files_properties(src/device/no_cuda.c PROPERTIES HEADER_FILE_ONLY ON)
endif()

# Kernels of one instruction set each: one source, compiled once per set, chosen at run time by cpuid.
set(LT_FLAGS_PLAIN "-O3")
set(LT_FLAGS_AVX2 "-O3;-mavx2;-mfma")
set(LT_FLAGS_AVX512 "-O3;-mavx2;-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set_source_files_properties(src/device/cpu/gemm_avx2.c src/device/cpu/gemm_avx512.c PROPERTIES HEADER_FILE_ONLY ON)
endif()
set_source_files_properties(src/device/cpu/gemm_plain.c PROPERTIES COMPILE_OPTIONS "${LT_FLAGS_PLAIN}")
set_source_files_properties(src/device/cpu/gemm_avx2.c PROPERTIES COMPILE_OPTIONS "${LT_FLAGS_AVX2}")
set_source_files_properties(src/device/cpu/gemm_avx512.c PROPERTIES COMPILE_OPTIONS "${LT_FLAGS_AVX512}")
