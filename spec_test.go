package maxsim

import (
	"reflect"
	"testing"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"github.com/flash-maxsim/gorgonia-maxsim/internal/cuda"
)

// TestConfigFieldsChangeTheHash: Gorgonia merges nodes whose ops hash alike, so a field missing from the hash would
// silently merge two different nodes. A field added to Config without a value here fails the test.
func TestConfigFieldsChangeTheHash(t *testing.T) {
	g := gorgonia.NewGraph()
	mask := gorgonia.NewMatrix(g, tensor.Bool, gorgonia.WithShape(2, 3), gorgonia.WithName("mask"))
	other := map[string]any{
		"QueryMask": mask, "DocMask": mask, "Mean": true, "FrozenQueries": true, "FrozenDocs": true,
		"Precision": BF16, "Device": &Device{new(cuda.Device)}, "ResidentDocs": &ResidentDocs{}, "Profile": &Profile{},
	}
	hashes := func(s spec) []uint32 {
		return []uint32{(&tapeOp{spec: s}).Hashcode(), (&scoresOp{spec: s}).Hashcode(), (&gradOp{spec: s}).Hashcode(),
			(&gradOp{spec: s, side: 1}).Hashcode(), (&argmaxOp{spec: s}).Hashcode(),
			(&docRowsOp{spec: s}).Hashcode(), (&docRowGradsOp{spec: s}).Hashcode()}
	}
	specOf := func(cfg Config) spec {
		s := spec{cfg: cfg, hasQueryMask: cfg.QueryMask != nil, hasDocMask: cfg.DocMask != nil}
		s.cfg.QueryMask, s.cfg.DocMask = nil, nil
		return s
	}
	base := hashes(specOf(Config{}))
	seen := map[uint32]bool{}
	for _, h := range base {
		if seen[h] {
			t.Error("two roles of one node share a hash")
		}
		seen[h] = true
	}
	for i := range reflect.TypeFor[Config]().NumField() {
		name := reflect.TypeFor[Config]().Field(i).Name
		value, ok := other[name]
		if !ok {
			t.Errorf("no test value for Config.%s", name)
			continue
		}
		var cfg Config
		reflect.ValueOf(&cfg).Elem().Field(i).Set(reflect.ValueOf(value))
		for role, h := range hashes(specOf(cfg)) {
			if h == base[role] {
				t.Errorf("Config.%s is not in the hash of role %d", name, role)
			}
		}
	}
	for _, s := range []spec{{form: paired, group: 1}, {form: candidates, group: 1}, {form: candidates, group: 2}, {form: packed}} {
		if hashes(s)[0] == base[0] {
			t.Errorf("%v hashes like InBatch", s)
		}
	}
}
