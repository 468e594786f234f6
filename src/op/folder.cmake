# SPDX-License-Identifier: Apache-2.0
include(${PROJECT_SOURCE_DIR}/cmake/isa.cmake)
lt_isa_sources(op/cpu/rows)
