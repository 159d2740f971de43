# The block-by-block twin: object library aisim_twin and the Lua module aisim_twin.so.
# Included by the top CMakeLists.txt, after aisim_target_defaults() and aisim_core.
find_package(PkgConfig REQUIRED)
pkg_check_modules(LUA_TWIN REQUIRED lua5.4)

set(twin_dir ${CMAKE_CURRENT_LIST_DIR})
add_library(aisim_twin OBJECT
  ${twin_dir}/twin.c ${twin_dir}/twin_dict.c ${twin_dir}/twin_pool.c ${twin_dir}/twin_lease.c
  ${twin_dir}/twin_state.c ${twin_dir}/twin_queues.c ${twin_dir}/twin_sched.c
  ${twin_dir}/twin_mtp.c
  ${twin_dir}/twin_handoff.c ${twin_dir}/twin_verify.c
  ${twin_dir}/twin_host.c ${twin_dir}/twin_connector.c ${twin_dir}/twin_external.c)
aisim_target_defaults(aisim_twin)
target_include_directories(aisim_twin PUBLIC ${twin_dir})

# Of the product the twin may use src/base and nothing else.
file(GLOB twin_base CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/base/*.c)
add_library(aisim_twin_module MODULE ${twin_dir}/l_twin.c ${twin_dir}/l_record.c
  ${twin_dir}/l_parts.c ${twin_dir}/l_external.c ${twin_base})
aisim_target_defaults(aisim_twin_module)
target_include_directories(aisim_twin_module PRIVATE ${LUA_TWIN_INCLUDE_DIRS})
target_link_libraries(aisim_twin_module PRIVATE aisim_twin m)
set_target_properties(aisim_twin_module PROPERTIES PREFIX "" OUTPUT_NAME aisim_twin
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# The product engine behind the same interface (engine_double.h), as the module aisim_engine.so.
add_library(aisim_engine_double OBJECT ${twin_dir}/engine_double.c ${twin_dir}/engine_tier.c ${twin_dir}/engine_log.c
  ${twin_dir}/engine_state.c)
aisim_target_defaults(aisim_engine_double)
target_include_directories(aisim_engine_double PUBLIC ${twin_dir})

add_library(aisim_engine_module MODULE ${twin_dir}/l_twin.c ${twin_dir}/l_record.c
  ${twin_dir}/engine_parts.c ${twin_dir}/engine_host.c ${twin_dir}/engine_l_tier.c)
aisim_target_defaults(aisim_engine_module)
target_compile_definitions(aisim_engine_module PRIVATE AISIM_ENGINE_DOUBLE
  luaopen_aisim_twin=luaopen_aisim_engine)
target_include_directories(aisim_engine_module PRIVATE ${LUA_TWIN_INCLUDE_DIRS})
target_link_libraries(aisim_engine_module PRIVATE aisim_engine_double aisim_core m)
set_target_properties(aisim_engine_module PROPERTIES PREFIX "" OUTPUT_NAME aisim_engine
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

# The engine against the twin on random workloads (compare.h). The cases in cases/ are shrunk
# failures of the past.
aisim_test_program(aisim_compare tests ${twin_dir}/compare.c ${twin_dir}/compare_make.c ${twin_dir}/compare_features.c
  ${twin_dir}/compare_text.c ${twin_dir}/compare_run.c ${twin_dir}/compare_same.c
  ${twin_dir}/compare_count.c ${twin_dir}/compare_shrink.c ${twin_dir}/compare_probe.c
  ${twin_dir}/compare_tier.c)
target_link_libraries(aisim_compare PRIVATE aisim_twin aisim_engine_double)
aisim_test(NAME twin.compare LABEL twin COMMAND aisim_compare --count 2000 --jobs 2 --shrink)
file(GLOB twin_cases CONFIGURE_DEPENDS ${twin_dir}/cases/*.txt)
aisim_test(NAME twin.cases LABEL twin COMMAND aisim_compare --replay ${twin_cases})
# The AgentX client against its twin (agentx_twin.lua); the driver is built by src/cmake/tests.cmake.
aisim_test(NAME twin.agentx LABEL twin LUA
  COMMAND lua5.4 tests/twin/agentx_compare.lua ${PROJECT_BINARY_DIR}/tests/agentx_driver --count 300)
# Routers against theirs (routing_twin.lua).
aisim_test(NAME twin.routing LABEL twin LUA
  COMMAND lua5.4 tests/twin/routing_compare.lua ${PROJECT_BINARY_DIR}/tests/routing_driver --count 300)
# The recorder against its definitions (report_twin.lua).
aisim_test(NAME twin.report LABEL twin LUA COMMAND lua5.4 tests/twin/report_compare.lua --count 300)
