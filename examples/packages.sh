# packages.sh - sourced by examples/quickstart.sh and tests/run.sh; not run by itself.
#
# aisim_packages  installs what is missing of the Debian packages below (12 "bookworm" or newer); the
#                 optional ones are no reason to fail
# aisim_configure DIR [cmake arguments]  configures a build folder once; later calls change only
#                 what the arguments name

AISIM_PACKAGES="cmake ninja-build gcc libc6-dev pkg-config lua5.4 liblua5.4-dev lua-filesystem
    lua-cjson lua-argparse lua-busted lua-check libyaml-dev libjansson-dev zlib1g-dev"
AISIM_OPTIONAL_PACKAGES=libedit-dev # line editing in aisim repl

# aisim_missing PACKAGE...  prints those that are not installed
aisim_missing() {
    for package in "$@"; do
        case $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) in
            *installed*) ;;
            *) printf ' %s' "$package" ;;
        esac
    done
}

aisim_packages() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        for tool in cmake ninja cc pkg-config lua5.4 busted luacheck; do
            command -v "$tool" >/dev/null 2>&1 || echo "aisim: '$tool' not found; the Debian packages are:" $AISIM_PACKAGES >&2
        done
        return 0
    fi
    required=$(aisim_missing $AISIM_PACKAGES)
    missing=$required$(aisim_missing $AISIM_OPTIONAL_PACKAGES)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null 2>&1; then
        as_root=sudo
    elif [ -z "$required" ]; then
        return 0
    else
        echo "aisim: these Debian packages are missing and there is neither root nor sudo to install them:" >&2
        echo "  apt-get install$missing" >&2
        return 1
    fi
    echo "aisim: installing Debian packages:$missing"
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
        $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
        echo "aisim: apt-get failed; see the lines above" >&2
        [ -z "$required" ] || return 1
    }
}

aisim_configure() {
    folder=$1
    shift
    if [ -f "$folder/CMakeCache.txt" ]; then
        cmake -S . -B "$folder" "$@" >"$folder/configure.log" 2>&1
    else
        mkdir -p "$folder"
        cmake -G Ninja "$@" -S . -B "$folder" >"$folder/configure.log" 2>&1
    fi || {
        cat "$folder/configure.log" >&2
        echo "aisim: cmake failed in $folder/ (a folder left by other tools? remove it and try again)" >&2
        return 1
    }
}

# Parallel jobs: the processors there are, unless AISIM_JOBS says otherwise.
aisim_jobs() {
    echo "${AISIM_JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}"
}
