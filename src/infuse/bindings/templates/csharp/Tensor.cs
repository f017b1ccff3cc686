using System;
using System.Runtime.InteropServices;

namespace @SPACE@
{
    /// <summary>Elements in row-major order. Without a shape, it follows from their number where that is possible.</summary>
    public sealed class Tensor<T> where T : struct
    {
        /// <summary>Zeros.</summary>
        public static Tensor<T> Zeros(params long[] shape)
        {
            long elements = 1;
            foreach (long size in shape) elements = checked(elements * size);
            return new Tensor<T>(new T[elements], shape);
        }

        /// <summary>These elements, which are not copied. A wrong number of them is an error of the run.</summary>
        public Tensor(T[] data, params long[] shape)
        {
            if (data == null) throw new ArgumentNullException("data");
            Data = data;
            Shape = shape;
        }

        /// <summary>Elements whose shape follows from their number.</summary>
        public static implicit operator Tensor<T>(T[] data)
        {
            return data == null ? null : new Tensor<T>(data, null);
        }

        public T[] Data { get; }

        public long[] Shape { get; }
    }

    [StructLayout(LayoutKind.Explicit)]
    internal struct Bits
    {
        [FieldOffset(0)] internal float Number;
        [FieldOffset(0)] internal uint All;
    }

    /// <summary>The upper half of a float.</summary>
    public struct BFloat16
    {
        public ushort Bits;

        /// <summary>Rounds to the nearest, ties to even.</summary>
        public static explicit operator BFloat16(float number)
        {
            uint all = new Bits { Number = number }.All;
            bool isNaN = (all & 0x7fffffff) > 0x7f800000;
            return new BFloat16 { Bits = (ushort)(isNaN ? all >> 16 | 64 : (all + 0x7fff + (all >> 16 & 1)) >> 16) };
        }

        public static implicit operator float(BFloat16 number)
        {
            return new Bits { All = (uint)number.Bits << 16 }.Number;
        }
    }

    /// <summary>A half of IEEE 754.</summary>
    public struct Float16
    {
        public ushort Bits;

        /// <summary>Rounds to the nearest, ties to even.</summary>
        public static explicit operator Float16(float number)
        {
            uint all = new Bits { Number = number }.All;
            uint sign = all >> 16 & 0x8000, size = all & 0x7fffffff, half;
            if (size > 0x7f800000) half = 0x7e00;
            else if (size >= 0x477ff000) half = 0x7c00;
            else if (size >= 0x38800000) half = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
            else half = new Bits { Number = new Bits { All = size }.Number + 0.5f }.All - 0x3f000000;
            return new Float16 { Bits = (ushort)(sign | half) };
        }

        public static implicit operator float(Float16 number)
        {
            uint sign = (uint)(number.Bits & 0x8000) << 16, rest = (uint)number.Bits & 0x7fff;
            uint all = rest < 0x400
                ? new Bits { Number = rest / 16777216f }.All
                : (rest << 13) + (rest >= 0x7c00 ? 0x70000000u : 0x38000000u);
            return new Bits { All = sign | all }.Number;
        }
    }
}
