package @NAME@

import (
	"math"
	"unsafe"
)

// Tensor has elements in row-major order. A nil Shape follows from the number of elements, where that is possible.
type Tensor[T any] struct {
	Data  []T
	Shape []int64
}

// Of is a tensor of these elements.
func Of[T any](data []T, shape ...int64) Tensor[T] { return Tensor[T]{data, shape} }

// Zeros is a tensor of zeros.
func Zeros[T any](shape ...int64) Tensor[T] {
	tensor := Tensor[T]{Shape: append([]int64{}, shape...)}
	tensor.Data = make([]T, count(shape))
	return tensor
}

func count(shape []int64) int64 {
	elements := int64(1)
	for _, size := range shape {
		elements *= size
	}
	return elements
}

func resize[T any](tensor *Tensor[T], sizes []int64) {
	elements := int(count(sizes))
	if cap(tensor.Data) < elements {
		tensor.Data = make([]T, elements)
	}
	tensor.Data = tensor.Data[:elements]
	tensor.Shape = append(tensor.Shape[:0], sizes...)
}

var nothing uint64

// pointer is where elements lie: never nil.
func pointer[T any](data []T) unsafe.Pointer {
	if len(data) == 0 {
		return unsafe.Pointer(&nothing)
	}
	return unsafe.Pointer(&data[0])
}

// describe puts elements, axes and sizes of an input where C looks for them.
func describe[T any](frame []int64, rank int, tensor *Tensor[T]) unsafe.Pointer {
	frame[0], frame[1] = -1, -1
	if tensor == nil || (tensor.Data == nil && tensor.Shape == nil) {
		return nil
	}
	frame[0] = int64(len(tensor.Data))
	if tensor.Shape != nil {
		frame[1] = int64(len(tensor.Shape))
		copy(frame[2:2+rank], tensor.Shape)
	}
	return pointer(tensor.Data)
}

// BFloat16 is the upper half of a float32.
type BFloat16 uint16

// ToBFloat16 rounds to the nearest, ties to even.
func ToBFloat16(number float32) BFloat16 {
	all := math.Float32bits(number)
	if all&0x7fffffff > 0x7f800000 {
		return BFloat16(all>>16 | 64)
	}
	return BFloat16((all + 0x7fff + (all >> 16 & 1)) >> 16)
}

// Float32 is the same number.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// Float16 is a half of IEEE 754.
type Float16 uint16

// ToFloat16 rounds to the nearest, ties to even.
func ToFloat16(number float32) Float16 {
	all := math.Float32bits(number)
	sign, size := all>>16&0x8000, all&0x7fffffff
	var half uint32
	switch {
	case size > 0x7f800000:
		half = 0x7e00
	case size >= 0x477ff000:
		half = 0x7c00
	case size >= 0x38800000:
		half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13
	default: // subnormals: the unit is 2^-24, as is that of floats near 1/2
		half = math.Float32bits(math.Float32frombits(size)+0.5) - 0x3f000000
	}
	return Float16(sign | half)
}

// Float32 is the same number.
func (h Float16) Float32() float32 {
	sign, rest := uint32(h&0x8000)<<16, uint32(h&0x7fff)
	if rest < 0x400 {
		return math.Float32frombits(sign | math.Float32bits(float32(rest)/16777216))
	}
	if rest >= 0x7c00 {
		return math.Float32frombits(sign | (rest<<13 + 0x70000000))
	}
	return math.Float32frombits(sign | (rest<<13 + 0x38000000))
}
