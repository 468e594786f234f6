# SPDX-License-Identifier: Apache-2.0
if(LATHE_CUDA)
  set_source_files_properties(src/comm/no_nccl.c PROPERTIES HEADER_FILE_ONLY ON)
endif()
