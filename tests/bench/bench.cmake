# Speed, measured and printed, never asserted: build/tests/aisim_bench, build/tests/aisim_bench_timing
foreach(name bench bench_timing)
  add_executable(aisim_${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
  aisim_target_defaults(aisim_${name})
  target_link_libraries(aisim_${name} PRIVATE aisim_core)
  set_target_properties(aisim_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endforeach()
add_custom_target(bench_hooks
  COMMAND ${CMAKE_COMMAND} -E env "LUA_PATH=${PROJECT_BINARY_DIR}/lua/?.lua;${PROJECT_BINARY_DIR}/lua/?/init.lua;;"
    "LUA_CPATH=${PROJECT_BINARY_DIR}/lua/?.so;;" lua5.4 tests/bench/hooks.lua
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} DEPENDS aisim_module aisim_lua_view VERBATIM)
