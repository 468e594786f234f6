# SPDX-License-Identifier: Apache-2.0
# Kernels that are written once and compiled for each instruction set: BASE_plain.c, BASE_avx2.c, BASE_avx512.c. Which one runs
# is chosen at run time by cpuid; off x86-64 only the plain one is built.
set(LT_ISA_AVX512 "-O3;-mavx2;-mfma;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")
function(lt_isa_sources base)
  set(plain "-O3")
  set(avx2 "-O3;-mavx2;-mfma")
  set(avx512 "${LT_ISA_AVX512}")
  foreach(isa plain avx2 avx512)
    set(file ${PROJECT_SOURCE_DIR}/src/${base}_${isa}.c)
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${${isa}}")
    if(NOT isa STREQUAL "plain" AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
      set_source_files_properties(${file} PROPERTIES HEADER_FILE_ONLY ON)
    endif()
  endforeach()
endfunction()
