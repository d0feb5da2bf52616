# foreign_python.sh FOLDER: Debian's Python 3.11 for aarch64 in FOLDER/root, which qemu-aarch64 -L FOLDER/root runs, and cffi
# beside it in FOLDER/packages. Nothing is installed into this system. make foreign-python calls this script.
set -e
mkdir -p "$1" && cd "$1"
mkdir -p lists/partial archives/partial root packages
touch status
apt="-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD -o Dir::Cache::archives=$PWD/archives -o Dir::State::status=$PWD/status"
# shellcheck disable=SC2086
apt-get $apt update -qq
# shellcheck disable=SC2086
apt-get $apt download -qq python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 zlib1g libexpat1 libffi8 libssl3 \
    libbz2-1.0 liblzma5 libuuid1 libgcc-s1 libcrypt1
for package in *.deb; do dpkg -x "$package" root; done
python3 -m pip install -q --disable-pip-version-check --target packages --only-binary :all: --platform manylinux2014_aarch64 --platform manylinux_2_17_aarch64 \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 cffi pycparser
rm -rf ./*.deb lists archives
