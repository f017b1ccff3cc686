using System;
using System.Text;

namespace @SPACE@
{
    /// <summary>Why something failed: a number of the C interface, or -1 where inputs or weights do not fit the model.</summary>
    public sealed class ModelException : Exception
    {
        public const int BadInput = -1, OutOfMemory = 1, BadData = 2, Cancelled = 3, BadOptions = 4, Refused = 5;

        internal ModelException(int code, string text) : base(text)
        {
            Code = code;
        }

        internal ModelException(int code, byte[] text) : this(code, Decoded(text))
        {
        }

        public int Code { get; }

        private static string Decoded(byte[] text)
        {
            int length = Array.IndexOf(text, (byte)0);
            return Encoding.UTF8.GetString(text, 0, length < 0 ? text.Length : length);
        }
    }

    /// <summary>The weights of the model, which any number of sessions share. Threads may share it.</summary>
    public sealed unsafe class Model : IDisposable
    {
        internal const int TextBytes = 512;
        private readonly object gate = new object();
        private IntPtr loaded;
        private int users = 1;
        private bool disposed;

        /// <summary>Reads the weights from a file; any path for a model that needs none.</summary>
        public Model(string weights = "weights.bin")
        {
            var text = new byte[TextBytes];
            fixed (byte* path = Encoding.UTF8.GetBytes(weights + "\0"), t = text)
                loaded = Native.Load(path, t);
            if (loaded == IntPtr.Zero) throw new ModelException(ModelException.BadInput, text);
        }

        /// <summary>Takes the content of such a file, which is copied.</summary>
        public Model(byte[] weights)
        {
            var text = new byte[TextBytes];
            var content = weights.Length > 0 ? weights : new byte[1];
            fixed (byte* data = content, t = text)
                loaded = Native.Copied(data, weights.LongLength, t);
            if (loaded == IntPtr.Zero) throw new ModelException(ModelException.BadInput, text);
        }

        ~Model()
        {
            Dispose();
        }

        /// <summary>A context with this many threads; 0: one a processor.</summary>
        public Session Session(int threads = 0)
        {
            lock (gate)
            {
                if (disposed) throw new ObjectDisposedException("Model");
                var text = new byte[TextBytes];
                IntPtr context;
                int code;
                fixed (byte* t = text) code = Native.Open(loaded, threads, @ID@L, out context, t);
                if (code != 0) throw new ModelException(code, text);
                users++;
                return new Session(this, context);
            }
        }

        /// <summary>Frees the weights when all sessions are disposed of.</summary>
        public void Dispose()
        {
            lock (gate)
            {
                if (disposed) return;
                disposed = true;
            }
            GC.SuppressFinalize(this);
            Release();
        }

        internal void Release()
        {
            lock (gate)
            {
                if (--users > 0 || loaded == IntPtr.Zero) return;
                Native.Unload(loaded);
                loaded = IntPtr.Zero;
            }
        }

        /// <summary>The shapes of all inputs for values of the symbols (@SYMBOL_NAMES@).</summary>
        public static long[][] Shapes(params long[] symbols)
        {
            if (symbols.Length != @SYMBOLS@)
                throw new ModelException(ModelException.BadInput, "the model has @SYMBOLS@ symbols: @SYMBOL_NAMES@");
            var text = new byte[TextBytes];
            var frame = new long[@WORDS@ + 1];
            symbols.CopyTo(frame, @SYMBOLS_AT@);
            int failed;
            fixed (long* f = frame)
            fixed (byte* t = text)
                failed = Native.Shapes(f, t);
            if (failed != 0) throw new ModelException(ModelException.BadInput, text);
            return new long[][]
            {
@SHAPES@
            };
        }

        private static long[] Sizes(long[] frame, int at, int rank)
        {
            var sizes = new long[rank];
            Array.Copy(frame, at, sizes, 0, rank);
            return sizes;
        }
    }
}
