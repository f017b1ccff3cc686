// Nanoseconds of a call by the module of Go.
package main

import (
	"fmt"
	"time"

	"add"
)

func least(call func() error) float64 {
	best := 1e18
	for round := 0; round < 60; round++ {
		start := time.Now()
		for i := 0; i < 20000; i++ {
			if err := call(); err != nil {
				panic(err)
			}
		}
		if mean := float64(time.Since(start).Nanoseconds()) / 20000; mean < best {
			best = mean
		}
	}
	return best
}

func main() {
	model, err := add.Open("")
	if err != nil {
		panic(err)
	}
	session, err := model.Session(1)
	if err != nil {
		panic(err)
	}
	in := add.Inputs{X: add.Of([]float32{1}, 1), Y: add.Of([]float32{2}, 1)}
	var out add.Outputs
	reused := least(func() error { return session.RunInto(&in, &out) })
	fresh := least(func() error {
		_, err := session.Run(&in)
		return err
	})
	fmt.Printf("%.1f %.1f %.0f\n", reused, fresh, out.Z.Data[0])
}
