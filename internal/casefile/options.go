package casefile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// parseOptions reads the options. An unknown one is an error: it would change what the case asks.
func parseOptions(text json.RawMessage) (Options, error) {
	var f struct {
		Candidates int             `json:"candidates"`
		DType      string          `json:"dtype"`
		Loss       *Loss           `json:"loss"`
		Repeat     int             `json:"repeat"`
		Storage    json.RawMessage `json:"storage"`
		AllowError bool            `json:"allow_error"`
		Heavy      bool            `json:"heavy"`
	}
	o := Options{DType: "float32", Repeat: 1}
	if len(text) == 0 {
		return o, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return o, fmt.Errorf("options: %w", err)
	}
	o.Candidates, o.Loss, o.AllowError, o.Heavy = f.Candidates, f.Loss, f.AllowError, f.Heavy
	o.Repeat = max(1, f.Repeat)
	if f.DType != "" {
		o.DType = f.DType
	}
	if !slices.Contains([]string{"float32", "float64", "float16", "bfloat16"}, o.DType) {
		return o, fmt.Errorf("options.dtype %q is not float32, float64, float16 or bfloat16", o.DType)
	}
	if o.Loss != nil && !slices.Contains([]string{"infonce", "kd_kl"}, o.Loss.Name) {
		return o, fmt.Errorf("options.loss.name %q is not infonce or kd_kl", o.Loss.Name)
	}
	var err error
	o.Storage, err = parseStorage(f.Storage)
	return o, err
}

// parseStorage reads {"q": axes, "d": axes}, or axes alone, which hold for both.
func parseStorage(text json.RawMessage) (map[string][]int, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var both []int
	storage := map[string][]int{}
	if json.Unmarshal(text, &both) == nil {
		storage["q"], storage["d"] = both, both
	} else if err := json.Unmarshal(text, &storage); err != nil {
		return nil, fmt.Errorf("options.storage: want axes, or axes for q and d: %w", err)
	}
	for name, axes := range storage {
		if name != "q" && name != "d" {
			return nil, fmt.Errorf("options.storage: %q is neither q nor d", name)
		}
		if axes == nil {
			delete(storage, name)
			continue
		}
		sorted := slices.Sorted(slices.Values(axes))
		for i, axis := range sorted {
			if i != axis {
				return nil, fmt.Errorf("options.storage.%s: %v is no order of the axes 0 to %d", name, axes, len(axes)-1)
			}
		}
	}
	return storage, nil
}
