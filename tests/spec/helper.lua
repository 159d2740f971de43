--- Loaded by busted before every spec: finds the built module.
-- tests/run.sh and ctest set LUA_PATH and LUA_CPATH; a plain `busted` from the source folder gets the
-- module of build/ (or of the folder named by AISIM_BUILD_DIR).
local build = os.getenv("AISIM_BUILD_DIR") or "build"
package.path = ("%s/lua/?.lua;%s/lua/?/init.lua;%s"):format(build, build, package.path)
-- aisim_engine, the rank of the product behind a test interface, lies one folder higher.
package.cpath = ("%s/lua/?.so;%s/?.so;%s"):format(build, build, package.cpath)
