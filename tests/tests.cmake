# SPDX-License-Identifier: Apache-2.0
# What ctest runs besides unit tests and tests/*_test.c: the golden runners, on the small set in tests/golden and, where it
# lies beside the checkout, on the full one.
function(lt_golden name folder program)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder} OR EXISTS ${folder})
    lt_add_test(golden/${name} ${program} ${ARGN})
  endif()
endfunction()

# A program on N processes; without mpirun a test that says so and counts as skipped.
function(lt_mpi_test name n program)
  if(LATHE_MPIRUN)
    lt_add_test(mpi/${name} ${LATHE_MPIRUN} -n ${n} $<TARGET_FILE:${program}> ${ARGN})
  else()
    lt_add_test(mpi/${name} sh -c "echo skipped: mpirun is not installed >&2; exit 77")
  endif()
endfunction()
foreach(n 2 3 8)
  lt_mpi_test(collectives-${n} ${n} tests_mpi_collectives)
endforeach()
lt_mpi_test(different-calls 3 tests_mpi_collectives --different-calls)
if(LATHE_MPIRUN)
  set_tests_properties(mpi/different-calls PROPERTIES PASS_REGULAR_EXPRESSION "rank [0-9] issues barrier")
endif()
foreach(layout fsdp hsdp ddp)
  lt_mpi_test(qwen3_vl-${layout} 4 tests_golden_model tests/golden/model/qwen3_vl --quiet --layout ${layout})
endforeach()

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
  foreach(layout fsdp hsdp ddp)
    lt_golden(${label}/qwen3_vl-${layout} ${model}/model.safetensors tests_golden_model ${model} --quiet -n 4 --layout ${layout})
  endforeach()
  lt_golden(${label}/qwen3_vl-bf16-3-ranks ${model}/model.safetensors tests_golden_model ${model} --quiet --dtype bf16 -n 3)
endforeach()
foreach(name qwen3_5 qwen3_5_moe qwen3_5_mtp)
  set(model ../shared/golden/model/${name})
  lt_golden(shared/${name} ${model} tests_golden_model ${model} --quiet)
  lt_golden(shared/${name}-f64 ${model} tests_golden_model ${model} --quiet --ref-f64)
  lt_golden(shared/${name}-bf16 ${model} tests_golden_model ${model} --quiet --dtype bf16)
  lt_golden(shared/${name}-16 ${model} tests_golden_model ${model} --quiet --chunk 16)
  lt_golden(shared/${name}-32-full ${model} tests_golden_model ${model} --quiet --chunk 32 --policy full)
  lt_golden(shared/${name}-lean-2 ${model} tests_golden_model ${model} --quiet --policy lean -n 2)
  lt_golden(shared/${name}-fsdp ${model} tests_golden_model ${model} --quiet -n 4)
endforeach()
set(model tests/golden/model/qwen3_5_mtp)
lt_golden(tests/qwen3_5_mtp ${model}/model.safetensors tests_golden_model ${model} --quiet)
lt_golden(tests/qwen3_5_mtp-full-2 ${model}/model.safetensors tests_golden_model ${model} --quiet --policy full -n 2)
set(model ../shared/golden/model/internvl)
lt_golden(shared/internvl ${model} tests_golden_model ${model} --quiet)
set(model_moe ../shared/golden/model/internvl_moe)
lt_golden(shared/internvl_moe ${model_moe} tests_golden_model ${model_moe} --quiet)
lt_golden(shared/internvl_moe-f64 ${model_moe} tests_golden_model ${model_moe} --quiet --ref-f64)
lt_golden(shared/internvl_moe-bf16 ${model_moe} tests_golden_model ${model_moe} --quiet --dtype bf16)
lt_golden(shared/internvl_moe-full ${model_moe} tests_golden_model ${model_moe} --quiet --policy full)
lt_golden(shared/internvl-f64 ${model} tests_golden_model ${model} --quiet --ref-f64)
lt_golden(shared/internvl-bf16 ${model} tests_golden_model ${model} --quiet --dtype bf16)
lt_golden(shared/internvl-full ${model} tests_golden_model ${model} --quiet --policy full)
set(model ../shared/golden/model/qwen3_vl_moe)
lt_golden(shared/qwen3_vl_moe ${model} tests_golden_model ${model} --quiet)
lt_golden(shared/qwen3_vl_moe-f64 ${model} tests_golden_model ${model} --quiet --ref-f64)
lt_golden(shared/qwen3_vl_moe-bf16 ${model} tests_golden_model ${model} --quiet --dtype bf16)
lt_golden(shared/qwen3_vl_moe-fsdp ${model} tests_golden_model ${model} --quiet -n 4)
lt_golden(shared/qwen3_vl_moe-full ${model} tests_golden_model ${model} --quiet --policy full)
include(${PROJECT_SOURCE_DIR}/bench/bench.cmake)

