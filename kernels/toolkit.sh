#!/bin/bash
# toolkit.sh DIR: unpacks the two compilers that the committed images are built with, nvcc 11.8 into DIR/cuda11 and nvcc
# 12.4 into DIR/cuda12, from Debian's non-free packages. Nothing is installed; needs a Debian machine with apt, dpkg-deb
# and g++, the network, and 360 MB. Their programs ask for glibc 2.7 only, so the newer suite's packages run on the older.
set -euo pipefail

unpack() { # suite folder
  local dir apt uri
  dir=$(realpath -m "$2") apt=$dir/.apt
  [ -x "$dir/nvcc" ] && return
  uri=$(cat /etc/apt/sources.list.d/*.sources | awk '/^URIs:/{u=$2} /^Suites:/&&u!~/security/{print u; exit}')
  mkdir -p "$apt"/{parts,lists/partial,cache/archives/partial}
  : >"$apt/status"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: non-free\nArchitectures: amd64\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
    "$uri" "$1" >"$apt/parts/suite.sources"
  local options=(-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$apt/parts" -o Dir::Etc::preferences=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status"
    -o Dir::Cache="$apt/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" -qq update
  (cd "$apt" && apt-get "${options[@]}" -qq download nvidia-cuda-toolkit nvidia-cuda-dev)
  dpkg-deb --fsys-tarfile "$apt"/nvidia-cuda-toolkit_*.deb | tar -x -C "$dir" --wildcards \
    './usr/bin/*' './usr/lib/nvidia-cuda-toolkit/bin/*' './usr/lib/nvidia-cuda-toolkit/libdevice/*'
  dpkg-deb --fsys-tarfile "$apt"/nvidia-cuda-dev_*.deb | tar -x -C "$dir" --wildcards './usr/include/*' '*/stubs/libcuda.so'
  rm -rf "$apt"
  local lib=$dir/usr/lib/nvidia-cuda-toolkit
  rm -f "$lib/bin/nvcc.profile"
  printf 'NVVMIR_LIBRARY_DIR = %s\nPATH += %s:%s:\nINCLUDES += -I%s\n' "$lib/libdevice" "$lib/bin" "$dir/usr/bin" "$dir/usr/include" >"$lib/bin/nvcc.profile"
  printf '#!/bin/sh\nexec %s "$@"\n' "$lib/bin/nvcc" >"$dir/nvcc"
  chmod +x "$dir/nvcc"
}

unpack bookworm "$1/cuda11"
unpack trixie "$1/cuda12"
"$1/cuda11/nvcc" --version | grep release
"$1/cuda12/nvcc" --version | grep release
