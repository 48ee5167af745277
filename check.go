package maxsim

import (
	"fmt"
	"math"
	"slices"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// checkNodes checks what is known while the graph is built: nodes, dtypes, shapes, configuration.
func (s spec) checkNodes(nodes gorgonia.Nodes) error {
	names := s.inputNames()
	shapes := make([]tensor.Shape, len(nodes))
	dtypes := make([]tensor.Dtype, len(nodes))
	for k, n := range nodes {
		if err := checkNode(n, names[k], nodes[0], names[0]); err != nil {
			return err
		}
		shapes[k], dtypes[k] = n.Shape(), n.Dtype()
	}
	if err := s.checkDtypes(dtypes); err != nil {
		return err
	}
	if err := s.checkShapes(shapes); err != nil {
		return err
	}
	if err := s.cfg.check(); err != nil {
		return err
	}
	return s.cfg.checkResident(shapes[1], dtypes[1])
}

// checkNode reports a node that holds no tensor of the graph that another node is in.
func checkNode(n *gorgonia.Node, name string, other *gorgonia.Node, otherName string) error {
	switch {
	case n == nil:
		return fmt.Errorf("%w: %s: node is nil", ErrNode, name)
	case n.Graph() == nil:
		return fmt.Errorf("%w: %s: node is in no graph, as gorgonia.NewConstant leaves it; gorgonia.NodeFromAny puts a tensor into one", ErrNode, name)
	case n.Graph() != other.Graph():
		return fmt.Errorf("%w: %s and %s are in different graphs", ErrNode, name, otherName)
	case n.Type() == nil:
		return fmt.Errorf("%w: %s: node is a statement, as gorgonia.Read returns it, expected a tensor", ErrNode, name)
	}
	return nil
}

// checkDtypes checks the element types of the inputs.
func (s spec) checkDtypes(dts []tensor.Dtype) error {
	if dts[0] != tensor.Float32 && dts[0] != tensor.Float64 {
		return fmt.Errorf("%w: query tokens are %v, expected float32 or float64", ErrDtype, dts[0])
	}
	if dts[1] != dts[0] {
		return fmt.Errorf("%w: query tokens are %v, document tokens are %v, expected the same", ErrDtype, dts[0], dts[1])
	}
	names := s.inputNames()
	for k := 2; k < s.queryMaskAt(); k++ {
		if dts[k] != tensor.Int32 {
			return fmt.Errorf("%w: %s are %v, expected int32", ErrDtype, names[k], dts[k])
		}
	}
	for k := s.queryMaskAt(); k < len(names); k++ {
		if !slices.Contains(maskDtypes, dts[k]) {
			return fmt.Errorf("%w: %s is %v, expected bool or an integer or float type", ErrDtype, names[k], dts[k])
		}
	}
	return nil
}

// checkShapes checks the shapes of the inputs against each other.
func (s spec) checkShapes(shapes []tensor.Shape) error {
	q, d := shapes[0], shapes[1]
	rank, axes := 3, "[b, t, dim]"
	if s.form == packed {
		rank, axes = 2, "[rows, dim]"
	}
	if q.Dims() != rank || d.Dims() != rank {
		return fmt.Errorf("%w: query tokens %v and document tokens %v, expected both %s", ErrShape, q, d, axes)
	}
	if slices.Min(q) < 1 || slices.Min(d) < 1 {
		return fmt.Errorf("%w: query tokens %v and document tokens %v, every axis must be at least 1", ErrShape, q, d)
	}
	dim := rank - 1
	if q[dim] != d[dim] {
		return fmt.Errorf("%w: query tokens %v have dim %d, document tokens %v have dim %d", ErrShape, q, q[dim], d, d[dim])
	}
	if tooManyRows(q) || tooManyRows(d) {
		return fmt.Errorf("%w: query tokens %v and document tokens %v, more than %d token rows", ErrShape, q, d, math.MaxInt32)
	}
	if s.group > 0 && d[0] != q[0]*s.group {
		return fmt.Errorf("%w: query tokens %v with %d document(s) per query need %d documents, document tokens are %v",
			ErrShape, q, s.group, q[0]*s.group, d)
	}
	names := s.inputNames()
	for k := 2; k < s.queryMaskAt(); k++ {
		if cu := shapes[k]; cu.Dims() != 1 || cu[0] < 2 {
			return fmt.Errorf("%w: %s %v, expected a vector [sequences+1] of at least 2 offsets", ErrShape, names[k], cu)
		}
	}
	for k := s.queryMaskAt(); k < len(names); k++ {
		tokens := q
		if k == s.docMaskAt() && s.hasDocMask {
			tokens = d
		}
		if !slices.Equal(shapes[k], tokens[:dim]) {
			return fmt.Errorf("%w: %s %v, expected %v for tokens %v", ErrShape, names[k], shapes[k], tokens[:dim], tokens)
		}
	}
	return nil
}

// tooManyRows reports tokens with more rows than an int32 counts. The product of their axes may exceed an int.
func tooManyRows(tokens tensor.Shape) bool {
	rows := 1
	for _, n := range tokens[:len(tokens)-1] {
		if n > math.MaxInt32/rows {
			return true
		}
		rows *= n
	}
	return false
}

// checkUpstreamNode checks dtype and shape of an upstream gradient, which may be a user's.
func checkUpstreamNode(upstream, scores *gorgonia.Node) error {
	if got, want := upstream.Dtype(), scores.Dtype(); got != want {
		return fmt.Errorf("%w: upstream gradient is %v, scores are %v, expected the same", ErrDtype, got, want)
	}
	return checkUpstream(upstream.Shape(), scores.Shape())
}

// checkUpstream checks the shape of an upstream gradient.
func checkUpstream(upstream, scores tensor.Shape) error {
	if !slices.Equal(upstream, scores) {
		return fmt.Errorf("%w: upstream gradient %v, scores are %v", ErrShape, upstream, scores)
	}
	return nil
}
