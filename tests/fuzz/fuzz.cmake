# Fuzz targets: tests/fuzz/fuzz_<name>.c over tests/fuzz/corpus/<name>, files and all their prefixes.
# With a fuzzing engine (clang): cmake --build build --target libfuzzer_<name>, then
#   build/tests/libfuzzer_<name> -max_total_time=60 FOLDER tests/fuzz/corpus/<name>
find_program(AISIM_CLANG NAMES clang DOC "Compiler with a fuzzing engine, for the libfuzzer targets")
file(GLOB files CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
list(FILTER files EXCLUDE REGEX "fuzz_main\\.c$")
foreach(file IN LISTS files)
  string(REGEX REPLACE ".*/fuzz_(.*)\\.c$" "\\1" name ${file})
  aisim_test_program(aisim_fuzz_${name} tests ${file} tests/fuzz/fuzz_main.c)
  aisim_test(NAME fuzz.${name} LABEL fuzz COMMAND aisim_fuzz_${name} tests/fuzz/corpus/${name})
  if(AISIM_CLANG)
    add_custom_target(libfuzzer_${name}
      COMMAND ${AISIM_CLANG} -std=c11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
        -D_POSIX_C_SOURCE=200809L -DAISIM_ASSERTS -DAISIM_VERSION="${PROJECT_VERSION}" -I include -I src
        ${file} ${core_sources} -ljansson -lyaml -lz -lm -o ${PROJECT_BINARY_DIR}/tests/libfuzzer_${name}
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
  endif()
endforeach()

# Mutated scenarios: a short run here, the long one by cmake --build build --target fuzz_scenarios
file(GLOB scenario_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} scenarios/*.lua examples/*.lua)
list(FILTER scenario_files EXCLUDE REGEX "embed\\.lua$") # is no scenario
list(SORT scenario_files)
aisim_test_program(aisim_scenarios tests ${CMAKE_CURRENT_LIST_DIR}/scenarios.c)
target_link_libraries(aisim_scenarios PRIVATE aisim_cli aisim_lua aisim_core PkgConfig::LUA)
aisim_test(NAME fuzz.scenarios LABEL fuzz
  COMMAND aisim_scenarios --count 80 --keep ${PROJECT_BINARY_DIR} ${scenario_files})
add_custom_target(fuzz_scenarios
  COMMAND aisim_scenarios --count 10000 --seed 2 --keep ${PROJECT_BINARY_DIR} ${scenario_files}
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
