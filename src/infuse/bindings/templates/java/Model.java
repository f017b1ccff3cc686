package @NAME@;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/** The weights of the model, which any number of sessions share. Safe to use from several threads. */
public final class Model implements AutoCloseable {
  private long loaded;
  private int users = 1;
  private boolean closed;

  private Model(Path weights) {
    Text text = new Text();
    byte[] name = (weights + "\0").getBytes(StandardCharsets.UTF_8);
    ByteBuffer path = ByteBuffer.allocateDirect(name.length);
    path.put(name).flip();
    loaded = Native.load(Native.address(path), text.address);
    java.lang.ref.Reference.reachabilityFence(path);
    if (loaded == 0) throw text.failure(ModelException.BAD_INPUT);
  }

  /** The model with the weights that lie beside its classes. */
  public static Model load() {
    Path file = @HAS_WEIGHTS@ ? Library.extracted("weights.bin") : Path.of("");
    if (file == null) throw new ModelException(ModelException.BAD_INPUT, "there is no resource weights.bin");
    try {
      return new Model(file);
    } finally {
      if (@HAS_WEIGHTS@) file.toFile().delete();
    }
  }

  /** The model with the weights of a file. */
  public static Model load(Path weights) {
    return new Model(weights);
  }

  /** A context with this many threads; 0: one a processor. */
  public synchronized Session session(int threads) {
    if (closed) throw new ModelException(ModelException.BAD_INPUT, "the model is closed");
    Text text = new Text();
    ByteBuffer place = ByteBuffer.allocateDirect(8).order(ByteOrder.LITTLE_ENDIAN);
    int code = Native.open(loaded, threads, @ID@L, Native.address(place), text.address);
    if (code != 0) throw text.failure(code);
    users++;
    return new Session(this, place.getLong(0));
  }

  /** Frees the weights when all sessions are closed. */
  @Override
  public synchronized void close() {
    if (closed) return;
    closed = true;
    release();
  }

  synchronized void release() {
    if (--users > 0) return;
    Native.unload(loaded);
    loaded = 0;
  }

  /** The shapes of all inputs for values of the symbols (@SYMBOL_NAMES@). */
  public static long[][] shapes(long... symbols) {
    if (symbols.length != @SYMBOLS@)
      throw new ModelException(ModelException.BAD_INPUT, "the model has @SYMBOLS@ symbols: @SYMBOL_NAMES@");
    ByteBuffer memory = ByteBuffer.allocateDirect(8 * @WORDS@ + 8).order(ByteOrder.nativeOrder());
    LongBuffer frame = memory.asLongBuffer();
    for (int i = 0; i < symbols.length; i++) frame.put(@SYMBOLS_AT@ + i, symbols[i]);
    Text text = new Text();
    if (Native.shapes(Native.address(memory), text.address) != 0) throw text.failure(ModelException.BAD_INPUT);
    return new long[][] {
@SHAPES@
    };
  }

  private static long[] shape(LongBuffer frame, int at, int rank) {
    long[] sizes = new long[rank];
    for (int i = 0; i < rank; i++) sizes[i] = frame.get(at + i);
    return sizes;
  }

  /** Memory for the text of an error. */
  static final class Text {
    private final ByteBuffer memory = ByteBuffer.allocateDirect(512);
    final long address = Native.address(memory);

    ModelException failure(int code) {
      byte[] bytes = new byte[512];
      int length = 0;
      while (length < 512 && (bytes[length] = memory.get(length)) != 0) length++;
      return new ModelException(code, new String(bytes, 0, length, StandardCharsets.UTF_8));
    }
  }
}
