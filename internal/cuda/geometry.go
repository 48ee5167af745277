package cuda

// The grids of kernels/README.md. Every block is a whole number of warps; a warp or a thread owns a row, a document or
// a score, as the kernel's own comment says.

const (
	threads   = 256 // of a block, where nothing else is said
	warps     = threads / 32
	gradSlice = 512 // bytes of a row that a warp adds up at once

	gradBlocks = 4 // blocks of a gradient kernel on a multiprocessor
)

func ceilDiv(n, by int64) int64 { return (n + by - 1) / by }
func roundUp(n, to int64) int64 { return ceilDiv(n, to) * to }

// line is a one-dimensional launch.
func line(kernel string, blocks int64) call {
	return call{kernel: kernel, grid: dim3{uint32(blocks), 1, 1}, block: dim3{threads, 1, 1}}
}

// packCall has one warp for every row, or for every four rows of the split; the second side begins with a block of its own.
func packCall(kernel string, first, second int64) call {
	perBlock := int64(warps)
	if kernel == "maxsim_pack_split" {
		perBlock *= 4
	}
	return line(kernel, ceilDiv(first, perBlock)+ceilDiv(second, perBlock))
}

func ownerCall(sequences int64) call { return line("maxsim_row_owner", ceilDiv(sequences, warps)) }
func scoresCall(kernel string, scores int64) call {
	return line(kernel, ceilDiv(scores, 32))
}

// argmaxCall has one thread for every winner; most is the largest number of query rows that a document meets.
func argmaxCall(documents, most int64) call {
	return line("maxsim_argmax", documents*ceilDiv(most, threads))
}

// gradDCall has a warp for several document rows and a slice of 512 bytes: more rows where most were never chosen. Blocks
// come in whole waves, because a part of one at the end would cost as much as a whole. They begin late: those that could
// only wait for the list would take the places of grad_q's, which runs beside the sorting.
func gradDCall(operand string, rows, winners, dim, size int64, on Properties) call {
	perWarp := int64(12)
	if winners < 2*rows {
		perWarp = 18
	}
	slices, wave := ceilDiv(dim*size, gradSlice), int64(gradBlocks*on.Multiprocessors)
	share := warps * wave * perWarp
	waves := max(1, (rows*slices+share/2)/share)
	c := line("maxsim_grad_d_"+operand, min(ceilDiv(wave*waves, slices), ceilDiv(rows, warps)))
	c.grid.y, c.late = uint32(slices), true
	return c
}

// gradQCall has a warp for every query row and slice of 512 bytes.
func gradQCall(operand string, rows, dim, size int64) call {
	c := line("maxsim_grad_q_"+operand, ceilDiv(rows, warps))
	c.grid.y = uint32(ceilDiv(dim*size, gradSlice))
	return c
}

// csrPlan says how the inverse of the argmax is sorted: one block a document, or three kernels whose blocks take a tile
// of a document's rows and a segment of its query rows. The list is the same for every plan.
type csrPlan struct {
	fused   bool
	threads uint32
	utile   int64 // document rows that a block sorts at once
	segs    int64 // parts of a document's query rows
	tiles   int64
	staged  int64 // bytes of shared memory for the list of a document, 0 if it goes straight to memory
}

const (
	csrTile   = 1024     // rows of a document whose counters a block holds
	csrMost   = 32 << 10 // query rows that a block sorts
	csrLeast  = 4 << 10  // query rows that are worth a block
	csrMany   = 2 << 10  // query rows that are worth a large block
	csrShared = 96 << 10 // shared memory of a block that stages the list there
)

// planCSR chooses for documents of at most longest rows that meet at most meets query rows.
func planCSR(documents, longest, meets int64, multiprocessors int) csrPlan {
	p := csrPlan{threads: 128, utile: min(max(longest, 1), csrTile), segs: 1, tiles: max(1, ceilDiv(longest, csrTile))}
	if meets >= csrMany {
		p.threads = 1024
	}
	if longest <= csrTile && meets <= csrMost {
		p.fused = true
		if p.shared()+2*meets <= csrShared { // so few query rows are listed in 2 bytes each
			p.staged = 2 * meets
		}
		return p
	}
	fill := ceilDiv(4*int64(multiprocessors), max(1, documents*p.tiles))
	p.segs = max(ceilDiv(meets, csrMost), min(fill, ceilDiv(meets, csrLeast)), 1)
	return p
}

// shared returns the bytes of a block's counters: 2 for every row and warp, and 4 for where a row starts.
func (p csrPlan) shared() int64 { return (int64(p.threads)/16 + 4) * roundUp(p.utile, 2) }

// counts returns the bytes of the counters that the kernels leave each other: one for every segment and document row.
func (p csrPlan) counts(rows int64) int64 {
	if p.fused {
		return 0
	}
	return 4 * p.segs * rows
}

// calls returns the kernels of the plan in order.
func (p csrPlan) calls(documents int64) []call {
	kernel := func(name string, y, z, shared int64) call {
		grid := dim3{uint32(documents), uint32(y), uint32(z)}
		return call{kernel: name, grid: grid, block: dim3{p.threads, 1, 1}, shared: uint32(shared)}
	}
	if p.fused {
		return []call{kernel("maxsim_csr_fused", 1, 1, p.shared()+p.staged)}
	}
	return []call{
		kernel("maxsim_csr_count", p.segs, p.tiles, p.shared()),
		kernel("maxsim_csr_scan", 1, 1, 0),
		kernel("maxsim_csr_place", p.segs, p.tiles, p.shared()),
	}
}

// exactCall computes every product in the precision of the rows; blocks take (document, 64 query rows) pairs in turn.
func exactCall(product string, on Properties) call {
	return line("maxsim_forward_"+product, 4*int64(on.Multiprocessors))
}
