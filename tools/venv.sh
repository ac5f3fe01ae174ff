#!/bin/sh
# Makes .venv with the given Python. Debian keeps the venv module in a package of its own: as root we install it.
python="$1"

make_venv() {
    "$python" -m venv .venv && [ -x .venv/bin/pip ]
}

make_venv 2>/dev/null && exit 0
rm -rf .venv
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    echo "Installing Python's venv module ..."
    apt-get update -qq
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$version-venv" >/dev/null 2>&1 ||
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null 2>&1
    make_venv && exit 0
    rm -rf .venv
fi
echo "Python cannot make a virtual environment here. Run: sudo apt-get install python3-venv" >&2
exit 1
