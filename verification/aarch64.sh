#!/usr/bin/env bash
# Does forecache run on aarch64, and does it compute there what it computes here?
#
#   sudo verification/aarch64.sh            all checks, on x86-64 Debian or Ubuntu; 15 minutes
#   AARCH64_DIR=/big/disk/aarch64           where the Arm root goes (1.5 GB); default build/aarch64
#   BUNDLE=DIR                              what `forecache observe` wrote; observed here if unset
#   TESTS="tests/sim tests/models"          tests to run emulated
#
# Unpacks a Debian arm64 Python and the Arm wheels of the packages in .venv, and runs forecache
# there under qemu's user emulation. One line a check, PASS or FAIL with the last line of its log.
# Exit code 0: all passed; 1: some failed; 2: can't be done on this machine, with the reason.
#
# Not checked, because qemu can't: durations mean nothing; perf_event_open does not exist; memory is
# ordered as on x86, so a missing barrier would not show; huge pages are not given; caches and
# topology are those of the x86 host.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(realpath -m "${AARCH64_DIR:-build/aarch64}")
tests=${TESTS:-tests/sim tests/hwprofiles tests/calibration/test_loadgen_wire.py}
root=$dir/root
python=$PWD/.venv/bin/python
failures=0

stop() { echo "verification/aarch64.sh: $*" >&2; exit 2; }
pass() { printf 'PASS  %s (%d s)\n' "$1" $((SECONDS - began)); }
fail() { printf 'FAIL  %s: %s\n' "$1" "$(tail -n 1 "$2")"; failures=$((failures + 1)); }

# check NAME COMMAND...: PASS if the command succeeds; its output is kept in a log of that name.
check() {
    local name=$1 log
    log=$dir/$(tr -c 'A-Za-z0-9\n' - <<<"$name").log
    shift
    began=$SECONDS
    if "$@" >"$log" 2>&1; then pass "$name"; else fail "$name" "$log"; fi
}

# emulated COMMAND...: in the Arm root. /proc/cpuinfo is made that of a Graviton3, because older
# versions of qemu show the x86 one, by which forecache names the CPU.
emulated() {
    # shellcheck disable=SC2016  # the inner shell expands
    unshare --mount --propagation private sh -euc '
        root=$1; shift
        for folder in proc sys dev; do mount --rbind /$folder "$root/$folder"; done
        mount --bind "$root/graviton3-cpuinfo" "$root/proc/cpuinfo"
        exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 \
            PYTHONPATH=/packages \
            sh -c "cd /checkout && exec \"\$@\"" sh "$@"
    ' sh "$root" "$@"
}

# native COMMAND...: the same sources here.
native() { (cd "$dir/checkout" && PYTHONPATH=$dir/forecache "$@"); }

