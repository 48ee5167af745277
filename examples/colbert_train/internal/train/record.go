package train

// Record is what one step was like: a line of train.jsonl.
type Record struct {
	Step         int      `json:"step"`
	Loss         float64  `json:"loss"`
	Accuracy     float64  `json:"accuracy"` // share of queries whose own document has the highest score
	LearningRate float64  `json:"learning_rate"`
	GradNorm     float64  `json:"grad_norm"`
	Tokens       int      `json:"tokens"`
	Seconds      Seconds  `json:"seconds"`
	DevMRR10     *float64 `json:"dev_mrr@10,omitempty"` // after this step, if it was measured
}

// Seconds is where the time of one step or many went.
type Seconds struct {
	Encoder        float64 `json:"encoder"` // the graph without MaxSim: look-ups, projection, norm, loss, their gradients
	MaxSimForward  float64 `json:"maxsim_forward"`
	MaxSimBackward float64 `json:"maxsim_backward"`
	Optimiser      float64 `json:"optimiser"`
}

// Total is the sum of all parts.
func (s Seconds) Total() float64 {
	return s.Encoder + s.MaxSimForward + s.MaxSimBackward + s.Optimiser
}

// Add returns the sum of two, part by part.
func (s Seconds) Add(o Seconds) Seconds {
	return Seconds{s.Encoder + o.Encoder, s.MaxSimForward + o.MaxSimForward, s.MaxSimBackward + o.MaxSimBackward, s.Optimiser + o.Optimiser}
}
