# One ctest entry per transcript, and one for the commands of the README.
file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} tests/cli/transcripts/*.txt)
if(AISIM_SANITIZE MATCHES address) # it needs the address space that this one takes away
  list(FILTER files EXCLUDE REGEX "limits_process\\.txt$")
endif()
foreach(file IN LISTS files)
  cmake_path(GET file STEM name)
  aisim_test(NAME cli.${name} LABEL cli COMMAND lua5.4 tests/cli/run.lua ${file})
endforeach()
aisim_test(NAME cli.readme LABEL cli COMMAND lua5.4 tests/cli/readme.lua)

# aisim repl at a terminal.
aisim_test_program(aisim_repl_terminal tests tests/cli/repl_terminal.c)
if(LIBEDIT_FOUND)
  aisim_test(NAME cli.repl_terminal LABEL cli COMMAND aisim_repl_terminal $<TARGET_FILE:aisim> 1)
else()
  aisim_test(NAME cli.repl_terminal LABEL cli COMMAND aisim_repl_terminal $<TARGET_FILE:aisim> 0)
endif()
