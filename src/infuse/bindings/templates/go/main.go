// Runs the model: example [FOLDER [SIZE...]]. FOLDER has weights.bin, and may have inputs, the elements of input number i
// in input<i>.bin (zeros without it; an optional input is absent then); outputs are written beside them. The sizes are
// those of symbols: @SYMBOL_NAMES@.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"@NAME@"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	folder, symbols := ".", []int64{}
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	for i := 0; i < @SYMBOLS@; i++ {
		size := int64(2)
		if i+2 < len(os.Args) {
			size, _ = strconv.ParseInt(os.Args[i+2], 10, 64)
		}
		symbols = append(symbols, size)
	}
	shapes, err := @NAME@.Shapes(symbols...)
	if err != nil {
		return err
	}
	var in @NAME@.Inputs
@READ@
	_ = shapes
	model, err := @NAME@.Open(filepath.Join(folder, "weights.bin"))
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := model.Session(2)
	if err != nil {
		return err
	}
	defer session.Close()
	out, err := session.Run(&in)
	if err != nil {
		return err
	}
@WRITE@
	return nil
}

func read[T any](folder string, number int, shape []int64) *@NAME@.Tensor[T] {
	content, err := os.ReadFile(filepath.Join(folder, fmt.Sprintf("input%d.bin", number)))
	if err != nil {
		return nil
	}
	tensor := @NAME@.Zeros[T](shape...)
	if len(tensor.Data) > 0 {
		bytes := len(tensor.Data) * int(unsafe.Sizeof(tensor.Data[0]))
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&tensor.Data[0])), bytes), content)
	}
	return &tensor
}

func write[T any](folder string, number int, tensor @NAME@.Tensor[T]) {
	fmt.Printf("output %d:", number)
	for _, size := range tensor.Shape {
		fmt.Printf(" %d", size)
	}
	fmt.Println()
	var content []byte
	if len(tensor.Data) > 0 {
		bytes := len(tensor.Data) * int(unsafe.Sizeof(tensor.Data[0]))
		content = unsafe.Slice((*byte)(unsafe.Pointer(&tensor.Data[0])), bytes)
	}
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("output%d.bin", number)), content, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
