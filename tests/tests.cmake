# SPDX-License-Identifier: Apache-2.0
# What ctest runs besides unit tests and tests/*_test.c: the golden runners, on the small set in tests/golden and, where it
# lies beside the checkout, on the full one.
function(lt_golden name folder program)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder} OR EXISTS ${folder})
    lt_add_test(golden/${name} ${program} ${ARGN})
  endif()
endfunction()

foreach(place tests/golden ../shared/golden)
  string(REGEX REPLACE "/.*" "" label ${place})
  if(label STREQUAL "..")
    set(label shared)
  endif()
  set(model ${place}/model/qwen3_vl)
  lt_golden(${label}/qwen3_vl ${model}/model.safetensors tests_golden_model ${model} --quiet)
  lt_golden(${label}/qwen3_vl-f64 ${model}/model.safetensors tests_golden_model ${model} --quiet --ref-f64)
  lt_golden(${label}/qwen3_vl-bf16 ${model}/model.safetensors tests_golden_model ${model} --quiet --dtype bf16)
  lt_golden(${label}/qwen3_vl-full ${model}/model.safetensors tests_golden_model ${model} --quiet --policy full)
  lt_golden(${label}/qwen3_vl-lean ${model}/model.safetensors tests_golden_model ${model} --quiet --policy lean)
endforeach()
include(${PROJECT_SOURCE_DIR}/bench/bench.cmake)
