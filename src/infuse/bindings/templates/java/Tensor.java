package @NAME@;

import java.nio.*;
import java.util.Arrays;
import java.util.function.Function;

/**
 * Elements in row-major order, in memory outside of Java, with a shape. Numbers of 16 bits that Java has not are shorts of
 * their bits (see {@link #float16} and {@link #bfloat16}), truths are bytes, unsigned numbers are those of the same bits.
 */
public final class Tensor<B extends Buffer> {
  private final ByteBuffer memory;
  private final B data;
  private final long[] shape;
  private final long elements;
  private final int bytes;
  private final long address;

  private Tensor(int width, long[] shape, Function<ByteBuffer, B> view) {
    long count = 1;
    for (long size : shape) {
      if (size < 0 || (size > 0 && count > Long.MAX_VALUE / size))
        throw new IllegalArgumentException("a tensor cannot have the shape " + Arrays.toString(shape));
      count *= size;
    }
    if (count > Integer.MAX_VALUE / width)
      throw new IllegalArgumentException("a buffer of Java has at most 2 GiB: " + Arrays.toString(shape));
    this.shape = shape.clone();
    elements = count;
    bytes = (int) count * width;
    memory = ByteBuffer.allocateDirect(Math.max(8, bytes)).order(ByteOrder.nativeOrder());
    memory.limit(bytes);
    data = view.apply(memory);
    address = Native.address(memory);
  }

  /** The elements. Position and limit of this buffer mean nothing to the model. */
  public B data() {
    return data;
  }

  /** The sizes. */
  public long[] shape() {
    return shape.clone();
  }

  long[] sizes() {
    return shape;
  }

  /** How many elements it has. */
  public long elements() {
    return elements;
  }

  /** All elements as bytes. */
  public ByteBuffer content() {
    return memory.duplicate().order(ByteOrder.nativeOrder());
  }

  int byteCount() {
    return bytes;
  }

  long address() {
    return address;
  }

  static <B extends Buffer> Tensor<B> resized(
      Tensor<B> before, Function<long[], Tensor<B>> maker, LongBuffer sizes, int at, int rank) {
    boolean same = before != null && before.shape.length == rank;
    for (int i = 0; i < rank && same; i++) same = before.shape[i] == sizes.get(at + i);
    if (same) return before;
    long[] shape = new long[rank];
    for (int i = 0; i < rank; i++) shape[i] = sizes.get(at + i);
    return maker.apply(shape);
  }

  private static void require(Tensor<?> tensor, int length) {
    if (tensor.elements != length)
      throw new IllegalArgumentException(
          length + " elements do not have the shape " + Arrays.toString(tensor.shape));
  }

  /** Zeros: truths, int8 and uint8. */
  public static Tensor<ByteBuffer> bytes(long... shape) {
    return new Tensor<>(1, shape, m -> m.duplicate().order(ByteOrder.nativeOrder()));
  }

  /** Zeros: int16, uint16, and the bits of float16 and bfloat16. */
  public static Tensor<ShortBuffer> shorts(long... shape) {
    return new Tensor<>(2, shape, ByteBuffer::asShortBuffer);
  }

  /** Zeros: int32 and uint32. */
  public static Tensor<IntBuffer> ints(long... shape) {
    return new Tensor<>(4, shape, ByteBuffer::asIntBuffer);
  }

  /** Zeros: int64 and uint64. */
  public static Tensor<LongBuffer> longs(long... shape) {
    return new Tensor<>(8, shape, ByteBuffer::asLongBuffer);
  }

  /** Zeros. */
  public static Tensor<FloatBuffer> floats(long... shape) {
    return new Tensor<>(4, shape, ByteBuffer::asFloatBuffer);
  }

  /** Zeros. */
  public static Tensor<DoubleBuffer> doubles(long... shape) {
    return new Tensor<>(8, shape, ByteBuffer::asDoubleBuffer);
  }

  /** These elements, copied. */
  public static Tensor<ByteBuffer> of(byte[] elements, long... shape) {
    Tensor<ByteBuffer> tensor = bytes(shape);
    require(tensor, elements.length);
    tensor.data.duplicate().put(elements);
    return tensor;
  }

  /** These truths, copied. */
  public static Tensor<ByteBuffer> of(boolean[] elements, long... shape) {
    byte[] numbers = new byte[elements.length];
    for (int i = 0; i < numbers.length; i++) numbers[i] = (byte) (elements[i] ? 1 : 0);
    return of(numbers, shape);
  }

  /** These elements, copied. */
  public static Tensor<ShortBuffer> of(short[] elements, long... shape) {
    Tensor<ShortBuffer> tensor = shorts(shape);
    require(tensor, elements.length);
    tensor.data.duplicate().put(elements);
    return tensor;
  }

  /** These elements, copied. */
  public static Tensor<IntBuffer> of(int[] elements, long... shape) {
    Tensor<IntBuffer> tensor = ints(shape);
    require(tensor, elements.length);
    tensor.data.duplicate().put(elements);
    return tensor;
  }

  /** These elements, copied. */
  public static Tensor<LongBuffer> of(long[] elements, long... shape) {
    Tensor<LongBuffer> tensor = longs(shape);
    require(tensor, elements.length);
    tensor.data.duplicate().put(elements);
    return tensor;
  }

  /** These elements, copied. */
  public static Tensor<FloatBuffer> of(float[] elements, long... shape) {
    Tensor<FloatBuffer> tensor = floats(shape);
    require(tensor, elements.length);
    tensor.data.duplicate().put(elements);
    return tensor;
  }

  /** These elements, copied. */
  public static Tensor<DoubleBuffer> of(double[] elements, long... shape) {
    Tensor<DoubleBuffer> tensor = doubles(shape);
    require(tensor, elements.length);
    tensor.data.duplicate().put(elements);
    return tensor;
  }

  /** The bits of the nearest bfloat16, ties to even. */
  public static short bfloat16(float number) {
    int all = Float.floatToRawIntBits(number);
    if (number != number) return (short) (all >>> 16 | 64);
    return (short) ((all + 0x7fff + (all >>> 16 & 1)) >>> 16);
  }

  /** The number that a bfloat16 with these bits is. */
  public static float fromBfloat16(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /** The bits of the nearest half of IEEE 754, ties to even. */
  public static short float16(float number) {
    int all = Float.floatToRawIntBits(number), sign = all >>> 16 & 0x8000, size = all & 0x7fffffff;
    int half;
    if (size > 0x7f800000) half = 0x7e00;
    else if (size >= 0x477ff000) half = 0x7c00;
    else if (size >= 0x38800000) half = (size - 0x38000000 + 0xfff + (size >>> 13 & 1)) >>> 13;
    else half = Float.floatToRawIntBits(Float.intBitsToFloat(size) + 0.5f) - 0x3f000000;
    return (short) (sign | half);
  }

  /** The number that a half with these bits is. */
  public static float fromFloat16(short bits) {
    int sign = (bits & 0x8000) << 16, rest = bits & 0x7fff;
    int all;
    if (rest < 0x400) all = Float.floatToRawIntBits(rest / 16777216f);
    else all = (rest << 13) + (rest >= 0x7c00 ? 0x70000000 : 0x38000000);
    return Float.intBitsToFloat(sign | all);
  }
}
