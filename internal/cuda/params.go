package cuda

// The parameters of the kernels, as kernels/params.cuh declares them: rows of 64-bit words, one struct a kernel. What
// the fields mean is said there; a test compares names, order and sizes with that file.

type packSide struct {
	src, rowMap, dst address
	scale, flag      address
	rows             int64
}

type packParams struct {
	first, second  packSide
	flagged        address
	stamp, dim, ld int64
}

type ownerParams struct {
	cu, owner address
	n         int64
}

type forwardParams struct {
	q, d               address
	qmap, dmap         address
	cuq, cud           address
	qscale, dscale     address
	qflag, dflag       address
	flagged            address
	argmax             address
	part               address
	scores             address
	bq, bd, totq, totd int64
	dim                int64
	ldq, ldd           int64
	group              int64
	maxq               int64
	argbytes           int64
	stamp              int64
}

// forwardSm90Params has the tensor maps of both sides in front. The kernel has it aligned to 64 bytes, which the driver
// sees to when it copies it.
type forwardSm90Params struct {
	dtile, qtile tensorMap
	f            forwardParams
	pad          [7]int64
}

type scoresParams struct {
	part, cuq, cud      address
	scores              address
	bq, bd, totq, group int64
}

type csrParams struct {
	argmax, qmap, cuq, cud    address
	rowptr                    address
	list                      address
	counts                    address
	bq, bd, totq, totd, group int64
	argbytes, listbytes       int64
	utile                     int64
	segs                      int64
}

type gradDParams struct {
	q                         address
	qmap                      address
	qowner                    address
	downer                    address
	dmap                      address
	cuq, cud, rowptr, list    address
	ds                        address
	dd                        address
	bq, bd, totq, totd, group int64
	dim, ldq                  int64
	listbytes                 int64
	qmul, qshift              int64
}

type gradQParams struct {
	d                         address
	dmap                      address
	qowner                    address
	qmap                      address
	cuq, cud, argmax          address
	ds                        address
	dq                        address
	bq, bd, totq, totd, group int64
	dim, ldd                  int64
	argbytes                  int64
}

type argmaxParams struct {
	argmax, qmap, dmap, cuq, cud, qowner address
	ucuq, ucud                           address
	out                                  address
	bq, bd, totq, group, argbytes        int64
}
