# SPDX-License-Identifier: Apache-2.0
# What benchmarks share, and the one that tests run: a step of a tiny model, so that the program can't rot.
set(bench_parts made_model op_times peak process)
if(LATHE_ONEDNN)
  list(APPEND bench_parts peak_onednn)
else()
  list(APPEND bench_parts peak_none)
endif()
list(TRANSFORM bench_parts PREPEND ${PROJECT_SOURCE_DIR}/bench/parts/)
list(TRANSFORM bench_parts APPEND .c)
target_sources(bench_step PRIVATE ${bench_parts})
target_sources(bench_plan PRIVATE ${PROJECT_SOURCE_DIR}/bench/parts/made_model.c)
target_compile_definitions(bench_step PRIVATE LT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
if(LATHE_ONEDNN)
  target_include_directories(bench_step SYSTEM PRIVATE ${DNNL_INCLUDE})
endif()
if(NOT LATHE_SANITIZE STREQUAL "thread") # oneDNN's own threads are OpenMP's, which the sanitizer can't see through
  lt_add_test(bench/step bench_step --preset tiny --iters 2 --threads 2 --ops)
endif()
