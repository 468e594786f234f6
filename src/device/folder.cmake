# SPDX-License-Identifier: Apache-2.0
if(LATHE_CUDA)
  set_source_files_properties(src/device/no_cuda.c PROPERTIES HEADER_FILE_ONLY ON)
endif()
