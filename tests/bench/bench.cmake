# Speed, measured and printed, never asserted: build/tests/aisim_bench, build/tests/aisim_bench_timing,
# build/tests/aisim_bench_anchors
foreach(name bench bench_timing bench_anchors)
  add_executable(aisim_${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
  aisim_target_defaults(aisim_${name})
  target_link_libraries(aisim_${name} PRIVATE aisim_core)
  set_target_properties(aisim_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
