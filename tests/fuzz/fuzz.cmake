# Fuzz targets: tests/fuzz/fuzz_<name>.c over tests/fuzz/corpus/<name>, files and all their prefixes.
# With a fuzzing engine: clang -fsanitize=fuzzer,address,undefined tests/fuzz/fuzz_<name>.c src/*/*.c
file(GLOB files CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
list(FILTER files EXCLUDE REGEX "fuzz_main\\.c$")
foreach(file IN LISTS files)
  string(REGEX REPLACE ".*/fuzz_(.*)\\.c$" "\\1" name ${file})
  aisim_test_program(aisim_fuzz_${name} tests ${file} tests/fuzz/fuzz_main.c)
  aisim_test(NAME fuzz.${name} LABEL fuzz COMMAND aisim_fuzz_${name} tests/fuzz/corpus/${name})
endforeach()
