#!/bin/bash
# variants.sh DIR OUT: builds variants of maxsim_sm90.cubin and forward_sm90a.cubin, one constant or line changed in each,
# with the compilers in DIR, for "bench ways image=OUT/NAME.cubin@N" (N: CTAs of a gradient kernel on a multiprocessor,
# where it is not 4). Prints registers and bytes of stack of the kernels that a change is meant for.
set -euo pipefail
tools=$(realpath "$1")
out=$(realpath -m "$2")
kernels=$(realpath "$(dirname "$0")/..")
mkdir -p "$out"

variant() { # source, architecture, name, kernels to report, file, sed script [, file, sed script ...]
  local source=$1 arch=$2 name=$3 report=$4 dir
  shift 4
  dir=$(mktemp -d)
  cp "$kernels"/*.cu "$kernels"/*.cuh "$dir"
  while [ $# -gt 0 ]; do
    sed -i -E "$2" "$dir/$1"
    if cmp -s "$dir/$1" "$kernels/$1"; then echo "$name: \"$2\" changes nothing in $1" >&2; exit 1; fi
    shift 2
  done
  "$tools/cuda12/nvcc" -std=c++17 -O3 -gencode=arch=compute_$arch,code=sm_$arch -cubin "$dir/$source.cu" -o "$out/$name.cubin"
  rm -r "$dir"
  echo "$name"
  "$tools/cuda12/usr/bin/cuobjdump" --dump-resource-usage "$out/$name.cubin" | grep -A1 Function | grep -oE "maxsim_\w+|REG:[0-9]+|STACK:[0-9]+" |
    paste - - - | grep -E "$report" | sed 's/^/  /'
}
common() { variant maxsim 90 "$@"; }
forward() { variant forward_sm90a 90a "$@"; }
deep() { # of grad_d alone
  echo "s/(bool ALIGNED, int LANES)(> struct Gather)/\1, int D = GRAD_DEEP\2/; s/ALIGNED \? GRAD_DEEP/ALIGNED ? D/
    /struct GradD /,/struct Doc/ s/Gather<T, ALIGNED, LANES>/Gather<T, ALIGNED, LANES, $1>/; s/(const Gather<T, ALIGNED, LANES)>/\1, D>/"
}
residents() { echo "s/(maxsim_grad_d.*, 256,) GRAD_CTAS/\1 $1/"; }

# Terms of grad_d in flight against warps on a multiprocessor.
common deep8_ctas3 grad_d grad.cuh "$(deep 8)" maxsim.cu "$(residents 3)"
common deep6_ctas3 grad_d grad.cuh "$(deep 6)" maxsim.cu "$(residents 3)"
common deep4_ctas3 grad_d maxsim.cu "$(residents 3)"
# Rows with more terms than this are summed by a whole CTA. Other bits.
common hub128 grad_d grad.cuh 's/GRAD_HUB = [0-9]+/GRAD_HUB = 128/'
# One counter at a time.
common csr_serial csr csr.cuh '/sum_warps\(const/,/^\}/ { s/w \+= 4/w += 1/; s/c\[4\]/c[1]/; s/i < 4/i < 1/ }'
# More rows of the split being packed at a time.
common pack_ctas6 pack_split maxsim.cu 's/(maxsim_pack_split, PackParams, 256,) 1/\1 6/'
# Rows of float32 stay in the L2 after they have been packed.
common pack_cached pack pack.cuh 's/__ldcs/__ldg/'
# The next launch may begin before this one has waited.
common early scores device.cuh 's/griddepcontrol.wait;\\ngriddepcontrol.launch_dependents;/griddepcontrol.launch_dependents;\\ngriddepcontrol.wait;/'

# Warpgroups multiply when they please. For F1t, F1v, D64, D96, V64, V96, T1L.
forward no_turns 'k._m(128|256)' forward_sm90a.cu 's/(TURNS =) GROUPS > 1 && !DEEP/\1 false/'
# MiB of query rows in a round of stream (8; unheld: no rounds). For V768.
held() { echo "s/(HELD_QUERY_BYTES = )8 << 20/\1$1/"; }
forward held4 _stream device.cuh "$(held '4 << 20')"
forward held16 _stream device.cuh "$(held '16 << 20')"
forward held24 _stream device.cuh "$(held '24 << 20')"
forward unheld _stream device.cuh "$(held '1 << 30')"
# In rounds documents leave the L2 before query rows do. For V768.
forward documents_first _stream forward_sm90a.cu 's/(read_policy\(P.f.maxq <= S::TILE)\)/\1 || S::REFETCHED > 0)/'
# Rounds where query rows are kept, too: only for the sake of documents. For V256.
forward rounds_long long_m256 forward_sm90a.cu 's/(REFETCHED = )QUERY == STREAM \? Op::BYTES : 0/\1Op::BYTES/'
