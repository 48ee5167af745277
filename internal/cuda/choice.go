package cuda

// The tensor core kernels of kernels/README.md, "Choice by shape". Which of them runs depends on the GPU, on the bytes
// of a packed row and on how many query rows a document meets; a pair's bits are the same in all kernels of a product.

// forwardKernel is a choice: the launch, whether the kernel takes tensor maps (compute capability 9.0), how many document
// rows one copy by them brings, and whether it can write the scores of queries that fit its tile.
type forwardKernel struct {
	call
	hopper bool
	box    int
	whole  bool
}

// chooseForward returns the kernel for rows of rowBytes packed bytes and documents that meet at most rows query rows.
func chooseForward(on Properties, product string, rowBytes, rows int64, record bool) forwardKernel {
	k := forwardKernel{hopper: on.Major == 9 && on.Minor == 0}
	shape := shapeAmpere(product, rowBytes)
	architecture := "_sm80"
	if k.hopper {
		shape = shapeHopper(product, rowBytes, rows)
		architecture = "_sm90a"
	}
	epilogue := "_max"
	if record {
		epilogue = "_arg"
	}
	k.box, k.whole = shape.box, shape.whole
	k.call = call{
		kernel: "maxsim_forward_" + product + shape.name + epilogue + architecture,
		grid:   dim3{uint32(shape.perSM * on.Multiprocessors), 1, 1},
		block:  dim3{shape.threads, 1, 1},
		shared: shape.shared,
	}
	return k
}

// forwardShape is a family member: what its name says, blocks on a multiprocessor, threads and shared bytes of each.
type forwardShape struct {
	name    string
	perSM   int
	threads uint32
	shared  uint32
	box     int  // document rows that one copy of a tensor map brings
	whole   bool // chosen only for queries that fit a block's tile, whose scores it can write
}

func shapeAmpere(product string, rowBytes int64) forwardShape {
	half := product == "bf16" || product == "f16"
	switch {
	case half && rowBytes <= 128:
		return forwardShape{name: "_k4", perSM: 2, threads: 128, shared: 24 << 10}
	case half && rowBytes <= 192:
		return forwardShape{name: "_k6", perSM: 2, threads: 128, shared: 48 << 10}
	case half && rowBytes <= 256:
		return forwardShape{name: "_k8", perSM: 2, threads: 128, shared: 48 << 10}
	}
	return forwardShape{name: "_stream", perSM: 1, threads: 256, shared: 96 << 10}
}

func shapeHopper(product string, rowBytes, rows int64) forwardShape {
	const most = 232448 // bytes of shared memory that a block can have
	m128 := func(name string) forwardShape {
		return forwardShape{name: name, perSM: 1, threads: 384, shared: most, box: 128}
	}
	m256 := func(name string) forwardShape {
		return forwardShape{name: name, perSM: 1, threads: 640, shared: most, box: 128}
	}
	switch product {
	case "tf32":
		if rowBytes <= 512 {
			return m256("_long_m256")
		}
		return m256("_stream")
	case "split":
		if rowBytes <= 512 {
			return m128("_k16_m128")
		}
		if rowBytes <= 1024 {
			return m128("_long_m128")
		}
		return m128("_stream")
	}
	switch {
	case rows <= 64 && rowBytes <= 256:
		return forwardShape{name: "_k8_m64", perSM: 2, threads: 256, shared: 82944, box: 16, whole: true} // room for two stages
	case rows <= 64 && rowBytes <= 768:
		return forwardShape{name: "_long_m64", perSM: 2, threads: 256, shared: 115712, box: 128, whole: true}
	case rows <= 128 && rowBytes <= 256:
		return forwardShape{name: "_k8_m128", perSM: 1, threads: 384, shared: most, box: 16, whole: true}
	case rowBytes <= 128:
		return m256("_k4_m256")
	case rowBytes <= 192:
		return m256("_k6_m256")
	case rowBytes <= 256:
		return m256("_k8_m256")
	case rowBytes <= 512:
		return m256("_long_m256")
	}
	return m256("_stream")
}

// direct reports whether a kernel writes the scores itself, in the bits that the separate kernel gives them: one whose
// tile is always one whole query, where no sequence is empty.
func (p *problem) direct(k forwardKernel) bool {
	return k.whole && !p.q.gaps && !p.d.gaps && (p.group > 0 || p.bq == 1)
}
