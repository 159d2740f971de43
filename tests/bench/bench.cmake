# Speed, measured and printed, never asserted: build/tests/aisim_bench
add_executable(aisim_bench ${CMAKE_CURRENT_LIST_DIR}/bench.c)
aisim_target_defaults(aisim_bench)
target_link_libraries(aisim_bench PRIVATE aisim_core)
set_target_properties(aisim_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
