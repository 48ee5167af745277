package cuda

// The grids of kernels/README.md. Every block is a whole number of warps; a warp or a thread owns a row, a document or
// a score, as the kernel's own comment says.

const (
	threads      = 256 // of a block, where nothing else is said
	csrThreads   = 512
	gradQThreads = 512
	warps        = threads / 32
	csrWarps     = csrThreads / 32
	gradSlice    = 512 // bytes of a row that a warp adds up at once
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

// gradDCall has one warp for every document row and slice of 512 bytes of it.
func gradDCall(operand string, rows, dim, size int64) call {
	c := line("maxsim_grad_d_"+operand, ceilDiv(rows, warps))
	c.grid.y = uint32(ceilDiv(dim*size, gradSlice))
	return c
}

// gradQCall has several lanes for every query row and slice of 512 bytes of it: as many as hold 16 bytes each.
func gradQCall(operand string, rows, dim, pitch, size int64) call {
	lanes := int64(32)
	if pitch*size%16 == 0 {
		for n := int64(8); n < 32; n *= 2 {
			if ceilDiv(dim*size, 16) <= n {
				lanes = n
				break
			}
		}
	}
	c := line("maxsim_grad_q_"+operand, ceilDiv(rows, gradQThreads/lanes))
	c.grid.y = uint32(ceilDiv(dim*size, gradSlice))
	c.block.x = gradQThreads
	return c
}

// csrPlan says how the inverse of the argmax is sorted: one block a document, or three kernels whose blocks take a tile
// of a document's rows and a segment of its query rows. The list is the same for every plan.
type csrPlan struct {
	fused bool
	utile int64 // document rows that a block sorts at once
	segs  int64 // parts of a document's query rows
	tiles int64
}

const (
	csrTile    = 1024    // rows of a document whose counters a block holds
	csrSegment = 1024    // query rows that are worth a block
	csrFew     = 1 << 18 // winners that one block a document sorts fast enough
)

// planCSR chooses for documents of at most longest rows that meet at most meets query rows.
func planCSR(documents, longest, meets, winners int64, multiprocessors int) csrPlan {
	p := csrPlan{utile: min(max(longest, 1), csrTile), segs: 1, tiles: max(1, ceilDiv(longest, csrTile))}
	sms := int64(multiprocessors)
	if p.tiles == 1 && (documents >= sms || winners < csrFew) {
		p.fused = true
		return p
	}
	p.segs = max(1, min(ceilDiv(4*sms, max(1, documents*p.tiles)), ceilDiv(meets, csrSegment)))
	return p
}

// calls returns the kernels of the plan in order.
func (p csrPlan) calls(documents int64) []call {
	make := func(kernel string, y, z int64, shared uint32) call {
		return call{kernel: kernel, grid: dim3{uint32(documents), uint32(y), uint32(z)}, block: dim3{csrThreads, 1, 1}, shared: shared}
	}
	shared := uint32(csrWarps * 4 * p.utile) // a counter for every row and warp
	if p.fused {
		return []call{make("maxsim_csr_fused", 1, 1, shared)}
	}
	return []call{
		make("maxsim_csr_count", p.segs, p.tiles, shared),
		make("maxsim_csr_scan", 1, 1, 0),
		make("maxsim_csr_place", p.segs, p.tiles, shared),
	}
}

// exactCall computes every product in the precision of the rows; blocks take (document, 64 query rows) pairs in turn.
func exactCall(product string, on Properties) call {
	return line("maxsim_forward_"+product, 4*int64(on.Multiprocessors))
}
