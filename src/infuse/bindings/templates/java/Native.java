package @NAME@;

import java.nio.ByteBuffer;

/** Functions of the library, by JNI. Memory is passed by address; texts of errors have 512 bytes. */
final class Native {
  static {
    Library.load();
  }

  private Native() {}

  static native long address(ByteBuffer buffer);

  static native long load(long path, long text);

  static native long copied(long data, long bytes, long text);

  static native void unload(long loaded);

  /** Stores the context at `place`, which is 8 bytes of zeros. */
  static native int open(long loaded, int threads, long id, long place, long text);

  static native void cancel(long context, int cancelled);

  static native void close(long context);

  static native int sizes(long frame, long text);

  static native int shapes(long frame, long text);

  static native int run(long context, long frame);

  static native void error(long context, long text);

  static native long rank(long context, int number);

  static native long result(long context, int number, long sizes);

  static native void copy(long from, long to, long bytes);
}
