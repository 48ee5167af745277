package cuda

// The grids of kernels/README.md. Every block is a whole number of warps; a warp or a thread owns a row, a document or
// a score, as the kernel's own comment says.

const (
	threads    = 256 // of a block, where nothing else is said
	csrThreads = 512
	warps      = threads / 32
	csrWarps   = csrThreads / 32
)

func ceilDiv(n, by int64) int64 { return (n + by - 1) / by }
func roundUp(n, to int64) int64 { return ceilDiv(n, to) * to }

// line is a one-dimensional launch.
func line(kernel string, blocks int64) call {
	return call{kernel: kernel, grid: dim3{uint32(blocks), 1, 1}, block: dim3{threads, 1, 1}}
}

func packCall(kernel string, rows int64) call { return line(kernel, ceilDiv(rows, warps)) }
func ownerCall(sequences int64) call          { return line("maxsim_row_owner", ceilDiv(sequences, warps)) }
func scoresCall(kernel string, scores int64) call {
	return line(kernel, ceilDiv(scores, 32))
}

// argmaxCall has one thread for every winner; most is the largest number of query rows that a document meets.
func argmaxCall(documents, most int64) call {
	return line("maxsim_argmax", documents*ceilDiv(most, threads))
}

// gradCall has one warp for every row and slice of columns; a lane holds 16 bytes of the operand.
func gradCall(kernel string, rows, dim, operandBytes int64) call {
	c := line(kernel, ceilDiv(rows, warps))
	c.grid.y = uint32(ceilDiv(dim, 512/operandBytes))
	return c
}

// csrPlan says how the inverse of the argmax is sorted: one block a document while its rows fit, else several tiles of
// its rows and several segments of the query rows.
type csrPlan struct {
	fused bool
	utile int64 // document rows that a block sorts at once
	segs  int64 // parts of a document's query rows
	tiles int64
}

// csrShared returns the shared bytes of a block: one counter for every document row of a tile and warp.
func csrShared(utile int64) int64 { return csrWarps * utile * 4 }

// planCSR chooses for documents of at most longest rows that meet at most meets query rows, on a GPU with the given
// multiprocessors and shared memory. The result is the same list for every plan.
func planCSR(documents, longest, meets int64, sms, shared int) csrPlan {
	most := int64(shared) / (csrWarps * 4) / 32 * 32
	p := csrPlan{utile: min(roundUp(max(longest, 1), 32), most)}
	p.tiles = max(1, ceilDiv(longest, p.utile))
	p.segs = 1
	// Few documents with many query rows each leave most multiprocessors idle unless their rows are cut.
	const leastRows = 4096
	if want := ceilDiv(2*int64(sms), max(1, documents*p.tiles)); want > 1 {
		p.segs = max(1, min(want, ceilDiv(meets, leastRows)))
	}
	p.fused = p.tiles == 1 && p.segs == 1
	return p
}

func (p csrPlan) call(kernel string, documents int64) call {
	c := call{kernel: kernel, grid: dim3{uint32(documents), 1, 1}, block: dim3{csrThreads, 1, 1}}
	switch kernel {
	case "maxsim_csr_fused":
		c.shared = uint32(csrShared(p.utile))
	case "maxsim_csr_count", "maxsim_csr_place":
		c.grid.y, c.grid.z = uint32(p.segs), uint32(p.tiles)
		c.shared = uint32(csrShared(p.utile))
	}
	return c
}

// exactCall computes every product in the precision of the rows; blocks take (document, 64 query rows) pairs in turn.
func exactCall(product string, on Properties) call {
	return line("maxsim_forward_"+product, 4*int64(on.Multiprocessors))
}

// forwardCall is the tensor core kernel for packed rows.
func forwardCall(st storage, p *problem, record bool, on Properties) call {
	epilogue := "max"
	if record {
		epilogue = "arg"
	}
	return line("maxsim_forward_"+st.product+"_stream_"+epilogue+"_sm80", int64(on.Multiprocessors))
}
