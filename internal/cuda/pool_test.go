package cuda

import (
	"errors"
	"strings"
	"testing"
)

func TestClassWastesAtMostAnEighth(t *testing.T) {
	previous := int64(0)
	for bytes := int64(1); bytes < 1<<22; bytes += 1 + bytes/97 {
		class := classOf(bytes)
		if class < bytes || class%512 != 0 || class < previous || classOf(class) != class {
			t.Fatalf("class of %d bytes is %d after %d", bytes, class, previous)
		}
		if bytes > 8*512 && class-bytes > bytes/8 {
			t.Fatalf("class of %d bytes is %d, more than an eighth is wasted", bytes, class)
		}
		previous = class
	}
}

func TestPoolUsesBlocksAgain(t *testing.T) {
	f := newFake(1 << 20)
	p := newPool(f)
	a, _ := p.get(1000)
	p.put(a)
	b, err := p.get(900)
	if err != nil || b != a {
		t.Errorf("got %v, %v; expected the idle block %v", b, err, a)
	}
	if r := p.report(); r.Used != a.bytes || r.Held != a.bytes || r.Peak != a.bytes {
		t.Errorf("report %+v, expected one block of %d bytes", r, a.bytes)
	}
}

func TestPoolGivesIdleBlocksUpBeforeItIsFull(t *testing.T) {
	f := newFake(1 << 20)
	p := newPool(f)
	if err := p.setLimit(8192); err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []int64{512, 1024, 2048, 4096} {
		b, err := p.get(bytes)
		if err != nil {
			t.Fatal(err)
		}
		p.put(b)
	}
	b, err := p.get(8192)
	if err != nil || f.used != 8192 {
		t.Errorf("%v, %d bytes taken from the card, expected the limit of 8192", err, f.used)
	}
	p.put(b)
	if err := p.setLimit(4096); err != nil || f.used != 0 {
		t.Errorf("%v, %d bytes held under a limit of 4096", err, f.used)
	}
}

func TestOutOfMemorySaysWhatWasAskedFor(t *testing.T) {
	for name, limit := range map[string]int64{"limit": 4096, "card": 0} {
		t.Run(name, func(t *testing.T) {
			p := newPool(newFake(4096))
			p.limit = limit
			held, err := p.get(2048)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.get(3000)
			if !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), "asked for 3000 bytes with 2048 in use") {
				t.Errorf("got %v", err)
			}
			p.put(held)
			if _, err := p.get(3000); err != nil {
				t.Errorf("after giving back: %v", err)
			}
		})
	}
}
