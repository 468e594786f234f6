# SPDX-License-Identifier: Apache-2.0
# Options, flags and the libraries that we use.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Check is for the sanitizers: every assertion, and fast enough for the whole test suite.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g -DLT_DEBUG")
set(CMAKE_C_FLAGS_CHECK "-O1 -g -DLT_DEBUG")
option(LATHE_ONEDNN "matrix products through oneDNN" ON)
option(LATHE_CUDA "the CUDA backend" OFF)
option(LATHE_FFMPEG "video files through FFmpeg's libraries (libavformat-dev, libavcodec-dev, libswscale-dev)" OFF)
option(LATHE_NIGHTLY "tests that take hours: each family learns the shapes" OFF)
option(LATHE_FUZZ "libFuzzer programs (clang) instead of replaying the corpus" OFF)
set(LATHE_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")

add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wsign-conversion;-Wshadow;-Wvla;-Wundef>"
  "$<$<COMPILE_LANGUAGE:C>:-Wcast-qual;-Wdouble-promotion;-Wstrict-prototypes;-Wmissing-prototypes>"
  "$<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>")
# Warnings are errors with the compilers that CI knows: what a later one adds must not stop a user's build.
if((CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 14) OR
   (CMAKE_C_COMPILER_ID MATCHES "Clang" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 15))
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Werror>")
endif()
add_compile_definitions(_GNU_SOURCE)
if(LATHE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(LATHE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(NOT LATHE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "LATHE_SANITIZE is address, thread or empty, got ${LATHE_SANITIZE}")
endif()
if(LATHE_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LATHE_FUZZ needs clang: use the preset fuzz, or -DCMAKE_C_COMPILER=clang")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# For tests alone: lathe opens Open MPI's library when mpirun has started it. Options that let mpirun run anywhere: as root, with more
# ranks than cores, without ssh, in a container (little /dev/shm, no reading of another process's memory); it ends by itself; and its
# PMIx takes no locks that a rank which is killed can die with (Debian's mpirun then waits for ever, all ranks being gone). Leaks are
# not looked for: they are Open MPI's, in plug-ins that it has unloaded by then.
find_program(MPIRUN NAMES mpirun.openmpi mpirun)
if(MPIRUN AND NOT LATHE_SANITIZE STREQUAL "thread") # which cannot see into the threads of Open MPI
  execute_process(COMMAND ${MPIRUN} --version OUTPUT_VARIABLE mpirun_version ERROR_QUIET)
endif()
if(mpirun_version MATCHES "Open MPI|OpenRTE")
  set(LATHE_MPIRUN /usr/bin/env PMIX_MCA_gds=hash ASAN_OPTIONS=detect_leaks=0 ${MPIRUN}
    --allow-run-as-root --oversubscribe --bind-to none --timeout 120 --mca plm isolated
    --mca btl_vader_backing_directory /tmp --mca btl_vader_single_copy_mechanism none)
else()
  message(STATUS "Tests of ranks as processes will be skipped: they need Open MPI's mpirun, and no thread sanitizer")
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
foreach(lib jansson yaml-0.1 libpcre2-8 libutf8proc libjpeg libpng libwebp libwebpdemux zlib cmocka)
  string(REGEX REPLACE "[^a-z0-9]" "_" name ${lib})
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${lib})
endforeach()
if(LATHE_FFMPEG)
  foreach(lib libavformat libavcodec libavutil libswscale)
    pkg_check_modules(${lib} REQUIRED IMPORTED_TARGET ${lib})
  endforeach()
endif()
if(LATHE_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/cuda.cmake)
endif()
