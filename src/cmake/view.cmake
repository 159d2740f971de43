# cmake -DFROM=lua/aisim -DTO=build/lua/aisim -P view.cmake
# Makes TO hold one link per entry of FROM. Links to entries that are gone are removed; files that are
# not links (core.so) are left alone. Edits of a source file need no build: the link shows them.
file(MAKE_DIRECTORY ${TO})
file(GLOB present RELATIVE ${TO} ${TO}/*)
foreach(name IN LISTS present)
  if(IS_SYMLINK ${TO}/${name} AND NOT EXISTS ${FROM}/${name})
    file(REMOVE ${TO}/${name})
  endif()
endforeach()
file(GLOB entries RELATIVE ${FROM} ${FROM}/*)
foreach(name IN LISTS entries)
  if(NOT IS_SYMLINK ${TO}/${name})
    file(CREATE_LINK ${FROM}/${name} ${TO}/${name} SYMBOLIC)
  endif()
endforeach()