# The tokenizer and the data pipeline: a small tokenizer of our own here, Qwen3's beside the checkout.
set(tokenizer tests/golden/tokenizer)
lt_golden(tests/tokenizer ${tokenizer}/small.jsonl tests_golden_tokenizer ${tokenizer}/small.jsonl
  --tokenizer ${tokenizer}/small)
set(tokenizer ../shared/golden/tokenizer)
set(qwen3 ../shared/assets/qwen3-tokenizer)
lt_golden(shared/tokenizer ${qwen3} tests_golden_tokenizer ${tokenizer}/qwen3-encode.jsonl
  ${tokenizer}/qwen3-decode.jsonl ${tokenizer}/pretokenize.jsonl --tokenizer ${qwen3})
lt_golden(shared/data ${qwen3} tests_golden_data ../shared/golden/data --tokenizer ${qwen3}
  --images ../shared/golden/image/images)
lt_golden(shared/pipeline ${qwen3} tests_golden_data ../shared/golden/pipeline --tokenizer ${qwen3}
  --images ../shared/golden/pipeline/images)
lt_golden(shared/packing ${qwen3} tests_golden_packing ../shared/golden/pipeline --tokenizer ${qwen3}
  --images ../shared/golden/pipeline/images)
lt_golden(shared/packed ${qwen3} tests_golden_packing ../shared/golden/data --tokenizer ${qwen3}
  --images ../shared/golden/image/images)
lt_golden(shared/intern ${qwen3} tests_golden_intern ../shared/golden/pipeline --tokenizer ${qwen3})
set(golden ../shared/golden)
lt_golden(shared/sequence ${golden}/sequence tests_golden_sequence ${golden}/sequence/infer_seqlen.json
  ${golden}/sequence/knapsack.json ${golden}/sampler/batches.json ${golden}/sampler/randperm.json
  ${golden}/data/randperm.json ${golden}/data/sampler.json ${golden}/rope/rope_index.jsonl)

# Pictures: GIF, BMP and WebP of many kinds (RGB bytes made with Pillow 13), and the full set.
lt_golden(tests/image tests/golden/image tests_golden_image tests/golden/image)
lt_golden(shared/image ../shared/golden/image tests_golden_image ../shared/golden/image)

# Distributed checkpoints, as PyTorch 2.11 writes them. The one past 4 GiB is for a quiet machine:
# build/PRESET/tests/golden_dcp ../shared/golden/dcp/big
lt_golden(tests/dcp tests/golden/dcp tests_golden_dcp tests/golden/dcp)
set(dcp ../shared/golden/dcp)
lt_golden(shared/dcp ${dcp} tests_golden_dcp ${dcp}/buckets ${dcp}/ep ${dcp}/gpu ${dcp}/kinds ${dcp}/minimal ${dcp}/mtp
  ${dcp}/release_bf16 ${dcp}/views ${dcp}/world1 ${dcp}/world3 ${dcp}/world4 ${dcp}/extra_state_more.pt
  ${dcp}/extra_state_odd.pt ${dcp}/extra_state_rank_0.pt)

# Where there is no GPU they say so and count as skipped. golden_model DIR --device cuda is for machines that have one.
if(LATHE_CUDA)
  lt_add_test(cuda/op_parity tests_op_parity)
  lt_add_test(cuda/cuda_parity tests_cuda_parity)
  lt_add_test(cuda/attention_parity tests_attention_parity)

  # What cuDNN can do is asked without a GPU too, with a driver that only says yes.
  add_library(no_driver SHARED tests/cuda/no_driver.c)
  set_target_properties(no_driver PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/no_driver)
  add_executable(tests_attention_graphs tests/cuda/attention_graphs.c)
  target_link_libraries(tests_attention_graphs PRIVATE lt_device)
  set_target_properties(tests_attention_graphs PROPERTIES OUTPUT_NAME attention_graphs
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(tests_attention_graphs no_driver)
  lt_add_test(cuda/attention_graphs tests_attention_graphs)
  set_property(TEST cuda/attention_graphs APPEND PROPERTY ENVIRONMENT
    "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/no_driver:/usr/local/cuda/lib64")
endif()

# Whole runs, hours long: `ctest --preset nightly`. A family is a row of tests/whole_run.sh.
if(LATHE_NIGHTLY)
  foreach(family qwen3_vl qwen3_vl_moe internvl3_5)
    add_test(NAME whole_run/${family} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      COMMAND tests/whole_run.sh $<TARGET_FILE:lathe> ${family} ${CMAKE_BINARY_DIR}/whole_run/${family})
    set_tests_properties(whole_run/${family} PROPERTIES LABELS nightly TIMEOUT 14400)
  endforeach()
endif()
