// How a session conducts itself where something is wrong, and with several threads: weights wrong_weights.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"

	"conduct"
)

func failing(what string, err error) {
	var failure *conduct.Error
	if errors.As(err, &failure) {
		fmt.Printf("%s: %d %s\n", what, failure.Code, failure.Text)
	} else {
		fmt.Printf("%s: %v\n", what, err)
	}
}

func main() {
	x := []float32{1, 1, 1, 1, 1, 1, 1, 1}
	y := []float64{10, 10, 10, 10}
	good := conduct.Inputs{
		X:      conduct.Of(x, 2, 4),
		Y:      conduct.Tensor[float64]{Data: y},
		Times:  conduct.Of([]int64{3}),
		Places: conduct.Of([]int64{2, 0}, 2),
	}
	model, err := conduct.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	session, err := model.Session(2)
	if err != nil {
		panic(err)
	}
	out, err := session.Run(&good)
	if err != nil {
		panic(err)
	}
	fmt.Printf("run: %.1f %.1f %.1f\n", out.Z.Data[7], out.W.Data[3], out.Picked.Data[0])
	with := func(what string, change func(in *conduct.Inputs)) {
		in := good
		change(&in)
		_, err := session.Run(&in)
		failing(what, err)
	}
	with("formula", func(in *conduct.Inputs) { in.Y.Data = y[:3] })
	with("size", func(in *conduct.Inputs) { in.X.Shape = []int64{4, 2} })
	with("axes", func(in *conduct.Inputs) { in.X.Shape = []int64{8} })
	with("elements", func(in *conduct.Inputs) { in.X.Data = x[:7] })
	with("shape", func(in *conduct.Inputs) { in.X.Shape = nil })
	with("missing", func(in *conduct.Inputs) { in.Y = conduct.Tensor[float64]{} })
	with("huge", func(in *conduct.Inputs) { in.X.Shape = []int64{math.MaxInt64, 4} })
	with("data", func(in *conduct.Inputs) { in.Places = conduct.Of([]int64{3}, 1) })
	_, err = conduct.Open(os.Args[2])
	failing("weights", err)
	_, err = conduct.OpenBytes([]byte("other"))
	failing("content", err)
	_, err = conduct.Open("/none")
	failing("absent", err)

	var sums [2]float32
	var group sync.WaitGroup
	for i := range sums {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			own, err := model.Session(1)
			if err != nil {
				panic(err)
			}
			defer own.Close()
			var reused conduct.Outputs
			for k := 0; k < 200; k++ {
				if err := own.RunInto(&good, &reused); err != nil {
					panic(err)
				}
				sums[i] += reused.Z.Data[0]
			}
		}(i)
	}
	group.Wait()
	fmt.Printf("threads: %.1f %.1f\n", sums[0], sums[1])

	lasting := good
	lasting.Times = conduct.Of([]int64{1 << 40})
	go func() {
		time.Sleep(100 * time.Millisecond)
		session.Cancel(true)
	}()
	_, err = session.Run(&lasting)
	failing("cancelled", err)
	session.Cancel(false)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = session.RunContext(ctx, &lasting)
	failing("token", err)
	out, err = session.RunContext(context.Background(), &good)
	if err != nil {
		panic(err)
	}
	fmt.Printf("again: %.1f\n", out.Z.Data[0])
	fmt.Printf("halves: %.8g %.8g %04x %04x\n", conduct.ToFloat16(1e-7).Float32(), conduct.ToBFloat16(3.1415927).Float32(),
		uint16(conduct.ToFloat16(65520)), uint16(conduct.ToBFloat16(float32(math.Copysign(0, -1)))))
	model.Close()
	_, err = model.Session(1)
	failing("model closed", err)
	session.Close()
	session.Close()
	_, err = session.Run(&good)
	failing("closed", err)
}
