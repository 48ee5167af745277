package cuda

import "errors"

// KernelTime is what a kernel took on the device, over all its launches since tracing began.
type KernelTime struct {
	Kernel   string
	Launches int
	Seconds  float64
}

// trace times launches with marks around each. It costs a few microseconds a launch and keeps kernels from overlapping,
// so it is off unless asked for.
type trace struct {
	spans []span // of the call under way
	free  []mark
	times []KernelTime // in order of first launch
}

type span struct {
	kernel     string
	start, end mark
}

// Trace switches the timing of kernels on or off and forgets what was measured.
func (d *Device) Trace(on bool) error {
	return d.exclusively(func() error {
		err := d.trace.close()
		d.trace = nil
		if on {
			d.trace = &trace{}
		}
		return err
	})
}

// Traced returns what kernels took since Trace was switched on, in the order of their first launches.
func (d *Device) Traced() []KernelTime {
	d.one.Lock()
	defer d.one.Unlock()
	if d.trace == nil {
		return nil
	}
	return append([]KernelTime(nil), d.trace.times...)
}

// around queues launch between two marks in q; on a nil trace it is launch.
func (t *trace) around(d *Device, q queue, kernel string, launch func() error) error {
	if t == nil {
		return launch()
	}
	for len(t.free) < 2 {
		m, err := d.drv.newMark()
		if err != nil {
			return err
		}
		t.free = append(t.free, m)
	}
	n := len(t.free)
	s := span{kernel, t.free[n-1], t.free[n-2]}
	t.free = t.free[:n-2]
	t.spans = append(t.spans, s)
	if err := q.record(s.start); err != nil {
		return err
	}
	if err := launch(); err != nil {
		return err
	}
	return q.record(s.end)
}

// collect adds up the spans of a call that is done.
func (t *trace) collect() error {
	if t == nil {
		return nil
	}
	var failed error
	for _, s := range t.spans {
		ms, err := s.end.since(s.start)
		failed = errors.Join(failed, err)
		t.add(s.kernel, ms/1e3)
		t.free = append(t.free, s.start, s.end)
	}
	t.spans = t.spans[:0]
	return failed
}

func (t *trace) add(kernel string, seconds float64) {
	for k := range t.times {
		if t.times[k].Kernel == kernel {
			t.times[k].Launches++
			t.times[k].Seconds += seconds
			return
		}
	}
	t.times = append(t.times, KernelTime{kernel, 1, seconds})
}

func (t *trace) close() error {
	if t == nil {
		return nil
	}
	t.discard()
	var failed error
	for _, m := range t.free {
		failed = errors.Join(failed, m.close())
	}
	t.free = nil
	return failed
}

// discard forgets the spans of a call that failed.
func (t *trace) discard() {
	for _, s := range t.spans {
		t.free = append(t.free, s.start, s.end)
	}
	t.spans = t.spans[:0]
}
