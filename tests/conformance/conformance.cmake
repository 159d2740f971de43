# Reference numbers against the product: tests/conformance/run.lua over the files of AISIM_VECTORS.
# Programs of this folder are built by src/cmake/tests.cmake.

# The product's pure functions as a Lua module (module/functions.c).
add_library(aisim_functions MODULE ${CMAKE_CURRENT_LIST_DIR}/module/functions.c
  ${CMAKE_CURRENT_LIST_DIR}/module/functions_config.c)
aisim_target_defaults(aisim_functions)
target_include_directories(aisim_functions SYSTEM PRIVATE ${LUA_INCLUDE_DIRS})
target_link_libraries(aisim_functions PRIVATE aisim_core m)
set_target_properties(aisim_functions PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})

# One entry per file; what comes later (later.txt) is listed as skipped. The files lie outside the
# project, so the list is fixed and an absent one shows as SKIP.
foreach(file engine.json mtp.json offload.json vllm_upstream.json agentx_replay.json report.json hooks.json
        routing.json trace_reuse.json trace_stats.json weka_lowering.json weka_lowering_all.csv weka_snapshot.json h200_kv_capacity.csv
        h200_pass_latency.csv h200_op_lists.csv)
  cmake_path(GET file STEM name)
  aisim_test(NAME conformance.${name} LABEL conformance LUA COMMAND sh tests/conformance/run.sh ${file})
endforeach()
# Vectors of our own in the same forms, worked out by hand or by an independent model.
file(GLOB cases RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/cases/*.json)
aisim_test(NAME conformance.cases LABEL conformance LUA COMMAND lua5.4 tests/conformance/run.lua ${cases})
aisim_test(NAME conformance.timing LABEL conformance COMMAND sh tests/conformance/timing.sh)
