# Recipes for targets: compiler flags, the Lua module, the embedded Lua files, the view of lua/aisim
# in the build tree. Everything is set per target, nothing globally.

if(AISIM_LTO)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT aisim_ipo OUTPUT why LANGUAGES C)
  if(NOT aisim_ipo)
    message(WARNING "AISIM_LTO: not supported here: ${why}")
  endif()
endif()

# What runs in every pass is optimised across files in the program `aisim` (9 % fewer instructions).
# Its objects hold ordinary code as well, for the module and the tests, which link in no time.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT AISIM_LTO AND NOT AISIM_SANITIZE
   AND NOT AISIM_COVERAGE)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT aisim_passes LANGUAGES C)
endif()

# Warnings, language level, options of the cache. AISIM_VERSION comes from project() and nowhere else.
function(aisim_target_defaults target)
  target_compile_features(${target} PUBLIC c_std_11)
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wstrict-prototypes -Wvla -Wundef -ffp-contract=off)
  target_compile_definitions(${target} PRIVATE _POSIX_C_SOURCE=200809L
    AISIM_VERSION="${PROJECT_VERSION}" $<$<BOOL:${AISIM_ASSERTS}>:AISIM_ASSERTS>)
  set_target_properties(${target} PROPERTIES C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden)
  if(AISIM_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(AISIM_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${AISIM_SANITIZE} -fno-omit-frame-pointer
      -fno-sanitize-recover=all -g)
    target_link_options(${target} PUBLIC -fsanitize=${AISIM_SANITIZE})
  endif()
  if(AISIM_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage)
    target_link_options(${target} PUBLIC --coverage)
  endif()
  if(aisim_ipo)
    set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ON)
  elseif(aisim_passes AND NOT target STREQUAL "aisim")
    target_link_options(${target} PRIVATE -fno-lto)
  endif()
endfunction()

# The sources of these folders take part; they end as ordinary code in the archive for others, whose
# compiler need not be this one.
function(aisim_optimise_passes)
  list(TRANSFORM ARGN APPEND "/*.c" OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(aisim_passes)
    set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-flto=auto;-ffat-lto-objects")
  endif()
endfunction()
function(aisim_plain_archive target)
  if(aisim_passes)
    add_custom_command(TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_OBJCOPY} -R .gnu.lto_* -R .gnu.debuglto_* -N __gnu_lto_v1 $<TARGET_FILE:${target}> VERBATIM)
  endif()
endfunction()

# Editing, history and completion of lines in aisim repl. Optional: without the library it reads plain lines.
function(aisim_line_editing target)
  if(LIBEDIT_FOUND)
    target_compile_definitions(${target} PRIVATE AISIM_LIBEDIT=1)
    target_link_libraries(${target} PUBLIC PkgConfig::LIBEDIT)
  else()
    message(STATUS "libedit not found: aisim repl without line editing (Debian package libedit-dev)")
  endif()
endfunction()

# lua/aisim/core.so in the build tree. It exports luaopen_* and nothing else, and leaves the Lua API
# undefined: the program that loads it brings its own copy, and two copies in one process misbehave.
function(aisim_lua_module target)
  set_target_properties(aisim_lua PROPERTIES C_VISIBILITY_PRESET default)
  set(exports ${PROJECT_BINARY_DIR}/exports.map)
  file(CONFIGURE OUTPUT ${exports} CONTENT "{ global: luaopen_*; local: *; };\n")
  add_library(${target} MODULE $<TARGET_OBJECTS:aisim_core> $<TARGET_OBJECTS:aisim_lua>)
  aisim_target_defaults(${target})
  target_link_libraries(${target} PRIVATE m PkgConfig::AISIM_DEPS)
  target_link_options(${target} PRIVATE -Wl,--version-script=${exports})
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME core SUFFIX .so LINKER_LANGUAGE C
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lua/aisim)
endfunction()

# Generates embedded_lua.c (src/cli/embedded_lua.h) from every file below lua/; its path goes to ${out}.
function(aisim_embed_lua out)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/lua lua/aisim/*)
  list(SORT files)
  list(JOIN files "\n" lines)
  set(list_file ${PROJECT_BINARY_DIR}/embedded_lua.txt)
  file(CONFIGURE OUTPUT ${list_file} CONTENT "${lines}\n" @ONLY)
  list(TRANSFORM files PREPEND ${PROJECT_SOURCE_DIR}/lua/ OUTPUT_VARIABLE paths)
  set(generated ${PROJECT_BINARY_DIR}/embedded_lua.c)
  set(script ${PROJECT_SOURCE_DIR}/src/cmake/embed.cmake)
  add_custom_command(OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR}/lua -DLIST=${list_file} -DOUT=${generated} -P ${script}
    DEPENDS ${paths} ${list_file} ${script}
    COMMENT "Embedding lua/aisim" VERBATIM)
  set(${out} ${generated} PARENT_SCOPE)
endfunction()

# build/lua/aisim: links to the entries of lua/aisim beside core.so, so that one LUA_PATH entry
# (build/lua/?.lua;build/lua/?/init.lua) and one LUA_CPATH entry (build/lua/?.so) serve plain lua5.4.
function(aisim_lua_view)
  add_custom_target(aisim_lua_view ALL
    COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR}/lua/aisim -DTO=${PROJECT_BINARY_DIR}/lua/aisim
      -P ${PROJECT_SOURCE_DIR}/src/cmake/view.cmake
    COMMENT "Linking lua/aisim into the build tree" VERBATIM)
endfunction()
