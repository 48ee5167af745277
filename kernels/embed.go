//go:build maxsim_cuda

package kernels

import _ "embed"

// Common holds the kernels that need no tensor cores, as PTX for compute capability 8.0 and later.
//
//go:embed maxsim.ptx
var Common string

// CommonSM90 holds the same for compute capability 9.0 and no other, where launches may overlap.
//
//go:embed maxsim_sm90.cubin
var CommonSM90 string

// ForwardSM80 holds the tensor core forward as PTX for compute capability 8.0 and later.
//
//go:embed forward_sm80.ptx
var ForwardSM80 string

// ForwardSM90a holds the tensor core forward for compute capability 9.0 (Hopper) and no other.
//
//go:embed forward_sm90a.cubin
var ForwardSM90a string
