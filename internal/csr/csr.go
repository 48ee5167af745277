// Package csr inverts an argmax tape. The tape says which document token each query token chose; its inverse says
// which query tokens chose a document token, and with it every row of ∇d has one owner that adds in a fixed order.
package csr

import (
	"fmt"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/layout"
)

// Matrix is the inverse of an argmax tape in compressed sparse rows: one row for every document token, one column
// index for every query token that chose it.
//
//	row r:  Columns[Offsets[r]:Offsets[r+1]]    ascending
//
// A Matrix is built by a stable counting sort, O(entries + rows), and its storage is used again by the next one.
type Matrix struct {
	Offsets []int   // [rows+1], from 0, never decreasing
	Columns []int32 // [entries], query token rows of the batch: the t-th of query i is b.Q.Cu[i]+t
}

// Row returns the column indices of row r.
func (m *Matrix) Row(r int) []int32 { return m.Columns[m.Offsets[r]:m.Offsets[r+1]] }

// Invert returns the inverse of a whole tape: row r is row r of the document matrix, [b.D.Rows] rows in all, and no
// query token appears twice in one row. It takes 4 bytes per tape entry and 8 per document row. It returns an
// error if the tape has not b.TapeLen() entries or an entry names no token of its document.
func Invert(b *layout.Batch, tape []int32) (*Matrix, error) {
	if err := CheckLength(b, tape); err != nil {
		return nil, err
	}
	m := &Matrix{Offsets: make([]int, b.D.Rows+1)}
	for j := range b.D.Len() {
		if err := m.count(b, tape, j, 0, b.D.Tokens(j), b.D.Cu[j]); err != nil {
			return nil, err
		}
	}
	m.Columns = make([]int32, m.scan())
	for j := range b.D.Len() {
		m.place(b, tape, j, 0, b.D.Tokens(j), b.D.Cu[j])
	}
	m.unshift()
	return m, nil
}

// InvertDocument makes m the inverse of the tape for the tokens [lo, hi) of document j: row r is token lo+r. It
// returns the errors of Invert.
func (m *Matrix) InvertDocument(b *layout.Batch, tape []int32, j, lo, hi int) error {
	if err := CheckLength(b, tape); err != nil {
		return err
	}
	m.Offsets = resize(m.Offsets, hi-lo+1)
	clear(m.Offsets)
	if err := m.count(b, tape, j, lo, hi, -lo); err != nil {
		return err
	}
	m.Columns = resize(m.Columns, m.scan())
	m.place(b, tape, j, lo, hi, -lo)
	m.unshift()
	return nil
}

// count adds the number of entries of row r = u+shift to Offsets[r] for every token u in [lo, hi) of document j.
func (m *Matrix) count(b *layout.Batch, tape []int32, j, lo, hi, shift int) error {
	tokens := b.D.Tokens(j)
	first, last, k := b.Queries(j)
	for i := first; i < last; i++ {
		at := b.TapeAt(i, k)
		for t, u := range tape[at : at+b.Q.Tokens(i)] {
			if uint(u) >= uint(tokens) && u != -1 {
				return EntryError(b, i, t, j, u)
			}
			if int(u) >= lo && int(u) < hi {
				m.Offsets[int(u)+shift]++
			}
		}
	}
	return nil
}

// scan turns counts into the start of every row and returns the number of entries.
func (m *Matrix) scan() int {
	sum := 0
	for r, n := range m.Offsets {
		m.Offsets[r] = sum
		sum += n
	}
	return sum
}

// place writes the column indices in the order of the tape, query by query and token by token, so that they ascend
// inside every row. Each Offsets[r] ends as the start of row r+1.
func (m *Matrix) place(b *layout.Batch, tape []int32, j, lo, hi, shift int) {
	first, last, k := b.Queries(j)
	for i := first; i < last; i++ {
		at, row := b.TapeAt(i, k), b.Q.Cu[i]
		for t, u := range tape[at : at+b.Q.Tokens(i)] {
			if int(u) >= lo && int(u) < hi {
				r := int(u) + shift
				m.Columns[m.Offsets[r]] = int32(row + t)
				m.Offsets[r]++
			}
		}
	}
}

// unshift moves the row starts that place left one row early back to their rows.
func (m *Matrix) unshift() {
	copy(m.Offsets[1:], m.Offsets)
	m.Offsets[0] = 0
}

// CheckLength returns an error unless the tape has an entry for every query row and column of b.
func CheckLength(b *layout.Batch, tape []int32) error {
	if len(tape) == b.TapeLen() {
		return nil
	}
	return fmt.Errorf("argmax tape of %d entries, expected %d query rows × %d columns",
		len(tape), b.Q.Rows, b.Cols())
}

// EntryError is the error of a tape in which query token t of query i chose token u of document j, which has not as many.
func EntryError(b *layout.Batch, i, t, j int, u int32) error {
	return fmt.Errorf("argmax %d of query %d, token %d is no token of document %d, expected -1 to %d",
		u, i, t, j, b.D.Tokens(j)-1)
}

// resize returns s with n elements of any value, in the same memory if they fit.
func resize[E any](s []E, n int) []E {
	if cap(s) < n {
		return make([]E, n)
	}
	return s[:n]
}
