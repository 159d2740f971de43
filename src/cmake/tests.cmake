# Every test is a ctest entry, so that parts can run alone: ctest --test-dir build -L unit.
# Labels: unit (C), spec (busted), house (how the tree looks), cli, twin, conformance, fuzz, install, bench.
# Each test prints "N passed, N failed[, N skipped]" (busted prints its own form); tests/run.sh adds
# them up. Exit status 77 means skipped.
enable_testing()
set(AISIM_VECTORS ${PROJECT_SOURCE_DIR}/../shared/vectors CACHE PATH "Reference numbers, if present")

# Flags a program needs that links libaisim.a of this build.
set(link_flags "")
if(AISIM_SANITIZE)
  string(APPEND link_flags " -fsanitize=${AISIM_SANITIZE}")
endif()
if(AISIM_COVERAGE)
  string(APPEND link_flags " --coverage")
endif()

# What a test may rely on in its environment. Semicolons in a value would split the list: escaped.
set(aisim_test_env
  AISIM_SOURCE_DIR=${PROJECT_SOURCE_DIR} AISIM_BUILD_DIR=${PROJECT_BINARY_DIR}
  AISIM=${PROJECT_BINARY_DIR}/aisim AISIM_VECTORS=${AISIM_VECTORS} CC=${CMAKE_C_COMPILER}
  "LUA_PATH=${PROJECT_BINARY_DIR}/lua/?.lua\\;${PROJECT_BINARY_DIR}/lua/?/init.lua\\;\\;"
  "LUA_CPATH=${PROJECT_BINARY_DIR}/lua/?.so\\;\\;"
  LC_ALL=C.UTF-8 "AISIM_LINK_FLAGS=${link_flags}")
set(aisim_lua_env "")
if(AISIM_SANITIZE MATCHES address)
  # A stock lua5.4 that loads an instrumented core.so needs the runtime first; it never frees
  # everything at os.exit, so leaks are looked for in the C tests and the program only.
  foreach(runtime asan ubsan)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=lib${runtime}.so
      OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
    list(APPEND runtimes ${file})
  endforeach()
  list(JOIN runtimes " " runtimes)
  set(aisim_lua_env "LD_PRELOAD=${runtimes}" ASAN_OPTIONS=detect_leaks=0)
  list(APPEND aisim_test_env "AISIM_LUA_PRELOAD=${runtimes}")
endif()

# aisim_test(NAME name LABEL label COMMAND ... [TIMEOUT seconds] [LUA]): one ctest entry, run in the
# source folder. LUA says that a stock interpreter loads core.so.
function(aisim_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "LUA" "NAME;LABEL;TIMEOUT" "COMMAND")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_test(NAME ${arg_NAME} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(env "${aisim_test_env}") # quoted: an expansion would undo the escapes
  if(arg_LUA)
    list(APPEND env ${aisim_lua_env})
  endif()
  set_tests_properties(${arg_NAME} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
    SKIP_RETURN_CODE 77 ENVIRONMENT "${env}"
    ENVIRONMENT_MODIFICATION "LUA_PATH_5_4=unset:;LUA_CPATH_5_4=unset:;LUA_INIT=unset:")
endfunction()

# aisim_test_program(name FOLDER source...): a program linked with the core, in build/FOLDER/.
function(aisim_test_program name folder)
  add_executable(${name} ${ARGN})
  aisim_target_defaults(${name})
  target_link_libraries(${name} PRIVATE aisim_core)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
endfunction()

# C unit tests: tests/unit/test_<name>.c is one program.
file(GLOB files CONFIGURE_DEPENDS tests/unit/test_*.c)
foreach(file IN LISTS files)
  string(REGEX REPLACE ".*/test_(.*)\\.c$" "\\1" name ${file})
  aisim_test_program(aisim_test_${name} tests ${file})
  aisim_test(NAME unit.${name} LABEL unit COMMAND aisim_test_${name})
endforeach()

# Tools of the conformance test and the C examples: must at least build.
file(GLOB files CONFIGURE_DEPENDS tests/conformance/*.c)
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  aisim_test_program(${name} tests ${file})
endforeach()
file(GLOB files CONFIGURE_DEPENDS examples/*.c)
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  aisim_test_program(example_${name} examples ${file})
endforeach()

# Behaviour: one busted run per file, so that a crash takes one file with it.
file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} tests/spec/*_spec.lua)
foreach(file IN LISTS files)
  string(REGEX REPLACE "tests/spec/(.*)_spec\\.lua$" "\\1" name ${file})
  aisim_test(NAME spec.${name} LABEL spec LUA COMMAND busted ${file})
endforeach()

# The house.
aisim_test(NAME house.luacheck LABEL house COMMAND sh tests/house/luacheck.sh)
foreach(name layers headers files)
  aisim_test(NAME house.${name} LABEL house COMMAND lua5.4 tests/house/${name}.lua)
endforeach()
aisim_test(NAME house.rules LABEL house
  COMMAND ${CMAKE_COMMAND} -E env AISIM_RULES=strict lua5.4 tests/house/rules.lua)
aisim_test(NAME install LABEL install COMMAND sh tests/house/install.sh ${CMAKE_COMMAND})

# Parts that bring their own recipe, with aisim_test and aisim_test_program, for example
#   aisim_test_program(aisim_twin tests tests/twin/main.c)
#   aisim_test(NAME twin LABEL twin COMMAND aisim_twin --workloads 2000)
foreach(part twin fuzz conformance cli bench)
  include(${PROJECT_SOURCE_DIR}/tests/${part}/${part}.cmake OPTIONAL)
endforeach()
