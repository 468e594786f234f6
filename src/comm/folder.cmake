# SPDX-License-Identifier: Apache-2.0
if(LATHE_CUDA)
  set_source_files_properties(src/comm/no_nccl.c PROPERTIES HEADER_FILE_ONLY ON)
endif()
target_link_libraries(lt_comm PUBLIC ${CMAKE_DL_LIBS})