# same FILE FILE: two JSON or YAML results agree, numbers to 1e-9: exponentials and logarithms of
# the two machines' libraries may differ in the last bit.
same() {
    "$python" - "$@" <<'PYTHON'
import json
import math
import sys

import yaml

LEFT_OUT = {"date", "machine", "python", "created", "accessed"}  # say where and when, not what
worst, leaves = (0.0, "anything"), 0


def compare(here, there, path):
    global worst, leaves
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        for key in here.keys() - LEFT_OUT:
            compare(here[key], there[key], f"{path}.{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, pair in enumerate(zip(here, there)):
            compare(*pair, f"{path}[{index}]")
    elif type(here) is type(there) is float:
        leaves += 1
        if not (here == there or math.isnan(here) and math.isnan(there)):
            difference = abs(here - there) / max(abs(here), abs(there))
            worst = max(worst, (math.inf if math.isnan(difference) else difference, path))
    elif here != there:
        sys.exit(f"{path}: {here!r} here, {there!r} emulated")


def load(name):
    with open(name) as file:
        return json.load(file) if name.endswith(".json") else yaml.load(file, yaml.CSafeLoader)


compare(load(sys.argv[1]), load(sys.argv[2]), "")
print(f"{leaves} numbers; largest relative difference {worst[0]:.2g}, of {worst[1]}")
sys.exit(worst[0] > 1e-9)
PYTHON
}

# --- what this machine must offer ---------------------------------------------------------------

[ "$(uname -m)" = x86_64 ] || stop "this machine is $(uname -m); on aarch64 itself run make test."
[ "$(id -u)" -eq 0 ] || stop "needs root, for chroot and mount; say sudo $0."
command -v apt-get >/dev/null || stop "needs Debian or Ubuntu; there is no apt-get here."
[ -x "$python" ] || stop "there is no .venv here; run make test first."
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' ||
    stop "compares with Python 3.11, .venv has $("$python" --version)."
command -v qemu-aarch64-static >/dev/null && command -v debootstrap >/dev/null ||
    apt-get install -y -qq --no-install-recommends \
        qemu-user-static debootstrap debian-archive-keyring >/dev/null ||
    stop "qemu-user-static and debootstrap could not be installed."

# Without this the kernel can't start an Arm program that an emulated one starts.
misc=/proc/sys/fs/binfmt_misc
[ -e $misc/register ] || mount -t binfmt_misc binfmt_misc $misc ||
    stop "this kernel has no binfmt_misc, so it can't start emulated programs."
if [ ! -e $misc/qemu-aarch64 ]; then
    trap 'echo -1 >$misc/forecache-aarch64' EXIT
    magic='\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    echo ":forecache-aarch64:M::$magic:$mask:$(command -v qemu-aarch64-static):OCF" >$misc/register
fi

# --- the Arm root -------------------------------------------------------------------------------

if [ ! -e "$root/.ready" ]; then
    echo "Unpacking Debian arm64 and Arm wheels into $root"
    rm -rf --one-file-system "$root"
    mkdir -p "$root"
    # Packages are unpacked, not configured: that would take many minutes, and Python needs none.
    debootstrap --arch=arm64 --foreign --variant=minbase --include=python3 --force-check-gpg \
        bookworm "$root" http://deb.debian.org/debian >"$dir/debootstrap.log" ||
        stop "debootstrap failed: $(tail -n 1 "$dir/debootstrap.log")"
    for package in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
    "$python" -m pip freeze --exclude-editable >"$dir/versions.txt" # so that results can agree
    "$python" -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
engine = project["optional-dependencies"]["engine"]
# valkey wants async-timeout before Python 3.11.3; pip decides by the Python it runs on.
# Tests compile C.
more = ["async-timeout", "pytest", "hypothesis", "ziglang"]
print(*project["dependencies"], *engine, *more, sep="\n")' >"$dir/packages.txt"
    platforms=(--platform manylinux2014_aarch64)
    for glibc in 17 24 26 27 28 34; do platforms+=(--platform "manylinux_2_${glibc}_aarch64"); done
    "$python" -m pip install --quiet --target "$root/packages" --only-binary=:all: \
        "${platforms[@]}" --python-version 3.11 \
        --requirement "$dir/packages.txt" --constraint "$dir/versions.txt" ||
        stop "Arm wheels of the packages in .venv could not be installed."
    "$python" -m pip install --quiet --target "$dir/zig" ziglang ||
        stop "ziglang could not be installed."
    touch "$root/.ready"
fi

# The working tree as it is now, without the rooms: installed, they are one package.
rm -rf "$dir/checkout" "$dir/forecache" "$root/checkout" "$root/packages"/forecache*
mkdir -p "$dir/checkout"
git ls-files --cached --others --exclude-standard | tar --ignore-failed-read -cT - 2>/dev/null |
    tar -xC "$dir/checkout"
"$python" -m pip install --quiet --no-deps --no-build-isolation --target "$dir/forecache" \
    "$dir/checkout" || stop "forecache could not be built."
(cd "$dir/checkout" && rm -rf build sim hwprofiles models calibration reports forecache ./*.egg-info)
cp -r "$dir/checkout" "$root/checkout"
cp -r "$dir/forecache"/forecache* "$root/packages/"
# Its C code, built here for Arm: emulated, a compiler would take minutes.
find "$root/packages/forecache" -name '_*.so' -delete
FORECACHE_TARGET=aarch64 PYTHONPATH=$dir/zig "$python" \
    "$root/packages/forecache/sim/native/toolchain.py" >"$dir/build.log" 2>&1 ||
    stop "the C code could not be built for Arm: $(tail -n 1 "$dir/build.log")"
for core in 0 1; do
    printf '%s\n' "processor	: $core" "BogoMIPS	: 2100.00" \
        "Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm\
 jscvt fcma lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca\
 pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng" \
        "CPU implementer	: 0x41" "CPU architecture: 8" "CPU variant	: 0x1" \
        "CPU part	: 0xd40" "CPU revision	: 1" ""
done >"$root/graviton3-cpuinfo"

# --- the checks ---------------------------------------------------------------------------------

check "Python is aarch64" emulated python3 -c '
import platform
assert platform.machine() == "aarch64", platform.machine()'

check "import" emulated python3 -c 'import forecache; print(forecache.__version__)'

profile_is_arm() {
    emulated python3 -m forecache profile --quiet --out /checkout/host.yaml &&
        grep -x 'isa: aarch64' "$root/checkout/host.yaml" &&
        emulated python3 -m forecache catalog /checkout/host.yaml
}
check "profile" profile_is_arm

# Needs what `profile` wrote.
observe_and_calibrate() {
    emulated python3 -m forecache observe --quiet --host host.yaml --out observed &&
        emulated python3 -m forecache calibrate --quiet observed --out observed.yaml
}
check "observe an Arm Valkey, calibrate" observe_and_calibrate

bundle=${BUNDLE:-$dir/bundle}
if [ ! -d "$bundle" ]; then
    echo "Observing an engine on this machine"
    native "$python" -m forecache profile --quiet --out "$dir/host.yaml"
    native "$python" -m forecache observe --quiet --host "$dir/host.yaml" --out "$bundle"
fi
calibrate_alike() {
    local arguments=(calibrate --quiet --json bundle --out engine.yaml)
    # The profile names the folder of its bundle, which therefore must be the same.
    cp -r "$bundle" "$dir/checkout/bundle" && cp -r "$bundle" "$root/checkout/bundle" &&
        native "$python" -m forecache "${arguments[@]}" >"$dir/calibrate.json" &&
        emulated python3 -m forecache "${arguments[@]}" >"$dir/calibrate-emulated.json" &&
        same "$dir/checkout/engine.yaml" "$root/checkout/engine.yaml" &&
        same "$dir/calibrate.json" "$dir/calibrate-emulated.json"
}
check "calibrate fits the same" calibrate_alike

recommend_alike() {
    local arguments=(recommend --quiet --json examples/quickstart.yaml)
    native "$python" -m forecache "${arguments[@]}" >"$dir/recommend.json" &&
        emulated python3 -m forecache "${arguments[@]}" >"$dir/recommend-emulated.json" &&
        same "$dir/recommend.json" "$dir/recommend-emulated.json"
}
check "recommend predicts the same" recommend_alike

# shellcheck disable=SC2086
check "pytest $tests" emulated python3 -m pytest -q -p no:cacheprovider $tests

echo "$failures failed; logs are in $dir"
[ $failures -eq 0 ]
